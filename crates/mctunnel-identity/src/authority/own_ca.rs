//! The operator's own CA for agents: a PEM file that somebody else keeps.

use crate::{IdentityError, certificate, tls};
use rustls::server::danger::ClientCertVerifier;
use rustls_pki_types::{CertificateDer, UnixTime};
use std::{fs, path::Path, sync::Arc};

/// The operator's own CAs, at least one.
pub(super) struct OwnCas {
    pub(super) certificates: Arc<[CertificateDer<'static>]>,
    /// Verifies by these alone.
    verifier: Arc<dyn ClientCertVerifier>,
}

impl OwnCas {
    /// Whether a chain leads to one of them, at that time.
    pub(super) fn vouch_for(&self, chain: &[CertificateDer<'_>], at: UnixTime) -> bool {
        leads(&*self.verifier, chain, at)
    }
}

/// Whether the verifier takes a chain, the first of which is the bearer's own certificate.
pub(super) fn leads(verifier: &dyn ClientCertVerifier, chain: &[CertificateDer<'_>], at: UnixTime) -> bool {
    chain.split_first().is_some_and(|(leaf, others)| verifier.verify_client_cert(leaf, others, at).is_ok())
}

/// The CAs in the file; what is not a CA is refused.
pub(super) fn read(path: &Path) -> Result<OwnCas, IdentityError> {
    let text = fs::read_to_string(path).map_err(IdentityError::file("read", path))?;
    let unusable = |reason: String| IdentityError::AgentCaUnusable { path: path.to_owned(), reason };
    let certificates = certificate::authorities_from_pem(&text).map_err(unusable)?;
    let verifier = tls::agent_verifier(certificates.iter().cloned())?;
    Ok(OwnCas { certificates: certificates.into(), verifier })
}
