//! Users by API keys, for programs: long, random, shown once, kept as hashes, revoked at once.

mod key_text;
mod record;
mod store;

pub use key_text::API_KEY_PREFIX;
pub use record::ApiKeyRecord;
pub use store::{ApiKeyStore, MemoryApiKeys};

use crate::{
    AuthnError, Clock, NameRules, Provider, Shown, Verdict, Verifying,
    attempts::{FailedAttempts, PER_MINUTE},
    clock::whole_seconds,
    digest,
    recent::Recent,
};
use aws_lc_rs::constant_time::verify_slices_are_equal;
use mctunnel_core::{Secret, Unauthenticated, User};
use parking_lot::Mutex;
use std::{net::SocketAddr, num::NonZeroU32, sync::Arc, time::Duration};

/// How users of API keys are called, and how often somebody may fail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiKeySettings {
    /// How users and groups are called.
    pub names: NameRules,
    /// How many attempts an address may fail in a minute before all of them are refused.
    pub failures_per_minute: NonZeroU32,
}

impl Default for ApiKeySettings {
    fn default() -> Self {
        Self { names: NameRules::default(), failures_per_minute: PER_MINUTE }
    }
}

/// Knows users by their API keys.
#[derive(Debug)]
pub struct ApiKeys {
    name: Arc<str>,
    store: Arc<dyn ApiKeyStore>,
    names: NameRules,
    attempts: FailedAttempts,
    clock: Clock,
    /// By the id of the key.
    users: Mutex<Recent<String, MadeUser>>,
}

/// A user, beside the record it was made of.
#[derive(Debug)]
struct MadeUser {
    of: Arc<ApiKeyRecord>,
    user: Arc<User>,
}

impl ApiKeys {
    /// A provider for the keys of a store.
    pub fn new(
        name: &str,
        settings: ApiKeySettings,
        store: Arc<dyn ApiKeyStore>,
        clock: Clock,
    ) -> Result<Self, AuthnError> {
        let ApiKeySettings { names, failures_per_minute } = settings;
        if let Some(problem) = names.problem() {
            return Err(AuthnError::provider(name, problem));
        }
        let attempts = FailedAttempts::per_minute(failures_per_minute);
        let users = Mutex::new(Recent::with_room(ROOM));
        Ok(Self { name: name.into(), store, names, attempts, clock, users })
    }

    fn judge(&self, shown: &Shown<'_>) -> Verdict {
        let key = shown.bearer().map(|bearer| bearer.expose()).filter(|token| token.starts_with(API_KEY_PREFIX));
        let Some(key) = key else { return Verdict::NotMine };
        if let Err(too_many) = self.attempts.check(shown.peer) {
            return Verdict::Refused(too_many);
        }
        if !self.store.is_current() {
            let reason = "API keys cannot be looked at right now".to_owned();
            return Verdict::Refused(Unauthenticated::Unavailable(reason));
        }
        match self.record(key) {
            Some(record) => self.user_of(&record, shown.peer),
            None => self.failed(shown.peer, "the API key is not valid"),
        }
    }

    /// The record of a key. Whether the id or the secret is wrong makes no difference to whoever asks, not even in time.
    fn record(&self, key: &str) -> Option<Arc<ApiKeyRecord>> {
        let hash = digest::of(key.as_bytes());
        let record = key_text::id(key).and_then(|id| self.store.find(id));
        let expected = record.as_ref().map_or(&NO_HASH, |record| &record.hash);
        let equal = verify_slices_are_equal(&hash, expected).is_ok();
        record.filter(|_| equal)
    }

    /// Told to the holder of the key alone.
    fn user_of(&self, record: &Arc<ApiKeyRecord>, peer: Option<SocketAddr>) -> Verdict {
        if record.revoked.is_some() {
            return self.failed(peer, "the API key was revoked");
        }
        if record.expires.is_some_and(|expires| expires <= self.clock.now()) {
            return self.failed(peer, "the API key has expired");
        }
        self.made_user(record).map_or_else(Verdict::rejected, Verdict::Accepted)
    }

    /// The user of a record, made once for each record: a changed key has another one.
    fn made_user(&self, record: &Arc<ApiKeyRecord>) -> Result<Arc<User>, String> {
        if let Some(made) = self.users.lock().get(&record.id).filter(|made| Arc::ptr_eq(&made.of, record)) {
            return Ok(Arc::clone(&made.user));
        }
        let user = Arc::new(self.user(record)?);
        let made = MadeUser { of: Arc::clone(record), user: Arc::clone(&user) };
        self.users.lock().insert(record.id.clone(), made);
        Ok(user)
    }

    fn user(&self, record: &ApiKeyRecord) -> Result<User, String> {
        let name = self.names.user(&record.user).map_err(|bad| format!("the key's user cannot be used: {bad}"))?;
        let mut user = User::new(name, Arc::clone(&self.name));
        for group in &record.groups {
            user.groups
                .push(self.names.group(group).map_err(|bad| format!("a group of the key cannot be used: {bad}"))?);
        }
        user.credential = record.id.as_str().into();
        user.expires = record.expires;
        Ok(user)
    }

