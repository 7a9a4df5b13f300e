//! A policy file that may change while the hub runs: a new policy counts within a second and as a whole, a broken file changes nothing,
//! a deleted one denies everything. Kubernetes replaces mounted files by swapping links, so the content is compared, not the time.

mod follow;
#[cfg(test)]
mod tests;

use crate::{
    error::PolicyError,
    policy::{ClusterLabels, Policy},
    quota::Quotas,
};
use follow::Follower;
use mctunnel_core::{Access, Authorize, Decision};
use parking_lot::{Mutex, RwLock};
use std::{
    fmt,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::SystemTime,
};
use tokio::{sync::watch, task::JoinSet};

/// Said while the file is not there.
pub(crate) const MISSING: &str = "the policy file is not there: everything is denied";

/// The policy of a file, as it is now. Cheap to clone; the file is watched until the last clone is dropped.
#[derive(Debug, Clone)]
pub struct ReloadingPolicy {
    shared: Arc<Shared>,
    _watching: Arc<JoinSet<()>>,
}

/// How a policy file is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyStatus {
    /// How often the policy was replaced since the start.
    pub replaced: u64,
    /// How many roles count now.
    pub roles: usize,
    /// How many bindings count now.
    pub bindings: usize,
    /// How many deny rules count now.
    pub deny: usize,
    /// The text that counts now, as it was read; `None` if there is none, and everything is denied.
    pub text: Option<PolicyText>,
    /// Why the file as it is now does not count; the policy is then the last good one, or denies everything if the file is not there.
    pub problem: Option<String>,
}

/// The text of a policy. Cheap to clone; where statuses are shown, it is not.
#[derive(Clone, PartialEq, Eq)]
pub struct PolicyText(Arc<str>);

impl PolicyText {
    /// All of it.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for PolicyText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.0.len())
    }
}

impl ReloadingPolicy {
    /// Reads a file and watches it from then on. A file that is not there denies everything until it is; a broken one is an error
    /// now, because there is no last good one. Must be called inside a tokio runtime.
    pub async fn watch(path: PathBuf, labels: ClusterLabels) -> Result<Self, PolicyError> {
        let content = follow::read(&path).await?;
        let shared = Arc::new(Shared::new(labels));
        match &content {
            Some(text) => shared.install(text)?,
            None => {
                tracing::warn!(file = %path.display(), "{MISSING}");
                shared.deny_all();
            }
        }
        let mut watching = JoinSet::new();
        watching.spawn(Follower::new(path, content, Arc::clone(&shared)).follow());
        Ok(Self { shared, _watching: Arc::new(watching) })
    }

    /// The policy as it is now.
    #[must_use]
    pub fn current(&self) -> Policy {
        self.shared.policy.read().clone()
    }

    /// The quotas of the policy, and what is used of them; the same ones through every change.
    #[must_use]
    pub fn quotas(&self) -> Arc<Quotas> {
        Arc::clone(&self.shared.quotas)
    }

    /// Tells it the labels of clusters that are known from elsewhere, in place of those it was told before.
    pub fn set_cluster_labels(&self, labels: ClusterLabels) {
        self.shared.relabel(labels);
    }

    /// How the file is.
    #[must_use]
    pub fn status(&self) -> PolicyStatus {
        self.shared.status.borrow().clone()
    }

    /// Why the file as it is now does not count.
    #[must_use]
    pub fn last_error(&self) -> Option<String> {
        self.shared.status.borrow().problem.clone()
    }

    /// Tells of each change of [`ReloadingPolicy::status`].
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<PolicyStatus> {
        self.shared.status.subscribe()
    }
}

impl Authorize for ReloadingPolicy {
    fn authorize(&self, access: &Access<'_>) -> Decision {
        self.current().authorize(access)
    }

    fn authorize_some(&self, access: &Access<'_>) -> Decision {
        self.current().authorize_some(access)
    }

    fn generation(&self) -> u64 {
        // Replacements above, the passing of time below: neither can hide the other.
        let replaced = self.shared.replaced.load(Ordering::Acquire);
        replaced << 40 | self.current().age(SystemTime::now())
    }
}

// === Shared ===

/// What the watcher and those who ask share.
#[derive(Debug)]
struct Shared {
    policy: RwLock<Policy>,
    replaced: AtomicU64,
    quotas: Arc<Quotas>,
    status: watch::Sender<PolicyStatus>,
    /// Held while a policy is made from it, so that of two who change it the later one counts.
    source: Mutex<Source>,
}

#[derive(Debug)]
struct Source {
    /// The text of the last good policy, if the file was there.
    text: Option<PolicyText>,
    labels: ClusterLabels,
}

impl Shared {
    fn new(labels: ClusterLabels) -> Self {
        let policy = Policy::deny_all();
        let status = PolicyStatus { replaced: 0, roles: 0, bindings: 0, deny: 0, text: None, problem: None };
        Self {
            quotas: Arc::new(Quotas::new(&policy)),
            policy: RwLock::new(policy),
            replaced: AtomicU64::new(0),
            status: watch::Sender::new(status),
            source: Mutex::new(Source { text: None, labels }),
        }
    }

    /// Reads a policy and puts it into the place of the one that counts.
    fn install(&self, text: &str) -> Result<(), PolicyError> {
        let mut source = self.source.lock();
        let policy = Policy::parse_with(text, &source.labels)?;
        let text = PolicyText(text.into());
        source.text = Some(text.clone());
        self.replace(policy, Some(text), None);
        Ok(())
    }

    fn deny_all(&self) {
        let mut source = self.source.lock();
        source.text = None;
        self.replace(Policy::deny_all(), None, Some(MISSING.to_owned()));
    }

    fn relabel(&self, labels: ClusterLabels) {
        let mut source = self.source.lock();
        if source.labels == labels {
            return;
        }
        source.labels = labels;
        let read = source.text.as_ref().map(|text| Policy::parse_with(text.as_str(), &source.labels));
        // Read before it is written: the one would wait for the other.
        let problem = self.status.borrow().problem.clone();
        match read {
            Some(Ok(policy)) => self.replace(policy, source.text.clone(), problem),
            // Labels make no mistakes; if they did, the last good policy stays.
            Some(Err(error)) => self.keep(error.to_string()),
            None => {}
        }
    }

    /// The policy first, its number second: whoever sees the number decides by the new policy.
    fn replace(&self, policy: Policy, text: Option<PolicyText>, problem: Option<String>) {
        let (roles, bindings, deny) = policy.size();
        self.quotas.replace(&policy);
        *self.policy.write() = policy;
        let replaced = self.replaced.fetch_add(1, Ordering::AcqRel) + 1;
        self.status.send_modify(|status| *status = PolicyStatus { replaced, roles, bindings, deny, text, problem });
    }

    fn keep(&self, problem: String) {
        self.status.send_modify(|status| status.problem = Some(problem));
    }
}
