//! From a verified client certificate to the cluster it stands for. It trusts the chain: TLS has checked it before.

use crate::{IdentityError, certificate};
use mctunnel_core::ClusterName;
use rustls_pki_types::CertificateDer;
use x509_parser::extensions::GeneralName;

/// Which cluster's agent a peer is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentIdentity {
    /// The cluster.
    pub cluster: ClusterName,
    /// The certificate's serial number, lower-case hex.
    pub serial: String,
    /// When the certificate ends, in seconds since 1970.
    pub not_after_unix: i64,
}

impl AgentIdentity {
    /// Reads the identity from the certificates a peer showed, the first of which is its own.
    ///
    /// The certificate must have exactly one subject alternative name, the URI `spiffe://mctunnel/cluster/NAME`, byte for
    /// byte. The subject, other kinds of names and other spellings never make an identity; a second name refuses it.
    pub fn from_certificates(certificates: &[CertificateDer<'_>]) -> Result<Self, IdentityError> {
        let leaf = certificates.first().ok_or_else(|| not_an_agent("none was shown"))?;
        let leaf = certificate::parse(leaf).map_err(IdentityError::NotAnAgent)?;
        let names = certificate::subject_alternative_names(&leaf).map_err(IdentityError::NotAnAgent)?;
        let [GeneralName::URI(uri)] = names.as_slice() else {
            return Err(not_an_agent("it must have exactly one subject alternative name, a URI"));
        };
        Ok(Self {
            cluster: parse_uri(uri)?,
            serial: certificate::serial_text(leaf.raw_serial()),
            not_after_unix: leaf.validity().not_after.timestamp(),
        })
    }
}

/// The URI that stands for a cluster.
pub(crate) fn cluster_uri(cluster: &ClusterName) -> String {
    format!("{URI_PREFIX}{cluster}")
}

/// The cluster that a URI stands for.
pub(crate) fn parse_uri(uri: &str) -> Result<ClusterName, IdentityError> {
    uri.strip_prefix(URI_PREFIX)
        .and_then(|name| ClusterName::parse(name).ok())
        .ok_or_else(|| not_an_agent("its URI is not of the form spiffe://mctunnel/cluster/NAME"))
}

fn not_an_agent(reason: &str) -> IdentityError {
    IdentityError::NotAnAgent(reason.to_owned())
}

const URI_PREFIX: &str = "spiffe://mctunnel/cluster/";
