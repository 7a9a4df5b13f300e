//! One connection inside a tunnel: reads, writes, half-closes, and ends in an error when it was cut.

use crate::{
    OpenFailed,
    state::{Shared, Wakes},
};
use bytes::Bytes;
use mctunnel_core::ByteStream;
use mctunnel_mux::{Connection, Read, ResetCode, StreamError, StreamId};
use std::{
    fmt, io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker, ready},
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A stream of a tunnel.
///
/// Dropping it after `shutdown` delivers what was written; dropping it before is a cut, and the other side sees an error.
pub struct Stream {
    shared: Arc<Shared>,
    id: StreamId,
    /// First bytes that did not fit into the early window; they go before anything else.
    unsent: Bytes,
}

impl Stream {
    pub(crate) fn new(shared: Arc<Shared>, id: StreamId) -> Self {
        Self { shared, id, unsent: Bytes::new() }
    }

    /// The stream's id, for logs.
    #[must_use]
    pub fn id(&self) -> StreamId {
        self.id
    }

    /// Ends both directions at once, as an error at the other end, and says why.
    pub fn reset(&mut self, code: ResetCode) {
        self.end_by(|mux, id| mux.reset(id, code));
    }

    fn end_by(&self, end: impl FnOnce(&mut Connection, StreamId)) {
        let mut state = self.shared.lock();
        end(&mut state.mux, self.id);
        // Whoever waits on the other half of the stream must learn of it; the multiplexer tells only of what the peer does.
        let waiting = state.waiting.get_mut(&self.id).map(|waiting| (waiting.reader.take(), waiting.writer.take()));
        let driver = state.driver_if_needed();
        drop(state);
        let (reader, writer) = waiting.unwrap_or_default();
        wake(reader);
        wake(writer);
        wake(driver);
    }

    pub(crate) fn keep_unsent(&mut self, rest: Bytes) {
        self.unsent = rest;
    }

