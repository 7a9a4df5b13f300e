//! The operator's own CA for agents: a PEM file that somebody else keeps.

use crate::{IdentityError, certificate};
use rustls_pki_types::CertificateDer;
use std::{fs, path::Path};

/// The CAs in the file, at least one; what is not a CA is refused.
pub(super) fn read(path: &Path) -> Result<Vec<CertificateDer<'static>>, IdentityError> {
    let text = fs::read_to_string(path).map_err(IdentityError::file("read", path))?;
    let unusable = |reason: String| IdentityError::AgentCaUnusable { path: path.to_owned(), reason };
    certificate::authorities_from_pem(&text).map_err(unusable)
}
