//! What join tokens said about clusters, told to the policy, whose rules choose clusters by it.
//!
//! A label counts before the certificate that it came with is out: a deny rule must not have a gap. Other processes may change the
//! list of clusters as well, so it is looked at every second.

use mctunnel::{
    ClusterFiles, ClusterName, IdentityError,
    identity::{CaPin, ClusterLedger, EnrolError, RecordedCertificate},
};
use mctunnel_policy::{ClusterLabels, ReloadingPolicy};
use parking_lot::Mutex;
use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, SystemTime},
};
use tokio::{task::spawn_blocking, time::MissedTickBehavior};
use tracing::warn;

/// How often the list of clusters is looked at.
const LOOK: Duration = Duration::from_secs(1);
/// A change this young may have another one behind it that looks the same.
const SETTLED: Duration = Duration::from_millis(100);

/// The labels of all clusters.
pub(crate) fn read(clusters: &ClusterFiles) -> Result<ClusterLabels, IdentityError> {
    let records = clusters.list()?.into_iter().filter(|record| !record.labels.is_empty());
    Ok(records.map(|record| (record.cluster, record.labels)).collect())
}

/// The policies that choose by labels, and what they were told.
#[derive(Debug)]
pub(crate) struct KnownLabels {
    clusters: Arc<ClusterFiles>,
    policies: Vec<ReloadingPolicy>,
    told: Mutex<ClusterLabels>,
}

impl KnownLabels {
    /// Policies that were made with these labels.
    pub(crate) fn new(clusters: Arc<ClusterFiles>, policies: Vec<ReloadingPolicy>, told: ClusterLabels) -> Self {
        Self { clusters, policies, told: Mutex::new(told) }
    }

    /// Changes what the policies know. All of it inside the lock: what is read from the disk here has what was learned before, and of
    /// two changes the later one counts.
    fn tell(&self, change: impl FnOnce(&mut ClusterLabels) -> Result<(), IdentityError>) -> Result<(), IdentityError> {
        let mut told = self.told.lock();
        change(&mut told)?;
        self.policies.iter().for_each(|policy| policy.set_cluster_labels(told.clone()));
        Ok(())
    }

    /// Looks for what others changed, until dropped.
    pub(crate) async fn follow(self: Arc<Self>) {
        let mut ticks = tokio::time::interval(LOOK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut seen = None;
        loop {
            ticks.tick().await;
            let this = Arc::clone(&self);
            let looked = spawn_blocking(move || this.look(seen)).await;
            seen = looked.unwrap_or_default();
        }
    }

    /// Reads the list if it changed since; gives when it was changed, if that can be relied on.
    fn look(&self, seen: Option<SystemTime>) -> Option<SystemTime> {
        let changed = self.clusters.changed();
        if changed.is_some() && changed == seen {
            return seen;
        }
        let told = self.tell(|told| {
            *told = read(&self.clusters)?;
            Ok(())
        });
        if let Err(error) = told {
            warn!(%error, "The list of clusters cannot be read; the labels that were read before still count.");
        }
        changed.filter(|changed| changed.elapsed().is_ok_and(|age| age > SETTLED))
    }
}

/// The ledger of a hub whose policies know labels.
#[derive(Debug)]
pub(crate) struct LabelledLedger {
    ledger: Arc<ClusterFiles>,
    labels: Arc<KnownLabels>,
}

impl LabelledLedger {
    pub(crate) fn new(ledger: Arc<ClusterFiles>, labels: Arc<KnownLabels>) -> Self {
        Self { ledger, labels }
    }
}

impl ClusterLedger for LabelledLedger {
    fn enrolled(
        &self,
        cluster: &ClusterName,
        epoch: &str,
        issued: &RecordedCertificate,
        labels: &BTreeMap<String, String>,
    ) -> Result<(), EnrolError> {
        self.ledger.enrolled(cluster, epoch, issued, labels)?;
        if labels.is_empty() {
            return Ok(());
        }
        Ok(self.labels.tell(|told| {
            told.insert(cluster.clone(), labels.clone());
            Ok(())
        })?)
    }

    fn renewed(&self, cluster: &ClusterName, serial: &str, issued: &RecordedCertificate) -> Result<(), EnrolError> {
        self.ledger.renewed(cluster, serial, issued)
    }

    fn depends_on(&self, authority: &CaPin) -> Result<bool, IdentityError> {
        self.ledger.depends_on(authority)
    }
}
