//! One certificate, and both ends' TLS 1.3 configuration made from it.

use std::{net::SocketAddr, sync::Arc};

use anyhow::Result;
use rcgen::{CertifiedKey, KeyPair, generate_simple_self_signed};
use rustls::{
    ClientConfig, RootCertStore, ServerConfig,
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName},
    version::TLS13,
};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::{TlsAcceptor, TlsConnector, client, server};

pub(crate) const NAME: &str = "bench.test";

#[derive(Clone)]
pub(crate) struct Tls {
    pub(crate) certificate_pem: String,
    pub(crate) key_pem: String,
    acceptor: TlsAcceptor,
    connector: TlsConnector,
}

impl Tls {
    pub(crate) fn new() -> Result<Self> {
        let CertifiedKey { cert, signing_key } = generate_simple_self_signed([NAME.to_owned()])?;
        let certificate = cert.der().clone();
        Ok(Self {
            certificate_pem: cert.pem(),
            key_pem: signing_key.serialize_pem(),
            acceptor: acceptor(certificate.clone(), &signing_key)?,
            connector: connector(certificate)?,
        })
    }

    pub(crate) async fn accept(&self, listener: &TcpListener) -> Result<server::TlsStream<TcpStream>> {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        Ok(self.acceptor.accept(stream).await?)
    }

    pub(crate) async fn connect(&self, address: SocketAddr) -> Result<client::TlsStream<TcpStream>> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(self.connector.connect(ServerName::try_from(NAME)?, stream).await?)
    }
}

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
