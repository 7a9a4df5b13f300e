//! The streams of reports that are open, one for each kind of a cluster: each may keep most of a batch in memory. A newer one takes
//! over, because the older may be of a tunnel that nobody has found dead yet.

use crate::{Kind, ReportError, kind::MOST_EACH};
use mctunnel_core::ClusterName;
use parking_lot::Mutex;
use std::{collections::BTreeMap, sync::Arc};
use tokio_util::sync::CancellationToken;

type Live = BTreeMap<ClusterName, BTreeMap<Kind, CancellationToken>>;

/// The streams of all clusters.
#[derive(Debug, Clone, Default)]
pub(super) struct Lanes(Arc<Mutex<Live>>);

/// A stream that counts, until it is dropped.
#[derive(Debug)]
pub(super) struct Place {
    lanes: Lanes,
    cluster: ClusterName,
    kind: Kind,
    taken_over: CancellationToken,
}

impl Lanes {
    /// Takes the place of a kind, whoever has it.
    pub(super) fn enter(&self, cluster: &ClusterName, kind: &Kind) -> Result<Place, ReportError> {
        let mut live = self.0.lock();
        let own = live.entry(cluster.clone()).or_default();
        if own.len() >= MOST_EACH && !own.contains_key(kind) {
            return Err(ReportError::TooManyKinds(own.len()));
        }
        let taken_over = CancellationToken::new();
        if let Some(older) = own.insert(kind.clone(), taken_over.clone()) {
            older.cancel();
        }
        Ok(Place { lanes: self.clone(), cluster: cluster.clone(), kind: kind.clone(), taken_over })
    }
}

impl Place {
    /// Resolves when a newer stream has taken it.
    pub(super) async fn taken_over(&self) {
        self.taken_over.cancelled().await;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.taken_over.is_cancelled() {
            return;
        }
        let mut live = self.lanes.0.lock();
        if let Some(own) = live.get_mut(&self.cluster) {
            own.remove(&self.kind);
            if own.is_empty() {
                live.remove(&self.cluster);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn t22_a_cluster_has_one_stream_of_a_kind_and_the_newest_is_it() {
        let (lanes, cluster) = (Lanes::default(), ClusterName::parse("c1").unwrap());
        let kind = |n: usize| Kind::parse(&format!("k{n}")).unwrap();
        let mut places: Vec<_> = (0..MOST_EACH).map(|n| lanes.enter(&cluster, &kind(n)).unwrap()).collect();
        assert!(matches!(lanes.enter(&cluster, &kind(MOST_EACH)), Err(ReportError::TooManyKinds(MOST_EACH))));
        let other = lanes.enter(&ClusterName::parse("c2").unwrap(), &kind(0)).unwrap();
        let newer = lanes.enter(&cluster, &kind(0)).unwrap();
        assert!(places[0].taken_over.is_cancelled() && !newer.taken_over.is_cancelled());
        // The end of the older one does not give its place away.
        drop(places.remove(0));
        assert!(lanes.enter(&cluster, &kind(MOST_EACH)).is_err());
        drop(newer);
        assert!(lanes.enter(&cluster, &kind(MOST_EACH)).is_ok());
        drop((places, other));
        assert!(lanes.0.lock().is_empty());
    }
}
