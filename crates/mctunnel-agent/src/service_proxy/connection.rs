//! One connection to a target, in either HTTP. Its task ends with it.

use super::{Speak, bodies::RequestBody, pool::MOST_SHARERS, settings::first_settings};
use http::{Request, Response};
use hyper::{
    body::Incoming,
    client::conn::{TrySendError, http1, http2},
};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use mctunnel_http::MessageBody;
use mctunnel_tunnel::Stream;
use std::{io, sync::Arc};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::task::AbortOnDropHandle;

/// A request's body, as it comes through the tunnel.
pub(super) type TargetBody = MessageBody<Stream>;

/// What hyper reads of an answer that nobody takes: as much as the longest head that the tunnel takes.
const MOST_BUFFERED: usize = 256 * 1024;

/// A connection that takes requests. The last one to drop it ends its task.
pub(super) struct Connection {
    sender: Sender,
    /// How many exchanges can be on it at once.
    room: usize,
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
    ) -> io::Result<Self> {
        match speak {
            Speak::Http1 => {
                let (sender, connection) = http1::Builder::new()
                    .max_buf_size(MOST_BUFFERED)
                    .handshake(TokioIo::new(io))
                    .await
                    .map_err(io::Error::other)?;
                let task = tokio::spawn(async move {
                    // What breaks it is told to the exchange that is on it.
                    let _ = connection.with_upgrades().await;
                });
                Ok(Self { sender: Sender::Http1(sender), room: 1, task: Arc::new(AbortOnDropHandle::new(task)) })
            }
            Speak::Http2 => {
                let (io, told) = first_settings(io);
                let (sender, connection) = http2::Builder::new(TokioExecutor::new())
                    .timer(TokioTimer::new())
                    .initial_stream_window_size(STREAM_WINDOW)
                    .initial_connection_window_size(CONNECTION_WINDOW)
                    .handshake(TokioIo::new(io))
                    .await
                    .map_err(io::Error::other)?;
                let task = tokio::spawn(async move {
                    let _ = connection.await;
                });
                let task = Arc::new(AbortOnDropHandle::new(task));
                // It is the first thing that a server says; what it says of this later is not looked at.
                let ended = |_| io::Error::new(io::ErrorKind::UnexpectedEof, "it ended before it began HTTP/2");
                let streams = told.await.map_err(ended)?.unwrap_or(MOST_SHARERS).clamp(1, MOST_SHARERS);
                Ok(Self { sender: Sender::Http2(sender), room: streams as usize, task })
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
            Sender::Http2(sender) => {
                Some(Self { sender: Sender::Http2(sender.clone()), room: self.room, task: Arc::clone(&self.task) })
            }
        }
    }

    /// How many exchanges can be on it at once.
    pub(super) fn room(&self) -> usize {
        self.room
    }
}

const STREAM_WINDOW: u32 = 1024 * 1024;
/// Room for all who share the connection: whoever does not read its answer takes nobody else's share.
const CONNECTION_WINDOW: u32 = STREAM_WINDOW * MOST_SHARERS;
