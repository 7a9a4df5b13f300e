//! The hub's end of the call.

use super::{
    Duplex, FRAME_SIZE, HEADER_LIST, Link, LinkEnd, Piece, SEND_BUFFER, TUNNEL_PATH, Transmit, WINDOW, broken,
    percent_encode,
    unary::{OneMessage, framed},
};
use bytes::Bytes;
use h2::server::{Connection, SendResponse};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode};
use std::{
    fmt,
    future::poll_fn,
    task::{Context, Poll, ready},
};
use tokio::io::{AsyncRead, AsyncWrite};

/// The gRPC status codes a hub gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are gRPC's")]
pub enum Status {
    Ok = 0,
    InvalidArgument = 3,
    PermissionDenied = 7,
    ResourceExhausted = 8,
    Unimplemented = 12,
    Unavailable = 14,
}

/// HTTP/2 window, stream and connection, of a peer that has not shown who it is.
const STRANGERS_WINDOW: u32 = 128 * 1024;
/// The most header bytes of such a peer.
const STRANGERS_HEADER_LIST: u32 = 4 * 1024;

/// An accepted connection that has not made the call yet.
pub struct Accepting<IO> {
    connection: Box<Connection<IO, Piece>>,
}

impl<IO> fmt::Debug for Accepting<IO> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Accepting").finish_non_exhaustive()
    }
}

impl<IO: AsyncRead + AsyncWrite + Send + Unpin + 'static> Accepting<IO> {
    /// Greets with HTTP/2.
    pub async fn handshake(io: IO) -> Result<Self, LinkEnd> {
        let connection = h2::server::Builder::new()
            .initial_window_size(WINDOW)
            .initial_connection_window_size(WINDOW)
            .max_frame_size(FRAME_SIZE)
            .max_header_list_size(HEADER_LIST)
            .max_send_buffer_size(SEND_BUFFER)
            .max_concurrent_streams(4)
            .handshake(io)
            .await
            .map_err(|error| broken(&error))?;
        Ok(Self { connection: Box::new(connection) })
    }

    /// As [`Accepting::handshake`], for peers that have not shown who they are: one call, and little memory for it.
    pub async fn handshake_with_stranger(io: IO) -> Result<Self, LinkEnd> {
        let connection = h2::server::Builder::new()
            .initial_window_size(STRANGERS_WINDOW)
            .initial_connection_window_size(STRANGERS_WINDOW)
            .max_header_list_size(STRANGERS_HEADER_LIST)
            .max_concurrent_streams(1)
            .handshake(io)
            .await
            .map_err(|error| broken(&error))?;
        Ok(Self { connection: Box::new(connection) })
    }

    /// Waits for the call of a tunnel. Calls of anything else are answered as unimplemented.
    pub async fn call(self) -> Result<Call<IO>, LinkEnd> {
        self.call_of(&[TUNNEL_PATH]).await
    }

    /// Waits for a call of one of these paths. Calls of anything else are answered as unimplemented.
    pub async fn call_of(mut self, paths: &[&'static str]) -> Result<Call<IO>, LinkEnd> {
        loop {
            match self.connection.accept().await {
                Some(Ok((request, respond))) => match check(&request, paths) {
                    Ok(path) => return Ok(Call { connection: self.connection, request, respond, path }),
                    Err(text) => refuse(respond, Status::Unimplemented, &text),
                },
                Some(Err(error)) => return Err(broken(&error)),
                None => return Err(LinkEnd::Broken("the connection was closed before the call".into())),
            }
        }
    }
}

/// The call, before it is answered.
pub struct Call<IO> {
    connection: Box<Connection<IO, Piece>>,
    request: Request<h2::RecvStream>,
    respond: SendResponse<Piece>,
    path: &'static str,
}

impl<IO> fmt::Debug for Call<IO> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call").finish_non_exhaustive()
    }
}

