//! Tries out a policy beside the one that decides: what the next one would have said otherwise is counted and logged, and changes
//! nothing.

use mctunnel_core::{Access, Authorize, Decision};
use parking_lot::Mutex;
use std::{
    fmt,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};
use tokio::time::Instant;

/// At most so many differences are logged in each span of time; all are counted.
const LOGGED: u32 = 20;
const SPAN: Duration = Duration::from_secs(1);

/// Decides by `live`, and notes where `next` would have decided otherwise.
pub struct Shadow<L, N> {
    live: L,
    next: N,
    counts: Counters,
    pace: Mutex<Option<(Instant, u32)>>,
}

/// How the next policy compares so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ShadowCounts {
    /// Both said the same.
    pub same: u64,
    /// Allowed now, and the next policy would refuse.
    pub would_refuse: u64,
    /// Refused now, and the next policy would allow.
    pub would_allow: u64,
}

#[derive(Debug, Default)]
struct Counters {
    same: AtomicU64,
    would_refuse: AtomicU64,
    would_allow: AtomicU64,
}

impl<L: Authorize, N: Authorize> Shadow<L, N> {
    /// Puts `next` into the shadow of `live`.
    pub fn new(live: L, next: N) -> Self {
        Self { live, next, counts: Counters::default(), pace: Mutex::new(None) }
    }

    /// How the next policy compares so far.
    #[must_use]
    pub fn counts(&self) -> ShadowCounts {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        ShadowCounts {
            same: read(&self.counts.same),
            would_refuse: read(&self.counts.would_refuse),
            would_allow: read(&self.counts.would_allow),
        }
    }

    fn compare(&self, access: &Access<'_>, decision: &Decision) {
        let other = self.next.authorize(access);
        let (counter, message) = match (decision.is_allowed(), other.is_allowed()) {
            (true, false) => (&self.counts.would_refuse, "the next policy would refuse this"),
            (false, true) => (&self.counts.would_allow, "the next policy would allow this"),
            (true, true) | (false, false) => {
                self.counts.same.fetch_add(1, Ordering::Relaxed);
                return;
            }
        };
        counter.fetch_add(1, Ordering::Relaxed);
        if self.may_log() {
            let (user, destination, action) = (access.identity, access.destination, access.action);
            // The names are what clients send: shown as quoted text, so that none can forge a line.
            tracing::info!(
                user = %user.to_string().escape_debug(),
                destination = %destination,
                action = %action.to_string().escape_debug(),
                live = %decision.rule(),
                next = %other.rule(),
                "{message}"
            );
        }
    }

    /// A flood of differences must not become a flood of lines.
    fn may_log(&self) -> bool {
        let now = Instant::now();
        let mut pace = self.pace.lock();
        let (begun, logged) = (*pace).filter(|(begun, _)| now.duration_since(*begun) < SPAN).unwrap_or((now, 0));
        *pace = Some((begun, logged.saturating_add(1)));
        logged < LOGGED
    }
}

impl<L: Authorize, N: Authorize> Authorize for Shadow<L, N> {
    fn authorize(&self, access: &Access<'_>) -> Decision {
        let decision = self.live.authorize(access);
        self.compare(access, &decision);
        decision
    }

    fn authorize_some(&self, access: &Access<'_>) -> Decision {
        self.live.authorize_some(access)
    }

    fn generation(&self) -> u64 {
        self.live.generation()
    }
}

impl<L, N> fmt::Debug for Shadow<L, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shadow").field("counts", &self.counts).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Question, policy::Policy};

    const OPEN: &str = "{version: 1, roles: {all: {rules: [{clusters: ['*'], namespaces: ['*'], apiGroups: ['*'], \
        resources: ['*'], names: ['*'], verbs: ['*']}]}}, bindings: [{name: b, role: all, users: [alice], providers: ['*']}], \
        deny: []}";

    #[test]
    fn the_live_policy_decides_and_differences_are_counted() {
        let open = Policy::parse(OPEN).unwrap();
        let closed = Policy::deny_all();
        let ask = Question::resource("alice", "c1", "get", "pods");
        for (live, next, counts, allowed) in [
            (&open, &closed, ShadowCounts { would_refuse: 1, ..ShadowCounts::default() }, true),
            (&closed, &open, ShadowCounts { would_allow: 1, ..ShadowCounts::default() }, false),
            (&open, &open, ShadowCounts { same: 1, ..ShadowCounts::default() }, true),
        ] {
            let shadow = Shadow::new(live.clone(), next.clone());
            assert_eq!(ask.put(&shadow).unwrap().is_allowed(), allowed);
            assert_eq!((shadow.counts(), shadow.generation()), (counts, live.generation()));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_flood_of_differences_is_counted_but_not_all_logged() {
        let shadow = Shadow::new(Policy::deny_all(), Policy::parse(OPEN).unwrap());
        let ask = Question::resource("alice", "c1", "get", "pods");
        for _ in 0..1000 {
            ask.put(&shadow).unwrap();
        }
        assert_eq!(shadow.counts().would_allow, 1000);
        assert!(!shadow.may_log());
        tokio::time::advance(SPAN).await;
        assert!(shadow.may_log());
    }
}
