//! How much at once: requests per second, streams at the same time and bytes per second, per user and per cluster. Counts in memory,
//! by tokio's clock, for this process alone.

mod bucket;
pub(crate) mod rules;
#[cfg(test)]
mod tests;

use crate::policy::Policy;
use bucket::Bucket;
use mctunnel_core::{Access, Decision};
use parking_lot::{Mutex, RwLock};
use rules::{Limits, QuotaRules};
use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};
use tokio::time::Instant;

/// When to try again if too many streams are open; nobody can tell when one ends.
const WHEN_A_STREAM_ENDS: Duration = Duration::from_secs(1);

/// Above this many entries those that are at rest are thrown away.
const MANY: usize = 4096;

/// The quotas of a policy and what was used of them. Shared by all who ask; a new policy takes over what is in use.
#[derive(Debug, Default)]
pub struct Quotas {
    rules: RwLock<Arc<QuotaRules>>,
    used: Arc<Mutex<Used>>,
}

impl Quotas {
    /// The quotas of a policy, with nothing used.
    #[must_use]
    pub fn new(policy: &Policy) -> Self {
        let quotas = Self::default();
        quotas.replace(policy);
        quotas
    }

    /// Takes the quotas of another policy. What is in use stays in use under quotas of the same name.
    pub fn replace(&self, policy: &Policy) {
        *self.rules.write() = Arc::clone(&policy.rules.quotas);
    }

    /// Takes a place for a request that policy has allowed; kept for as long as the request or its stream lasts.
    ///
    /// The error is [`Decision::Limited`]; a request that is refused uses up nothing. Every quota that fits must have room.
    pub fn admit(&self, access: &Access<'_>) -> Result<Permit, Decision> {
        let rules = Arc::clone(&self.rules.read());
        let fitting: Vec<(Key, Limits)> = rules.fitting(access).collect();
        if fitting.is_empty() {
            return Ok(Permit { places: Vec::new(), used: Arc::clone(&self.used) });
        }
        let now = Instant::now();
        let mut used = self.used.lock();
        for (key, limits) in &fitting {
            let entry = used.entries.get(key);
            if let Some((what, retry_after)) = entry.and_then(|entry| entry.refusal(limits, now)) {
                let rule = format!("quota {}, {what}", key.quota).into();
                return Err(Decision::Limited { rule, retry_after });
            }
        }
        for (key, limits) in &fitting {
            used.entries.entry(key.clone()).or_default().take(limits, now);
        }
        used.forget_the_idle(now);
        drop(used);
        Ok(Permit { places: fitting, used: Arc::clone(&self.used) })
    }
}

/// A place for one request; given back when it is dropped.
#[must_use = "the place is given back when the permit is dropped"]
pub struct Permit {
    places: Vec<(Key, Limits)>,
    used: Arc<Mutex<Used>>,
}

impl Permit {
    /// Counts bytes, in either direction; gives how long to wait before the next ones.
    #[must_use]
    pub fn take_bytes(&self, count: u64) -> Duration {
        let limited = self.places.iter().filter_map(|(key, limits)| Some((key, limits.bytes_per_second?)));
        let mut wait = Duration::ZERO;
        for (key, rate) in limited {
            let now = Instant::now();
            if let Some(entry) = self.used.lock().entries.get_mut(key) {
                wait = wait.max(entry.bytes.owe(count, rate, now));
            }
        }
        wait
    }

    /// Whether bytes have to be counted at all.
    #[must_use]
    pub fn limits_bytes(&self) -> bool {
        self.places.iter().any(|(_, limits)| limits.bytes_per_second.is_some())
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if self.places.is_empty() {
            return;
        }
        let mut used = self.used.lock();
        for (key, _) in &self.places {
            if let Some(entry) = used.entries.get_mut(key) {
                entry.streams = entry.streams.saturating_sub(1);
            }
        }
    }
}

impl fmt::Debug for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.places.iter().map(|(key, _)| key)).finish()
    }
}

// === Used ===

/// Whose use is counted under a quota: the user with its provider, the cluster, or both.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    pub(crate) quota: Arc<str>,
    pub(crate) user: Option<(Arc<str>, Arc<str>)>,
    pub(crate) cluster: Option<mctunnel_core::ClusterName>,
}

#[derive(Debug, Default)]
struct Used {
    entries: BTreeMap<Key, Entry>,
    /// How many entries there were when the idle ones were last thrown away.
    kept: usize,
}

#[derive(Debug, Default)]
struct Entry {
    requests: Bucket,
    bytes: Bucket,
    streams: u32,
}

impl Entry {
    fn refusal(&self, limits: &Limits, now: Instant) -> Option<(&'static str, Duration)> {
        if limits.concurrent_streams.is_some_and(|most| self.streams >= most) {
            return Some(("concurrent streams", WHEN_A_STREAM_ENDS));
        }
        if limits.bytes_per_second.is_some()
            && let Some(wait) = self.bytes.overdue(now)
        {
            return Some(("bytes per second", wait));
        }
        let requests = limits.requests?;
        self.requests.wait(requests.per_second, requests.burst, now).map(|wait| ("requests per second", wait))
    }

    fn take(&mut self, limits: &Limits, now: Instant) {
        self.streams += 1;
        if let Some(requests) = limits.requests {
            self.requests.take(requests.per_second, now);
        }
    }

    fn is_idle(&self, now: Instant) -> bool {
        self.streams == 0 && self.requests.is_full(now) && self.bytes.is_full(now)
    }
}

impl Used {
    /// Users come and go; what they do not use any more must not stay for ever.
    fn forget_the_idle(&mut self, now: Instant) {
        if self.entries.len() > MANY.max(self.kept.saturating_mul(2)) {
            self.entries.retain(|_, entry| !entry.is_idle(now));
            self.kept = self.entries.len();
        }
    }
}
