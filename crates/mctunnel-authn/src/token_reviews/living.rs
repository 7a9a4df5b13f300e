//! Tokens whose users have something open. An answer is believed for seconds, but a stream may live for days: so the cluster is asked
//! about its token again and again, and what a revoked one has opened ends.

use crate::digest::Digest;
use mctunnel_core::{Secret, User};
use parking_lot::Mutex;
use std::{
    collections::BTreeMap,
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, Ordering},
    },
};

/// The users of tokens, as long as somebody holds them.
#[derive(Debug, Default)]
pub(super) struct Living {
    state: Mutex<State>,
    generation: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    /// By where they are in memory: a weak reference keeps the place from being anybody else's.
    users: BTreeMap<usize, (Digest, Weak<User>)>,
    tokens: BTreeMap<Digest, Secret>,
    /// How many users there were when the gone ones were last forgotten.
    kept: usize,
}

/// Below this many it is not worth looking for those that are gone.
const FEW: usize = 64;

impl Living {
    /// Another number whenever somebody stopped being vouched for.
    pub(super) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// A user was accepted by a token.
    pub(super) fn add(&self, digest: &Digest, token: &str, user: &Arc<User>) {
        let mut state = self.state.lock();
        state.users.insert(place(Arc::as_ptr(user)), (*digest, Arc::downgrade(user)));
        state.tokens.entry(*digest).or_insert_with(|| Secret::new(token));
        if state.users.len() > FEW.max(state.kept.saturating_mul(2)) {
            state.forget_the_gone();
        }
    }

    /// Whether this very user was accepted, and its token not refused since.
    pub(super) fn has(&self, user: &User) -> bool {
        self.state.lock().users.contains_key(&place(user))
    }

    /// The tokens to ask about.
    pub(super) fn tokens(&self) -> Vec<(Digest, Secret)> {
        let mut state = self.state.lock();
        state.forget_the_gone();
        state.tokens.iter().map(|(digest, token)| (*digest, token.clone())).collect()
    }

    /// What a token's users are held to: those that are not like this any more, or all if it is nobody's, are not vouched for.
    pub(super) fn hold_to(&self, digest: &Digest, now: Option<&User>) {
        let mut state = self.state.lock();
        if !state.tokens.contains_key(digest) {
            return;
        }
        let before = state.users.len();
        let is_same = |user: &User| {
            now.is_some_and(|now| now.name == user.name && now.uid == user.uid && now.groups == user.groups)
        };
        state.users.retain(|_, (of, user)| of != digest || user.upgrade().is_some_and(|user| is_same(&user)));
        let is_changed = state.users.len() < before;
        drop(state);
        if is_changed {
            self.generation.fetch_add(1, Ordering::Release);
        }
    }
}

impl State {
    fn forget_the_gone(&mut self) {
        self.users.retain(|_, (_, user)| user.strong_count() > 0);
        let Self { users, tokens, kept } = self;
        let mut used: Vec<&Digest> = users.values().map(|(digest, _)| digest).collect();
        used.sort_unstable();
        tokens.retain(|digest, _| used.binary_search(&digest).is_ok());
        *kept = users.len();
    }
}

fn place(user: *const User) -> usize {
    user.addr()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_who_are_gone_are_forgotten_with_their_tokens() {
        let living = Living::default();
        let kept = Arc::new(User::new("kept", "hub"));
        living.add(&[1; 32], "one", &kept);
        for number in 0..10_000_u32 {
            let mut digest = [0; 32];
            digest[..4].copy_from_slice(&number.to_be_bytes());
            living.add(&digest, "other", &Arc::new(User::new("gone", "hub")));
            assert!(living.state.lock().users.len() <= FEW + 1);
        }
        assert!(living.has(&kept) && living.generation() == 0);
        assert_eq!(living.tokens().len(), 1);
        assert!(!living.has(&User::new("kept", "hub")), "another of the same name was never accepted");
        drop(kept);
        assert!(living.tokens().is_empty());
    }
}
