//! Clients that come with TLS: their handshake, and their connection behind it.

use mctunnel_core::{ClientCertificate, splice::SpliceSocket};
use parking_lot::RwLock;
use rustls::ServerConfig;
use std::{
    fmt, io,
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

/// TLS for clients as it is now. All clones are the same; a change counts from the next connection on.
#[derive(Clone)]
pub struct SharedTls {
    config: Arc<RwLock<Arc<ServerConfig>>>,
    /// What is offered by ALPN, whatever the configuration says.
    alpn: Option<&'static [u8]>,
}

impl SharedTls {
    pub(crate) fn new(config: &Arc<ServerConfig>, alpn: Option<&'static [u8]>) -> Self {
        let tls = Self { config: Arc::new(RwLock::new(Arc::clone(config))), alpn };
        tls.set(config);
        tls
    }

    /// Takes another configuration.
    pub fn set(&self, config: &Arc<ServerConfig>) {
        let mut config = Arc::clone(config);
        if let Some(alpn) = self.alpn {
            Arc::make_mut(&mut config).alpn_protocols = vec![alpn.to_vec()];
        }
        *self.config.write() = config;
    }

    fn now(&self) -> TlsAcceptor {
        TlsAcceptor::from(Arc::clone(&self.config.read()))
    }
}

impl fmt::Debug for SharedTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedTls").finish_non_exhaustive()
    }
}

/// Makes TLS with a client within `limit`.
pub(crate) async fn accept_tls(
    tls: &SharedTls,
    socket: TcpStream,
    peer: SocketAddr,
    limit: Duration,
) -> Option<TlsStream<TcpStream>> {
    let Ok(Ok(mut stream)) = timeout(limit, tls.now().accept(socket)).await else {
        // Not TLS, or a client that does not know our CA: it knows why better than we do.
        tracing::debug!(%peer, "A client did not complete its TLS handshake.");
        return None;
    };
    stream.get_mut().1.set_buffer_limit(Some(MOST_BUFFERED));
    Some(stream)
}

/// What TLS holds of an answer that a client does not read: two records, enough for a write to be worth its while.
const MOST_BUFFERED: usize = 32 * 1024;

/// What the client has shown of itself in the handshake.
pub(crate) fn client_certificate(stream: &TlsStream<TcpStream>) -> Option<Arc<ClientCertificate>> {
    let chain = stream.get_ref().1.peer_certificates()?;
    Some(Arc::new(ClientCertificate { chain: chain.iter().map(|certificate| certificate.to_vec()).collect() }))
}

/// A client's connection with TLS on top; boxed, since it is moved from step to step and TLS has more than a kilobyte of state.
#[derive(Debug)]
pub(crate) struct TlsClient(Box<TlsStream<TcpStream>>);

impl TlsClient {
    pub(crate) fn new(stream: TlsStream<TcpStream>) -> Self {
        Self(Box::new(stream))
    }
}

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
