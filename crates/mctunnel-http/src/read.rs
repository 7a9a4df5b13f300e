//! The receiving half of an exchange, up to the head; the body behind it is `body.rs`.

use crate::{Answer, BodyKind, ExchangeError, MessageBody, RequestHead, split::SharedStream, wire};
use bytes::{Bytes, BytesMut};
use mctunnel_core::ByteStream;
use std::{
    future::poll_fn,
    task::{Context, Poll, ready},
};

/// Receives a message.
#[derive(Debug)]
pub struct MessageReader<S> {
    stream: SharedStream<S>,
    unread: Bytes,
}

impl<S: ByteStream> MessageReader<S> {
    pub(crate) fn new(stream: SharedStream<S>) -> Self {
        Self { stream, unread: Bytes::new() }
    }

    /// Receives the head of a request.
    pub async fn request(&mut self) -> Result<RequestHead, ExchangeError> {
        RequestHead::decode(poll_fn(|cx| self.poll_message(cx)).await?)
    }

    /// Receives the beginning of an answer.
    pub async fn answer(&mut self) -> Result<Answer, ExchangeError> {
        Answer::decode(poll_fn(|cx| self.poll_message(cx)).await?)
    }

    /// The body behind the head.
    #[must_use]
    pub fn into_body(self, kind: BodyKind) -> MessageBody<S> {
        MessageBody::new(self.stream, self.unread, kind)
    }

    pub(crate) fn into_parts(self) -> (SharedStream<S>, Bytes) {
        (self.stream, self.unread)
    }

    /// One whole message, without its length.
    fn poll_message(&mut self, cx: &mut Context<'_>) -> Poll<Result<Bytes, ExchangeError>> {
        loop {
            let bad = |_| ExchangeError::Protocol("a message without length");
            if let Some((len, used)) = wire::read_varint(&self.unread).map_err(bad)? {
                if len > LONGEST_HEAD {
                    return Poll::Ready(Err(ExchangeError::Protocol("a head that is too long")));
                }
                if self.unread.len() >= used + len {
                    drop(self.unread.split_to(used));
                    return Poll::Ready(Ok(self.unread.split_to(len)));
                }
            }
            match ready!(self.stream.poll_read(cx)).map_err(ExchangeError::Cut)? {
                Some(more) => append(&mut self.unread, more),
                None => return Poll::Ready(Err(ExchangeError::Truncated)),
            }
        }
    }
}

/// Longer than what the gateway takes from clients, and than what servers send in practice.
const LONGEST_HEAD: usize = 256 * 1024;

/// Puts `more` behind `unread`; copies only when a message lies across two frames.
pub(crate) fn append(unread: &mut Bytes, more: Bytes) {
    if unread.is_empty() {
        *unread = more;
        return;
    }
    let mut joined = BytesMut::with_capacity(unread.len() + more.len());
    joined.extend_from_slice(unread);
    joined.extend_from_slice(&more);
    *unread = joined.freeze();
}
