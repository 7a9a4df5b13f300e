//! Metadata both ways, statuses with message, details and metadata, and the deadline: all as they were sent.

use crate::{
    far::failure,
    note::{Note, note},
    stage::Stage,
};
use bytes::Bytes;
use tonic::{
    Code, Request, Status,
    metadata::{MetadataMap, MetadataValue},
};

/// One of each kind: plain, empty, several of a name, bytes, several of those.
fn metadata() -> MetadataMap {
    let mut metadata = MetadataMap::new();
    metadata.insert("my-plain", "a, b; \"c\" ~!".parse().unwrap());
    metadata.insert("my-empty", "".parse().unwrap());
    for value in ["first", "second", "first"] {
        metadata.append("my-many", value.parse().unwrap());
    }
    let every: Vec<u8> = (0..=255).collect();
    metadata.insert_bin("my-bytes-bin", MetadataValue::from_bytes(&every));
    for value in [&b"\0"[..], b"", b"\xff\0\xff"] {
        metadata.append_bin("my-many-bin", MetadataValue::from_bytes(value));
    }
    metadata
}

/// What of a map is ours, to be compared.
fn own(metadata: &MetadataMap) -> Vec<(String, Bytes)> {
    let headers = metadata.clone().into_headers();
    let own = headers.iter().filter(|(name, _)| name.as_str().starts_with("my-"));
    let mut own: Vec<_> =
        own.map(|(name, value)| (name.to_string(), Bytes::copy_from_slice(value.as_bytes()))).collect();
    // The names have no order; the values of one name have.
    own.sort_by(|(one, _), (other, _)| one.cmp(other));
    own
}

fn with_metadata(note: Note) -> Request<Note> {
    let mut request = Request::new(note);
    *request.metadata_mut() = metadata();
    request
}

#[tokio::test]
async fn metadata_is_the_same_at_both_ends() {
    let mut stage = Stage::set().await;
    let answer = stage.near.unary("Echo", with_metadata(note(1))).await.unwrap();
    let seen = stage.far.called().await;
    assert_eq!(own(&seen), own(&metadata()));
    assert_eq!(seen.get_bin("my-bytes-bin").unwrap().to_bytes().unwrap(), (0..=255).collect::<Vec<u8>>());
    assert_eq!(own(answer.metadata()), own(&metadata()));
    // What only routes is not for the service, and what makes it gRPC is.
    let names: Vec<String> = seen.clone().into_headers().keys().map(ToString::to_string).collect();
    assert!(!names.iter().any(|name| name.starts_with("x-mctunnel")), "{names:?}");
    assert_eq!(seen.get("te").unwrap(), "trailers");
    assert_eq!(seen.get("content-type").unwrap(), "application/grpc");
}

fn check_failure(status: &Status) {
    let sent = failure(metadata());
    assert_eq!((status.code(), status.message()), (Code::FailedPrecondition, sent.message()));
    assert_eq!(status.details(), sent.details());
    assert_eq!(own(status.metadata()), own(&metadata()));
}

#[tokio::test]
async fn a_status_without_an_answer_is_the_servers_own() {
    let stage = Stage::set().await;
    check_failure(&stage.near.unary("Fail", with_metadata(note(1))).await.unwrap_err());
    let unknown = stage.near.unary("Nothing", note(1)).await.unwrap_err();
    assert_eq!((unknown.code(), unknown.message()), (Code::Unimplemented, "Nothing"));
}

#[tokio::test]
async fn a_status_behind_messages_is_the_servers_own() {
    let stage = Stage::set().await;
    let asked = with_metadata(Note { number: 3, ..Note::default() });
    let mut answers = stage.near.download("CountAndFail", asked).await.unwrap().into_inner();
    for number in 0..3 {
        assert_eq!(answers.message().await.unwrap(), Some(note(number)));
    }
    check_failure(&answers.message().await.unwrap_err());
}

#[tokio::test]
async fn the_deadline_is_the_same_at_both_ends() {
    let mut stage = Stage::set().await;
    for deadline in ["29000000u", "2H", "99999999m", "30S"] {
        let mut request = Request::new(note(1));
        request.metadata_mut().insert("grpc-timeout", deadline.parse().unwrap());
        stage.near.unary("Echo", request).await.unwrap();
        assert_eq!(stage.far.called().await.get("grpc-timeout").unwrap(), deadline);
    }
}
