//! The TLS configurations of hub, agent and gateway. Tunnels speak TLS 1.3 and `h2` only. All name their crypto provider
//! themselves: a process-wide default set by somebody else has no say here.

mod pinned;

use crate::{
    CaPin, IdentityError,
    clock::{SharedClock, TlsClock},
};
use rustls::{
    ClientConfig, RootCertStore, ServerConfig,
    client::Resumption,
    crypto::{CryptoProvider, aws_lc_rs},
    server::{
        ClientHello, NoServerSessionStorage, ResolvesServerCert, WebPkiClientVerifier, danger::ClientCertVerifier,
    },
    sign::CertifiedKey,
    version::{TLS12, TLS13},
};
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use std::{fmt, sync::Arc};

/// The protocol, in the sense of ALPN, of agents that have no certificate yet.
pub const ENROL_ALPN: &[u8] = b"mctunnel-enrol";

/// A certificate chain with its key, ready to be shown.
pub(crate) fn certified(
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
) -> Result<Arc<CertifiedKey>, IdentityError> {
    let certified = CertifiedKey::from_der(chain, key, &provider());
    certified.map(Arc::new).map_err(IdentityError::crypto("use the hub's certificate"))
}

/// Takes agents whose certificates lead to one of `authorities`.
pub(crate) fn agent_verifier(
    authorities: impl IntoIterator<Item = CertificateDer<'static>>,
) -> Result<Arc<dyn ClientCertVerifier>, IdentityError> {
    WebPkiClientVerifier::builder_with_provider(Arc::new(roots(authorities)?), provider())
        .build()
        .map_err(IdentityError::crypto("verify agents against the hub's CA"))
}

/// The hub's side: clients must show a certificate that `verifier` takes.
pub(crate) fn server(
    verifier: Arc<dyn ClientCertVerifier>,
    certified: Arc<CertifiedKey>,
    clock: &SharedClock,
) -> Result<Arc<ServerConfig>, IdentityError> {
    let config = ServerConfig::builder_with_details(provider(), Arc::new(TlsClock(Arc::clone(clock))))
        .with_protocol_versions(&[&TLS13])
        .map_err(IdentityError::crypto("offer TLS 1.3"))?
        .with_client_cert_verifier(verifier)
        .with_cert_resolver(Arc::new(OnlyWithAlpn(certified)));
    Ok(without_memory(config, ALPN))
}

/// The hub's side for agents that have no certificate yet. It is not h2, so that no tunnel can be meant.
pub(crate) fn enrol_server(
    certified: Arc<CertifiedKey>,
    clock: &SharedClock,
) -> Result<Arc<ServerConfig>, IdentityError> {
    let config = ServerConfig::builder_with_details(provider(), Arc::new(TlsClock(Arc::clone(clock))))
        .with_protocol_versions(&[&TLS13])
        .map_err(IdentityError::crypto("offer TLS 1.3"))?
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(OnlyWithAlpn(certified)));
    Ok(without_memory(config, ENROL_ALPN))
}

/// Nothing is kept per client after the handshake: no tickets, no session cache, no 0-RTT. An idle agent costs its
/// connection and no more, and a certificate that was taken back cannot live on in a resumed session.
fn without_memory(mut config: ServerConfig, alpn: &[u8]) -> Arc<ServerConfig> {
    config.alpn_protocols = vec![alpn.to_vec()];
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    config.max_early_data_size = 0;
    Arc::new(config)
}

/// The certificate to show at this moment.
pub(crate) trait ShownCertificate: fmt::Debug + Send + Sync + 'static {
    fn shown(&self) -> Arc<CertifiedKey>;
}

/// The gateway's side: any client may connect; who it is, it says in its requests. HTTP/1.1 and HTTP/2.
pub(crate) fn gateway(shown: Arc<dyn ShownCertificate>) -> Result<Arc<ServerConfig>, IdentityError> {
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&TLS13, &TLS12])
        .map_err(IdentityError::crypto("offer TLS 1.3 and 1.2"))?
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(OfTheMoment(shown)));
    config.alpn_protocols = vec![ALPN.to_vec(), b"http/1.1".to_vec()];
    config.max_early_data_size = 0;
    Ok(Arc::new(config))
}

/// The same, for clients that may show a certificate.
pub(crate) fn gateway_for(
    shown: Arc<dyn ShownCertificate>,
    authorities: Vec<CertificateDer<'static>>,
) -> Result<Arc<ServerConfig>, IdentityError> {
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots(authorities)?), provider())
        .allow_unauthenticated()
        .build()
        .map_err(|error| {
            IdentityError::crypto("check clients' certificates")(rustls::Error::General(error.to_string()))
        })?;
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&TLS13, &TLS12])
        .map_err(IdentityError::crypto("offer TLS 1.3 and 1.2"))?
        .with_client_cert_verifier(verifier)
        .with_cert_resolver(Arc::new(OfTheMoment(shown)));
    config.alpn_protocols = vec![ALPN.to_vec(), b"http/1.1".to_vec()];
    config.max_early_data_size = 0;
    // A resumed session would show the certificate of a handshake that may be long ago.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(Arc::new(config))
}

/// The agent's side: the hub must show a certificate of one of `authorities`, which are the only roots.
pub(crate) fn client(
    authorities: Vec<CertificateDer<'static>>,
    certificates: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
    clock: &SharedClock,
) -> Result<Arc<ClientConfig>, IdentityError> {
    let mut config = ClientConfig::builder_with_details(provider(), Arc::new(TlsClock(Arc::clone(clock))))
        .with_protocol_versions(&[&TLS13])
        .map_err(IdentityError::crypto("offer TLS 1.3"))?
        .with_root_certificates(roots(authorities)?)
        .with_client_auth_cert(certificates, key)
        .map_err(IdentityError::crypto("use the agent's certificate with its key"))?;
    config.alpn_protocols = vec![ALPN.to_vec()];
    config.resumption = Resumption::disabled();
    Ok(Arc::new(config))
}

/// The side of an agent that has no certificate yet: the hub must show a chain to a CA with one of these pins.
pub(crate) fn enrol_client(pins: &[CaPin], clock: &SharedClock) -> Result<Arc<ClientConfig>, IdentityError> {
    let provider = provider();
    let verifier = pinned::PinnedCa::new(pins.to_vec(), Arc::clone(&provider));
    let mut config = ClientConfig::builder_with_details(provider, Arc::new(TlsClock(Arc::clone(clock))))
        .with_protocol_versions(&[&TLS13])
        .map_err(IdentityError::crypto("offer TLS 1.3"))?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth();
    config.alpn_protocols = vec![ENROL_ALPN.to_vec()];
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

#[derive(Debug)]
struct OfTheMoment(Arc<dyn ShownCertificate>);

impl ResolvesServerCert for OfTheMoment {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.shown())
    }
}
