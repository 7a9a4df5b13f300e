//! Users by tokens of an OpenID Connect issuer, verified here with the issuer's public keys. One provider is one issuer: its keys,
//! its algorithms and its audiences are its own, and a token of another issuer is not looked at.

pub mod algorithm;
pub mod claims;
pub mod fetch;

pub(crate) mod jwt;
mod key_set;
pub(crate) mod key_source;
mod strict_json;
mod waiting;
#[cfg(test)]
mod wycheproof;

use crate::{
    AuthnError, Clock, Provider, Shown, Verdict, Verifying,
    digest::{self, Digest},
    recent::Recent,
    shown::Bearer,
};
use algorithm::SigningAlgorithm;
use claims::{ClaimRules, Span};
use fetch::{FetchDocument, HttpsFetch, Place};
use jwt::{Jwt, Unverified};
use key_set::Found;
use key_source::{KeySource, Keys, Known, NoKey};
use mctunnel_core::{Unauthenticated, User};
use parking_lot::Mutex;
use std::{net::SocketAddr, sync::Arc};

/// How many verified tokens are remembered.
const ROOM: usize = 16 * 1024;

/// An issuer, and what its tokens must have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OidcSettings {
    /// The issuer's URL, as its tokens have it in `iss`, to the letter.
    pub issuer: String,
    /// The algorithms its tokens may be signed with.
    pub algorithms: Vec<SigningAlgorithm>,
    /// What is expected of claims.
    pub claims: ClaimRules,
    /// The CAs of the issuer's web server, PEM; those of the system if there are none.
    pub ca_pem: Option<Vec<u8>>,
    /// Whether the issuer may be reached without TLS if it is on this machine. For tests.
    pub plain_loopback: bool,
}

/// Knows users by tokens of one issuer.
#[derive(Debug)]
pub struct Oidc {
    name: Arc<str>,
    issuer: String,
    algorithms: Vec<SigningAlgorithm>,
    claims: ClaimRules,
    keys: Arc<KeySource>,
    clock: Clock,
    verified: Mutex<Recent<Digest, Verified>>,
}

/// A token that was verified. It counts again as long as the keys are the same: what a signature says does not change.
#[derive(Debug, Clone)]
struct Verified {
    user: Arc<User>,
    span: Span,
    keys_version: u64,
}

impl Oidc {
    /// A provider for one issuer. Nothing is fetched yet.
    pub fn new(name: &str, settings: OidcSettings, clock: Clock) -> Result<Self, AuthnError> {
        let fetch = HttpsFetch::new(settings.ca_pem.as_deref(), settings.plain_loopback)
            .map_err(|reason| AuthnError::provider(name, reason))?;
        Self::with_fetch(name, settings, clock, Arc::new(fetch))
    }

    /// The same, with another way to get documents.
    pub fn with_fetch(
        name: &str,
        settings: OidcSettings,
        clock: Clock,
        fetch: Arc<dyn FetchDocument>,
    ) -> Result<Self, AuthnError> {
        let keys = Arc::new(KeySource::new(&settings.issuer, settings.plain_loopback, fetch));
        Self::with_keys(name, settings, clock, keys)
    }

    /// The same, with keys that were fetched for the same issuer in the same way.
    pub(crate) fn with_keys(
        name: &str,
        settings: OidcSettings,
        clock: Clock,
        keys: Arc<KeySource>,
    ) -> Result<Self, AuthnError> {
        let OidcSettings { issuer, algorithms, claims, ca_pem: _, plain_loopback } = settings;
        let refuse = |reason: String| AuthnError::provider(name, reason);
        Place::parse(&issuer, plain_loopback).map_err(|reason| refuse(format!("its issuer: {reason}")))?;
        if let Some(problem) = claims.names.problem() {
            return Err(refuse(problem));
        }
        if let Some(problem) = claims.problem_of_facts() {
            return Err(refuse(problem));
        }
        if claims.audiences.is_empty() || claims.audiences.iter().any(String::is_empty) {
            return Err(refuse("say which audience its tokens must have".to_owned()));
        }
        if algorithms.is_empty() || claims.user.is_empty() {
            return Err(refuse("say which algorithms its tokens have, and which claim names the user".to_owned()));
        }
        let verified = Mutex::new(Recent::with_room(ROOM));
        Ok(Self { name: name.into(), issuer, algorithms, claims, keys, clock, verified })
    }

    pub(crate) fn keys(&self) -> &Arc<KeySource> {
        &self.keys
    }

    async fn judge(&self, shown: &Shown<'_>) -> Verdict {
        let Some(bearer) = shown.bearer() else { return Verdict::NotMine };
        if let Some(verdict) = self.remembered(bearer, shown.peer).await {
            return verdict;
        }
        let jwt = match bearer.jwt() {
            Unverified::Opaque => return Verdict::NotMine,
            Unverified::Malformed => return Verdict::rejected("the token is a JWT that cannot be read without doubt"),
            Unverified::Jwt(jwt) if jwt.issuer() != Some(&self.issuer) => return Verdict::NotMine,
            Unverified::Jwt(jwt) => jwt,
        };
        match self.verify_anew(bearer, jwt, shown.peer).await {
            Ok(verified) => {
                let user = Arc::clone(&verified.user);
                self.verified.lock().insert(*bearer.digest(), verified);
                Verdict::Accepted(user)
            }
            Err(refused) => Verdict::Refused(refused),
        }
    }

