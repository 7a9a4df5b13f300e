//! A client's connection that can be ended as an error while the server has it.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;

/// A connection that can end with a reset, so that nobody takes it for the end of what was sent.
pub(super) trait Reset: AsyncRead + AsyncWrite + Unpin + Send + 'static {
    /// Has the end of the connection be a reset.
    fn reset(&self);
    /// Tells the client, as far as that is possible without waiting, that this is the end of all that was to be sent.
    fn say_goodbye(&mut self);
}

impl Reset for TcpStream {
    fn reset(&self) {
        let _ = self.set_zero_linger();
    }

    fn say_goodbye(&mut self) {}
}

impl Reset for TlsStream<TcpStream> {
    fn reset(&self) {
        let _ = self.get_ref().0.set_zero_linger();
    }

    fn say_goodbye(&mut self) {
        let (socket, session) = self.get_mut();
        session.send_close_notify();
        let _ = session.write_tls(&mut AtOnce(socket));
    }
}

/// Writes what the socket takes at once.
struct AtOnce<'a>(&'a TcpStream);

impl io::Write for AtOnce<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.try_write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A connection that ends with a reset if it was cut, and with a goodbye if it was idle.
#[derive(Debug)]
pub(super) struct Cuttable<I: Reset> {
    pub(super) io: I,
    pub(super) cut: CancellationToken,
    /// The client had its answers, and no request came for too long.
    pub(super) idle: CancellationToken,
}

impl<I: Reset> Drop for Cuttable<I> {
    fn drop(&mut self) {
        if self.cut.is_cancelled() {
            self.io.reset();
        } else if self.idle.is_cancelled() {
            self.io.say_goodbye();
        }
    }
}

impl<I: Reset> AsyncRead for Cuttable<I> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().io).poll_read(cx, buf)
    }
}

impl<I: Reset> AsyncWrite for Cuttable<I> {
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
