//! The TLS configurations of hub, agent and gateway. Tunnels speak TLS 1.3 and `h2` only. All name their crypto provider
//! themselves: a process-wide default set by somebody else has no say here.

use crate::IdentityError;
use rustls::{
    ClientConfig, RootCertStore, ServerConfig,
    client::Resumption,
    crypto::{CryptoProvider, aws_lc_rs},
    server::{ClientHello, NoServerSessionStorage, ResolvesServerCert, WebPkiClientVerifier},
    sign::CertifiedKey,
    version::{TLS12, TLS13},
};
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use std::sync::Arc;

/// The hub's side: clients must show a certificate of `ca`.
///
/// Nothing is kept per client after the handshake: no tickets, no session cache, no 0-RTT. An idle agent costs its
/// connection and no more, and a certificate that was taken back cannot live on in a resumed session.
pub(crate) fn server(
    ca: CertificateDer<'static>,
    certificate: CertificateDer<'static>,
    key: PrivateKeyDer<'static>,
) -> Result<Arc<ServerConfig>, IdentityError> {
    let provider = provider();
    let certified = CertifiedKey::from_der(vec![certificate], key, &provider)
        .map_err(IdentityError::crypto("use the hub's certificate"))?;
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots([ca])?), Arc::clone(&provider))
        .build()
        .map_err(IdentityError::crypto("verify agents against the hub's CA"))?;
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13])
        .map_err(IdentityError::crypto("offer TLS 1.3"))?
        .with_client_cert_verifier(verifier)
        .with_cert_resolver(Arc::new(OnlyWithAlpn(Arc::new(certified))));
    config.alpn_protocols = vec![ALPN.to_vec()];
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    config.max_early_data_size = 0;
    Ok(Arc::new(config))
}

/// The gateway's side: any client may connect; who it is, it says in its requests. HTTP/1.1 and HTTP/2.
pub(crate) fn gateway(
    certificate: CertificateDer<'static>,
    key: PrivateKeyDer<'static>,
) -> Result<Arc<ServerConfig>, IdentityError> {
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&TLS13, &TLS12])
        .map_err(IdentityError::crypto("offer TLS 1.3 and 1.2"))?
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .map_err(IdentityError::crypto("use the hub's certificate"))?;
    config.alpn_protocols = vec![ALPN.to_vec(), b"http/1.1".to_vec()];
    config.max_early_data_size = 0;
    Ok(Arc::new(config))
}

/// The agent's side: the hub must show a certificate of one of `authorities`, which are the only roots.
pub(crate) fn client(
    authorities: Vec<CertificateDer<'static>>,
    certificates: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
) -> Result<Arc<ClientConfig>, IdentityError> {
    let mut config = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&TLS13])
        .map_err(IdentityError::crypto("offer TLS 1.3"))?
        .with_root_certificates(roots(authorities)?)
        .with_client_auth_cert(certificates, key)
        .map_err(IdentityError::crypto("use the agent's certificate with its key"))?;
    config.alpn_protocols = vec![ALPN.to_vec()];
    config.resumption = Resumption::disabled();
    Ok(Arc::new(config))
}

/// Random bytes from the provider.
pub(crate) fn random<const N: usize>() -> Result<[u8; N], IdentityError> {
    let mut bytes = [0; N];
    provider()
        .secure_random
        .fill(&mut bytes)
        .map_err(rustls::Error::from)
        .map_err(IdentityError::crypto("make random bytes"))?;
    Ok(bytes)
}

const ALPN: &[u8] = b"h2";

fn provider() -> Arc<CryptoProvider> {
    Arc::new(aws_lc_rs::default_provider())
}

fn roots(authorities: impl IntoIterator<Item = CertificateDer<'static>>) -> Result<RootCertStore, IdentityError> {
    let mut roots = RootCertStore::empty();
    for authority in authorities {
        roots.add(authority).map_err(IdentityError::crypto("use the CA certificate"))?;
    }
    Ok(roots)
}

/// Shows the certificate only to clients that ask for a protocol by ALPN.
///
/// rustls refuses a client that asks for other protocols than ours, but lets in one that asks for none.
#[derive(Debug)]
struct OnlyWithAlpn(Arc<CertifiedKey>);

impl ResolvesServerCert for OnlyWithAlpn {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        hello.alpn().is_some().then(|| Arc::clone(&self.0))
    }
}
