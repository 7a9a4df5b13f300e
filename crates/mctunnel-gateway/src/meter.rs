//! Counts bytes, for the record and against the quotas of whoever moves them, on every way and in both directions. When too many were
//! moved, the next ones wait: nothing is lost, and nothing is held meanwhile but what came already.

#[cfg(test)]
mod tests;

use crate::Permit;
use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
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
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Duration, Sleep, sleep},
};

/// What was moved on a stream, and the permission to move it. Whoever moves bytes counts them here, so that the sums are known
/// however the stream ends.
#[derive(Debug, Default)]
pub(crate) struct Account {
    /// None where nobody is asked.
    permit: Option<Permit>,
    up: AtomicU64,
    down: AtomicU64,
}

impl Account {
    pub(crate) fn new(permit: Permit) -> Self {
        Self { permit: Some(permit), ..Self::default() }
    }

    pub(crate) fn permit(&self) -> Option<&Permit> {
        self.permit.as_ref()
    }

    /// Bytes so far: from the client to the target, and back.
    pub(crate) fn so_far(&self) -> (u64, u64) {
        (self.up.load(Ordering::Relaxed), self.down.load(Ordering::Relaxed))
    }

    /// Counts bytes that were moved; gives how long to wait before more are.
    fn moved(&self, way: Way, bytes: usize) -> Duration {
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        let sum = match way {
            Way::Up => &self.up,
            Way::Down => &self.down,
        };
        sum.fetch_add(bytes, Ordering::Relaxed);
        self.permit.as_ref().map_or(Duration::ZERO, |permit| permit.moved(bytes))
    }
}

#[derive(Debug, Clone, Copy)]
enum Way {
    Up,
    Down,
}

/// One direction of a stream, at the pace its quotas allow.
#[derive(Debug)]
pub(crate) struct Pace {
    account: Arc<Account>,
    way: Way,
    /// Only while there is something to wait for.
    pause: Option<Pin<Box<Sleep>>>,
}

impl Pace {
    /// From the client to the target.
    pub(crate) fn up(account: Arc<Account>) -> Self {
        Self { account, way: Way::Up, pause: None }
    }

    /// From the target to the client.
    pub(crate) fn down(account: Arc<Account>) -> Self {
        Self { account, way: Way::Down, pause: None }
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
        let wait = self.account.moved(self.way, bytes);
        if !wait.is_zero() {
            self.pause = Some(Box::pin(sleep(wait)));
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
    pub(crate) fn new(stream: S, account: &Arc<Account>, first: usize) -> Self {
        let (mut up, down) = (Pace::up(Arc::clone(account)), Pace::down(Arc::clone(account)));
        up.moved(first);
        Self { stream, up, down }
    }

    /// Counts bytes that came down before.
    pub(crate) fn came_down(mut self, early: usize) -> Self {
        self.down.moved(early);
        self
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
    pub(crate) fn new(body: B, account: &Arc<Account>) -> Self {
        Self { body, pace: Pace::up(Arc::clone(account)) }
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