    fn failed(&self, peer: Option<SocketAddr>, reason: &str) -> Verdict {
        self.attempts.failed(peer);
        Verdict::rejected(reason)
    }
}

/// Of how many keys the users are remembered.
const ROOM: usize = 16 * 1024;

/// What no key hashes to.
const NO_HASH: [u8; 32] = [0; 32];

impl Provider for ApiKeys {
    fn name(&self) -> &Arc<str> {
        &self.name
    }

    fn verify<'a>(&'a self, shown: &'a Shown<'a>) -> Verifying<'a> {
        Box::pin(std::future::ready(self.judge(shown)))
    }

    /// The key is there, was not revoked, and still is the same user's.
    fn still_holds(&self, user: &User) -> bool {
        let record = self.store.find(&user.credential).filter(|record| record.revoked.is_none());
        let now = record.and_then(|record| self.user(&record).ok());
        now.is_some_and(|now| now.name == user.name && now.groups == user.groups && now.expires == user.expires)
    }

    fn generation(&self) -> u64 {
        self.store.generation()
    }
}

// === making and revoking ===

/// A key to be made.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NewApiKey {
    /// Whose it is to be.
    pub user: String,
    /// With which groups.
    pub groups: Vec<String>,
    /// What it is for, for people.
    pub note: String,
    /// How long it counts; for ever if nothing is said.
    pub lifetime: Option<Duration>,
}

/// A key that was made.
#[derive(Debug, Clone)]
pub struct CreatedApiKey {
    /// The key, to be shown once. It is kept nowhere.
    pub key: Secret,
    /// What is kept.
    pub record: ApiKeyRecord,
}

/// Makes a key and puts its record into the store.
pub fn create_api_key(store: &dyn ApiKeyStore, new: NewApiKey, clock: &Clock) -> Result<CreatedApiKey, AuthnError> {
    let refused = |what: &str, bad: String| AuthnError::KeyRefused(format!("{what}: {bad}"));
    let names = NameRules::default();
    names.user(&new.user).map_err(|bad| refused("its user", bad.to_string()))?;
    for group in &new.groups {
        names.group(group).map_err(|bad| refused("one of its groups", bad.to_string()))?;
    }
    let created = whole_seconds(clock.now());
    let expires = match new.lifetime {
        None => None,
        Some(Duration::ZERO) => return Err(refused("its lifetime", "it is nothing".to_owned())),
        Some(lifetime) => {
            let end = created.checked_add(lifetime).map(whole_seconds);
            Some(end.ok_or_else(|| refused("its lifetime", "no clock goes so far".to_owned()))?)
        }
    };
    let (id, key) = loop {
        let (id, key) = key_text::generate()?;
        if store.find(&id).is_none() {
            break (id, key);
        }
    };
    let hash = digest::of(key.expose().as_bytes());
    let NewApiKey { user, groups, note, .. } = new;
    let record = ApiKeyRecord { id, hash, user, groups, note, created, expires, revoked: None };
    store.put(record.clone()).map_err(AuthnError::KeyStore)?;
    Ok(CreatedApiKey { key, record })
}

/// Revokes a key for good. The record stays, so that audit records of its time can be read.
pub fn revoke_api_key(store: &dyn ApiKeyStore, id: &str, clock: &Clock) -> Result<Arc<ApiKeyRecord>, AuthnError> {
    let record = store.find(id).ok_or_else(|| AuthnError::KeyUnknown(id.to_owned()))?;
    if record.revoked.is_some() {
        return Ok(record);
    }
    let revoked = ApiKeyRecord { revoked: Some(whole_seconds(clock.now())), ..(*record).clone() };
    store.put(revoked.clone()).map_err(AuthnError::KeyStore)?;
    Ok(Arc::new(revoked))
}

/// All keys, the oldest first.
#[must_use]
pub fn list_api_keys(store: &dyn ApiKeyStore) -> Vec<Arc<ApiKeyRecord>> {
    let mut all = store.list();
    all.sort_by(|a, b| (a.created, &a.id).cmp(&(b.created, &b.id)));
    all
}

#[cfg(test)]
mod timing;

#[cfg(test)]
mod tests {
    /// Hashes meet in one place, in the function that looks at all bytes.
    #[test]
    fn t30_hashes_are_compared_in_constant_time_and_in_one_place() {
        let (code, _) = include_str!("api_keys.rs").split_once("#[cfg(test)]").expect("this test is behind it");
        let of_hashes = |line: &&str| ["hash", "HASH", "expected"].iter().any(|word| line.contains(word));
        let compares =
            |line: &&str| ["==", "!=", ".eq(", ".ne(", ".cmp(", "matches!"].iter().any(|deed| line.contains(deed));
        let found: Vec<&str> = code.lines().filter(of_hashes).filter(compares).collect();
        assert_eq!(found, [""; 0]);
        assert_eq!(code.matches("verify_slices_are_equal(&hash, expected)").count(), 1);
    }
}