    /// Whether the other side joined the stream or refused it.
    pub(crate) fn poll_answer(&mut self, cx: &Context<'_>) -> Poll<Result<(), OpenFailed>> {
        let mut state = self.shared.lock();
        let Some(waiting) = state.waiting.get_mut(&self.id) else {
            return Poll::Ready(Err(crate::state::lost(&self.shared)));
        };
        match waiting.answer.take() {
            Some(answer) => Poll::Ready(*answer),
            None => {
                waiting.reader = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }

    fn poll_read_up_to(&mut self, cx: &Context<'_>, max: usize) -> Poll<io::Result<Option<Bytes>>> {
        let now = self.shared.now();
        let mut state = self.shared.lock();
        let read = state.mux.read(now, self.id, max);
        let result = match read {
            Ok(Read::Bytes(bytes)) => Poll::Ready(Ok(Some(bytes))),
            Ok(Read::End) => Poll::Ready(Ok(None)),
            Ok(Read::Blocked) => {
                if let Some(waiting) = state.waiting.get_mut(&self.id) {
                    waiting.reader = Some(cx.waker().clone());
                }
                Poll::Pending
            }
            Err(error) => Poll::Ready(Err(self.error(error))),
        };
        let driver = state.driver_if_needed();
        drop(state);
        wake(driver);
        result
    }

    /// Writes the first bytes that had to wait for the answer.
    fn poll_unsent(&mut self, cx: &Context<'_>) -> Poll<io::Result<()>> {
        while !self.unsent.is_empty() {
            let mut unsent = std::mem::take(&mut self.unsent);
            let result = self.poll_write_now(cx, &mut unsent);
            self.unsent = unsent;
            ready!(result)?;
        }
        Poll::Ready(Ok(()))
    }

    fn poll_write_now(&mut self, cx: &Context<'_>, bytes: &mut Bytes) -> Poll<io::Result<()>> {
        let before = bytes.len();
        let mut state = self.shared.lock();
        let result = match state.mux.write(self.id, bytes) {
            Ok(()) if bytes.len() < before || before == 0 => Poll::Ready(Ok(())),
            Ok(()) => {
                if let Some(waiting) = state.waiting.get_mut(&self.id) {
                    waiting.writer = Some(cx.waker().clone());
                }
                Poll::Pending
            }
            Err(error) => Poll::Ready(Err(self.error(error))),
        };
        let driver = state.driver_if_needed();
        drop(state);
        wake(driver);
        result
    }

    fn error(&self, error: StreamError) -> io::Error {
        let kind = match error {
            StreamError::Reset { .. } => io::ErrorKind::ConnectionReset,
            StreamError::Finished => io::ErrorKind::BrokenPipe,
            StreamError::Unknown => io::ErrorKind::NotConnected,
        };
        match self.shared.ended.get() {
            Some(ending) if matches!(error, StreamError::Reset { .. }) => {
                io::Error::new(kind, format!("the tunnel is over, {ending}"))
            }
            _ => io::Error::new(kind, error),
        }
    }
}

fn wake(driver: Option<Waker>) {
    if let Some(driver) = driver {
        driver.wake();
    }
}

impl ByteStream for Stream {
    fn poll_read_bytes(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Option<Bytes>>> {
        self.poll_read_up_to(cx, usize::MAX)
    }

    fn poll_write_capacity(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        ready!(self.poll_unsent(cx))?;
        let mut state = self.shared.lock();
        match state.mux.capacity(self.id) {
            Ok(0) => {
                if let Some(waiting) = state.waiting.get_mut(&self.id) {
                    waiting.writer = Some(cx.waker().clone());
                }
                Poll::Pending
            }
            Ok(room) => Poll::Ready(Ok(room)),
            Err(error) => Poll::Ready(Err(self.error(error))),
        }
    }

    fn poll_write_bytes(&mut self, cx: &mut Context<'_>, bytes: &mut Bytes) -> Poll<io::Result<()>> {
        ready!(self.poll_unsent(cx))?;
        self.poll_write_now(cx, bytes)
    }

    fn poll_cut(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let mut state = self.shared.lock();
        if self.shared.ended.get().is_some() || state.mux.is_flushed(self.id).is_err() {
            return Poll::Ready(());
        }
        if let Some(waiting) = state.waiting.get_mut(&self.id) {
            waiting.writer = Some(cx.waker().clone());
        }
        Poll::Pending
    }

    fn abort(&mut self) {
        self.reset(ResetCode::Broken);
    }

    fn abort_behind_written(&mut self) {
        self.end_by(|mux, id| mux.cut(id, ResetCode::Broken));
    }
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, out: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if out.remaining() > 0
            && let Some(bytes) = ready!(self.get_mut().poll_read_up_to(cx, out.remaining()))?
        {
            out.put_slice(&bytes);
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let room = ready!(this.poll_write_capacity(cx))?;
        let taken = room.min(bytes.len()).min(mctunnel_mux::MAX_PAYLOAD);
        let mut copy = Bytes::copy_from_slice(bytes.get(..taken).unwrap_or_default());
        ready!(this.poll_write_now(cx, &mut copy))?;
        Poll::Ready(Ok(taken - copy.len()))
    }

    /// What was written is on its way without asking; there is nothing to wait for.
    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().poll_unsent(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(this.poll_unsent(cx))?;
        let mut state = this.shared.lock();
        let finished = state.mux.finish(this.id);
        let driver = state.driver_if_needed();
        drop(state);
        wake(driver);
        Poll::Ready(finished.map_err(|error| this.error(error)))
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream").field("id", &self.id).finish_non_exhaustive()
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.waiting.remove(&self.id);
        state.mux.release(self.id);
        let mut wakes = Wakes::default();
        state.wake_if_idle(&mut wakes);
        wakes.add(state.driver_if_needed());
        drop(state);
        wakes.wake();
    }
}
