//! Speaks to the kube-apiserver for the users the hub verified: with the agent's own credential, and `Impersonate-*` fields that
//! are written here, last, from the typed user of the stream's OPEN. Nothing of them ever comes from a request's head.
//!
//! The agent's service account should hold the right to impersonate and no other: then a stream without a user can do nothing,
//! and one with a user what that user may.

use http::{HeaderMap, HeaderName, HeaderValue, header};
use mctunnel_core::Secret;
use mctunnel_tunnel::User;
use parking_lot::Mutex;
use std::{collections::BTreeSet, fmt, fs, path::PathBuf, time::Duration};
use tokio::time::Instant;

#[cfg(test)]
mod tests;

/// Whom the agent may speak for, and with which credential it does.
#[derive(Debug)]
pub struct Impersonate {
    token: Box<dyn TokenSource>,
    users: BTreeSet<String>,
    groups: BTreeSet<String>,
}

impl Impersonate {
    /// Speaks for every user the hub verified, except those whose names Kubernetes reserves for itself (`system:`).
    pub fn new(token: impl TokenSource) -> Self {
        Self { token: Box::new(token), users: BTreeSet::new(), groups: BTreeSet::new() }
    }

    /// Speaks for these users, and for members of these groups, and for nobody else. A user is then shown to the cluster with
    /// those of its groups that are named here, and with no others: the hub could say any.
    ///
    /// A name of Kubernetes' own (`system:`) that stands here was put here by who owns the cluster, letter for letter. That name, and no
    /// other of them, is spoken for.
    #[must_use]
    pub fn only(mut self, users: impl IntoIterator<Item = String>, groups: impl IntoIterator<Item = String>) -> Self {
        self.users.extend(users);
        self.groups.extend(groups);
        self
    }

    /// Step 6: whether the agent speaks for this user. Without a user it speaks for nobody.
    pub(super) fn judge(&self, user: Option<&User>) -> Result<Speaker, String> {
        let user = user.ok_or("the stream names no user, and this agent speaks only for users")?;
        let reserved = |name: &str, named: &BTreeSet<String>| name.starts_with("system:") && !named.contains(name);
        if user.name.is_empty() || reserved(&user.name, &self.users) {
            return Err(format!("this agent does not speak for {:?}, a name of Kubernetes' own", user.name));
        }
        let refused = |group: &str| group != "system:authenticated" && reserved(group, &self.groups);
        if let Some(group) = user.groups.iter().find(|group| refused(group)) {
            return Err(format!("this agent does not speak for members of {group:?}, a group of Kubernetes' own"));
        }
        let is_open = self.users.is_empty() && self.groups.is_empty();
        let is_named = is_open || self.users.contains(&*user.name);
        let is_shown = |group: &str| group != "system:authenticated" && (is_open || self.groups.contains(group));
        let mut speaker = user.clone();
        // Kubernetes adds it by itself.
        speaker.groups.retain(|group| is_shown(group));
        if !is_named && speaker.groups.is_empty() {
            return Err(format!(
                "this agent does not speak for {:?}: neither it nor a group of it is allowed",
                user.name
            ));
        }
        Speaker::fields(&speaker)
    }

    /// Step 9: writes the agent's credential and the user into a request that is otherwise complete.
    ///
    /// What `Connection` names is taken off behind this, by HTTP/2 on its way out and by whatever stands in between. So a request that
    /// has a `Connection` of another's making is not one into which a user can be written: without the user it would be the agent's own.
    pub(super) fn write(&self, speaker: &Speaker, fields: &mut HeaderMap) -> Result<(), String> {
        if fields.get_all(header::CONNECTION).iter().any(|named| named != "upgrade") {
            return Err("the request's Connection is not the agent's".to_owned());
        }
        let token = self.token.token()?;
        let mut bearer = HeaderValue::from_str(&format!("Bearer {}", token.expose()))
            .map_err(|_| "the agent's own token is not one line of text")?;
        bearer.set_sensitive(true);
        let forged: Vec<HeaderName> = fields.keys().filter(|name| names_a_user(name.as_str())).cloned().collect();
        for name in forged {
            fields.remove(name);
        }
        fields.insert(header::AUTHORIZATION, bearer);
        for (name, value) in &speaker.0 {
            fields.append(name.clone(), value.clone());
        }
        Ok(())
    }
}

