//! The agent's end of the call.

use super::{
    Duplex, FRAME_SIZE, HEADER_LIST, Link, LinkEnd, Piece, SEND_BUFFER, TUNNEL_PATH, Transmit, WINDOW, broken, nobody,
    status_of,
};
use bytes::Bytes;
use h2::client::{Connection, ResponseFuture};
use http::{Method, Request, StatusCode, Version};
use std::{
    fmt,
    pin::Pin,
    task::{Context, Poll, ready},
};
use tokio::io::{AsyncRead, AsyncWrite};

/// Makes the call over an established connection. `authority` is the name in the hub's certificate.
pub async fn connect<IO>(io: IO, authority: &str, user_agent: &str) -> Result<ClientLink<IO>, LinkEnd>
where
    IO: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let (requests, connection) = h2::client::Builder::new()
        .initial_window_size(WINDOW)
        .initial_connection_window_size(WINDOW)
        .max_frame_size(FRAME_SIZE)
        .max_header_list_size(HEADER_LIST)
        .max_send_buffer_size(SEND_BUFFER)
        .enable_push(false)
        .handshake::<_, Piece>(io)
        .await
        .map_err(|error| broken(&error))?;
    let request = Request::builder()
        .method(Method::POST)
        .version(Version::HTTP_2)
        .uri(format!("https://{authority}{TUNNEL_PATH}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .header("user-agent", user_agent)
        .body(())
        .map_err(|error| LinkEnd::Broken(format!("the hub's name makes no valid request: {error}")))?;
    // The connection is not polled yet, but a new one always has room for its first stream.
    let mut requests = requests;
    let (response, send) = requests.send_request(request, false).map_err(|error| broken(&error))?;
    Ok(ClientLink {
        connection: Box::new(connection),
        call: Some(CallState::Waiting(response, send)),
        over: None,
        said_goodbye: false,
    })
}

/// The agent's end of the call.
pub struct ClientLink<IO> {
    connection: Box<Connection<IO, Piece>>,
    call: Option<CallState>,
    over: Option<LinkEnd>,
    said_goodbye: bool,
}

enum CallState {
    /// The hub has not answered the request yet; what we send goes out all the same.
    Waiting(ResponseFuture, h2::SendStream<Piece>),
    Open(Duplex),
}

impl<IO> fmt::Debug for ClientLink<IO> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientLink").field("over", &self.over).finish_non_exhaustive()
    }
}

impl<IO: AsyncRead + AsyncWrite + Send + Unpin + 'static> ClientLink<IO> {
    /// Moves bytes between HTTP/2 and the socket.
    fn drive(&mut self, cx: &mut Context<'_>) {
        if self.over.is_none()
            && let Poll::Ready(end) = Pin::new(&mut *self.connection).poll(cx)
        {
            self.over = Some(match end {
                Ok(()) => LinkEnd::Broken("the hub closed the connection".into()),
                Err(error) => broken(&error),
            });
        }
    }

    /// Waits for the hub's answer to the request.
    fn poll_duplex(&mut self) -> Poll<Result<&mut Duplex, LinkEnd>> {
        if let Some(CallState::Waiting(response, _)) = &mut self.call {
            let response = match ready!(Pin::new(response).poll(&mut nobody())) {
                Ok(response) => response,
                Err(error) => return Poll::Ready(Err(broken(&error))),
            };
            if response.status() != StatusCode::OK {
                let text = format!("the hub answered HTTP status {}: is this address a hub?", response.status());
                return Poll::Ready(Err(LinkEnd::Closed(text)));
            }
            if response.headers().contains_key("grpc-status") {
                return Poll::Ready(Err(status_of(response.headers())));
            }
            if let Some(CallState::Waiting(_, send)) = self.call.take() {
                self.call = Some(CallState::Open(Duplex { send, receive: response.into_body() }));
            }
        }
        match &mut self.call {
            Some(CallState::Open(duplex)) => Poll::Ready(Ok(duplex)),
            _ => Poll::Ready(Err(LinkEnd::Broken("the call is over".into()))),
        }
    }
}

impl<IO: AsyncRead + AsyncWrite + Send + Unpin + 'static> Link for ClientLink<IO> {
    fn poll_receive(&mut self, _: &mut Context<'_>) -> Poll<Result<Bytes, LinkEnd>> {
        let received = match self.poll_duplex() {
            Poll::Ready(Ok(duplex)) => duplex.poll_receive(),
            Poll::Ready(Err(end)) => Poll::Ready(Err(end)),
            Poll::Pending => Poll::Pending,
        };
        // What had arrived before the connection ended is read first.
        match (received, &self.over) {
            (Poll::Pending, Some(end)) => Poll::Ready(Err(end.clone())),
            (received, _) => received,
        }
    }

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), LinkEnd>> {
        match &mut self.call {
            Some(CallState::Open(duplex)) => duplex.poll_ready(),
            Some(CallState::Waiting(..)) => Poll::Ready(Ok(())),
            None => Poll::Ready(Err(LinkEnd::Broken("the call is over".into()))),
        }
    }

    fn send(&mut self, transmit: Transmit) -> Result<(), LinkEnd> {
        match &mut self.call {
            Some(CallState::Open(duplex)) => duplex.send(transmit),
            // Only HELLO is sent before the answer.
            Some(CallState::Waiting(_, send)) => {
                let piece = Piece { head: transmit.head, body: transmit.body };
                send.send_data(piece, false).map_err(|error| broken(&error))
            }
            None => Err(LinkEnd::Broken("the call is over".into())),
        }
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), LinkEnd>> {
        self.drive(cx);
        match &self.over {
            Some(end) => Poll::Ready(Err(end.clone())),
            None => Poll::Ready(Ok(())),
        }
    }

    fn poll_close(&mut self, cx: &mut Context<'_>, _: &str) -> Poll<()> {
        // Half-closes our direction behind what is queued; the hub ends its own, and then the connection goes.
        if !std::mem::replace(&mut self.said_goodbye, true)
            && let Some(CallState::Open(duplex)) = &mut self.call
        {
            let _ = duplex.send.send_data(Piece { head: Bytes::new(), body: Bytes::new() }, true);
        }
        self.drive(cx);
        while self.call.is_some() {
            if ready!(self.poll_receive(cx)).is_err() {
                self.call = None;
            }
        }
        self.drive(cx);
        if self.over.is_some() { Poll::Ready(()) } else { Poll::Pending }
    }
}