    /// What is known of a token that was verified with the keys that count now.
    async fn remembered(&self, bearer: &Bearer<'_>, peer: Option<SocketAddr>) -> Option<Verdict> {
        let keys = self.keys.known()?;
        let verified = self.verified.lock().get(bearer.digest()).cloned()?;
        if verified.keys_version != keys.keys().version {
            return None;
        }
        match self.keys.counting(keys, peer).await {
            Ok(keys) if keys.version != verified.keys_version => None,
            Ok(_) => {
                let user = verified.user;
                let in_time = verified.span.check(self.clock.now());
                Some(in_time.map_or_else(Verdict::rejected, |()| Verdict::Accepted(user)))
            }
            Err(missing) => Some(Verdict::Refused(self.refused(missing))),
        }
    }

    async fn verify_anew(
        &self,
        bearer: &Bearer<'_>,
        jwt: &Jwt,
        peer: Option<SocketAddr>,
    ) -> Result<Verified, Unauthenticated> {
        let rejected = |reason: String| Unauthenticated::Rejected(reason);
        // What costs nothing is refused first, so that a token that cannot count never makes us ask the issuer for keys.
        let algorithm = jwt.algorithm().map_err(bad)?;
        if !self.algorithms.contains(&algorithm) {
            return Err(bad("its algorithm is not one of those configured for its issuer"));
        }
        let span = self.claims.check(&jwt.claims).map_err(|reason| rejected(reason.to_owned()))?;
        span.check(self.clock.now()).map_err(|reason| rejected(reason.to_owned()))?;
        let signed = Signed { id: jwt.key_id().map_err(bad)?, algorithm, bearer, jwt };
        let keys = self.signed_by(&signed, peer).await?;
        let claimed = self.claims.user(&jwt.claims).map_err(rejected)?;
        let mut user = User::new(claimed.name, Arc::clone(&self.name));
        user.groups = claimed.groups;
        user.facts = claimed.facts;
        user.credential = claimed.token_id.unwrap_or_else(|| digest::short_name(bearer.digest())).into();
        user.expires = span.ends();
        Ok(Verified { user: Arc::new(user), span, keys_version: keys.version })
    }
}

impl Oidc {
    /// The keys that count, one of which has signed the token.
    async fn signed_by(&self, signed: &Signed<'_>, peer: Option<SocketAddr>) -> Result<Keys, Unauthenticated> {
        if let Some(known) = self.keys.known() {
            match (signed.check(known.keys()), &known) {
                (Ok(()), _) => {
                    // One that was good a while ago: nobody has made it up who has not the key.
                    let version = known.keys().version;
                    let keys = self.keys.counting(known, peer).await.map_err(|missing| self.refused(missing))?;
                    if keys.version != version {
                        signed.check(&keys)?;
                    }
                    return Ok(keys);
                }
                (Err(NotSigned::Refused(refused)), Known::Counting(_)) => return Err(refused),
                (Err(NotSigned::NoSuchKey), _) | (Err(NotSigned::Refused(_)), Known::Old(_)) => {}
            }
        }
        let keys = self.keys.keys_with(signed.id, signed.algorithm, peer).await;
        let keys = keys.map_err(|missing| self.refused(missing))?;
        signed.check(&keys)?;
        Ok(keys)
    }

    fn refused(&self, missing: NoKey) -> Unauthenticated {
        match missing {
            NoKey::Unknown => bad(NO_SUCH_KEY),
            NoKey::Ambiguous => bad(AMBIGUOUS),
            NoKey::Unavailable(why) => Unauthenticated::Unavailable(format!(
                "the issuer of the provider '{}' cannot be asked: {why}",
                self.name
            )),
        }
    }
}

// === Signed ===

const NO_SUCH_KEY: &str = "its issuer has no such key";
const AMBIGUOUS: &str = "it does not say which of its issuer's keys has signed it";

fn bad(reason: &str) -> Unauthenticated {
    Unauthenticated::Rejected(format!("the token is refused: {reason}"))
}

/// A token, and the key that it says has signed it.
struct Signed<'a> {
    id: Option<&'a str>,
    algorithm: SigningAlgorithm,
    bearer: &'a Bearer<'a>,
    jwt: &'a Jwt,
}

/// Why no key of a set has signed it.
enum NotSigned {
    /// The set does not have the key.
    NoSuchKey,
    /// It is as it is, as long as the set is.
    Refused(Unauthenticated),
}

impl Signed<'_> {
    fn check(&self, keys: &Keys) -> Result<(), NotSigned> {
        match keys.set.find(self.id, self.algorithm) {
            Found::Unknown => Err(NotSigned::NoSuchKey),
            Found::Ambiguous => Err(NotSigned::Refused(bad(AMBIGUOUS))),
            Found::Key(key) => {
                let is_signed = key.verify(self.algorithm, self.jwt.signed(self.bearer.expose()), &self.jwt.signature);
                if is_signed { Ok(()) } else { Err(NotSigned::Refused(bad("its signature is wrong"))) }
            }
        }
    }
}

impl From<NotSigned> for Unauthenticated {
    fn from(why: NotSigned) -> Self {
        match why {
            NotSigned::NoSuchKey => bad(NO_SUCH_KEY),
            NotSigned::Refused(refused) => refused,
        }
    }
}

impl Provider for Oidc {
    fn name(&self) -> &Arc<str> {
        &self.name
    }

    fn verify<'a>(&'a self, shown: &'a Shown<'a>) -> Verifying<'a> {
        Box::pin(self.judge(shown))
    }
}
