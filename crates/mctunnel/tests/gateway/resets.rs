//! Streams of HTTP/2 that are reset in the middle, at either end of a call: the other end is told, whatever the reason was.

use crate::{rig::Rig, websocket_http2::h2_client};
use bytes::Bytes;
use h2::{Reason, RecvStream, SendStream, client::ResponseFuture, client::SendRequest, server::SendResponse};
use http::{Request, Response};
use std::{net::SocketAddr, time::Duration};
use tokio::{net::TcpListener, sync::mpsc, task::JoinSet, time::timeout};
use tokio_util::task::AbortOnDropHandle;

/// The longest anything here may take; nothing waits for it to pass.
const LIMIT: Duration = Duration::from_secs(20);

const REASONS: [Reason; 3] = [Reason::CANCEL, Reason::NO_ERROR, Reason::INTERNAL_ERROR];

type Asked = (Request<RecvStream>, SendResponse<Bytes>);

/// A server that hands its requests to the test.
struct Target {
    address: SocketAddr,
    asked: mpsc::Receiver<Asked>,
    _serving: AbortOnDropHandle<()>,
}

impl Target {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, (give, asked)) = (listener.local_addr().unwrap(), mpsc::channel(1));
        let serving = async move {
            let mut clients = JoinSet::new();
            while let Ok((socket, _)) = listener.accept().await {
                let give = give.clone();
                clients.spawn(async move {
                    let mut connection = h2::server::handshake(socket).await.unwrap();
                    while let Some(Ok(asked)) = connection.accept().await {
                        give.try_send(asked).unwrap();
                    }
                });
            }
        };
        Self { address, asked, _serving: AbortOnDropHandle::new(tokio::task::spawn(serving)) }
    }

    async fn asked(&mut self) -> Asked {
        timeout(LIMIT, self.asked.recv()).await.expect("a request").unwrap()
    }
}

/// Begins a call.
fn call(client: &mut SendRequest<Bytes>) -> (ResponseFuture, SendStream<Bytes>) {
    let request = Request::post("https://localhost/echo.Echo/Chat")
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .header("x-mctunnel-cluster", "cluster-a")
        .header("x-mctunnel-host", "web.default")
        .header("x-mctunnel-port", "50051");
    let (response, mut send) = client.send_request(request.body(()).unwrap(), false).unwrap();
    send.send_data(Bytes::from_static(b"half"), false).unwrap();
    (response, send)
}

async fn next(body: &mut RecvStream) -> Option<Result<Bytes, h2::Error>> {
    timeout(LIMIT, body.data()).await.expect("something")
}

#[tokio::test]
async fn a_call_that_its_client_resets_is_cancelled_at_the_target() {
    let (rig, mut target) = (Rig::start_tls().await, Target::start().await);
    let _agent = rig.agent("cluster-a", target.address).await;
    let (mut client, _connection) = h2_client(&rig).await;
    // Several times: the reset comes to whoever sends the request's body and to whoever awaits the answer, in any order.
    for reason in REASONS.repeat(10) {
        let (_response, mut send) = call(&mut client);
        let (request, _respond) = target.asked().await;
        let mut body = request.into_body();
        assert_eq!(next(&mut body).await.unwrap().unwrap(), "half");
        send.send_reset(reason);
        let ended = next(&mut body).await.expect("the target took it for the end").unwrap_err();
        assert_eq!(ended.reason(), Some(Reason::CANCEL), "{reason:?}");
    }
}

#[tokio::test]
async fn an_answer_that_its_target_resets_ends_with_a_status() {
    let (rig, mut target) = (Rig::start_tls().await, Target::start().await);
    let _agent = rig.agent("cluster-a", target.address).await;
    let (mut client, _connection) = h2_client(&rig).await;
    for reason in REASONS {
        let (response, _send) = call(&mut client);
        let (_request, mut respond) = target.asked().await;
        let head = Response::builder().header("content-type", "application/grpc").body(()).unwrap();
        let mut answer = respond.send_response(head, false).unwrap();
        answer.send_data(Bytes::from_static(b"half"), false).unwrap();
        let mut body = timeout(LIMIT, response).await.expect("an answer").unwrap().into_body();
        assert_eq!(next(&mut body).await.unwrap().unwrap(), "half");
        answer.send_reset(reason);
        assert!(next(&mut body).await.is_none(), "{reason:?}");
        let trailers = timeout(LIMIT, body.trailers()).await.expect("trailers").unwrap().expect("trailers");
        assert_eq!(trailers["grpc-status"], "14", "{reason:?} {trailers:?}");
        assert!(trailers["grpc-message"].to_str().unwrap().contains("MCT-HTTP-CUT"), "{trailers:?}");
    }
}
