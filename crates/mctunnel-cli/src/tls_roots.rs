//! Whom this program trusts when it is a client itself: the CAs of a file, or those of the system.

use mctunnel::ErrorCode;
use rustls::{ClientConfig, RootCertStore, crypto::aws_lc_rs};
use rustls_pki_types::{CertificateDer, pem::PemObject};
use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

/// A client's side of TLS without a certificate of its own.
pub(crate) fn client_config(ca: Option<&Path>) -> Result<Arc<ClientConfig>, NoRoots> {
    let roots = match ca {
        Some(path) => given(path).map_err(|reason| NoRoots { path: Some(path.to_owned()), reason })?,
        None => system().map_err(|reason| NoRoots { path: None, reason })?,
    };
    let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| NoRoots { path: None, reason: error.to_string() })?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(Arc::new(config))
}

fn given(path: &Path) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    for authority in CertificateDer::pem_file_iter(path).map_err(|error| error.to_string())? {
        let authority = authority.map_err(|error| error.to_string())?;
        roots.add(authority).map_err(|error| error.to_string())?;
    }
    if roots.is_empty() { Err("it has no certificate".to_owned()) } else { Ok(roots) }
}

fn system() -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() { Err("this system has none".to_owned()) } else { Ok(roots) }
}

/// There is nobody to trust.
#[derive(Debug, thiserror::Error)]
#[error("the CA certificates{} cannot be used: {reason}", path.as_ref().map(|path| format!(" in {}", path.display())).unwrap_or_default())]
pub(crate) struct NoRoots {
    path: Option<PathBuf>,
    reason: String,
}

impl NoRoots {
    pub(crate) fn code(&self) -> ErrorCode {
        ErrorCode { code: "MCT-TLS-CA-FILE", remedy: "give a file with PEM certificates that this user may read" }
    }
}
