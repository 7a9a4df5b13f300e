//! When a client of HTTP/2 is idle: it has not introduced itself, or has no request under way.

use std::{
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    task::{Context, Poll, ready},
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Duration, Instant, Sleep, sleep},
};

/// The requests of one connection that are under way, until the last byte of their answers. Nobody is woken by them.
#[derive(Debug)]
pub(super) struct Activity {
    begun: Instant,
    running: AtomicUsize,
    /// When the last one ended, in milliseconds from the beginning.
    idle_from: AtomicU64,
}

impl Activity {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self { begun: Instant::now(), running: AtomicUsize::new(0), idle_from: AtomicU64::new(0) })
    }

    /// A request, until this is dropped.
    pub(super) fn busy(self: &Arc<Self>) -> Busy {
        self.running.fetch_add(1, Ordering::Relaxed);
        Busy(Arc::clone(self))
    }

    /// Resolves when no request was under way for so long.
    pub(super) async fn idle_for(&self, limit: Duration) {
        let mut left = limit;
        loop {
            sleep(left).await;
            left = limit.saturating_sub(self.idle());
            if left.is_zero() {
                return;
            }
        }
    }

    /// For how long no request has been under way.
    fn idle(&self) -> Duration {
        if self.running.load(Ordering::Acquire) > 0 {
            return Duration::ZERO;
        }
        self.begun.elapsed().saturating_sub(Duration::from_millis(self.idle_from.load(Ordering::Relaxed)))
    }
}

/// A request that is under way.
#[derive(Debug)]
pub(super) struct Busy(Arc<Activity>);

impl Drop for Busy {
    fn drop(&mut self) {
        let now = u64::try_from(self.0.begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.0.idle_from.fetch_max(now, Ordering::Relaxed);
        self.0.running.fetch_sub(1, Ordering::Release);
    }
}

// === Prefaced ===

/// A connection that ends if the client has not introduced itself in time.
#[derive(Debug)]
pub(super) struct Prefaced<I> {
    io: I,
    /// What is left of the client's preface, and how long it may take.
    due: Option<(usize, Pin<Box<Sleep>>)>,
}

/// So many bytes every client begins with.
const PREFACE: usize = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".len();

impl<I> Prefaced<I> {
    pub(super) fn new(io: I, limit: Duration) -> Self {
        Self { io, due: Some((PREFACE, Box::pin(sleep(limit)))) }
    }
}

impl<I: AsyncRead + Unpin> AsyncRead for Prefaced<I> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buffer.filled().len();
        let read = Pin::new(&mut this.io).poll_read(cx, buffer);
        let Some((left, limit)) = &mut this.due else { return read };
        if read.is_pending() {
            ready!(limit.as_mut().poll(cx));
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client did not introduce itself")));
        }
        *left = left.saturating_sub(buffer.filled().len().saturating_sub(before));
        if *left == 0 {
            this.due = None;
        }
        read
    }
}

impl<I: AsyncWrite + Unpin> AsyncWrite for Prefaced<I> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().io).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().io).poll_write_vectored(cx, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().io).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().io).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    const LIMIT: Duration = Duration::from_secs(120);

    #[tokio::test(start_paused = true)]
    async fn a_connection_is_idle_when_its_last_request_has_ended_for_so_long() {
        let (activity, begun) = (Activity::new(), Instant::now());
        let (one, other) = (activity.busy(), activity.busy());
        let ends = async {
            // tidy: sleep because the clock is paused
            sleep(Duration::from_secs(100)).await;
            drop(one);
            // tidy: sleep because the clock is paused
            sleep(Duration::from_secs(400)).await;
            drop(other);
        };
        tokio::join!(ends, activity.idle_for(LIMIT));
        let idle = begun.elapsed().saturating_sub(Duration::from_secs(500));
        // Looked at now and then: not earlier, and not much later.
        assert!(idle >= LIMIT && idle <= 2 * LIMIT, "{idle:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_without_a_request_is_idle_from_its_beginning() {
        let (activity, begun) = (Activity::new(), Instant::now());
        activity.idle_for(LIMIT).await;
        assert!(begun.elapsed() < LIMIT + Duration::from_secs(1), "{:?}", begun.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn a_preface_is_due_and_what_follows_is_not() {
        let (mut client, server) = duplex(1024);
        let mut server = Prefaced::new(server, LIMIT);
        client.write_all(&[b'x'; PREFACE - 1]).await.unwrap();
        let mut space = [0; 64];
        assert_eq!(server.read(&mut space).await.unwrap(), PREFACE - 1);
        let late = server.read(&mut space).await.unwrap_err();
        assert_eq!(late.kind(), io::ErrorKind::TimedOut);

        let (mut client, server) = duplex(1024);
        let mut server = Prefaced::new(server, LIMIT);
        client.write_all(&[b'x'; PREFACE]).await.unwrap();
        assert_eq!(server.read(&mut space).await.unwrap(), PREFACE);
        assert!(tokio::time::timeout(10 * LIMIT, server.read(&mut space)).await.is_err(), "nothing is due any more");
    }
}
