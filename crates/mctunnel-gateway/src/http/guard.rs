//! Stands between a client's connection and the HTTP/1.1 server: no byte of a request reaches the server's parser before the
//! request's whole head was found to be one that every reader reads alike.
//!
//! A refused head does not reach the server at all. In its place the server gets [`REFUSED`], a request for `*`, which no client
//! can send through the guard; its answer is the reason left in [`RefusedHead`]. So the answer comes in its turn behind those to
//! earlier requests, and one writer writes them all. It is *not* for HTTP/2: see [`check_h2`].

mod bad_head;
mod chunked;
mod config;
mod fields;
mod h2;
mod head;
mod machine;
mod patience;
mod scan;
#[cfg(test)]
mod tests;

pub use bad_head::{BadBody, BadHead, RefusedHead};
pub use config::{GuardConfig, SharedGuard};
pub(super) use h2::check_names;
pub use h2::{check_h2, check_trailers};

use bytes::{Buf as _, Bytes, BytesMut};
use machine::{Guard, Rest};
use patience::{Head, Patience};
use std::{
    io,
    mem::MaybeUninit,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::Sleep,
};

/// What the server reads in place of a refused request.
const REFUSED: &[u8] = b"OPTIONS * HTTP/1.1\r\nhost: refused\r\nconnection: close\r\n\r\n";
/// So much of what follows a refused head is read, so that the client is not reset before it has read why.
const MAX_DISCARD: usize = 256 * 1024;
/// So long it may go on sending behind our last byte.
const LINGER: Duration = Duration::from_secs(1);

/// A client's connection, of which the server sees only requests that are safe to parse.
///
/// Bytes of bodies go from the connection to the reader's buffer and are not copied. There is a buffer only while a head is
/// incomplete.
#[derive(Debug)]
pub struct Guarded<I> {
    io: I,
    guard: Guard,
    /// Bytes that came and were not passed on: `checked` that may be, then the beginning of a head.
    held: BytesMut,
    checked: usize,
    end: Option<End>,
    refused: Arc<RefusedHead>,
    patience: Option<Patience>,
}

/// How the connection ends once the checked bytes are passed on.
#[derive(Debug)]
enum End {
    Refused { unsent: &'static [u8], discard: usize, linger: Option<Pin<Box<Sleep>>> },
    Broken(BadBody),
}

impl<I> Guarded<I> {
    /// Guards a connection on which nothing was read yet.
    pub fn new(io: I, config: impl Into<SharedGuard>) -> Self {
        Self {
            io,
            guard: Guard::new(config),
            held: BytesMut::new(),
            checked: 0,
            end: None,
            refused: Arc::new(RefusedHead::default()),
            patience: None,
        }
    }

    /// Refuses a head that is not whole after so long, and ends a connection that has not begun its first by then. Between requests
    /// a client may wait.
    #[must_use]
    pub fn patient_for(mut self, limit: Duration) -> Self {
        self.patience = Some(Patience::new(limit));
        self
    }

    /// Where the reason is found when the server gets the request for `*`.
    #[must_use]
    pub fn refused(&self) -> Arc<RefusedHead> {
        Arc::clone(&self.refused)
    }

    /// The connection itself.
    pub fn get_ref(&self) -> &I {
        &self.io
    }

    /// The connection, for who goes on with it after an upgrade, and bytes that were read from it and not passed on.
    pub fn into_parts(self) -> (I, Bytes) {
        (self.io, self.held.freeze())
    }

    /// Judges what was held back and is not checked yet.
    fn judge_held(&mut self) {
        let handled = self.guard.handle(&self.held);
        self.checked = handled.pass;
        self.passed(handled.pass);
        self.finish(handled.rest);
    }

    /// Judges what was read into `buf` behind `before`, and leaves there what may be passed on.
    fn judge_read(&mut self, buf: &mut ReadBuf<'_>, before: usize) {
        let read = buf.filled().get(before..).unwrap_or_default();
        let handled = self.guard.handle(read);
        if handled.rest == Rest::Keep {
            self.held.extend_from_slice(read.get(handled.pass..).unwrap_or_default());
        }
        buf.set_filled(before + handled.pass);
        self.passed(handled.pass);
        self.finish(handled.rest);
    }

    /// What may be passed on has a whole head, or is behind one.
    fn passed(&mut self, length: usize) {
        if let (1.., Some(patience)) = (length, &mut self.patience) {
            patience.passed();
        }
    }

    fn finish(&mut self, rest: Rest) {
        match rest {
            Rest::Keep => return,
            Rest::Refuse(reason) => {
                self.refused.put(reason);
                self.end = Some(End::Refused { unsent: REFUSED, discard: MAX_DISCARD, linger: None });
            }
            Rest::Break(error) => self.end = Some(End::Broken(error)),
        }
        self.held.truncate(self.checked);
        self.release();
    }

