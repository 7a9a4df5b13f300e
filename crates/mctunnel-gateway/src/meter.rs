//! Counts bytes against the quotas of whoever moves them, on every way and in both directions. When too many were moved, the next
//! ones wait: nothing is lost, and nothing is held meanwhile but what came already.

#[cfg(test)]
mod tests;

use crate::Permit;
use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use mctunnel_core::ByteStream;
use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Sleep, sleep},
};

/// One direction of a stream, at the pace its quotas allow.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    /// None where nobody counts.
    permit: Option<Arc<Permit>>,
    /// Only while there is something to wait for.
    pause: Option<Pin<Box<Sleep>>>,
}

impl Pace {
    pub(crate) fn new(permit: Option<Arc<Permit>>) -> Self {
        Self { permit, pause: None }
    }

    /// Resolves when more bytes may be moved.
    pub(crate) fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if let Some(pause) = &mut self.pause {
            ready!(pause.as_mut().poll(cx));
            self.pause = None;
        }
        Poll::Ready(())
    }

    /// Counts bytes that were moved.
    pub(crate) fn moved(&mut self, bytes: usize) {
        if let Some(permit) = &self.permit {
            let wait = permit.moved(u64::try_from(bytes).unwrap_or(u64::MAX));
            if !wait.is_zero() {
                self.pause = Some(Box::pin(sleep(wait)));
            }
        }
    }
}

// === Metered ===

/// A stream whose bytes are counted both ways.
#[derive(Debug)]
pub(crate) struct Metered<S> {
    stream: S,
    up: Pace,
    down: Pace,
}

impl<S> Metered<S> {
    /// Counts what is moved from now on, and `first` bytes that went up with the opening.
    pub(crate) fn new(stream: S, permit: Option<Arc<Permit>>, first: usize) -> Self {
        let (mut up, down) = (Pace::new(permit.clone()), Pace::new(permit));
        up.moved(first);
        Self { stream, up, down }
    }
}

impl<S: ByteStream> ByteStream for Metered<S> {
    fn poll_read_bytes(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Option<Bytes>>> {
        ready!(self.down.poll_ready(cx));
        let read = ready!(self.stream.poll_read_bytes(cx))?;
        self.down.moved(read.as_ref().map_or(0, Bytes::len));
        Poll::Ready(Ok(read))
    }

    fn poll_write_capacity(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        // Whoever asks reads only then: a client that has to wait is not read from.
        ready!(self.up.poll_ready(cx));
        self.stream.poll_write_capacity(cx)
    }

    fn poll_write_bytes(&mut self, cx: &mut Context<'_>, bytes: &mut Bytes) -> Poll<io::Result<()>> {
        ready!(self.up.poll_ready(cx));
        let before = bytes.len();
        ready!(self.stream.poll_write_bytes(cx, bytes))?;
        self.up.moved(before.saturating_sub(bytes.len()));
        Poll::Ready(Ok(()))
    }

    fn poll_cut(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.stream.poll_cut(cx)
    }

    fn abort(&mut self) {
        self.stream.abort();
    }

    fn abort_behind_written(&mut self) {
        self.stream.abort_behind_written();
    }
}

impl<S: ByteStream> AsyncRead for Metered<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(this.down.poll_ready(cx));
        let before = buf.filled().len();
        ready!(Pin::new(&mut this.stream).poll_read(cx, buf))?;
        this.down.moved(buf.filled().len().saturating_sub(before));
        Poll::Ready(Ok(()))
    }
}

impl<S: ByteStream> AsyncWrite for Metered<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        ready!(this.up.poll_ready(cx));
        let written = ready!(Pin::new(&mut this.stream).poll_write(cx, bytes))?;
        this.up.moved(written);
        Poll::Ready(Ok(written))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }
}

// === MeteredBody ===

/// The body of a request, counted on its way to the target.
#[derive(Debug)]
pub(crate) struct MeteredBody<B> {
    body: B,
    pace: Pace,
}

impl<B> MeteredBody<B> {
    pub(crate) fn new(body: B, permit: Option<Arc<Permit>>) -> Self {
        Self { body, pace: Pace::new(permit) }
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for MeteredBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let this = self.get_mut();
        ready!(this.pace.poll_ready(cx));
        let frame = ready!(Pin::new(&mut this.body).poll_frame(cx));
        if let Some(Ok(frame)) = &frame {
            this.pace.moved(frame.data_ref().map_or(0, Bytes::len));
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
