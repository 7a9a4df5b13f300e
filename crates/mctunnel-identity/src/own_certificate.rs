//! An agent's certificate that the operator's own CA issued and somebody else keeps current, in files.

use crate::{AgentIdentity, HUB_SERVER_NAME, IdentityError, JoinBundle, certificate, private_file};
use mctunnel_core::Secret;
use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

/// Where the parts are.
#[derive(Debug, Clone)]
pub struct OwnCertificate {
    /// The certificate, and behind it what leads to the CA, as PEM.
    pub certificate: PathBuf,
    /// Its key, as PEM. Others than owner and group must not be able to read it.
    pub key: PathBuf,
    /// The CAs of the hub, as PEM: `pki/ca.pem` of its data directory.
    pub hub_ca: PathBuf,
    /// Where the hub listens for tunnels, `host:port`.
    pub hub: String,
}

/// How the files look from outside: another look means that somebody changed them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilesStamp(Vec<Option<(u64, u64, i64, i64)>>);

impl OwnCertificate {
    /// Reads the files as one would a join bundle: which cluster it is, the certificate says.
    pub fn read(&self) -> Result<JoinBundle, IdentityError> {
        let text = |path: &Path| fs::read_to_string(path).map_err(IdentityError::file("read", path));
        let certificate_pem = text(&self.certificate)?;
        let shown = certificate::from_pem(&certificate_pem).map_err(IdentityError::BundleInvalid)?;
        let bundle = JoinBundle {
            version: JoinBundle::VERSION,
            cluster: AgentIdentity::from_certificates(&shown)?.cluster,
            hub: self.hub.clone(),
            hub_server_name: HUB_SERVER_NAME.to_owned(),
            ca_pem: text(&self.hub_ca)?,
            certificate_pem,
            key_pem: Secret::new(private_file::read(&self.key, private_file::OTHERS)?),
        };
        bundle.check(crate::clock::unix_now())?;
        Ok(bundle)
    }

    /// How the files look.
    #[must_use]
    pub fn stamp(&self) -> FilesStamp {
        let look = |path: &PathBuf| {
            let metadata = fs::metadata(path).ok()?;
            Some((metadata.ino(), metadata.len(), metadata.mtime(), metadata.mtime_nsec()))
        };
        FilesStamp([&self.certificate, &self.key, &self.hub_ca].into_iter().map(look).collect())
    }
}