impl<IO: AsyncRead + AsyncWrite + Send + Unpin + 'static> Call<IO> {
    /// A header of the request that is text and stands there exactly once; `Err` if it stands there twice or is not text.
    pub fn header(&self, name: &str) -> Result<Option<&str>, &'static str> {
        let mut values = self.request.headers().get_all(name).iter();
        match (values.next(), values.next()) {
            (None, _) => Ok(None),
            (Some(value), None) => value.to_str().map(Some).map_err(|_| "a header is not text"),
            (Some(_), Some(_)) => Err("a header stands there twice"),
        }
    }

    /// Which of the paths was called.
    #[must_use]
    pub fn path(&self) -> &'static str {
        self.path
    }

    /// Takes the call as one of one message and one answer, and reads the message, of at most `limit` bytes.
    pub async fn read_message(self, limit: usize) -> Result<UnaryCall<IO>, LinkEnd> {
        let Self { mut connection, request, respond, .. } = self;
        let mut body = request.into_body();
        let mut message = OneMessage::new(limit);
        // The body arrives while the connection is polled. Further calls have no business here.
        let read = poll_fn(|cx| {
            loop {
                match message.poll_read(&mut body, cx) {
                    Poll::Pending => {}
                    ended => return ended,
                }
                match ready!(connection.poll_accept(cx)) {
                    Some(Ok((_, respond))) => {
                        refuse(respond, Status::ResourceExhausted, "one call at a time is served here");
                    }
                    Some(Err(error)) => return Poll::Ready(Err(broken(&error))),
                    None => return Poll::Ready(Err(LinkEnd::Broken("the connection was closed in a message".into()))),
                }
            }
        });
        let message = read.await?;
        Ok(UnaryCall { connection, respond, message })
    }

    /// Takes the call.
    pub fn accept(mut self) -> Result<ServerLink<IO>, LinkEnd> {
        let response = Response::builder().status(StatusCode::OK).header("content-type", "application/grpc").body(());
        let response = response.map_err(|error| LinkEnd::Broken(error.to_string()))?;
        let send = self.respond.send_response(response, false).map_err(|error| broken(&error))?;
        let duplex = Duplex { send, receive: self.request.into_body() };
        Ok(ServerLink { connection: self.connection, duplex, over: None, said_goodbye: false, peer_is_silent: false })
    }

    /// Does not take the call, says why, and waits until that was said.
    pub async fn refuse(self, status: Status, message: &str) {
        refuse(self.respond, status, message);
        close(self.connection).await;
    }
}

/// Lets the peer read what was said to it, and ends the connection with it.
async fn close<IO: AsyncRead + AsyncWrite + Unpin>(mut connection: Box<Connection<IO, Piece>>) {
    connection.graceful_shutdown();
    while let Some(Ok((_, respond))) = connection.accept().await {
        refuse(respond, Status::Unavailable, "the connection is closing");
    }
}

/// Whether the request is a call of one of these, and of which.
fn check<B>(request: &Request<B>, paths: &[&'static str]) -> Result<&'static str, String> {
    let grpc = request.headers().get("content-type").is_some_and(|t| t.as_bytes().starts_with(b"application/grpc"));
    let Some(path) = paths.iter().find(|path| **path == request.uri().path()) else {
        let served: Vec<_> = paths.iter().map(|path| path.trim_start_matches('/')).collect();
        return Err(format!("this port serves {} only", served.join(" and ")));
    };
    if request.method() != Method::POST || !grpc {
        return Err("that is a gRPC call: POST with content-type application/grpc".to_owned());
    }
    Ok(path)
}

// === UnaryCall ===

/// A call of one message, which was read, and one answer, which was not given yet.
pub struct UnaryCall<IO> {
    connection: Box<Connection<IO, Piece>>,
    respond: SendResponse<Piece>,
    message: Bytes,
}

impl<IO> fmt::Debug for UnaryCall<IO> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UnaryCall").finish_non_exhaustive()
    }
}