    /// Passes on what was held back and is checked.
    fn pass_checked(&mut self, buf: &mut ReadBuf<'_>) {
        let length = self.checked.min(buf.remaining());
        buf.put_slice(self.held.get(..length).unwrap_or_default());
        self.held.advance(length);
        self.checked -= length;
        self.release();
    }

    /// Ready when a head took too long: then it is refused, or the connection, without an end of its own, never began one.
    fn poll_patience(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(patience) = &mut self.patience else { return Poll::Pending };
        let head = match (self.guard.is_at_head(), self.held.is_empty()) {
            (true, true) => Head::NotBegun,
            (true, false) => Head::Partial,
            (false, _) => Head::Behind,
        };
        let limit = ready!(patience.poll(head, cx));
        if head == Head::Partial {
            self.finish(Rest::Refuse(BadHead::TooSlow { limit }));
        }
        Poll::Ready(())
    }

    /// Gives memory back: an idle connection holds none.
    fn release(&mut self) {
        if self.held.is_empty() {
            self.held = BytesMut::new();
        }
    }
}

impl<I: AsyncRead + Unpin> AsyncRead for Guarded<I> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        loop {
            if this.checked > 0 || buf.remaining() == 0 {
                this.pass_checked(buf);
                return Poll::Ready(Ok(()));
            }
            if let Some(end) = &mut this.end {
                return end.poll_read(&mut this.io, cx, buf);
            }
            let before = buf.filled().len();
            match Pin::new(&mut this.io).poll_read(cx, buf) {
                Poll::Ready(read) => read?,
                Poll::Pending => {
                    ready!(this.poll_patience(cx));
                    if this.end.is_none() {
                        return Poll::Ready(Ok(()));
                    }
                    continue;
                }
            }
            let read = buf.filled().get(before..).unwrap_or_default();
            if read.is_empty() {
                return Poll::Ready(Ok(()));
            }
            if this.held.is_empty() {
                this.judge_read(buf, before);
                if buf.filled().len() > before {
                    return Poll::Ready(Ok(()));
                }
            } else {
                this.held.extend_from_slice(read);
                buf.set_filled(before);
                this.judge_held();
            }
        }
    }
}

impl End {
    fn poll_read<I: AsyncRead + Unpin>(
        &mut self,
        io: &mut I,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let (unsent, discard) = match self {
            Self::Broken(error) => return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, *error))),
            Self::Refused { unsent, discard, .. } => (unsent, discard),
        };
        if unsent.is_empty() {
            ready!(poll_discard(io, cx, discard));
            // Not an end of file: the server would take that for a client that is gone, and not answer.
            return Poll::Pending;
        }
        let (now, later) = unsent.split_at_checked(buf.remaining()).unwrap_or((unsent, &[]));
        buf.put_slice(now);
        *unsent = later;
        Poll::Ready(Ok(()))
    }

    /// Waits for a refused client to stop sending: closed with bytes unread, a connection is reset, and the answer lost.
    fn poll_linger<I: AsyncRead + Unpin>(&mut self, io: &mut I, cx: &mut Context<'_>) -> Poll<()> {
        let Self::Refused { discard, linger, .. } = self else {
            return Poll::Ready(());
        };
        if poll_discard(io, cx, discard).is_ready() {
            return Poll::Ready(());
        }
        linger.get_or_insert_with(|| Box::pin(tokio::time::sleep(LINGER))).as_mut().poll(cx)
    }
}

/// Throws away up to `left` bytes; ready when there is no more to throw away.
fn poll_discard<I: AsyncRead + Unpin>(io: &mut I, cx: &mut Context<'_>, left: &mut usize) -> Poll<()> {
    let mut space = [MaybeUninit::uninit(); 4096];
    while *left > 0 {
        let mut buf = ReadBuf::uninit(&mut space);
        let outcome = ready!(Pin::new(&mut *io).poll_read(cx, &mut buf));
        let read = if outcome.is_ok() { buf.filled().len() } else { 0 };
        *left = if read == 0 { 0 } else { left.saturating_sub(read) };
    }
    Poll::Ready(())
}

impl<I: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Guarded<I> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().io).poll_write(cx, buf)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().io).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(Pin::new(&mut this.io).poll_shutdown(cx))?;
        match &mut this.end {
            Some(end) => end.poll_linger(&mut this.io, cx).map(Ok),
            None => Poll::Ready(Ok(())),
        }
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().io).poll_write_vectored(cx, bufs)
    }
}
