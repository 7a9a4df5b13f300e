//! The streams that clusters have open towards the hub, counted by protocol, tunnel and cluster: each costs memory here, and agents are
//! not trusted. Those of one protocol take no places from another's.

use mctunnel_core::{ClusterName, Protocol};
use parking_lot::Mutex;
use std::{collections::BTreeMap, sync::Arc};

/// A cluster has this many times what a tunnel has: streams of a tunnel that was replaced go on for a while, and must not keep those
/// of the new one out.
const TUNNELS: usize = 2;

/// What streams are counted by. Only protocols that the hub serves come here, so these are few.
type Owner = (ClusterName, Protocol);
type Live = BTreeMap<Owner, BTreeMap<u64, usize>>;

/// The streams of all clusters, by protocol and by the generation of their tunnels.
#[derive(Debug)]
pub(crate) struct Places {
    live: Arc<Mutex<Live>>,
    most_each: usize,
}

impl Places {
    pub(crate) fn new(most_each: usize) -> Self {
        Self { live: Arc::default(), most_each }
    }

    /// Counts a stream; `None` when the tunnel, or the cluster, has too many of that protocol.
    pub(crate) fn take(&self, cluster: &ClusterName, generation: u64, protocol: &Protocol) -> Option<Place> {
        let owner = (cluster.clone(), protocol.clone());
        let mut live = self.live.lock();
        let (of_tunnel, of_cluster) = match live.get(&owner) {
            Some(own) => (own.get(&generation).copied().unwrap_or_default(), own.values().sum()),
            None => (0, 0),
        };
        if of_tunnel >= self.most_each || of_cluster >= self.most_each.saturating_mul(TUNNELS) {
            return None;
        }
        *live.entry(owner.clone()).or_default().entry(generation).or_default() += 1;
        Some(Place { live: Arc::clone(&self.live), owner, generation })
    }
}

/// A stream that is counted, until this is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    live: Arc<Mutex<Live>>,
    owner: Owner,
    generation: u64,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut live = self.live.lock();
        let Some(own) = live.get_mut(&self.owner) else { return };
        if let Some(count) = own.get_mut(&self.generation) {
            *count -= 1;
            if *count == 0 {
                own.remove(&self.generation);
            }
        }
        if own.is_empty() {
            live.remove(&self.owner);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn t22_a_tunnel_has_so_many_streams_and_a_cluster_twice_as_many() {
        let (places, cluster) = (Places::new(3), ClusterName::parse("c1").unwrap());
        let (tcp, report) = (Protocol::tcp(), Protocol::report());
        let take = |generation| (0..9).filter_map(|_| places.take(&cluster, generation, &tcp)).collect::<Vec<_>>();
        let (old, new) = (take(1), take(2));
        assert_eq!((old.len(), new.len()), (3, 3), "those of the old tunnel do not keep the new one's out");
        assert!(take(3).is_empty(), "but coming again and again gains nothing");
        assert!(places.take(&ClusterName::parse("c2").unwrap(), 1, &tcp).is_some());
        assert!(places.take(&cluster, 2, &report).is_some(), "those of one protocol keep no other's out");
        drop(old);
        assert_eq!(take(3).len(), 3);
        drop(new);
        assert!(places.live.lock().is_empty());
    }
}
