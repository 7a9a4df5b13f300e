//! Joins a socket and a stream until both directions have ended, without losing a byte and without holding a buffer while idle.
//!
//! A clean end on one side becomes a half-close on the other. A cut on one side becomes a cut on the other (a TCP reset, a RESET
//! frame), never a clean end.

use crate::ByteStream;
use bytes::{Bytes, BytesMut};
use std::{
    fmt, io,
    pin::Pin,
    task::{Context, Poll, ready},
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
};
use tokio_util::io::poll_read_buf;

/// The most read from the socket at once: one full frame.
const READ_MAX: usize = mctunnel_mux::MAX_PAYLOAD;
/// The least.
const READ_MIN: usize = 2048;

/// Moves bytes both ways until both directions ended or one broke. Dropping the future cuts both sides.
pub fn splice<T: SpliceSocket, S: ByteStream>(socket: T, stream: S) -> impl Future<Output = Spliced> + Send {
    let mut splice = Splice { socket, stream, up: Up::new(), down: Down::default(), stopped: None, passed_on: false };
    // Not an `async fn`, whose future would have room for the arguments and for what is made of them.
    std::future::poll_fn(move |cx| {
        let error = ready!(splice.poll(cx)).err();
        let spliced = Spliced { bytes_up: splice.up.bytes, bytes_down: splice.down.bytes, error };
        splice.pass_on(spliced.error.as_ref());
        Poll::Ready(spliced)
    })
}

/// A TCP connection, with or without something on top of it.
pub trait SpliceSocket: AsyncRead + AsyncWrite + Unpin + Send {
    /// Whether there is nothing on top of it: then it can be read, written and closed as it is.
    const PLAIN: bool;

    /// The connection itself.
    fn tcp(&self) -> &TcpStream;
}

impl SpliceSocket for TcpStream {
    const PLAIN: bool = true;

    fn tcp(&self) -> &TcpStream {
        self
    }
}

/// How a splice ended.
#[derive(Debug)]
pub struct Spliced {
    /// Bytes from the socket into the stream.
    pub bytes_up: u64,
    /// Bytes from the stream into the socket.
    pub bytes_down: u64,
    /// What broke, if not both directions ended cleanly.
    pub error: Option<SpliceError>,
}

impl Spliced {
    /// The end of a splice that could not begin because the stream was gone.
    #[must_use]
    pub fn never(error: io::Error) -> Self {
        Self { bytes_up: 0, bytes_down: 0, error: Some(SpliceError::Stream(error)) }
    }
}

/// Which side broke.
#[derive(Debug)]
pub enum SpliceError {
    /// The socket could not be read.
    SocketRead(io::Error),
    /// The socket could not be written.
    SocketWrite(io::Error),
    /// The stream was cut.
    Stream(io::Error),
}

impl fmt::Display for SpliceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SocketRead(error) | Self::SocketWrite(error) => write!(f, "the socket broke: {error}"),
            Self::Stream(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for SpliceError {}

struct Splice<T: SpliceSocket, S: ByteStream> {
    socket: T,
    stream: S,
    up: Up,
    down: Down,
    /// Why the socket takes nothing more, while what its owner had finished saying is still being delivered.
    stopped: Option<SpliceError>,
    passed_on: bool,
}

/// From the socket into the stream.
struct Up {
    pending: Bytes,
    read_size: usize,
    bytes: u64,
    /// The socket was reset: the end that is read behind its last bytes is none.
    ends_broken: bool,
    done: bool,
}

/// From the stream into the socket.
#[derive(Default)]
struct Down {
    pending: Bytes,
    bytes: u64,
    done: bool,
}

impl<T: SpliceSocket, S: ByteStream> Splice<T, S> {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), SpliceError>> {
        let down = self.poll_down(cx)?;
        match self.up.poll(cx, &mut self.socket, &mut self.stream) {
            // The other end takes nothing more, but what it had finished sending is still being delivered.
            Poll::Ready(Err(SpliceError::Stream(_))) if down.is_pending() && self.stopped.is_none() => Poll::Pending,
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Ready(Ok(())) if down.is_ready() => Poll::Ready(self.stopped.take().map_or(Ok(()), Err)),
            Poll::Ready(Ok(())) | Poll::Pending => Poll::Pending,
        }
    }

    fn poll_down(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), SpliceError>> {
        if self.stopped.is_some() {
            return Poll::Ready(Ok(()));
        }
        match ready!(self.down.poll(cx, &mut self.socket, &mut self.stream, self.up.done)) {
            // What the owner had said before is still there to be read. It has finished, or this would be a reset: it closed the socket
            // with something to read behind its last byte.
            Err(SpliceError::SocketWrite(error)) if !self.up.done && takes_no_more(&error) => {
                self.up.ends_broken = error.kind() == io::ErrorKind::ConnectionReset;
                self.stopped = Some(SpliceError::SocketWrite(error));
                Poll::Ready(Ok(()))
            }
            ended => Poll::Ready(ended),
        }
    }

    /// Passes a cut on to the side that does not know of it yet.
    fn pass_on(&mut self, error: Option<&SpliceError>) {
        self.passed_on = true;
        match error {
            None => {}
            Some(SpliceError::Stream(_)) if self.down.done => {}
            Some(SpliceError::Stream(_)) => {
                // A reset instead of a clean end, so that the other program knows.
                let _ = self.socket.tcp().set_zero_linger();
            }
            // What the socket's owner had finished sending is still delivered; the stream's end tells the rest.
            Some(SpliceError::SocketWrite(_)) if self.up.done && !self.up.ends_broken => {}
            // What it had said before it broke was read, and is delivered before the cut, as TCP does it.
            Some(SpliceError::SocketRead(_) | SpliceError::SocketWrite(_)) => self.stream.abort_behind_written(),
        }
    }
}

