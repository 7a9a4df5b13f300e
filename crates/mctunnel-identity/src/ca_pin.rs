//! The pin of a CA: the SHA-256 of its key. It names a CA in join tokens and in records, and is all an agent needs to know one.

use crate::{IdentityError, certificate};
use rustls_pki_types::CertificateDer;
use sha2::{Digest, Sha256};
use std::{fmt, fs, path::Path};

/// SHA-256 of a CA's SubjectPublicKeyInfo.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct CaPin([u8; 32]);

impl CaPin {
    /// The pin of a certificate's key; `Err` says why it is not a certificate.
    pub fn of(certificate: &CertificateDer<'_>) -> Result<Self, String> {
        Ok(Self::of_spki(certificate::parse(certificate)?.public_key().raw))
    }

    /// The pins of the CAs in a PEM file, at least one: any of them may be the hub's. What is not a CA is refused.
    pub fn read(path: &Path) -> Result<Vec<Self>, IdentityError> {
        let text = fs::read_to_string(path).map_err(IdentityError::file("read", path))?;
        let unusable = |reason: String| IdentityError::HubCaUnusable { path: path.to_owned(), reason };
        let authorities = certificate::authorities_from_pem(&text).map_err(unusable)?;
        authorities.iter().map(|authority| Self::of(authority).map_err(unusable)).collect()
    }

    pub(crate) fn of_spki(spki: &[u8]) -> Self {
        Self(Sha256::digest(spki).into())
    }

    /// Reads what [`CaPin`] prints: 64 lower-case hex digits.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Some(Self(from_hex(text)?))
    }

    pub(crate) const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    pub(crate) const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Display for CaPin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&to_hex(&self.0))
    }
}

impl fmt::Debug for CaPin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

pub(crate) fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Exactly `N` bytes of lower-case hex; another spelling of the same bytes is refused.
pub(crate) fn from_hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    if text.len() != 2 * N {
        return None;
    }
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().as_chunks::<2>().0) {
        let [high, low] = *pair;
        *byte = digit(high)? << 4 | digit(low)?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hex_has_one_spelling() {
        assert_eq!(from_hex::<2>("0aff"), Some([0x0a, 0xff]));
        assert_eq!(to_hex(&[0x0a, 0xff]), "0aff");
        for bad in ["", "0aF0", "0AFF", "0af", "0aff0", "0aff00", " 0aff", "0x0a", "+a+f", "é0a"] {
            assert_eq!(from_hex::<2>(bad), None, "{bad:?}");
        }
    }
}
