//! Clients that come with TLS: their handshake, and their connection behind it.

use mctunnel_core::{ClientCertificate, splice::SpliceSocket};
use std::{
    io,
    net::SocketAddr,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
    time::timeout,
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};

/// Makes TLS with a client within `limit`.
pub(crate) async fn accept_tls(
    tls: &TlsAcceptor,
    socket: TcpStream,
    peer: SocketAddr,
    limit: Duration,
) -> Option<TlsStream<TcpStream>> {
    let Ok(Ok(stream)) = timeout(limit, tls.accept(socket)).await else {
        // Not TLS, or a client that does not know our CA: it knows why better than we do.
        tracing::debug!(%peer, "A client did not complete its TLS handshake.");
        return None;
    };
    Some(stream)
}

/// What the client has shown of itself in the handshake.
pub(crate) fn client_certificate(stream: &TlsStream<TcpStream>) -> Option<Arc<ClientCertificate>> {
    let chain = stream.get_ref().1.peer_certificates()?;
    Some(Arc::new(ClientCertificate { chain: chain.iter().map(|certificate| certificate.to_vec()).collect() }))
}

/// A client's connection with TLS on top.
#[derive(Debug)]
pub(crate) struct TlsClient(pub(crate) TlsStream<TcpStream>);

impl SpliceSocket for TlsClient {
    const PLAIN: bool = false;

    fn tcp(&self) -> &TcpStream {
        self.0.get_ref().0
    }
}

impl AsyncRead for TlsClient {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().0).poll_read(cx, buf)
    }
}

impl AsyncWrite for TlsClient {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().0).poll_write(cx, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().0).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().0).poll_shutdown(cx)
    }
}
