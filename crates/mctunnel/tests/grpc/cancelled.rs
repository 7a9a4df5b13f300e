//! A client that does not want its answer any more: the method at the far end is gone at once.

use crate::{far::Far, note::note, stage::Stage};
use futures_util::{StreamExt, stream};
use std::time::Duration;
use tokio::sync::mpsc;
use tonic::{Code, Request, codegen::tokio_stream::wrappers::ReceiverStream};

#[tokio::test]
async fn a_deadline_that_passes_ends_the_method() {
    // The far end does not know of deadlines: what ends the method is what the client does when its own has passed.
    let mut stage = Stage::with(Far::start_without_deadlines().await).await;
    let mut request = Request::new(note(1));
    request.set_timeout(Duration::from_secs(1));
    let status = stage.near.unary("Never", request).await.unwrap_err();
    assert_eq!((status.code(), status.message()), (Code::Cancelled, "Timeout expired"));
    assert_eq!(stage.far.called().await.get("grpc-timeout").unwrap(), "1000000u");
    stage.far.gone().await;
}

#[tokio::test]
async fn a_call_dropped_before_its_answer_ends_the_method() {
    let mut stage = Stage::set().await;
    tokio::select! {
        answer = stage.near.unary("Never", note(1)) => panic!("an answer: {answer:?}"),
        _ = stage.far.called() => {}
    }
    stage.far.gone().await;
}

#[tokio::test]
async fn an_upload_dropped_in_the_middle_ends_the_method() {
    let mut stage = Stage::set().await;
    let notes = stream::iter((0..3).map(note)).chain(stream::pending());
    tokio::select! {
        answer = stage.near.upload("NeverCollect", notes) => panic!("an answer: {answer:?}"),
        _ = stage.far.called() => {}
    }
    stage.far.gone().await;
}

#[tokio::test]
async fn a_download_dropped_in_the_middle_ends_the_method() {
    let mut stage = Stage::set().await;
    let mut answers = stage.near.download("NeverEnd", note(0)).await.unwrap().into_inner();
    assert_eq!(answers.message().await.unwrap(), Some(note(0)));
    drop(answers);
    stage.far.gone().await;
}

#[tokio::test]
async fn a_conversation_dropped_in_the_middle_ends_the_method() {
    let mut stage = Stage::set().await;
    let (notes, sent) = mpsc::channel(1);
    let answers = stage.near.both_ways("NeverChat", ReceiverStream::new(sent)).await;
    let mut answers = answers.unwrap().into_inner();
    notes.send(note(0)).await.unwrap();
    assert_eq!(answers.message().await.unwrap(), Some(note(0)));
    drop((answers, notes));
    stage.far.gone().await;
}
