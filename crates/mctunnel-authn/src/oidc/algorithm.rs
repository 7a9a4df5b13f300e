//! The algorithms a token may be signed with: asymmetric ones only, so that a public key is never a secret somebody shares.

use jsonwebtoken::Algorithm;

/// An algorithm of signatures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SigningAlgorithm {
    /// RSA with PKCS #1 v1.5 padding and SHA-256.
    Rs256,
    /// RSA with PKCS #1 v1.5 padding and SHA-384.
    Rs384,
    /// RSA with PKCS #1 v1.5 padding and SHA-512.
    Rs512,
    /// RSA with PSS padding and SHA-256.
    Ps256,
    /// RSA with PSS padding and SHA-384.
    Ps384,
    /// RSA with PSS padding and SHA-512.
    Ps512,
    /// ECDSA on P-256 with SHA-256.
    Es256,
    /// ECDSA on P-384 with SHA-384.
    Es384,
    /// Ed25519.
    EdDsa,
}

impl SigningAlgorithm {
    /// Reads its name as tokens spell it, such as `RS256`.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(one, ..)| *one == name).map(|(_, algorithm, _)| *algorithm)
    }

    /// Its name as tokens spell it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        Self::ALL.iter().find(|(_, one, _)| *one == self).map_or("", |(name, ..)| name)
    }

    pub(crate) fn is_rsa(self) -> bool {
        match self {
            Self::Rs256 | Self::Rs384 | Self::Rs512 | Self::Ps256 | Self::Ps384 | Self::Ps512 => true,
            Self::Es256 | Self::Es384 | Self::EdDsa => false,
        }
    }

    pub(crate) fn to_library(self) -> Option<Algorithm> {
        Self::ALL.iter().find(|(_, one, _)| *one == self).map(|(.., library)| *library)
    }

    const ALL: [(&'static str, Self, Algorithm); 9] = [
        ("RS256", Self::Rs256, Algorithm::RS256),
        ("RS384", Self::Rs384, Algorithm::RS384),
        ("RS512", Self::Rs512, Algorithm::RS512),
        ("PS256", Self::Ps256, Algorithm::PS256),
        ("PS384", Self::Ps384, Algorithm::PS384),
        ("PS512", Self::Ps512, Algorithm::PS512),
        ("ES256", Self::Es256, Algorithm::ES256),
        ("ES384", Self::Es384, Algorithm::ES384),
        ("EdDSA", Self::EdDsa, Algorithm::EdDSA),
    ];
}
