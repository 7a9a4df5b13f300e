//! A gateway that ends: what is under way ends whole, who has nothing under way is told to go, and nobody new comes in (T47).

use crate::{
    rig::{Client, Rig, RunningAgent},
    websocket_http2::h2_client,
};
use bytes::Bytes;
use h2::{Reason, RecvStream, client::SendRequest};
use http::Request;
use std::time::Duration;
use tokio::{
    net::{TcpListener, TcpStream},
    time::timeout,
};

/// The longest anything here may take; nothing waits for it to pass.
const LIMIT: Duration = Duration::from_secs(20);

/// A cluster whose target a test plays itself.
struct Stage {
    rig: Rig,
    target: TcpListener,
    _agent: RunningAgent,
}

impl Stage {
    async fn set(rig: Rig) -> Self {
        let target = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let _agent = rig.agent("cluster-a", target.local_addr().unwrap()).await;
        Self { rig, target, _agent }
    }

    /// The target's side of the next request, read up to `end`.
    async fn begun(&self, end: &str) -> Client {
        let mut target = Client::new(timeout(LIMIT, self.target.accept()).await.expect("a request").unwrap().0);
        timeout(LIMIT, target.until(end)).await.expect("its beginning");
        target
    }

    /// The target begins an answer that has no end yet.
    async fn watched(&self) -> Client {
        let mut target = self.begun("\r\n\r\n").await;
        target.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n").await;
        target
    }

    /// Waits until no more clients than these are left.
    async fn has_clients(&self, count: usize) {
        let left = async {
            while self.rig.clients() > count {
                tokio::task::yield_now().await;
            }
        };
        timeout(LIMIT, left).await.expect("the idle ones are closed");
        assert_eq!(self.rig.clients(), count, "the others are still there");
    }

    /// Waits until nobody is listening any more.
    async fn refuses_new_clients(&self) {
        let refused = async { while TcpStream::connect(self.rig.gateway).await.is_ok() {} };
        timeout(LIMIT, refused).await.expect("the listener is closed");
    }
}

/// A client of HTTP/1.1 whose first request is over, and whose connection was kept.
async fn idle_http1(stage: &Stage) -> Client {
    let mut idle = stage.rig.client().await;
    idle.send("GET /nowhere/api HTTP/1.1\r\nHost: hub\r\n\r\n").await;
    assert!(idle.answer().await.0.starts_with("http/1.1 404"));
    idle
}

async fn http1_ends_well() {
    let stage = Stage::set(Rig::start().await).await;
    let mut idle = idle_http1(&stage).await;
    let mut watch = stage.rig.client().await;
    watch.send("GET /cluster-a/watch HTTP/1.1\r\nHost: hub\r\n\r\n").await;
    let mut watched = stage.watched().await;
    watch.until("first").await;
    let mut upload = stage.rig.client().await;
    upload.send("POST /cluster-a/x HTTP/1.1\r\nHost: hub\r\nContent-Length: 9\r\n\r\nfirst").await;
    let mut uploaded = stage.begun("first").await;

    stage.rig.stop();
    assert_eq!(timeout(LIMIT, idle.error()).await.expect("who is idle is closed"), None, "with a clean end");
    stage.refuses_new_clients().await;
    stage.has_clients(2).await;
    let mut drained = Box::pin(stage.rig.drained());
    assert!(futures_util::poll!(&mut drained).is_pending());
    // Long after the listener has closed, what was begun goes on both ways.
    watched.send("4\r\nlast\r\n").await;
    watch.until("4\r\nlast\r\n").await;
    watched.send("0\r\n\r\n").await;
    assert_eq!(timeout(LIMIT, watch.rest()).await.expect("its connection is closed behind it"), "0\r\n\r\n");
    upload.send("last").await;
    timeout(LIMIT, uploaded.until("last")).await.expect("all of it");
    uploaded.send("HTTP/1.1 201 Created\r\nContent-Length: 4\r\n\r\nkept").await;
    let answer = timeout(LIMIT, upload.rest()).await.expect("its connection is closed behind it").to_ascii_lowercase();
    assert!(answer.starts_with("http/1.1 201 ") && answer.ends_with("\r\n\r\nkept"), "{answer}");
    assert!(answer.contains("\r\nconnection: close\r\n"), "no client sends another request here: {answer}");
    timeout(LIMIT, drained).await.expect("nobody is left");
}

