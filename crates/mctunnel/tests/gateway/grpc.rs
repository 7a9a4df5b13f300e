//! gRPC by metadata: messages both ways, trailers, half-close, cancellation, and errors as gRPC clients expect them.

use crate::{
    bodies::{echo_http2, http2_client},
    rig::Rig,
};
use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Frame;
use mctunnel::core::Happening;
use std::convert::Infallible;
use tokio::sync::mpsc;

fn call(cluster: &str) -> http::request::Builder {
    Request::post("https://localhost/echo.Echo/Chat")
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .header("x-mctunnel-cluster", cluster)
        .header("x-mctunnel-proto", "grpc")
        .header("x-mctunnel-host", "web.default")
        .header("x-mctunnel-port", "50051")
}

#[tokio::test]
async fn a_call_streams_both_ways_and_ends_with_trailers() {
    let rig = Rig::start_tls().await;
    let (address, _server) = echo_http2().await;
    let _agent = rig.agent("cluster-a", address).await;
    let (messages, sent) = mpsc::channel::<Result<Frame<Bytes>, Infallible>>(1);
    let body =
        StreamBody::new(futures_util::stream::unfold(sent, |mut sent| async move { Some((sent.recv().await?, sent)) }));
    let (mut sender, _connection) = http2_client(&rig).await;
    let request = call("cluster-a").body(Box::pin(body)).unwrap();
    let response = sender.send_request(request).await.unwrap();
    assert_eq!(response.headers()["x-path"], "/echo.Echo/Chat");
    let mut answers = response.into_body();
    // Each message comes back before the next is sent.
    for number in 0..1000_u32 {
        let message = Bytes::from(number.to_string());
        messages.send(Ok(Frame::data(message.clone()))).await.unwrap();
        let mut echoed = Vec::new();
        while echoed.len() < message.len() {
            echoed.extend_from_slice(&answers.frame().await.unwrap().unwrap().into_data().unwrap());
        }
        assert_eq!(echoed, message);
    }
    // Half-close, then the trailers.
    drop(messages);
    let trailers = answers.frame().await.unwrap().unwrap().into_trailers().unwrap();
    assert_eq!(trailers["grpc-status"], "0");
    assert!(answers.frame().await.is_none());
}

#[tokio::test]
async fn a_call_that_ends_well_is_reported_so() {
    let rig = Rig::start_tls().await;
    let (address, _server) = echo_http2().await;
    let _agent = rig.agent("cluster-a", address).await;
    let (mut sender, _connection) = http2_client(&rig).await;
    let response = sender.send_request(call("cluster-a").body(Full::from("hello")).unwrap()).await.unwrap();
    assert!(response.into_body().collect().await.unwrap().trailers().is_some());
    let ended = loop {
        let ended = rig.happenings.lock().iter().find_map(|happening| {
            let Happening::StreamEnded { error, bytes_down, .. } = happening else { return None };
            Some((error.clone(), *bytes_down))
        });
        match ended {
            Some(ended) => break ended,
            None => tokio::task::yield_now().await,
        }
    };
    assert_eq!(ended, (None, 5));
}

#[tokio::test]
async fn refusals_are_statuses_that_grpc_clients_understand() {
    let rig = Rig::start_tls().await;
    let (address, _server) = echo_http2().await;
    let _agent = rig.agent("cluster-a", address).await;
    let (mut sender, _connection) = http2_client::<Full<Bytes>>(&rig).await;
    let mut status = async |request: http::request::Builder| {
        let response = sender.send_request(request.body(Full::default()).unwrap()).await.unwrap();
        (response.status().as_u16(), response.headers()["grpc-status"].to_str().unwrap().to_owned())
    };
    assert_eq!(status(call("cluster-x")).await, (200, "5".to_owned()));
    assert_eq!(status(call("Cluster-A")).await, (200, "3".to_owned()));
    let hidden = Request::post("https://localhost/a.B/C")
        .header("content-type", "application/grpc")
        .header("x-mctunnel-cluster", "cluster-a")
        .header("x-mctunnel-host", "hidden.default")
        .header("x-mctunnel-port", "1");
    assert_eq!(status(hidden).await, (200, "7".to_owned()));
}

#[tokio::test]
async fn t01_identity_in_trailers_ends_the_call() {
    let rig = Rig::start_tls().await;
    let (address, _server) = echo_http2().await;
    let _agent = rig.agent("cluster-a", address).await;
    for (name, passes) in [("x-checksum", true), ("impersonate-user", false), ("authorization", false)] {
        let mut trailers = http::HeaderMap::new();
        trailers.insert(name, http::HeaderValue::from_static("x"));
        let frames = [Ok::<_, Infallible>(Frame::data(Bytes::from_static(b"hello"))), Ok(Frame::trailers(trailers))];
        let body = StreamBody::new(futures_util::stream::iter(frames));
        let (mut sender, _connection) = http2_client(&rig).await;
        let whole = async {
            let response = sender.send_request(call("cluster-a").body(body).unwrap()).await.ok()?;
            let status = response.headers().get("grpc-status").cloned();
            let body = response.into_body().collect().await.ok()?;
            (status.is_none() && body.trailers().is_some()).then_some(())
        };
        assert_eq!(whole.await.is_some(), passes, "{name}");
    }
}
