//! The operator's own CA for agents: a PEM file that somebody else keeps.

use crate::{IdentityError, certificate};
use rustls_pki_types::CertificateDer;
use std::{fs, path::Path};

/// The CAs in the file, at least one; what is not a CA is refused.
pub(super) fn read(path: &Path) -> Result<Vec<CertificateDer<'static>>, IdentityError> {
    let text = fs::read_to_string(path).map_err(IdentityError::file("read", path))?;
    let unusable = |reason: String| IdentityError::AgentCaUnusable { path: path.to_owned(), reason };
    let authorities = certificate::from_pem(&text).map_err(unusable)?;
    for authority in &authorities {
        if !certificate::parse(authority).map_err(unusable)?.is_ca() {
            return Err(unusable("it has a certificate that is not of a CA".to_owned()));
        }
    }
    Ok(authorities)
}