/// Waits until the gateway has told a client of HTTP/2 that it ends.
async fn is_told_to_go(client: &SendRequest<Bytes>) {
    let told = async {
        loop {
            match client.clone().ready().await {
                Ok(_) => tokio::task::yield_now().await,
                Err(error) => return error,
            }
        }
    };
    let told = timeout(LIMIT, told).await.expect("it is told");
    assert!(told.is_go_away() && told.is_remote() && told.reason() == Some(Reason::NO_ERROR), "{told}");
}

async fn rest_of(body: &mut RecvStream) -> Vec<u8> {
    let mut rest = Vec::new();
    while let Some(bytes) = timeout(LIMIT, body.data()).await.expect("bytes") {
        rest.extend_from_slice(&bytes.expect("no reset"));
    }
    rest
}

async fn http2_ends_well() {
    let stage = Stage::set(Rig::start_tls().await).await;
    let (mut idle, idle_ends) = h2_client(&stage.rig).await;
    let request = Request::get("https://localhost/nowhere/api").body(()).unwrap();
    assert_eq!(idle.send_request(request, true).unwrap().0.await.unwrap().status(), 404);
    let (mut client, ends) = h2_client(&stage.rig).await;
    let request = Request::get("https://localhost/cluster-a/watch").body(()).unwrap();
    let watch = client.send_request(request, true).unwrap().0;
    let mut watched = stage.watched().await;
    let mut watch = watch.await.unwrap().into_body();
    assert_eq!(watch.data().await.unwrap().unwrap(), "first");
    let request = Request::post("https://localhost/cluster-a/x").body(()).unwrap();
    let (upload, mut send) = client.send_request(request, false).unwrap();
    send.send_data(Bytes::from_static(b"first"), false).unwrap();
    let mut uploaded = stage.begun("first").await;

    stage.rig.stop();
    is_told_to_go(&client).await;
    assert!(timeout(LIMIT, idle_ends).await.expect("who is idle is closed").unwrap().is_ok(), "with a goodbye");
    stage.refuses_new_clients().await;
    stage.has_clients(1).await;
    let mut drained = Box::pin(stage.rig.drained());
    assert!(futures_util::poll!(&mut drained).is_pending());
    watched.send("4\r\nlast\r\n").await;
    assert_eq!(timeout(LIMIT, watch.data()).await.expect("bytes").unwrap().unwrap(), "last");
    watched.send("0\r\n\r\n").await;
    assert_eq!(rest_of(&mut watch).await, b"");
    send.send_data(Bytes::from_static(b"last"), true).unwrap();
    timeout(LIMIT, uploaded.until("0\r\n\r\n")).await.expect("all of it");
    uploaded.send("HTTP/1.1 201 Created\r\nContent-Length: 4\r\n\r\nkept").await;
    let upload = timeout(LIMIT, upload).await.expect("an answer").unwrap();
    assert_eq!(upload.status(), 201);
    assert_eq!(rest_of(&mut upload.into_body()).await, b"kept");
    timeout(LIMIT, drained).await.expect("nobody is left");
    assert!(timeout(LIMIT, ends).await.expect("it is closed").unwrap().is_ok(), "with a goodbye");
}

#[tokio::test]
async fn t47_a_hub_that_stops_finishes_http1_and_http2_requests_and_says_goaway() {
    http1_ends_well().await;
    http2_ends_well().await;
}
