//! One connection to a target, in either HTTP. Its task ends with it.

use super::{Speak, forward::RequestBody, pool::MOST_SHARERS};
use http::{Request, Response};
use hyper::{
    body::Incoming,
    client::conn::{TrySendError, http1, http2},
};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use mctunnel_http::MessageBody;
use mctunnel_tunnel::Stream;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::task::AbortOnDropHandle;

/// A request's body, as it comes through the tunnel.
pub(super) type TargetBody = MessageBody<Stream>;

/// A connection that takes requests. The last one to drop it ends its task.
pub(super) struct Connection {
    sender: Sender,
    task: Arc<AbortOnDropHandle<()>>,
}

enum Sender {
    Http1(http1::SendRequest<RequestBody>),
    Http2(http2::SendRequest<RequestBody>),
}

impl Connection {
    /// Begins HTTP on a connected socket.
    #[expect(clippy::disallowed_methods, reason = "the handle aborts the task when the connection is dropped")]
    pub(super) async fn begin(
        io: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        speak: Speak,
    ) -> Result<Self, hyper::Error> {
        let io = TokioIo::new(io);
        match speak {
            Speak::Http1 => {
                let (sender, connection) = http1::Builder::new().handshake(io).await?;
                let task = tokio::spawn(async move {
                    // What breaks it is told to the exchange that is on it.
                    let _ = connection.with_upgrades().await;
                });
                Ok(Self { sender: Sender::Http1(sender), task: Arc::new(AbortOnDropHandle::new(task)) })
            }
            Speak::Http2 => {
                let (sender, connection) = http2::Builder::new(TokioExecutor::new())
                    .timer(TokioTimer::new())
                    .initial_stream_window_size(STREAM_WINDOW)
                    .initial_connection_window_size(CONNECTION_WINDOW)
                    .handshake(io)
                    .await?;
                let task = tokio::spawn(async move {
                    let _ = connection.await;
                });
                Ok(Self { sender: Sender::Http2(sender), task: Arc::new(AbortOnDropHandle::new(task)) })
            }
        }
    }

    /// Sends a request; gives it back if nothing of it was sent.
    pub(super) async fn send(
        &mut self,
        request: Request<RequestBody>,
    ) -> Result<Response<Incoming>, TrySendError<Request<RequestBody>>> {
        match &mut self.sender {
            Sender::Http1(sender) => sender.try_send_request(request).await,
            Sender::Http2(sender) => sender.try_send_request(request).await,
        }
    }

    /// Whether it takes another request right now.
    pub(super) fn is_ready(&self) -> bool {
        match &self.sender {
            Sender::Http1(sender) => sender.is_ready(),
            Sender::Http2(sender) => sender.is_ready(),
        }
    }

    /// Resolves when it takes another request; `false` when it never will.
    pub(super) async fn ready(&mut self) -> bool {
        match &mut self.sender {
            Sender::Http1(sender) => sender.ready().await.is_ok(),
            Sender::Http2(sender) => sender.ready().await.is_ok(),
        }
    }

    /// Another handle on the same connection, where exchanges can share one.
    pub(super) fn share(&self) -> Option<Self> {
        match &self.sender {
            Sender::Http1(_) => None,
            Sender::Http2(sender) => Some(Self { sender: Sender::Http2(sender.clone()), task: Arc::clone(&self.task) }),
        }
    }
}

const STREAM_WINDOW: u32 = 1024 * 1024;
/// Room for all who share the connection: whoever does not read its answer takes nobody else's share.
const CONNECTION_WINDOW: u32 = STREAM_WINDOW * MOST_SHARERS;
