//! One certificate, and both ends' TLS 1.3 configuration made from it.

use std::{net::SocketAddr, sync::Arc};

use anyhow::Result;
use mctunnel_tunnel::ReadAhead;
use rcgen::{CertifiedKey, KeyPair, generate_simple_self_signed};
use rustls::{
    ClientConfig, RootCertStore, ServerConfig,
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName},
    version::TLS13,
};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::{TlsAcceptor, TlsConnector, client, server};

const NAME: &str = "bench.test";

#[derive(Clone)]
pub(crate) struct Tls {
    acceptor: TlsAcceptor,
    connector: TlsConnector,
}

impl Tls {
    pub(crate) fn new() -> Result<Self> {
        let CertifiedKey { cert, signing_key } = generate_simple_self_signed([NAME.to_owned()])?;
        let certificate = cert.der().clone();
        Ok(Self { acceptor: acceptor(certificate.clone(), &signing_key)?, connector: connector(certificate)? })
    }

    pub(crate) async fn accept(&self, listener: &TcpListener) -> Result<server::TlsStream<Socket>> {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let mut stream = self.acceptor.accept(ReadAhead::new(stream)).await?;
        stream.get_mut().1.set_buffer_limit(Some(WRITE_LIMIT));
        Ok(stream)
    }

    pub(crate) async fn connect(&self, address: SocketAddr) -> Result<client::TlsStream<Socket>> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let name = ServerName::try_from(NAME)?;
        let mut stream = self.connector.connect(name, ReadAhead::new(stream)).await?;
        stream.get_mut().1.set_buffer_limit(Some(WRITE_LIMIT));
        Ok(stream)
    }
}

/// rustls asks the socket for 4 KiB at a time; this reads ahead for it.
pub(crate) type Socket = ReadAhead<TcpStream>;

/// Room for one message of 64 KiB and its heads in one write.
const WRITE_LIMIT: usize = 128 << 10;

fn acceptor(certificate: CertificateDer<'static>, key: &KeyPair) -> Result<TlsAcceptor> {
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let mut config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_protocol_versions(&[&TLS13])?
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)?;
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

fn connector(certificate: CertificateDer<'static>) -> Result<TlsConnector> {
    let mut roots = RootCertStore::empty();
    roots.add(certificate)?;
    let mut config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_protocol_versions(&[&TLS13])?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(TlsConnector::from(Arc::new(config)))
}
