//! Calls of one message and one answer: how an agent gets its certificate.

use super::{Piece, broken, status_of};
use crate::LinkEnd;
use bytes::{BufMut, Bytes, BytesMut};
use h2::RecvStream;
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, Version};
use mctunnel_mux::Deframer;
use std::{
    future::poll_fn,
    pin::pin,
    task::{Context, Poll, ready},
};
use tokio::io::{AsyncRead, AsyncWrite};

/// The call did not end in an answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallFailed {
    /// The other side said no.
    #[error("{message}")]
    Refused {
        /// gRPC's number for the kind of no.
        status: u32,
        /// Why.
        message: String,
    },
    /// The connection did not carry it.
    #[error("{0}")]
    Broken(String),
}

/// Sends one message over an established connection and waits for the answer, of at most `limit` bytes.
pub async fn call<IO>(
    io: IO,
    authority: &str,
    path: &str,
    user_agent: &str,
    message: Bytes,
    limit: usize,
) -> Result<Bytes, CallFailed>
where
    IO: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let request = Request::builder()
        .method(Method::POST)
        .version(Version::HTTP_2)
        .uri(format!("https://{authority}{path}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .header("user-agent", user_agent)
        .body(())
        .map_err(|error| CallFailed::Broken(format!("the hub's name makes no valid request: {error}")))?;
    let handshake = h2::client::Builder::new().enable_push(false).handshake::<_, Piece>(io);
    let (requests, connection) = handshake.await.map_err(|error| lost(broken(&error)))?;
    let mut requests = requests;
    let exchange = async {
        let (response, mut send) = requests.send_request(request, false).map_err(|error| lost(broken(&error)))?;
        send.send_data(framed(message), true).map_err(|error| lost(broken(&error)))?;
        let response = response.await.map_err(|error| lost(broken(&error)))?;
        if response.status() != StatusCode::OK {
            let text = format!("the hub answered HTTP status {}: is this address a hub?", response.status());
            return Err(CallFailed::Broken(text));
        }
        check_status(response.headers())?;
        let mut body = response.into_body();
        let mut answer = OneMessage::new(limit);
        let answer = poll_fn(|cx| answer.poll_read(&mut body, cx)).await.map_err(lost);
        let trailers = body.trailers().await.map_err(|error| lost(broken(&error)))?;
        check_status(&trailers.ok_or_else(|| CallFailed::Broken("the call ended without a status".to_owned()))?)?;
        answer
    };
    let ended = async {
        match connection.await {
            Ok(()) => CallFailed::Broken("the hub closed the connection".to_owned()),
            Err(error) => lost(broken(&error)),
        }
    };
    let mut exchange = pin!(exchange);
    let failed = tokio::select! {
        biased;
        answer = &mut exchange => return answer,
        failed = ended => failed,
    };
    // What had arrived before the connection ended is read first.
    tokio::select! {
        biased;
        answer = exchange => answer,
        () = std::future::ready(()) => Err(failed),
    }
}

/// No status yet is no objection; any but 0 is one.
fn check_status(headers: &HeaderMap) -> Result<(), CallFailed> {
    let text = |value: &HeaderValue| value.to_str().ok().and_then(|text| text.parse().ok());
    let Some(status) = headers.get("grpc-status").map(|value| text(value).unwrap_or(UNKNOWN)) else { return Ok(()) };
    if status == 0 {
        return Ok(());
    }
    let (LinkEnd::Closed(message) | LinkEnd::Broken(message)) = status_of(headers);
    Err(CallFailed::Refused { status, message })
}

/// gRPC's number for a no of a kind that cannot be read.
const UNKNOWN: u32 = 2;

fn lost(end: LinkEnd) -> CallFailed {
    let (LinkEnd::Closed(reason) | LinkEnd::Broken(reason)) = end;
    CallFailed::Broken(reason)
}

/// gRPC's prefix of every message: one byte of flags, four of length.
const PREFIX: usize = 5;

/// The message with gRPC's prefix.
pub(super) fn framed(message: Bytes) -> Piece {
    let mut head = BytesMut::with_capacity(PREFIX);
    head.put_u8(0);
    head.put_u32(u32::try_from(message.len()).unwrap_or(u32::MAX));
    Piece { head: head.freeze(), body: message }
}

/// Reads a body that is one message.
pub(super) struct OneMessage {
    deframer: Deframer,
    read: usize,
    limit: usize,
    message: Option<Bytes>,
}

impl OneMessage {
    pub(super) fn new(limit: usize) -> Self {
        Self { deframer: Deframer::default(), read: 0, limit, message: None }
    }

    pub(super) fn poll_read(&mut self, body: &mut RecvStream, cx: &mut Context<'_>) -> Poll<Result<Bytes, LinkEnd>> {
        let wrong = |text: &str| Poll::Ready(Err(LinkEnd::Broken(text.to_owned())));
        loop {
            match ready!(body.poll_data(cx)) {
                Some(Ok(bytes)) => {
                    let given_back = body.flow_control().release_capacity(bytes.len());
                    given_back.map_err(|error| broken(&error))?;
                    self.read += bytes.len();
                    if self.read > self.limit {
                        return wrong("the message is too large");
                    }
                    self.deframer.push(bytes);
                    while let Some(message) =
                        self.deframer.next_message().map_err(|error| LinkEnd::Broken(error.to_string()))?
                    {
                        if self.message.replace(message).is_some() {
                            return wrong("a second message came where one was expected");
                        }
                    }
                }
                Some(Err(error)) => return Poll::Ready(Err(broken(&error))),
                None => {
                    return match self.message.take() {
                        Some(message) if self.read == message.len() + PREFIX => Poll::Ready(Ok(message)),
                        Some(_) => wrong("bytes follow the message"),
                        None => wrong("the call ended within a message"),
                    };
                }
            }
        }
    }
}
