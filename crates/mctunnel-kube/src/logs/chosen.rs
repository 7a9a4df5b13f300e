//! The pods that were chosen, by any of several selections, and which of them changed since they were looked at last.

use super::pod::{Instance, Pod};
use parking_lot::Mutex;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};
use tokio::sync::Notify;

/// The most pods that are known at once: what bounds the memory in a large cluster.
const MOST_PODS: usize = 20_000;

/// A pod and no other of the same name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PodName {
    pub(crate) namespace: Arc<str>,
    pub(crate) name: Arc<str>,
    pub(crate) uid: Arc<str>,
}

impl PodName {
    pub(crate) fn of(pod: &Pod) -> Self {
        let metadata = &pod.metadata;
        let [namespace, name, uid] =
            [&metadata.namespace, &metadata.name, &metadata.uid].map(|text| Arc::from(text.as_str()));
        Self { namespace, name, uid }
    }
}

/// The containers of a pod, each with what can be read of its log.
pub(crate) type Containers = Vec<(Arc<str>, Instance)>;

/// The pods.
#[derive(Debug, Default)]
pub(crate) struct Chosen {
    pods: Mutex<Pods>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct Pods {
    chosen: BTreeMap<PodName, ChosenPod>,
    changed: BTreeSet<PodName>,
    /// The selections that have listed their pods at least once.
    listed: BTreeSet<usize>,
    /// Whether there were more pods than are known at once.
    is_full: bool,
}

#[derive(Debug)]
struct ChosenPod {
    /// The selections that have it.
    by: BTreeSet<usize>,
    containers: Containers,
}

impl Chosen {
    /// A selection has a pod, or it changed.
    pub(crate) fn keep(&self, selection: usize, pod: &Pod) {
        let mut pods = self.pods.lock();
        let name = PodName::of(pod);
        if pods.chosen.len() >= MOST_PODS && !pods.chosen.contains_key(&name) {
            if !std::mem::replace(&mut pods.is_full, true) {
                tracing::warn!(limit = MOST_PODS, "More pods were chosen than can be followed; choose fewer.");
            }
            return;
        }
        let containers = pod.containers();
        let known = pods.chosen.get_mut(&name);
        let is_same = known.is_some_and(|known| {
            known.by.insert(selection);
            let is_same = known.containers == containers;
            known.containers.clone_from(&containers);
            is_same
        });
        if is_same {
            return;
        }
        pods.chosen.entry(name.clone()).or_insert_with(|| ChosenPod { by: BTreeSet::from([selection]), containers });
        pods.changed.insert(name);
        drop(pods);
        self.changed.notify_one();
    }

    /// A selection has a pod no more.
    pub(crate) fn forget(&self, selection: usize, name: &PodName) {
        let mut pods = self.pods.lock();
        let Some(pod) = pods.chosen.get_mut(name) else { return };
        pod.by.remove(&selection);
        if pod.by.is_empty() {
            pods.chosen.remove(name);
            pods.changed.insert(name.clone());
            drop(pods);
            self.changed.notify_one();
        }
    }

    /// A selection has these pods and no others.
    pub(crate) fn listed(&self, selection: usize, names: &BTreeSet<PodName>) {
        let mut pods = self.pods.lock();
        let gone = pods.chosen.iter().filter(|(name, pod)| pod.by.contains(&selection) && !names.contains(*name));
        let gone: Vec<PodName> = gone.map(|(name, _)| name.clone()).collect();
        pods.listed.insert(selection);
        pods.is_full &= pods.chosen.len() >= MOST_PODS;
        drop(pods);
        gone.iter().for_each(|name| self.forget(selection, name));
        self.changed.notify_one();
    }

    /// Waits until something has changed.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// The pods that changed, in the order of their names; those that are gone without containers.
    pub(crate) fn take_changes(&self) -> Vec<(PodName, Option<Containers>)> {
        let mut pods = self.pods.lock();
        let changed = std::mem::take(&mut pods.changed);
        let now = |name: PodName| {
            let containers = pods.chosen.get(&name).map(|pod| pod.containers.clone());
            (name, containers)
        };
        changed.into_iter().map(now).collect()
    }

    /// Whether every pod is known that any of so many selections has.
    pub(crate) fn all_listed(&self, selections: usize) -> bool {
        let pods = self.pods.lock();
        pods.listed.len() >= selections && !pods.is_full
    }

    pub(crate) fn has(&self, name: &PodName) -> bool {
        self.pods.lock().chosen.contains_key(name)
    }
}
