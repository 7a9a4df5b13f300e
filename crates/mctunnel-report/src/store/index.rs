//! What is in the log of a kind: which batches where, and how far each lane is. Made anew from the log at each start.

use super::MOST_KINDS;
use crate::{
    Kind, ReportError, SpoolId,
    kind::{BUILT_IN, MOST_CUSTOM},
    segments::Place,
};
use mctunnel_core::ClusterName;
use std::collections::{BTreeMap, VecDeque};

/// The lanes of a cluster that are remembered; of more, those that were not used for longest are forgotten.
pub(crate) const MOST_LANES: usize = 64;

/// The log of a kind as those who ask see it: what is synced.
#[derive(Debug, Clone, Default)]
pub(crate) struct Index {
    pub(crate) lanes: BTreeMap<LaneKey, Mark>,
    /// Batches in the order in which they were stored.
    pub(crate) batches: VecDeque<Indexed>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LaneKey {
    pub(crate) cluster: ClusterName,
    pub(crate) spool: SpoolId,
}

/// How far a lane is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) next: u64,
    pub(crate) stored: u64,
    pub(crate) missing: u64,
    pub(crate) used: u64,
}

impl Default for Mark {
    fn default() -> Self {
        Self { next: 1, stored: 0, missing: 0, used: 0 }
    }
}

impl Mark {
    /// A batch with these numbers was stored.
    pub(crate) fn advance(&mut self, first: u64, next: u64, now: u64) {
        self.missing += first.saturating_sub(self.next);
        self.stored += next.saturating_sub(first);
        self.next = next;
        self.used = self.used.max(now);
    }
}

/// A batch in the log.
#[derive(Debug, Clone)]
pub(crate) struct Indexed {
    pub(crate) cluster: ClusterName,
    pub(crate) place: Place,
    /// The position of its first record among all that were ever stored of the kind.
    pub(crate) position: u64,
    pub(crate) count: u32,
    pub(crate) earliest: i64,
    pub(crate) latest: i64,
}

impl Index {
    /// The last batch of each cluster.
    pub(crate) fn last_of_each(&self) -> BTreeMap<ClusterName, Indexed> {
        let mut last = BTreeMap::new();
        for batch in self.batches.iter().rev() {
            if !last.contains_key(&batch.cluster) {
                last.insert(batch.cluster.clone(), batch.clone());
            }
        }
        last
    }

    pub(crate) fn forget_segment(&mut self, segment: u64) {
        while self.batches.front().is_some_and(|batch| batch.place.segment <= segment) {
            self.batches.pop_front();
        }
    }
}

/// Checks that a cluster may begin with a kind: whatever others report, there is room for the kinds that are built in, and one cluster
/// does not take all the others. Its kinds of which nothing came since a time do not count.
pub(crate) fn check_new_kind<'a>(
    kind: &Kind,
    cluster: &ClusterName,
    since: u64,
    known: impl Iterator<Item = (&'a Kind, &'a BTreeMap<LaneKey, Mark>)>,
) -> Result<(), ReportError> {
    if kind.is_built_in() {
        return Ok(());
    }
    let (mut all, mut own) = (0, 0);
    let first = LaneKey { cluster: cluster.clone(), spool: SpoolId([0; 16]) };
    for (_, lanes) in known.filter(|(other, _)| *other != kind && !other.is_built_in()) {
        all += 1;
        let mut lanes = lanes.range(&first..).take_while(|(key, _)| key.cluster == *cluster);
        own += usize::from(lanes.any(|(_, mark)| mark.used >= since));
    }
    match (own >= MOST_CUSTOM, all >= MOST_KINDS - BUILT_IN.len()) {
        (true, _) => Err(ReportError::TooManyKinds(own)),
        (false, true) => Err(ReportError::TooManyKinds(all)),
        (false, false) => Ok(()),
    }
}

/// Forgets the lanes of a cluster that were used least lately, until there are few enough.
pub(crate) fn forget_lanes(lanes: &mut BTreeMap<LaneKey, Mark>, cluster: &ClusterName) -> Vec<LaneKey> {
    let mut forgotten = Vec::new();
    loop {
        let own = lanes.iter().filter(|(key, _)| key.cluster == *cluster);
        if own.clone().count() <= MOST_LANES {
            return forgotten;
        }
        let Some(oldest) = own.min_by_key(|(_, mark)| mark.used).map(|(key, _)| key.clone()) else { return forgotten };
        lanes.remove(&oldest);
        forgotten.push(oldest);
    }
}
