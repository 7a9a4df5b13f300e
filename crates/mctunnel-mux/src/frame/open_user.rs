//! Whom a stream is for, as an OPEN says it.

use super::MAX_TEXT;
use crate::wire::Sink;
use alloc::{string::String, sync::Arc, vec::Vec};
use bytes::{Bytes, BytesMut};
use core::ops::Deref;

/// A verified user, as it travels with an OPEN.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct User {
    /// Its name; never empty.
    pub name: Arc<str>,
    /// Its groups.
    pub groups: Vec<Arc<str>>,
    /// Empty if unknown.
    pub uid: Arc<str>,
    /// Further facts: keys and their values.
    pub extra: Vec<(String, Vec<String>)>,
}

impl User {
    /// Whether a peer takes it: it has a name, its extra facts have keys, and no text is too long.
    pub(crate) fn is_speakable(&self) -> bool {
        let fits = |text: &str| text.len() <= MAX_TEXT;
        let named = |text: &str| !text.is_empty() && fits(text);
        let extra = |(key, values): &(String, Vec<String>)| named(key) && values.iter().all(|value| fits(value));
        let groups = || self.groups.iter().all(|group| fits(group));
        named(&self.name) && fits(&self.uid) && groups() && self.extra.iter().all(extra)
    }

    pub(super) fn bytes(&self) -> usize {
        let values = |values: &[String]| values.iter().map(|value| value.len() + EACH).sum::<usize>();
        let extra: usize = self.extra.iter().map(|(key, all)| key.len() + EACH + values(all)).sum();
        let groups: usize = self.groups.iter().map(|group| group.len() + EACH).sum();
        self.name.len() + self.uid.len() + groups + extra
    }

    /// By itself, because its length stands in front of it, in a message whose length stands in front of that: a user may have many
    /// groups, which are gone through once.
    fn encoded(&self) -> BytesMut {
        let mut out = BytesMut::with_capacity(self.bytes());
        Sink::bytes(&mut out, 1, self.name.as_bytes());
        self.groups.iter().for_each(|group| Sink::bytes_always(&mut out, 2, group.as_bytes()));
        Sink::bytes(&mut out, 3, self.uid.as_bytes());
        for (key, values) in &self.extra {
            Sink::message(&mut out, 4, |m| {
                m.bytes(1, key.as_bytes());
                values.iter().for_each(|value| m.bytes_always(2, value.as_bytes()));
            });
        }
        out
    }
}

/// What an entry of a list costs in memory beside its text, roughly: a list of empty texts is not free.
const EACH: usize = 24;

// === OpenUser ===

/// A user with its bytes, which are made once, however many streams are for it. It cannot be changed, so they are never another user's.
#[derive(Debug, Clone)]
pub struct OpenUser {
    user: User,
    /// None for one that was heard of, and is not passed on.
    encoded: Option<Bytes>,
}

impl OpenUser {
    /// A user to open many streams for.
    #[must_use]
    pub fn new(user: User) -> Self {
        let encoded = Some(user.encoded().freeze());
        Self { user, encoded }
    }

    pub(super) fn on_the_wire(&self) -> Bytes {
        self.encoded.clone().unwrap_or_else(|| self.user.encoded().freeze())
    }
}

impl From<User> for OpenUser {
    fn from(user: User) -> Self {
        Self { user, encoded: None }
    }
}

impl Deref for OpenUser {
    type Target = User;

    fn deref(&self) -> &User {
        &self.user
    }
}

impl PartialEq for OpenUser {
    fn eq(&self, other: &Self) -> bool {
        self.user == other.user
    }
}

impl Eq for OpenUser {}
