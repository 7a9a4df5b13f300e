//! The four kinds of calls, ten thousand messages each, every one checked in content and order.

use crate::{
    MESSAGES,
    note::{Note, note},
    stage::Stage,
};
use futures_util::{StreamExt, TryStreamExt, stream};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_unary_calls_on_one_connection() {
    let stage = Stage::set().await;
    let near = &stage.near;
    let calls = stream::iter(0..MESSAGES).map(|number| async move {
        let answer = near.unary("Echo", note(number)).await.unwrap().into_inner();
        assert_eq!(answer, Note { number: number + 1, ..note(number) });
    });
    assert_eq!(calls.buffer_unordered(64).count().await, usize::try_from(MESSAGES).unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_messages_from_the_client() {
    let stage = Stage::set().await;
    let answer = stage.near.upload("Collect", stream::iter((0..MESSAGES).map(note))).await.unwrap();
    assert_eq!(answer.into_inner().number, MESSAGES);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_messages_from_the_server() {
    let stage = Stage::set().await;
    let asked = Note { number: MESSAGES, ..Note::default() };
    let answers = stage.near.download("Count", asked).await.unwrap().into_inner();
    let answers: Vec<Note> = answers.try_collect().await.unwrap();
    assert!(answers.into_iter().eq((0..MESSAGES).map(note)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_messages_both_ways() {
    let stage = Stage::set().await;
    let answers = stage.near.both_ways("Chat", stream::iter((0..MESSAGES).map(note))).await.unwrap().into_inner();
    let answers: Vec<Note> = answers.try_collect().await.unwrap();
    assert!(answers.into_iter().eq((0..MESSAGES).map(note)));
}
