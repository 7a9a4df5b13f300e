//! The join token as people paste it: where the hub is, how to know it, and what proves to it that the bearer may enrol.

use crate::{
    CaPin, IdentityError,
    ca_pin::{from_hex, to_hex},
    tls,
};
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use mctunnel_core::{Endpoint, Secret};
use sha2::{Digest, Sha256};
use std::fmt;

/// What every token begins with, so that it is known when it turns up where it should not.
pub const TOKEN_PREFIX: &str = "mctj_";

const VERSION: u8 = 1;
const CHECKSUM: usize = 4;

// === JoinToken ===

/// A join token. It prints as its id; [`JoinToken::text`] is the token itself.
#[derive(Clone, PartialEq, Eq)]
pub struct JoinToken {
    /// Names the token to the hub; not secret.
    pub id: TokenId,
    /// Proves it.
    pub secret: TokenSecret,
    /// The hub's CA.
    pub pin: CaPin,
    /// Where the hub listens for tunnels, `host:port`.
    pub hub: String,
}

impl JoinToken {
    /// Reads a token. Whatever is wrong with it, the error does not show it.
    pub fn parse(text: &str) -> Result<Self, IdentityError> {
        let invalid = IdentityError::TokenInvalid;
        let text = text.trim();
        let encoded = text.strip_prefix(TOKEN_PREFIX).ok_or_else(|| invalid("it does not begin with mctj_"))?;
        let bytes = URL_SAFE_NO_PAD.decode(encoded).map_err(|_| invalid("it has a character that no token has"))?;
        let (content, sum) = bytes.split_last_chunk::<CHECKSUM>().ok_or_else(|| invalid("it is too short"))?;
        if checksum(content) != *sum {
            return Err(invalid("a part of it is missing or was changed"));
        }
        let (&[version], rest) = content.split_first_chunk::<1>().ok_or_else(|| invalid("it is too short"))?;
        if version != VERSION {
            return Err(invalid("it is of a version that this program does not know"));
        }
        let (id, rest) = rest.split_first_chunk::<8>().ok_or_else(|| invalid("it is too short"))?;
        let (secret, rest) = rest.split_first_chunk::<32>().ok_or_else(|| invalid("it is too short"))?;
        let (pin, hub) = rest.split_first_chunk::<32>().ok_or_else(|| invalid("it is too short"))?;
        let hub = std::str::from_utf8(hub).map_err(|_| invalid("the hub's address in it is not text"))?;
        Endpoint::parse(hub).map_err(|_| invalid("the hub's address in it is not HOST:PORT"))?;
        Ok(Self { id: TokenId(*id), secret: TokenSecret(*secret), pin: CaPin::from_bytes(*pin), hub: hub.to_owned() })
    }

    /// The token itself.
    #[must_use]
    pub fn text(&self) -> Secret {
        let mut bytes = vec![VERSION];
        bytes.extend_from_slice(&self.id.0);
        bytes.extend_from_slice(&self.secret.0);
        bytes.extend_from_slice(self.pin.as_bytes());
        bytes.extend_from_slice(self.hub.as_bytes());
        bytes.extend_from_slice(&checksum(&bytes));
        Secret::new(format!("{TOKEN_PREFIX}{}", URL_SAFE_NO_PAD.encode(bytes)))
    }
}

impl fmt::Debug for JoinToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinToken").field("id", &self.id).field("hub", &self.hub).finish_non_exhaustive()
    }
}

/// Tells a token that was cut or mistyped from one that a hub refuses. It keeps nobody out.
fn checksum(content: &[u8]) -> [u8; CHECKSUM] {
    let [a, b, c, d, ..]: [u8; 32] = Sha256::digest(content).into();
    [a, b, c, d]
}

// === TokenId ===

/// Names a join token; not secret.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct TokenId([u8; 8]);

impl TokenId {
    /// A new id.
    pub fn random() -> Result<Self, IdentityError> {
        Ok(Self(tls::random()?))
    }

    /// Reads what it prints: 16 lower-case hex digits.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Some(Self(from_hex(text)?))
    }

    /// The id of exactly these bytes, if it can be one.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        Some(Self(bytes.try_into().ok()?))
    }

    /// Its bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 8] {
        &self.0
    }
}

impl fmt::Display for TokenId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&to_hex(&self.0))
    }
}

impl fmt::Debug for TokenId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

// === TokenSecret ===

/// What proves a join token: 256 random bits. It never prints.
#[derive(Clone, PartialEq, Eq)]
pub struct TokenSecret([u8; 32]);

impl TokenSecret {
    /// A new secret.
    pub fn random() -> Result<Self, IdentityError> {
        Ok(Self(tls::random()?))
    }

    /// The secret of exactly these bytes, if it can be one.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        Some(Self(bytes.try_into().ok()?))
    }

    /// Its bytes, for the one place that sends them where they belong.
    #[must_use]
    pub const fn expose(&self) -> &[u8; 32] {
        &self.0
    }

    /// What a hub keeps of it.
    #[must_use]
    pub fn hash(&self) -> [u8; 32] {
        Sha256::digest(self.0).into()
    }
}

impl fmt::Debug for TokenSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}