impl<IO: AsyncRead + AsyncWrite + Send + Unpin + 'static> UnaryCall<IO> {
    /// The message.
    #[must_use]
    pub fn message(&self) -> &Bytes {
        &self.message
    }

    /// Answers, waits until that was read, and ends the connection.
    pub async fn answer(mut self, answer: Bytes) {
        let mut response = Response::new(());
        response.headers_mut().insert("content-type", HeaderValue::from_static("application/grpc"));
        if let Ok(mut send) = self.respond.send_response(response, false) {
            let mut trailers = HeaderMap::new();
            put_status(&mut trailers, Status::Ok, "");
            let _ = send.send_data(framed(answer), false);
            let _ = send.send_trailers(trailers);
        }
        close(self.connection).await;
    }

    /// Gives no answer, says why, waits until that was read, and ends the connection.
    pub async fn refuse(self, status: Status, message: &str) {
        refuse(self.respond, status, message);
        close(self.connection).await;
    }
}

fn refuse(mut respond: SendResponse<Piece>, status: Status, message: &str) {
    let mut response = Response::new(());
    response.headers_mut().insert("content-type", HeaderValue::from_static("application/grpc"));
    put_status(response.headers_mut(), status, message);
    let _ = respond.send_response(response, true);
}

fn put_status(headers: &mut HeaderMap, status: Status, message: &str) {
    headers.insert(HeaderName::from_static("grpc-status"), HeaderValue::from(status as u16));
    if let Ok(value) = HeaderValue::from_str(&percent_encode(message)) {
        headers.insert(HeaderName::from_static("grpc-message"), value);
    }
}

// === ServerLink ===

/// The hub's end of the call.
pub struct ServerLink<IO> {
    connection: Box<Connection<IO, Piece>>,
    duplex: Duplex,
    over: Option<LinkEnd>,
    said_goodbye: bool,
    peer_is_silent: bool,
}

impl<IO> fmt::Debug for ServerLink<IO> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerLink").field("over", &self.over).finish_non_exhaustive()
    }
}

impl<IO: AsyncRead + AsyncWrite + Send + Unpin + 'static> ServerLink<IO> {
    /// Moves bytes between HTTP/2 and the socket. A second call on the same connection is refused: one tunnel, one call.
    fn drive(&mut self, cx: &mut Context<'_>) {
        while self.over.is_none() {
            match self.connection.poll_accept(cx) {
                Poll::Pending => return,
                Poll::Ready(Some(Ok((_, respond)))) => {
                    refuse(respond, Status::ResourceExhausted, "this connection already carries a tunnel");
                }
                Poll::Ready(Some(Err(error))) => self.over = Some(broken(&error)),
                Poll::Ready(None) => self.over = Some(LinkEnd::Broken("the agent closed the connection".into())),
            }
        }
    }
}

impl<IO: AsyncRead + AsyncWrite + Send + Unpin + 'static> Link for ServerLink<IO> {
    fn poll_receive(&mut self, _: &mut Context<'_>) -> Poll<Result<Bytes, LinkEnd>> {
        match (self.duplex.poll_receive(), &self.over) {
            (Poll::Pending, Some(end)) => Poll::Ready(Err(end.clone())),
            (received, _) => received,
        }
    }

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), LinkEnd>> {
        self.duplex.poll_ready()
    }

    fn send(&mut self, transmit: Transmit) -> Result<(), LinkEnd> {
        self.duplex.send(transmit)
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), LinkEnd>> {
        self.drive(cx);
        match &self.over {
            Some(end) => Poll::Ready(Err(end.clone())),
            None => Poll::Ready(Ok(())),
        }
    }

    fn poll_close(&mut self, cx: &mut Context<'_>, reason: &str) -> Poll<()> {
        if !std::mem::replace(&mut self.said_goodbye, true) {
            let mut trailers = HeaderMap::new();
            put_status(&mut trailers, Status::Unavailable, reason);
            let _ = self.duplex.send.send_trailers(trailers);
            self.connection.graceful_shutdown();
        }
        // The agent reads the reason and hangs up; what it still sends is dropped.
        self.drive(cx);
        while !self.peer_is_silent {
            self.peer_is_silent = ready!(self.poll_receive(cx)).is_err();
        }
        self.drive(cx);
        if self.over.is_some() { Poll::Ready(()) } else { Poll::Pending }
    }
}
