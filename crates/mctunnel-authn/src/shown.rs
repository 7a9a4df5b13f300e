//! From what a client showed to the one credential that counts. Two different ones are never weighed against each other: which one
//! is meant must not be guessed, or the one that is checked is not the one that is used.

use crate::{
    digest::{self, Digest},
    oidc::jwt::Unverified,
};
use mctunnel_core::{Authorization, ClientCertificate, Evidence, Unauthenticated};
use std::{fmt, net::SocketAddr, sync::OnceLock};

/// A longer token is not looked at.
pub(crate) const LONGEST_TOKEN: usize = 16 * 1024;

/// The one credential of a request.
#[derive(Debug)]
pub struct Shown<'a> {
    /// What it is.
    pub credential: Credential<'a>,
    /// Where the connection comes from.
    pub peer: Option<SocketAddr>,
}

/// A credential, by its form.
#[derive(Debug)]
pub enum Credential<'a> {
    /// A bearer token.
    Bearer(Bearer<'a>),
    /// The certificate of the TLS connection.
    Certificate(&'a ClientCertificate),
    /// The word of a front proxy about its own client.
    Forwarded {
        /// The certificate of the connection, which must be the front proxy's.
        certificate: &'a ClientCertificate,
        /// The fields it wrote, names in lower case.
        fields: &'a [(String, String)],
    },
}

impl<'a> Shown<'a> {
    /// Sorts out what was shown; an error if it is nothing, or more than one thing.
    pub fn of(evidence: &'a Evidence) -> Result<Self, Unauthenticated> {
        let conflict = |what: &str| Err(Unauthenticated::Conflict(what.to_owned()));
        let credential = match (&evidence.authorization, &evidence.certificate, evidence.forwarded.as_slice()) {
            (None, None, []) => return Err(Unauthenticated::Rejected("no credential was shown".to_owned())),
            (Some(_), Some(_), _) => {
                return conflict("a client certificate and an Authorization field were shown: use one");
            }
            (Some(_), None, [_, ..]) => {
                return conflict("an Authorization field and the fields of a front proxy were shown: use one");
            }
            (None, None, [_, ..]) => return conflict(NOT_A_FRONT_PROXY),
            (Some(authorization), None, []) => Credential::Bearer(Bearer::of(authorization)?),
            (None, Some(certificate), []) => Credential::Certificate(certificate),
            (None, Some(certificate), fields) => Credential::Forwarded { certificate, fields },
        };
        Ok(Self { credential, peer: evidence.peer })
    }

    /// The token, if it is one.
    #[must_use]
    pub fn bearer(&self) -> Option<&Bearer<'a>> {
        match &self.credential {
            Credential::Bearer(bearer) => Some(bearer),
            Credential::Certificate(_) | Credential::Forwarded { .. } => None,
        }
    }
}

pub(crate) const NOT_A_FRONT_PROXY: &str = "the fields of a front proxy were shown without its certificate";

// === Bearer ===

/// A bearer token. Never prints.
pub struct Bearer<'a> {
    token: &'a str,
    /// Of which the token is a part.
    shown: &'a Authorization,
    /// Made when somebody asks, once for all providers.
    jwt: OnceLock<Unverified>,
}

impl<'a> Bearer<'a> {
    /// The token itself, for the one place that checks it.
    #[must_use]
    pub fn expose(&self) -> &'a str {
        self.token
    }

    pub(crate) fn digest(&self) -> &Digest {
        self.shown.digest(|| digest::of(self.token.as_bytes()))
    }

    pub(crate) fn jwt(&self) -> &Unverified {
        self.jwt.get_or_init(|| Unverified::parse(self.token))
    }

    /// Reads the value of an `Authorization` field.
    fn of(shown: &'a Authorization) -> Result<Self, Unauthenticated> {
        let rejected = |reason: &str| Err(Unauthenticated::Rejected(reason.to_owned()));
        let (scheme, token) = shown.expose().split_once(' ').unwrap_or_default();
        if !scheme.eq_ignore_ascii_case("bearer") {
            return rejected("the Authorization field is not of the form 'Bearer TOKEN'; Basic is not taken");
        }
        let token = token.trim_matches(' ');
        if token.len() > LONGEST_TOKEN {
            return rejected("the bearer token is longer than 16 KiB");
        }
        if token.is_empty() || !shown.is_well_formed(|| are_token_bytes(token)) {
            return rejected("the bearer token is empty, or has bytes that no token has");
        }
        Ok(Self { token, shown, jwt: OnceLock::new() })
    }
}

/// To the end of it though the first bad byte would do: so it is many bytes at a time, and tokens are long.
fn are_token_bytes(token: &str) -> bool {
    token.bytes().fold(true, |are, byte| are & is_token_byte(byte))
}

/// What RFC 6750 lets a token have.
fn is_token_byte(byte: u8) -> bool {
    matches!(byte, b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'+' | b'/' | b'=')
}

impl fmt::Debug for Bearer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bearer(value: &str) -> Result<String, String> {
        let value = Authorization::new(value);
        let bearer = Bearer::of(&value).map(|bearer| bearer.expose().to_owned());
        bearer.map_err(|error| {
            assert!(matches!(error, Unauthenticated::Rejected(_)), "{error:?}");
            error.to_string()
        })
    }

    #[test]
    fn t31_only_bearer_tokens_are_taken_from_authorization() {
        for (good, token) in [("Bearer abc", "abc"), ("bearer a.b-c_d~e+f/g==", "a.b-c_d~e+f/g=="), ("BEARER  x ", "x")]
        {
            assert_eq!(bearer(good).as_deref(), Ok(token), "{good}");
        }
        let all = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~+/=";
        for token in all.chars().map(String::from).chain(["a".repeat(LONGEST_TOKEN)]) {
            assert_eq!(bearer(&format!("Bearer {token}")), Ok(token));
        }
        for other in (0..=0x7f_u8).map(char::from).filter(|other| !all.contains(*other)) {
            assert!(bearer(&format!("Bearer a{other}b")).is_err(), "{other:?}");
        }
        let long = format!("Bearer {}", "a".repeat(LONGEST_TOKEN + 1));
        for bad in [
            "",
            "Bearer",
            "Bearer ",
            "Basic YTpi",
            "basic YTpi",
            "Digest x",
            "Negotiate x",
            "abc",
            "Bearer\tabc",
            "Bearer a b",
            "Bearer a,Bearer b",
            "Bearer a\u{e9}",
            "Bearer a\nb",
            "BearerX abc",
            &long,
        ] {
            assert!(bearer(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn t36_no_message_and_no_debug_output_has_the_token() {
        for value in ["Bearer canary", "Basic canary", "canary", "Bearer canary\u{e9}"] {
            let value = Authorization::new(value);
            match Bearer::of(&value) {
                Ok(bearer) => assert_eq!(format!("{bearer:?}"), "***"),
                Err(error) => assert!(!format!("{error} {error:?}").contains("canary")),
            }
        }
    }
}
