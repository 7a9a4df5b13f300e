//! A stream whose bytes are counted outside of whoever moves them, so that the sums are known however that ends.

use bytes::Bytes;
use mctunnel_core::ByteStream;
use std::{
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll, ready},
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// What was moved on a stream so far.
#[derive(Debug, Default)]
pub(crate) struct Moved {
    out_of: AtomicU64,
    into: AtomicU64,
}

impl Moved {
    /// Bytes out of the stream, and into it.
    pub(crate) fn so_far(&self) -> (u64, u64) {
        (self.out_of.load(Ordering::Relaxed), self.into.load(Ordering::Relaxed))
    }
}

fn count(sum: &AtomicU64, bytes: usize) {
    sum.fetch_add(u64::try_from(bytes).unwrap_or(u64::MAX), Ordering::Relaxed);
}

/// The stream.
#[derive(Debug)]
pub(crate) struct Counted<S> {
    stream: S,
    moved: Arc<Moved>,
}

impl<S> Counted<S> {
    pub(crate) fn new(stream: S, moved: &Arc<Moved>) -> Self {
        Self { stream, moved: Arc::clone(moved) }
    }
}

impl<S: ByteStream> ByteStream for Counted<S> {
    fn poll_read_bytes(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Option<Bytes>>> {
        let read = ready!(self.stream.poll_read_bytes(cx))?;
        count(&self.moved.out_of, read.as_ref().map_or(0, Bytes::len));
        Poll::Ready(Ok(read))
    }

    fn poll_write_capacity(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        self.stream.poll_write_capacity(cx)
    }

    fn poll_write_bytes(&mut self, cx: &mut Context<'_>, bytes: &mut Bytes) -> Poll<io::Result<()>> {
        let before = bytes.len();
        let written = self.stream.poll_write_bytes(cx, bytes);
        count(&self.moved.into, before.saturating_sub(bytes.len()));
        written
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

impl<S: ByteStream> AsyncRead for Counted<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buf.filled().len();
        ready!(Pin::new(&mut this.stream).poll_read(cx, buf))?;
        count(&this.moved.out_of, buf.filled().len().saturating_sub(before));
        Poll::Ready(Ok(()))
    }
}

impl<S: ByteStream> AsyncWrite for Counted<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = ready!(Pin::new(&mut this.stream).poll_write(cx, bytes))?;
        count(&this.moved.into, written);
        Poll::Ready(Ok(written))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }
}
