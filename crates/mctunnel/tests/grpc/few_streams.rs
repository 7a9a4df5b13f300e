//! A server that takes fewer calls on a connection than there are.

use crate::{LIMIT, far::Far, note::note, stage::Stage};
use futures_util::future::join_all;
use tokio::time::timeout;

#[tokio::test]
async fn calls_beyond_what_a_connection_takes_get_another() {
    let stage = Stage::with(Far::start_with_few_streams(2).await).await;
    // None of them ends, so that none makes room for another. The first one leaves a connection for the others to share.
    let mut held = Vec::new();
    for at_once in [1, 1, 1, 6] {
        let calls = join_all((0..at_once).map(|_| stage.near.download("NeverEnd", note(0))));
        for call in timeout(LIMIT, calls).await.expect("every call gets through") {
            let mut answers = call.unwrap().into_inner();
            let first = timeout(LIMIT, answers.message()).await.expect("a message").unwrap();
            assert_eq!(first, Some(note(0)));
            held.push(answers);
        }
    }
}
