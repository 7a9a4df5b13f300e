//! What a carrier must be able to do, and the simplest one.

use bytes::{Buf, Bytes, BytesMut};
use mctunnel_mux::Transmit;
use std::{
    collections::VecDeque,
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// One established connection between two ends of a tunnel: an ordered, reliable stream of bytes each way.
///
/// Obligations: 1. every method is called from one task only; 2. `poll_flush` is called each time the task was woken, and
/// `poll_receive` until it is `Pending` after each `poll_flush`: a link may move the bytes of both directions in `poll_flush` alone;
/// 3. after `Pending` the task is woken when progress is possible; 4. bytes given to `send` arrive in order or the link ends with an error at both ends; 5. `poll_ready` limits what is queued
/// inside the link, so that the scheduler decides late.
pub trait Link: Send + 'static {
    /// Gives the next bytes that arrived, or how the link ended.
    fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<Result<Bytes, LinkEnd>>;

    /// Waits until the link takes more.
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), LinkEnd>>;

    /// Queues bytes; called after `poll_ready` only.
    fn send(&mut self, transmit: Transmit) -> Result<(), LinkEnd>;

    /// Moves bytes: writes what is queued, and takes in what arrived if the link does so by itself. `Ready` when what is queued is on its way.
    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), LinkEnd>>;

    /// Ends the link after what is queued, telling the other side `reason` if the carrier can.
    fn poll_close(&mut self, cx: &mut Context<'_>, reason: &str) -> Poll<()>;
}

/// How a link ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LinkEnd {
    /// The other side ended it, and said why.
    Closed(String),
    /// It broke.
    Broken(String),
}

impl From<io::Error> for LinkEnd {
    fn from(error: io::Error) -> Self {
        Self::Broken(error.to_string())
    }
}

// === ByteLink ===

/// A link over any byte pipe, such as `tokio::io::duplex`: what the gRPC carrier sends, without HTTP/2 around it.
#[derive(Debug)]
pub struct ByteLink<IO> {
    io: IO,
    queue: VecDeque<Bytes>,
    buffer: BytesMut,
}

impl<IO> ByteLink<IO> {
    /// Wraps the pipe.
    pub fn new(io: IO) -> Self {
        Self { io, queue: VecDeque::new(), buffer: BytesMut::new() }
    }
}

impl<IO: AsyncRead + AsyncWrite + Send + Unpin + 'static> Link for ByteLink<IO> {
    fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<Result<Bytes, LinkEnd>> {
        self.buffer.resize(64 * 1024, 0);
        let mut read = ReadBuf::new(&mut self.buffer);
        ready!(Pin::new(&mut self.io).poll_read(cx, &mut read))?;
        let filled = read.filled().len();
        if filled == 0 {
            return Poll::Ready(Err(LinkEnd::Broken("the pipe was closed".into())));
        }
        Poll::Ready(Ok(self.buffer.split_to(filled).freeze()))
    }

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), LinkEnd>> {
        if self.queue.len() < 4 { Poll::Ready(Ok(())) } else { self.poll_flush(cx) }
    }

    fn send(&mut self, transmit: Transmit) -> Result<(), LinkEnd> {
        self.queue.extend([transmit.head, transmit.body].into_iter().filter(|b| !b.is_empty()));
        Ok(())
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), LinkEnd>> {
        while let Some(front) = self.queue.front_mut() {
            let written = ready!(Pin::new(&mut self.io).poll_write(cx, front))?;
            front.advance(written);
            if front.is_empty() {
                self.queue.pop_front();
            }
        }
        ready!(Pin::new(&mut self.io).poll_flush(cx))?;
        Poll::Ready(Ok(()))
    }

    fn poll_close(&mut self, cx: &mut Context<'_>, _: &str) -> Poll<()> {
        if ready!(self.poll_flush(cx)).is_ok() {
            let _ = ready!(Pin::new(&mut self.io).poll_shutdown(cx));
        }
        Poll::Ready(())
    }
}