impl<T: SpliceSocket, S: ByteStream> Drop for Splice<T, S> {
    fn drop(&mut self) {
        if !self.passed_on {
            let _ = self.socket.tcp().set_zero_linger();
            self.stream.abort();
        }
    }
}

impl Up {
    fn new() -> Self {
        Self { pending: Bytes::new(), read_size: READ_MIN * 4, bytes: 0, ends_broken: false, done: false }
    }

    fn poll<T: SpliceSocket, S: ByteStream>(
        &mut self,
        cx: &mut Context<'_>,
        socket: &mut T,
        stream: &mut S,
    ) -> Poll<Result<(), SpliceError>> {
        while !self.done {
            if !self.pending.is_empty() {
                ready!(stream.poll_write_bytes(cx, &mut self.pending)).map_err(SpliceError::Stream)?;
                continue;
            }
            // Read only what the stream has room for.
            ready!(stream.poll_write_capacity(cx)).map_err(SpliceError::Stream)?;
            // The buffer exists only while there is something to read. What is on top may hold bytes that TCP knows nothing of.
            if T::PLAIN {
                ready!(socket.tcp().poll_read_ready(cx)).map_err(SpliceError::SocketRead)?;
            }
            let mut buffer = BytesMut::with_capacity(self.read_size);
            let read = poll_read_buf(Pin::new(&mut *socket), cx, &mut buffer);
            if ready!(read).map_err(SpliceError::SocketRead)? > 0 {
                self.take(buffer);
            } else {
                if !self.ends_broken {
                    ready!(Pin::new(&mut *stream).poll_shutdown(cx)).map_err(SpliceError::Stream)?;
                }
                self.done = true;
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Keeps what was read, and reads more next time if the buffer was full, less if it was nearly empty.
    fn take(&mut self, buffer: BytesMut) {
        let len = buffer.len();
        self.bytes += u64::try_from(len).unwrap_or(u64::MAX);
        if len >= self.read_size {
            self.read_size = (self.read_size * 4).min(READ_MAX);
        } else if len < self.read_size / 8 {
            self.read_size = (self.read_size / 2).max(READ_MIN);
        }
        let wasteful = len < buffer.capacity() / 4;
        self.pending = if wasteful { Bytes::copy_from_slice(&buffer) } else { buffer.freeze() };
    }
}

impl Down {
    fn poll<T: SpliceSocket, S: ByteStream>(
        &mut self,
        cx: &mut Context<'_>,
        socket: &mut T,
        stream: &mut S,
        last: bool,
    ) -> Poll<Result<(), SpliceError>> {
        while !self.done {
            if self.pending.is_empty() {
                let Poll::Ready(read) = stream.poll_read_bytes(cx) else {
                    // What is on top may have kept something back.
                    ready!(Pin::new(&mut *socket).poll_flush(cx)).map_err(SpliceError::SocketWrite)?;
                    return Poll::Pending;
                };
                match read.map_err(SpliceError::Stream)? {
                    Some(bytes) => self.pending = bytes,
                    // The other direction has ended before: closing the socket says the same in one call.
                    None if last && T::PLAIN => self.done = true,
                    None => {
                        ready!(Pin::new(&mut *socket).poll_shutdown(cx)).map_err(SpliceError::SocketWrite)?;
                        self.done = true;
                    }
                }
                continue;
            }
            let written = ready!(poll_write(socket, cx, &self.pending)).map_err(SpliceError::SocketWrite)?;
            self.bytes += u64::try_from(written).unwrap_or(u64::MAX);
            drop(self.pending.split_to(written));
        }
        Poll::Ready(Ok(()))
    }
}

fn takes_no_more(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset)
}

fn poll_write<T: SpliceSocket>(socket: &mut T, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
    if !T::PLAIN {
        return Pin::new(socket).poll_write(cx, bytes);
    }
    loop {
        match socket.tcp().try_write(bytes) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => ready!(socket.tcp().poll_write_ready(cx))?,
            written => return Poll::Ready(written),
        }
    }
}

#[cfg(test)]
mod tests;
