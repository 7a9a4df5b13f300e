//! The join bundle: one JSON file with all an agent needs to reach its hub and prove who it is. It holds a private key.
//!
//! A [`JoinBundle`] that was parsed is consistent: its certificate names its cluster and has not ended.

use crate::{
    AgentIdentity, IdentityError, certificate,
    clock::{SharedClock, SystemClock, unix_now},
    private_file::{self, GROUP_AND_OTHERS, IfExists},
    tls,
};
use mctunnel_core::{ClusterName, Endpoint, Secret};
use rustls_pki_types::{PrivateKeyDer, ServerName, pem::PemObject};
use serde::{Deserialize, Serialize};
use std::{path::Path, sync::Arc};
use time::OffsetDateTime;

/// What an agent needs to join its hub.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JoinBundle {
    /// The version of the format, 1.
    pub version: u32,
    /// Which cluster the agent stands for.
    pub cluster: ClusterName,
    /// Where the hub listens for tunnels, `host:port`.
    pub hub: String,
    /// The name the hub's certificate must have, whatever address it is reached at.
    pub hub_server_name: String,
    /// The hub's CA.
    pub ca_pem: String,
    /// The agent's certificate.
    pub certificate_pem: String,
    /// The key of the agent's certificate.
    pub key_pem: Secret,
}

impl JoinBundle {
    /// The version of the format this program reads and writes.
    pub const VERSION: u32 = 1;

    /// Parses the JSON text and checks that its parts fit together.
    pub fn parse(text: &str) -> Result<Self, IdentityError> {
        let file: BundleFile = serde_json::from_str(text).map_err(|e| invalid(explain(&e)))?;
        file.into_bundle(unix_now())
    }

    /// The bundle as JSON text, key included.
    #[must_use]
    pub fn to_json(&self) -> String {
        let file = BundleFile::from(self);
        #[expect(clippy::expect_used, reason = "a number and six strings always serialise")]
        let mut text = serde_json::to_string_pretty(&file).expect("plain values");
        text.push('\n');
        text
    }

    /// Reads a bundle from a file that nobody but its owner may read.
    pub fn read(path: &Path) -> Result<Self, IdentityError> {
        Self::parse(&private_file::read(path, GROUP_AND_OTHERS)?)
    }

    /// Writes the bundle with mode 0600, whole or not at all; an existing file is replaced only with `overwrite`.
    pub fn write(&self, path: &Path, overwrite: bool) -> Result<(), IdentityError> {
        let if_exists = if overwrite { IfExists::Replace } else { IfExists::Refuse };
        private_file::write(path, &self.to_json(), if_exists)
    }

    /// The agent's TLS configuration: TLS 1.3, ALPN `h2`, this bundle's CA as the only root, and its certificate shown.
    pub fn client_config(&self) -> Result<Arc<rustls::ClientConfig>, IdentityError> {
        let clock: SharedClock = Arc::new(SystemClock);
        self.client_config_at(&clock)
    }

    /// As [`JoinBundle::client_config`], with another clock than the machine's.
    pub fn client_config_at(&self, clock: &SharedClock) -> Result<Arc<rustls::ClientConfig>, IdentityError> {
        let authorities = certificate::from_pem(&self.ca_pem).map_err(|e| invalid(format!("'ca_pem': {e}")))?;
        let certificates =
            certificate::from_pem(&self.certificate_pem).map_err(|e| invalid(format!("'certificate_pem': {e}")))?;
        let key = PrivateKeyDer::from_pem_slice(self.key_pem.expose().as_bytes())
            .map_err(|_| invalid("'key_pem': no private key in it that can be read"))?;
        match tls::client(authorities, certificates, key, clock) {
            Err(IdentityError::Crypto { action, source }) => Err(invalid(format!("cannot {action}: {source}"))),
            config => config,
        }
    }

    /// What the certificate says: whose it is, its serial and its end.
    pub fn certificate(&self) -> Result<AgentIdentity, IdentityError> {
        let shown =
            certificate::from_pem(&self.certificate_pem).map_err(|e| invalid(format!("'certificate_pem': {e}")))?;
        AgentIdentity::from_certificates(&shown).map_err(|e| invalid(format!("'certificate_pem': {e}")))
    }

    pub(crate) fn check(&self, now: i64) -> Result<(), IdentityError> {
        Endpoint::parse(&self.hub).map_err(|e| invalid(format!("'hub': {e}")))?;
        ServerName::try_from(self.hub_server_name.as_str())
            .map_err(|_| invalid("'hub_server_name': neither a DNS name nor an IP address"))?;
        let identity = self.certificate()?;
        if identity.cluster != self.cluster {
            return Err(invalid(format!("its certificate is for {}, not for {}", identity.cluster, self.cluster)));
        }
        if identity.not_after_unix < now {
            return Err(IdentityError::BundleExpired {
                cluster: self.cluster.clone(),
                expired_on: day(identity.not_after_unix),
            });
        }
        // The rest (CA, key, and that the key is the certificate's) is what the configuration itself checks.
        self.client_config().map(drop)
    }
}

/// The format of the file. It is a promise to files already written, so it is not the type the program works with.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct BundleFile {
    version: u32,
    cluster: String,
    hub: String,
    hub_server_name: String,
    ca_pem: String,
    certificate_pem: String,
    key_pem: String,
}

impl From<&JoinBundle> for BundleFile {
    fn from(bundle: &JoinBundle) -> Self {
        Self {
            version: bundle.version,
            cluster: bundle.cluster.to_string(),
            hub: bundle.hub.clone(),
            hub_server_name: bundle.hub_server_name.clone(),
            ca_pem: bundle.ca_pem.clone(),
            certificate_pem: bundle.certificate_pem.clone(),
            key_pem: bundle.key_pem.expose().to_owned(),
        }
    }
}

impl BundleFile {
    /// The cluster it is of, whether or not it counts.
    pub(crate) fn cluster(&self) -> Option<ClusterName> {
        ClusterName::parse(&self.cluster).ok()
    }

    /// The bundle, if its parts fit together and its certificate has not ended.
    pub(crate) fn into_bundle(self, now: i64) -> Result<JoinBundle, IdentityError> {
        if self.version != JoinBundle::VERSION {
            let known = JoinBundle::VERSION;
            return Err(invalid(format!("its version is {}, this program reads {known}", self.version)));
        }
        let bundle = JoinBundle {
            version: self.version,
            cluster: ClusterName::parse(&self.cluster).map_err(|e| invalid(format!("'cluster': {e}")))?,
            hub: self.hub,
            hub_server_name: self.hub_server_name,
            ca_pem: self.ca_pem,
            certificate_pem: self.certificate_pem,
            key_pem: Secret::new(self.key_pem),
        };
        bundle.check(now)?;
        Ok(bundle)
    }
}

/// What serde found, without the values: a key in the wrong place must not end up in a message.
fn explain(error: &serde_json::Error) -> String {
    let text = error.to_string();
    if text.starts_with("invalid") {
        return format!("a value of the wrong kind at line {} column {}", error.line(), error.column());
    }
    text
}

fn invalid(reason: impl Into<String>) -> IdentityError {
    IdentityError::BundleInvalid(reason.into())
}

fn day(unix: i64) -> String {
    OffsetDateTime::from_unix_timestamp(unix)
        .map_or_else(|_| unix.to_string(), |t| format!("{:04}-{:02}-{:02}", t.year(), u8::from(t.month()), t.day()))
}
