//! The body of a received message, as an [`http_body::Body`]. It ends cleanly only where the sender ended it.

use crate::{
    BodyKind, ExchangeError,
    head::fields_from_wire,
    read::append,
    split::SharedStream,
    wire::{self, ChunkHead, TRAILERS, read_chunk_head},
};
use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body, Frame};
use mctunnel_core::ByteStream;
use prost::Message;
use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};

/// A body that arrives on a stream.
#[derive(Debug)]
pub struct MessageBody<S> {
    stream: SharedStream<S>,
    unread: Bytes,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Raw,
    /// Between chunks.
    ChunkHead,
    /// So many bytes of the chunk's data are still to come.
    ChunkData(usize),
    /// Only the end may follow.
    AfterTrailers,
    Done,
}

impl<S: ByteStream> MessageBody<S> {
    pub(crate) fn new(stream: SharedStream<S>, unread: Bytes, kind: BodyKind) -> Self {
        let state = match kind {
            BodyKind::None => State::Done,
            BodyKind::Raw => State::Raw,
            BodyKind::Chunks => State::ChunkHead,
        };
        Self { stream, unread, state }
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Frame<Bytes>>, ExchangeError>> {
        loop {
            match self.state {
                State::Done => return Poll::Ready(Ok(None)),
                State::Raw => {
                    return Poll::Ready(Ok(match ready!(self.poll_some(cx))? {
                        Some(bytes) => Some(Frame::data(bytes)),
                        None => self.done(),
                    }));
                }
                State::ChunkHead => match ready!(self.poll_chunk_head(cx))? {
                    None => return Poll::Ready(Ok(self.done())),
                    Some(head) if head.kind == TRAILERS => {
                        let trailers = ready!(self.poll_trailers(cx, head))?;
                        self.state = State::AfterTrailers;
                        return Poll::Ready(Ok(Some(Frame::trailers(trailers))));
                    }
                    Some(head) => {
                        drop(self.unread.split_to(head.size));
                        self.state = State::ChunkData(head.len);
                    }
                },
                State::ChunkData(0) => self.state = State::ChunkHead,
                State::ChunkData(left) => {
                    let Some(mut bytes) = ready!(self.poll_some(cx))? else {
                        return Poll::Ready(Err(ExchangeError::Truncated));
                    };
                    if bytes.len() > left {
                        self.unread = bytes.split_off(left);
                    }
                    self.state = State::ChunkData(left - bytes.len());
                    return Poll::Ready(Ok(Some(Frame::data(bytes))));
                }
                State::AfterTrailers => match ready!(self.poll_some(cx))? {
                    None => return Poll::Ready(Ok(self.done())),
                    Some(_) => return Poll::Ready(Err(ExchangeError::Protocol("bytes behind the trailers"))),
                },
            }
        }
    }

    fn done(&mut self) -> Option<Frame<Bytes>> {
        self.state = State::Done;
        None
    }

    /// Bytes that are there, or the next that arrive.
    fn poll_some(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, ExchangeError>> {
        if !self.unread.is_empty() {
            return Poll::Ready(Ok(Some(std::mem::take(&mut self.unread))));
        }
        self.stream.poll_read(cx).map_err(ExchangeError::Cut)
    }

    /// Leaves the head in `unread`; `None` at the end of the direction.
    fn poll_chunk_head(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<ChunkHead>, ExchangeError>> {
        loop {
            if let Some(head) = read_chunk_head(&self.unread).map_err(|_| ExchangeError::Protocol("a bad chunk"))? {
                return Poll::Ready(Ok(Some(head)));
            }
            match ready!(self.stream.poll_read(cx)).map_err(ExchangeError::Cut)? {
                Some(more) => append(&mut self.unread, more),
                None if self.unread.is_empty() => return Poll::Ready(Ok(None)),
                None => return Poll::Ready(Err(ExchangeError::Truncated)),
            }
        }
    }

    fn poll_trailers(&mut self, cx: &mut Context<'_>, head: ChunkHead) -> Poll<Result<HeaderMap, ExchangeError>> {
        if head.len > LONGEST_TRAILERS {
            return Poll::Ready(Err(ExchangeError::Protocol("trailers that are too long")));
        }
        while self.unread.len() < head.size + head.len {
            match ready!(self.stream.poll_read(cx)).map_err(ExchangeError::Cut)? {
                Some(more) => append(&mut self.unread, more),
                None => return Poll::Ready(Err(ExchangeError::Truncated)),
            }
        }
        drop(self.unread.split_to(head.size));
        let trailers = wire::Trailers::decode(self.unread.split_to(head.len));
        let fields = trailers.map_err(|_| ExchangeError::Protocol("not trailers"))?.fields;
        Poll::Ready(fields_from_wire(fields))
    }
}

const LONGEST_TRAILERS: usize = 64 * 1024;

impl<S: ByteStream> Body for MessageBody<S> {
    type Data = Bytes;
    type Error = ExchangeError;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, ExchangeError>>> {
        self.get_mut().poll_next(cx).map(Result::transpose)
    }

    fn is_end_stream(&self) -> bool {
        self.state == State::Done
    }
}