/// Whether a field says who somebody is. By prefix: a list would miss the next one.
pub(super) fn names_a_user(name: &str) -> bool {
    begins(name, "impersonate-") || begins(name, "x-remote-")
}

/// Whether the name of a field begins like this. Servers that know fields as environment variables cannot tell '_' from '-'.
pub(super) fn begins(name: &str, prefix: &str) -> bool {
    let is_same = |(one, other): (u8, u8)| one == other || (one == b'_' && other == b'-');
    name.len() >= prefix.len() && name.bytes().zip(prefix.bytes()).all(is_same)
}

/// The fields that tell a kube-apiserver whom a request is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Speaker(Vec<(HeaderName, HeaderValue)>);

impl Speaker {
    fn fields(user: &User) -> Result<Self, String> {
        let mut fields = vec![(HeaderName::from_static("impersonate-user"), text(&user.name)?)];
        for group in &user.groups {
            fields.push((HeaderName::from_static("impersonate-group"), text(group)?));
        }
        if !user.uid.is_empty() {
            fields.push((HeaderName::from_static("impersonate-uid"), text(&user.uid)?));
        }
        for (key, values) in &user.extra {
            let name = format!("impersonate-extra-{}", percent_encoded(key));
            let name = HeaderName::try_from(name).map_err(|_| format!("the extra fact {key:?} cannot be written"))?;
            for value in values {
                fields.push((name.clone(), text(value)?));
            }
        }
        Ok(Self(fields))
    }
}

/// A text that a header can carry whole: no control character, and no space at its ends, where a reader would cut it off.
fn text(text: &str) -> Result<HeaderValue, String> {
    let unwritable = || format!("{text:?} cannot be written as a header");
    if text.is_empty() || text.trim() != text || text.chars().any(char::is_control) {
        return Err(unwritable());
    }
    HeaderValue::from_bytes(text.as_bytes()).map_err(|_| unwritable())
}

/// Kubernetes reads the keys of extra facts from header names, percent-encoded where a name cannot have the character.
fn percent_encoded(key: &str) -> String {
    let mut out = String::new();
    for byte in key.bytes() {
        if byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'_' | b'.') {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02x}"));
        }
    }
    out
}

// === Tokens ===

/// Where the agent's own token comes from. Asked for every request; it waits for nobody.
pub trait TokenSource: fmt::Debug + Send + Sync + 'static {
    /// The token as it is now.
    fn token(&self) -> Result<Secret, String>;
}

impl TokenSource for Secret {
    fn token(&self) -> Result<Secret, String> {
        Ok(self.clone())
    }
}

/// A token in a file that is rewritten now and then, as Kubernetes does with those of pods.
#[derive(Debug)]
pub struct TokenFile {
    path: PathBuf,
    fresh: Duration,
    read: Mutex<Option<(Instant, Secret)>>,
}

impl TokenFile {
    /// How long what was read is used.
    const FRESH: Duration = Duration::from_secs(10);

    /// The token in this file.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), fresh: Self::FRESH, read: Mutex::new(None) }
    }

    /// The same, but the file is read each time: for who asks seldom.
    pub fn read_each_time(path: impl Into<PathBuf>) -> Self {
        Self { fresh: Duration::ZERO, ..Self::new(path) }
    }
}

impl TokenSource for TokenFile {
    fn token(&self) -> Result<Secret, String> {
        let mut read = self.read.lock();
        if let Some((since, token)) = &*read
            && since.elapsed() < self.fresh
        {
            return Ok(token.clone());
        }
        let text = fs::read_to_string(&self.path)
            .map_err(|error| format!("the agent's token {} cannot be read: {error}", self.path.display()))?;
        let token = Secret::new(text.trim());
        if token.expose().is_empty() {
            return Err(format!("the agent's token {} is empty", self.path.display()));
        }
        *read = Some((Instant::now(), token.clone()));
        Ok(token)
    }
}
