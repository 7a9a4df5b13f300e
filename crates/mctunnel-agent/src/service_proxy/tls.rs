//! TLS towards targets: one configuration for each set of roots, and the one that believes anybody, for targets named one by one.

use super::Speak;
use mctunnel_core::{ExpectedPeer, Roots};
use parking_lot::Mutex;
use rustls::{
    ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature},
};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime, pem::PemObject};
use std::{collections::BTreeMap, io, sync::Arc};
use tokio::net::TcpStream;
use tokio_rustls::{TlsConnector, client::TlsStream};

/// TLS configurations that were made before.
#[derive(Default)]
pub(super) struct TlsConfigs(Mutex<BTreeMap<(Roots, Speak), Arc<ClientConfig>>>);

impl TlsConfigs {
    /// Makes TLS with whoever is expected.
    pub(super) async fn connect(
        &self,
        socket: TcpStream,
        peer: &ExpectedPeer,
        speak: Speak,
    ) -> io::Result<TlsStream<TcpStream>> {
        let config = self.config(&peer.roots, speak)?;
        let name = ServerName::try_from(peer.name.clone()).map_err(io::Error::other)?;
        TlsConnector::from(config).connect(name, socket).await
    }

    fn config(&self, roots: &Roots, speak: Speak) -> io::Result<Arc<ClientConfig>> {
        let key = (roots.clone(), speak);
        if let Some(config) = self.0.lock().get(&key) {
            return Ok(Arc::clone(config));
        }
        let config = make(roots, speak)?;
        let mut configs = self.0.lock();
        if configs.len() >= MOST_CONFIGS {
            // Roots change when somebody rotates them; the old ones are not needed again.
            configs.clear();
        }
        configs.insert(key, Arc::clone(&config));
        Ok(config)
    }
}

const MOST_CONFIGS: usize = 64;

fn make(roots: &Roots, speak: Speak) -> io::Result<Arc<ClientConfig>> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?;
    let mut config = match roots {
        Roots::Pem(pem) => builder.with_root_certificates(read_roots(pem)?).with_no_client_auth(),
        Roots::Unchecked => {
            builder.dangerous().with_custom_certificate_verifier(Arc::new(Unchecked(provider))).with_no_client_auth()
        }
    };
    config.alpn_protocols = match speak {
        Speak::Http1 => vec![b"http/1.1".to_vec()],
        Speak::Http2 => vec![b"h2".to_vec()],
    };
    Ok(Arc::new(config))
}

fn read_roots(pem: &str) -> io::Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
        roots.add(certificate.map_err(io::Error::other)?).map_err(io::Error::other)?;
    }
    if roots.is_empty() {
        return Err(io::Error::other("the bundle of CA certificates has none"));
    }
    Ok(roots)
}

/// Believes whoever answers, but still checks that it holds the key it shows.
#[derive(Debug)]
struct Unchecked(Arc<CryptoProvider>);

impl ServerCertVerifier for Unchecked {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
