//! The hub's end of the call.

use super::{
    Duplex, FRAME_SIZE, HEADER_LIST, Link, LinkEnd, Piece, SEND_BUFFER, TUNNEL_PATH, Transmit, WINDOW, broken,
    percent_encode,
};
use bytes::Bytes;
use h2::server::{Connection, SendResponse};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode};
use std::{
    fmt,
    task::{Context, Poll, ready},
};
use tokio::io::{AsyncRead, AsyncWrite};

/// The gRPC status codes a hub gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are gRPC's")]
pub enum Status {
    Ok = 0,
    PermissionDenied = 7,
    ResourceExhausted = 8,
    Unimplemented = 12,
    Unavailable = 14,
}

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

    /// Waits for the call. Calls of anything else are answered as unimplemented.
    pub async fn call(mut self) -> Result<Call<IO>, LinkEnd> {
        loop {
            match self.connection.accept().await {
                Some(Ok((request, respond))) => match check(&request) {
                    Ok(()) => return Ok(Call { connection: self.connection, request, respond }),
                    Err(text) => refuse(respond, Status::Unimplemented, text),
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

    /// Takes the call.
    pub fn accept(mut self) -> Result<ServerLink<IO>, LinkEnd> {
        let response = Response::builder().status(StatusCode::OK).header("content-type", "application/grpc").body(());
        let response = response.map_err(|error| LinkEnd::Broken(error.to_string()))?;
        let send = self.respond.send_response(response, false).map_err(|error| broken(&error))?;
        let duplex = Duplex { send, receive: self.request.into_body() };
        Ok(ServerLink { connection: self.connection, duplex, over: None, said_goodbye: false, peer_is_silent: false })
    }

    /// Does not take the call, says why, and waits until that was said.
    pub async fn refuse(mut self, status: Status, message: &str) {
        refuse(self.respond, status, message);
        self.connection.graceful_shutdown();
        while let Some(Ok((_, respond))) = self.connection.accept().await {
            refuse(respond, Status::Unavailable, "the connection is closing");
        }
    }
}

/// Whether the request is the call of this service.
fn check<B>(request: &Request<B>) -> Result<(), &'static str> {
    let grpc = request.headers().get("content-type").is_some_and(|t| t.as_bytes().starts_with(b"application/grpc"));
    if request.uri().path() != TUNNEL_PATH {
        Err("this port serves mctunnel.tunnel.v1.TunnelService/Tunnel only")
    } else if request.method() != Method::POST || !grpc {
        Err("Tunnel is a gRPC call: POST with content-type application/grpc")
    } else {
        Ok(())
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
