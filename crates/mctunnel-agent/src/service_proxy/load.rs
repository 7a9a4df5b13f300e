//! Which of a target's addresses is next: what is under way to each, and which did not answer lately. It dials nothing.

#[cfg(test)]
mod tests;

use mctunnel_core::Located;
use parking_lot::Mutex;
use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::{sync::Semaphore, time::Instant};

/// What is under way, by address.
#[derive(Default)]
pub(super) struct Loads {
    by_address: Mutex<BTreeMap<SocketAddr, Arc<Load>>>,
    turn: AtomicUsize,
}

impl Loads {
    /// The addresses in the order in which they are tried: those that failed lately last, the preferred ones first, of these the
    /// least busy; equals take turns.
    pub(super) fn in_order(&self, located: &Located) -> Vec<SocketAddr> {
        let mut addresses = located.addresses.clone();
        if addresses.len() < 2 {
            return addresses;
        }
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        let preferred = located.preferred.min(addresses.len());
        let (near, far) = addresses.split_at_mut(preferred);
        for group in [near, far] {
            if let Some(turn) = turn.checked_rem(group.len()) {
                group.rotate_left(turn);
            }
        }
        let loads = self.by_address.lock();
        let rank = |(place, address): (usize, SocketAddr)| {
            let load = loads.get(&address);
            let exchanges = load.map_or(0, |load| load.exchanges.load(Ordering::Relaxed));
            ((load.is_some_and(|load| load.failed_lately()), place >= preferred, exchanges), address)
        };
        let mut ranked: Vec<_> = addresses.into_iter().enumerate().map(rank).collect();
        drop(loads);
        ranked.sort_by_key(|(rank, _)| *rank);
        ranked.into_iter().map(|(_, address)| address).collect()
    }

    /// One more exchange is under way to the address, until it is dropped.
    pub(super) fn occupy(&self, address: SocketAddr) -> Busy {
        let mut loads = self.by_address.lock();
        if loads.len() > MOST_COUNTED {
            loads.retain(|_, load| load.exchanges.load(Ordering::Relaxed) > 0);
        }
        let load = Arc::clone(loads.entry(address).or_default());
        load.exchanges.fetch_add(1, Ordering::Relaxed);
        Busy(load)
    }
}

/// What is under way to one address.
pub(super) struct Load {
    exchanges: AtomicUsize,
    /// A burst of requests would else dial as many connections at once, and have none of them in time.
    pub(super) dials: Semaphore,
    begun: Instant,
    /// Until when others are tried first, in milliseconds since `begun`.
    avoided: AtomicU64,
}

impl Default for Load {
    fn default() -> Self {
        let dials = Semaphore::new(DIALS_AT_ONCE);
        Self { exchanges: AtomicUsize::new(0), dials, begun: Instant::now(), avoided: AtomicU64::new(0) }
    }
}

impl Load {
    /// A dial to it failed, or was slow.
    pub(super) fn failed(&self) {
        self.avoided.store(millis(self.begun.elapsed() + AVOIDED), Ordering::Relaxed);
    }

    /// A dial to it went well.
    pub(super) fn answered(&self) {
        self.avoided.store(0, Ordering::Relaxed);
    }

    fn failed_lately(&self) -> bool {
        // The usual case does not ask for the time.
        let avoided = self.avoided.load(Ordering::Relaxed);
        avoided > 0 && millis(self.begun.elapsed()) < avoided
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// An exchange under way.
pub(super) struct Busy(pub(super) Arc<Load>);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.exchanges.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Connections to one address that are dialled at the same time.
pub(super) const DIALS_AT_ONCE: usize = 32;
/// How long an address that failed comes after all others. Kubernetes takes longer to say that an endpoint is gone.
const AVOIDED: Duration = Duration::from_secs(10);
/// Addresses come and go with their pods.
const MOST_COUNTED: usize = 4096;
