//! Users by tokens of an OpenID Connect issuer, verified here with the issuer's public keys. One provider is one issuer: its keys,
//! its algorithms and its audiences are its own, and a token of another issuer is not looked at.

pub mod algorithm;
pub mod claims;
pub mod fetch;

pub(crate) mod jwt;
mod key_set;
pub(crate) mod key_source;
mod strict_json;
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
use key_source::{KeySource, NoKey};
use mctunnel_core::{Unauthenticated, User};
use parking_lot::Mutex;
use std::sync::Arc;

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
        if let Some(verdict) = self.remembered(bearer) {
            return verdict;
        }
        let jwt = match bearer.jwt() {
            Unverified::Opaque => return Verdict::NotMine,
            Unverified::Malformed => return Verdict::rejected("the token is a JWT that cannot be read without doubt"),
            Unverified::Jwt(jwt) if jwt.issuer() != Some(&self.issuer) => return Verdict::NotMine,
            Unverified::Jwt(jwt) => jwt,
        };
        match self.verify_anew(bearer, jwt).await {
            Ok(verified) => {
                let user = Arc::clone(&verified.user);
                self.verified.lock().insert(*bearer.digest(), verified);
                Verdict::Accepted(user)
            }
            Err(refused) => Verdict::Refused(refused),
        }
    }

    /// What is known of a token that was verified with the keys that count now.
    fn remembered(&self, bearer: &Bearer<'_>) -> Option<Verdict> {
        let version = self.keys.version()?;
        let known = self.verified.lock().get(bearer.digest()).cloned()?;
        if known.keys_version != version {
            return None;
        }
        let user = known.user;
        Some(known.span.check(self.clock.now()).map_or_else(Verdict::rejected, |()| Verdict::Accepted(user)))
    }

    async fn verify_anew(&self, bearer: &Bearer<'_>, jwt: &Jwt) -> Result<Verified, Unauthenticated> {
        let rejected = |reason: String| Unauthenticated::Rejected(reason);
        let bad = |reason: &str| Unauthenticated::Rejected(format!("the token is refused: {reason}"));
        // What costs nothing is refused first, so that a token that cannot count never makes us ask the issuer for keys.
        let algorithm = jwt.algorithm().map_err(bad)?;
        if !self.algorithms.contains(&algorithm) {
            return Err(bad("its algorithm is not one of those configured for its issuer"));
        }
        let span = self.claims.check(&jwt.claims).map_err(|reason| rejected(reason.to_owned()))?;
        span.check(self.clock.now()).map_err(|reason| rejected(reason.to_owned()))?;
        let id = jwt.key_id().map_err(bad)?;
        let keys = self.keys.keys_with(id, algorithm).await.map_err(|missing| match missing {
            NoKey::Unknown => bad("its issuer has no such key"),
            NoKey::Ambiguous => bad("it does not say which of its issuer's keys has signed it"),
            NoKey::Unavailable(why) => Unauthenticated::Unavailable(format!(
                "the issuer of the provider '{}' cannot be asked: {why}",
                self.name
            )),
        })?;
        let Found::Key(key) = keys.set.find(id, algorithm) else { return Err(bad("its issuer has no such key")) };
        if !key.verify(algorithm, jwt.signed(bearer.expose()), &jwt.signature) {
            return Err(bad("its signature is wrong"));
        }
        let claimed = self.claims.user(&jwt.claims).map_err(rejected)?;
        let mut user = User::new(claimed.name, Arc::clone(&self.name));
        user.groups = claimed.groups;
        user.credential = claimed.token_id.unwrap_or_else(|| digest::short_name(bearer.digest())).into();
        user.expires = span.ends();
        Ok(Verified { user: Arc::new(user), span, keys_version: keys.version })
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
