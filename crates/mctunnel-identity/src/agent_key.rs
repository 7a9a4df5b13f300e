//! The key of an agent: made by it, kept by it, never sent. What it sends is a request to sign the key.

use crate::{IdentityError, agent_identity::cluster_uri};
use mctunnel_core::{ClusterName, Secret};
use rcgen::{CertificateParams, DistinguishedName, KeyPair, PKCS_ECDSA_P256_SHA256, SanType};
use std::fmt;

/// A private key of an agent.
pub struct AgentKey(KeyPair);

impl AgentKey {
    /// Makes a new ECDSA P-256 key.
    pub fn generate() -> Result<Self, IdentityError> {
        KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).map(Self).map_err(IdentityError::crypto("make a key"))
    }

    pub(crate) fn from_pem(pem: &Secret) -> Option<Self> {
        KeyPair::from_pem(pem.expose()).ok().map(Self)
    }

    pub(crate) fn to_pem(&self) -> Secret {
        Secret::new(self.0.serialize_pem())
    }

    /// A PKCS #10 request, DER, that asks for this key to be signed and for nothing else; for that cluster if one is named.
    pub fn request(&self, cluster: Option<&ClusterName>) -> Result<Vec<u8>, IdentityError> {
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        if let Some(cluster) = cluster {
            let uri = cluster_uri(cluster).try_into().map_err(IdentityError::crypto("write the agent's URI"))?;
            params.subject_alt_names = vec![SanType::URI(uri)];
        }
        let request = params.serialize_request(&self.0).map_err(IdentityError::crypto("make a certificate request"))?;
        Ok(request.der().to_vec())
    }
}

impl fmt::Debug for AgentKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AgentKey(***)")
    }
}
