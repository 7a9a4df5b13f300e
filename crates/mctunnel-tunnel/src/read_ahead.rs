//! Reads from a socket in large pieces for a reader that asks for small ones.
//!
//! rustls reads 4 KiB at a time; a 16 KiB record would cost five system calls. The buffer exists only while it holds bytes.

use bytes::{Buf, BufMut, BytesMut};
use std::{
    io::{self, IoSlice},
    pin::Pin,
    task::{Context, Poll, ready},
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_util::io::poll_read_buf;

/// One system call fetches up to this.
const SIZE: usize = 128 * 1024;
/// A socket that had less than this to give is asked for no more next time, so that idle and chatty tunnels cost no large buffer.
const SMALL: usize = 8 * 1024;

/// A socket with read-ahead; writes pass through.
#[derive(Debug)]
pub struct ReadAhead<IO> {
    io: IO,
    buffer: BytesMut,
    next: usize,
}

impl<IO> ReadAhead<IO> {
    /// Wraps the socket.
    pub fn new(io: IO) -> Self {
        Self { io, buffer: BytesMut::new(), next: SMALL }
    }

    /// The socket inside.
    pub fn get_ref(&self) -> &IO {
        &self.io
    }
}

impl<IO: AsyncRead + Unpin> AsyncRead for ReadAhead<IO> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, out: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.buffer.is_empty() {
            if out.remaining() >= SIZE {
                return Pin::new(&mut this.io).poll_read(cx, out);
            }
            ready!(this.fill(cx))?;
        }
        let taken = this.buffer.len().min(out.remaining());
        out.put_slice(this.buffer.get(..taken).unwrap_or_default());
        this.buffer.advance(taken);
        if this.buffer.is_empty() && this.next == SMALL {
            this.buffer = BytesMut::new();
        }
        Poll::Ready(Ok(()))
    }
}

impl<IO: AsyncRead + Unpin> ReadAhead<IO> {
    fn fill(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.buffer.clear();
        self.buffer.reserve(self.next);
        let mut limited = (&mut self.buffer).limit(self.next);
        match poll_read_buf(Pin::new(&mut self.io), cx, &mut limited) {
            Poll::Ready(Ok(filled)) => {
                self.next = if filled >= SMALL { SIZE } else { SMALL };
                Poll::Ready(Ok(()))
            }
            // Nothing to read: an idle tunnel keeps no buffer.
            Poll::Ready(Err(error)) => {
                self.forget();
                Poll::Ready(Err(error))
            }
            Poll::Pending => {
                self.forget();
                Poll::Pending
            }
        }
    }

    fn forget(&mut self) {
        self.buffer = BytesMut::new();
        self.next = SMALL;
    }
}

impl<IO: AsyncWrite + Unpin> AsyncWrite for ReadAhead<IO> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().io).poll_write(cx, bytes)
    }
    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().io).poll_write_vectored(cx, slices)
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
