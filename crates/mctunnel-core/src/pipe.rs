//! Joins a connection and a stream until both directions have ended. For a connection that is more than a socket; for sockets there is
//! [`splice`](crate::splice).
//!
//! A direction that cannot go on does not take the other one with it: a peer that reads nothing more may have said all it had to say,
//! and that is delivered. No buffer is held while nothing moves.

use std::{
    io,
    mem::MaybeUninit,
    pin::{Pin, pin},
    task::{Context, Poll, ready},
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

#[cfg(test)]
mod tests;

/// The most that is read at once.
const CHUNK: usize = 16 * 1024;

/// How a pipe ended.
#[derive(Debug)]
pub struct Piped {
    /// From the connection into the stream.
    pub up: Way,
    /// From the stream into the connection.
    pub down: Way,
    /// What broke, if not both directions ended cleanly.
    pub error: Option<io::Error>,
}

/// One direction of a pipe.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Way {
    /// Bytes that were delivered.
    pub bytes: u64,
    /// Whether these were all, and the other side was told so.
    pub is_whole: bool,
}

/// Moves bytes both ways until both directions have ended, or one side is gone.
///
/// It closes nothing that did not end by itself: what broke off is the caller's to cut, unless that way [`is_whole`](Way::is_whole).
pub async fn pipe<C, S>(connection: &mut C, stream: &mut S) -> Piped
where
    C: AsyncRead + AsyncWrite + Unpin,
    S: AsyncRead + AsyncWrite + Unpin,
{
    pipe_until(connection, stream, std::future::pending()).await
}

/// The same, given up when `stop` says why.
pub async fn pipe_until<C, S>(connection: &mut C, stream: &mut S, stop: impl Future<Output = io::Error>) -> Piped
where
    C: AsyncRead + AsyncWrite + Unpin,
    S: AsyncRead + AsyncWrite + Unpin,
{
    let (mut up, mut down) = (Direction::default(), Direction::default());
    let mut stop = pin!(stop);
    let error = std::future::poll_fn(|cx| {
        if let Poll::Ready(why) = stop.as_mut().poll(cx) {
            return Poll::Ready(Some(why));
        }
        match (up.poll(cx, connection, stream), down.poll(cx, stream, connection)) {
            (Poll::Ready(Err(Broken::Read(error))), _) | (_, Poll::Ready(Err(Broken::Read(error)))) => {
                Poll::Ready(Some(error))
            }
            // Gone without having finished: nothing of it is worth waiting for.
            (_, Poll::Ready(Err(Broken::Write(error)))) if error.kind() == io::ErrorKind::ConnectionReset => {
                Poll::Ready(Some(error))
            }
            (Poll::Ready(up), Poll::Ready(down)) => Poll::Ready(up.and(down).err().map(Broken::into_error)),
            _ => Poll::Pending,
        }
    })
    .await;
    Piped { up: up.way, down: down.way, error }
}

#[derive(Default)]
struct Direction {
    way: Way,
    /// Read and not yet written.
    rest: Vec<u8>,
    unflushed: bool,
    has_read_all: bool,
    stopped: Option<io::ErrorKind>,
}

enum Broken {
    Read(io::Error),
    Write(io::Error),
}

impl Broken {
    fn into_error(self) -> io::Error {
        match self {
            Self::Read(error) | Self::Write(error) => error,
        }
    }
}

impl Direction {
    fn poll<R, W>(&mut self, cx: &mut Context<'_>, from: &mut R, to: &mut W) -> Poll<Result<(), Broken>>
    where
        R: AsyncRead + Unpin,
        W: AsyncWrite + Unpin,
    {
        if let Some(kind) = self.stopped {
            return Poll::Ready(Err(Broken::Write(kind.into())));
        }
        while !self.way.is_whole {
            let moved = ready!(self.poll_once(cx, from, to));
            if let Err(Broken::Write(error)) = &moved {
                self.stopped = Some(error.kind());
                self.rest = Vec::new();
            }
            moved?;
        }
        Poll::Ready(Ok(()))
    }

    /// Writes what was read before, or reads; at the end, closes.
    fn poll_once<R, W>(&mut self, cx: &mut Context<'_>, from: &mut R, to: &mut W) -> Poll<Result<(), Broken>>
    where
        R: AsyncRead + Unpin,
        W: AsyncWrite + Unpin,
    {
        if !self.rest.is_empty() {
            let rest = std::mem::take(&mut self.rest);
            return self.poll_write(cx, to, &rest);
        }
        if self.has_read_all {
            ready!(Pin::new(to).poll_shutdown(cx)).map_err(Broken::Write)?;
            self.way.is_whole = true;
            return Poll::Ready(Ok(()));
        }
        let mut space = [MaybeUninit::uninit(); CHUNK];
        let mut chunk = ReadBuf::uninit(&mut space);
        match Pin::new(from).poll_read(cx, &mut chunk) {
            Poll::Ready(read) => read.map_err(Broken::Read)?,
            Poll::Pending => {
                if self.unflushed {
                    ready!(Pin::new(to).poll_flush(cx)).map_err(Broken::Write)?;
                    self.unflushed = false;
                }
                return Poll::Pending;
            }
        }
        self.has_read_all = chunk.filled().is_empty();
        if self.has_read_all { Poll::Ready(Ok(())) } else { self.poll_write(cx, to, chunk.filled()) }
    }

    /// Writes as much as is taken now, and keeps the rest.
    fn poll_write<W: AsyncWrite + Unpin>(
        &mut self,
        cx: &mut Context<'_>,
        to: &mut W,
        mut bytes: &[u8],
    ) -> Poll<Result<(), Broken>> {
        while !bytes.is_empty() {
            let Poll::Ready(written) = Pin::new(&mut *to).poll_write(cx, bytes) else {
                self.rest = bytes.to_vec();
                return Poll::Pending;
            };
            let written = written.map_err(Broken::Write)?;
            if written == 0 {
                return Poll::Ready(Err(Broken::Write(io::ErrorKind::WriteZero.into())));
            }
            self.unflushed = true;
            self.way.bytes += u64::try_from(written).unwrap_or(u64::MAX);
            bytes = bytes.get(written..).unwrap_or_default();
        }
        Poll::Ready(Ok(()))
    }
}
