//! Each side ends its own direction, when it likes.

use crate::{
    LIMIT,
    note::{Note, note},
    stage::Stage,
};
use futures_util::{StreamExt, TryStreamExt, stream};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tonic::{Code, codegen::tokio_stream::Stream};

#[tokio::test]
async fn a_server_answers_when_the_client_has_ended_its_side() {
    let stage = Stage::set().await;
    for count in [0, 1, 1000] {
        let answers = stage.near.both_ways("Reverse", stream::iter((0..count).map(note))).await.unwrap();
        let answers: Vec<Note> = answers.into_inner().try_collect().await.unwrap();
        assert!(answers.into_iter().eq((0..count).rev().map(note)), "{count}");
    }
}

#[tokio::test]
async fn a_server_that_has_enough_ends_the_call_and_the_clients_stream() {
    let stage = Stage::set().await;
    // Again and again: what the server says and that it takes no more travel on different ways.
    for _ in 0..20 {
        let (notes, dropped) = endless();
        let answer = timeout(LIMIT, stage.near.upload("Three", notes)).await.expect("an answer").unwrap();
        assert_eq!(answer.into_inner(), note(3));
        timeout(LIMIT, dropped.cancelled()).await.expect("the client goes on sending");
        let (notes, dropped) = endless();
        let status = timeout(LIMIT, stage.near.upload("ThreeAndFail", notes)).await.expect("an answer").unwrap_err();
        assert_eq!(status.code(), Code::FailedPrecondition, "{status:?}");
        timeout(LIMIT, dropped.cancelled()).await.expect("the client goes on sending");
    }
}

/// More than anybody takes; and how to learn that nobody wants more.
fn endless() -> (impl Stream<Item = Note> + Send + 'static, CancellationToken) {
    let dropped = CancellationToken::new();
    let guard = dropped.clone().drop_guard();
    let notes = stream::iter((0..).map(note)).map(move |note| {
        let _keep = &guard;
        note
    });
    (notes, dropped)
}
