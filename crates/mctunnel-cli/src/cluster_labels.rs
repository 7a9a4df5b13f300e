//! What join tokens said about clusters, told to the policy, whose rules choose clusters by it.
//!
//! A label counts before the certificate that it came with is out: a deny rule must not have a gap. Other processes may change the
//! list of clusters as well, so it is looked at every second. A cluster whose labels cannot be read is let in by nobody.

use mctunnel::{
    ClusterFiles, ClusterName, IdentityError,
    core::{
        Clusters,
        clusters::{Labels, Renewed, Standing},
    },
    identity::{CaPin, ClusterLedger, EnrolError, RecordedCertificate},
};
use mctunnel_policy::{ClusterLabels, ReloadingPolicy};
use parking_lot::Mutex;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, SystemTime},
};
use tokio::{task::spawn_blocking, time::MissedTickBehavior};
use tracing::warn;

/// How often the list of clusters is looked at.
const LOOK: Duration = Duration::from_secs(1);
/// A change this young may have another one behind it that looks the same.
const SETTLED: Duration = Duration::from_millis(100);

/// The labels of all clusters.
#[derive(Debug, Default)]
pub(crate) struct Known {
    pub(crate) labels: ClusterLabels,
    /// Those whose records could not be read.
    unread: BTreeSet<ClusterName>,
}

/// Reads them. Damaged records are told of and passed over.
pub(crate) fn read(clusters: &ClusterFiles) -> Result<Known, IdentityError> {
    let mut known = Known::default();
    known.read_again(clusters)?;
    Ok(known)
}

impl Known {
    /// What cannot be read stays as it was known: a tunnel that is up may outlive that for a while, and with it what is denied there.
    fn read_again(&mut self, clusters: &ClusterFiles) -> Result<(), IdentityError> {
        let list = clusters.list_readable()?;
        let labelled = list.clusters.into_iter().filter(|record| !record.labels.is_empty());
        let mut labels: ClusterLabels = labelled.map(|record| (record.cluster, record.labels)).collect();
        let mut unread = BTreeSet::new();
        for (cluster, error) in list.unread {
            if !self.unread.contains(&cluster) {
                let error = format!("{:#}", anyhow::Error::from(error));
                warn!(%cluster, error, "The record of a cluster cannot be read; nobody gets in by it.");
            }
            if let Some(before) = self.labels.remove(&cluster) {
                labels.insert(cluster.clone(), before);
            }
            unread.insert(cluster);
        }
        *self = Self { labels, unread };
        Ok(())
    }
}

/// The policies that choose by labels, and what they were told.
#[derive(Debug)]
pub(crate) struct KnownLabels {
    clusters: Arc<ClusterFiles>,
    policies: Vec<ReloadingPolicy>,
    told: Mutex<Known>,
    /// Of what was told, the clusters whose labels are not known: where it can be asked without waiting for a disk.
    unread: Mutex<BTreeSet<ClusterName>>,
    /// Whether it was said that the list cannot be read.
    is_mentioned: AtomicBool,
}

impl KnownLabels {
    /// Policies that were made with these labels.
    pub(crate) fn new(clusters: Arc<ClusterFiles>, policies: Vec<ReloadingPolicy>, told: Known) -> Self {
        let unread = Mutex::new(told.unread.clone());
        Self { clusters, policies, told: Mutex::new(told), unread, is_mentioned: AtomicBool::new(false) }
    }

    /// Whether nothing is known of what is denied in the cluster.
    fn is_unread(&self, cluster: &ClusterName) -> bool {
        self.unread.lock().contains(cluster)
    }

    /// Changes what the policies know. All of it inside the lock: what is read from the disk here has what was learned before, and of
    /// two changes the later one counts.
    fn tell(&self, change: impl FnOnce(&mut Known) -> Result<(), IdentityError>) -> Result<(), IdentityError> {
        let mut told = self.told.lock();
        change(&mut told)?;
        self.policies.iter().for_each(|policy| policy.set_cluster_labels(told.labels.clone()));
        // After that: whoever gets in now is judged by them.
        *self.unread.lock() = told.unread.clone();
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
        if let Err(error) = self.tell(|told| told.read_again(&self.clusters)) {
            // Said once, not every second.
            if !self.is_mentioned.swap(true, Ordering::Relaxed) {
                let error = format!("{:#}", anyhow::Error::from(error));
                warn!(error, "The list of clusters cannot be read; the labels that were read before still count.");
            }
            return None;
        }
        self.is_mentioned.store(false, Ordering::Relaxed);
        // What could not be read may be readable without a change.
        if !self.unread.lock().is_empty() {
            return None;
        }
        changed.filter(|changed| changed.elapsed().is_ok_and(|age| age > SETTLED))
    }
}

/// The ledger and the list of a hub whose policies know labels.
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
            told.labels.insert(cluster.clone(), labels.clone());
            told.unread.remove(cluster);
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

/// Whose labels are not known is not let in: a rule that denies by them would not hold. What was taken back is taken back all the same.
impl Clusters for LabelledLedger {
    async fn is_known(&self, cluster: &ClusterName) -> bool {
        Clusters::is_known(&*self.ledger, cluster).await
    }

    async fn admits(&self, cluster: &ClusterName, serial: &str) -> bool {
        self.stands(cluster, serial).await == Standing::Admitted
    }

    async fn admits_own(&self, cluster: &ClusterName) -> bool {
        self.stands_own(cluster).await == Standing::Admitted
    }

    async fn stands(&self, cluster: &ClusterName, serial: &str) -> Standing {
        self.unless_unread(cluster, Clusters::stands(&*self.ledger, cluster, serial).await)
    }

    async fn stands_own(&self, cluster: &ClusterName) -> Standing {
        self.unless_unread(cluster, Clusters::stands_own(&*self.ledger, cluster).await)
    }

    async fn successor(&self, cluster: &ClusterName, serial: &str) -> Option<Renewed> {
        Clusters::successor(&*self.ledger, cluster, serial).await
    }

    async fn labels(&self, cluster: &ClusterName) -> Labels {
        Clusters::labels(&*self.ledger, cluster).await
    }
}

impl LabelledLedger {
    fn unless_unread(&self, cluster: &ClusterName, standing: Standing) -> Standing {
        if standing == Standing::Admitted && self.labels.is_unread(cluster) {
            return Standing::Unknown("its labels were not read yet".to_owned());
        }
        standing
    }
}
