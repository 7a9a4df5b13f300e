//! Connections that are not tunnels yet, counted by where they come from: one address cannot keep the others out by connecting and
//! stalling. What has become a tunnel is no longer counted.

use mctunnel_core::source_of;
use parking_lot::Mutex;
use std::{collections::BTreeMap, net::IpAddr, sync::Arc};
use tokio::sync::{Semaphore, SemaphorePermit};

/// One source may have half of the places to wait in, and a quarter of the turns at a handshake. Less would be felt where hundreds of
/// agents come from behind one address; more would let two addresses shut out the rest.
const SHARE_OF_WAITING: usize = 2;
const SHARE_OF_TURNS: usize = 4;

/// Who waits to become a tunnel, and whose turn it is.
#[derive(Debug)]
pub(crate) struct Sources {
    waiting: Arc<Mutex<Waiting>>,
    most_waiting: usize,
    most_each: usize,
    turns: Semaphore,
    turns_each: usize,
}

#[derive(Debug, Default)]
struct Waiting {
    /// Of all sources together.
    count: usize,
    sources: BTreeMap<IpAddr, Source>,
}

#[derive(Debug)]
struct Source {
    count: usize,
    turns: Arc<Semaphore>,
}

impl Sources {
    pub(crate) fn new(waiting_handshakes: usize, concurrent_handshakes: usize) -> Self {
        Self {
            waiting: Arc::default(),
            most_waiting: waiting_handshakes,
            most_each: waiting_handshakes.div_ceil(SHARE_OF_WAITING),
            turns: Semaphore::new(concurrent_handshakes),
            turns_each: concurrent_handshakes.div_ceil(SHARE_OF_TURNS),
        }
    }

    /// Counts a connection, or says why there is no room for it.
    pub(crate) fn enter(&self, address: IpAddr) -> Result<Visit, &'static str> {
        let source = source_of(address);
        let mut waiting = self.waiting.lock();
        if waiting.count >= self.most_waiting {
            return Err("too many connections wait for their handshake");
        }
        let entry = waiting
            .sources
            .entry(source)
            .or_insert_with(|| Source { count: 0, turns: Arc::new(Semaphore::new(self.turns_each)) });
        if entry.count >= self.most_each {
            return Err("too many connections from this address wait for their handshake");
        }
        entry.count += 1;
        let turns = Arc::clone(&entry.turns);
        waiting.count += 1;
        Ok(Visit { waiting: Arc::clone(&self.waiting), source, turns })
    }

    /// Waits for a turn at the work of a handshake: the source's own, then one of all.
    pub(crate) async fn turn<'a>(&'a self, visit: &'a Visit) -> Turn<'a> {
        // Neither semaphore is ever closed.
        let own = visit.turns.acquire().await.ok();
        Turn { _own: own, _shared: self.turns.acquire().await.ok() }
    }
}

/// A turn, given back when dropped.
#[derive(Debug)]
pub(crate) struct Turn<'a> {
    _own: Option<SemaphorePermit<'a>>,
    _shared: Option<SemaphorePermit<'a>>,
}

/// A connection that is counted, until it is dropped.
#[derive(Debug)]
pub(crate) struct Visit {
    waiting: Arc<Mutex<Waiting>>,
    source: IpAddr,
    turns: Arc<Semaphore>,
}

impl Drop for Visit {
    fn drop(&mut self) {
        let mut waiting = self.waiting.lock();
        waiting.count = waiting.count.saturating_sub(1);
        if let Some(entry) = waiting.sources.get_mut(&self.source) {
            entry.count -= 1;
            if entry.count == 0 {
                waiting.sources.remove(&self.source);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{pin::pin, task::Context};

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn t40_one_source_leaves_room_for_others() {
        let sources = Sources::new(10, 8);
        let greedy: Vec<_> = (0..20).filter_map(|_| sources.enter(ip("192.0.2.1")).ok()).collect();
        assert_eq!(greedy.len(), 5);
        assert!(sources.enter(ip("::ffff:192.0.2.1")).is_err(), "another spelling of the same");
        assert!(sources.enter(ip("192.0.2.2")).is_ok());
        drop(greedy);
        assert!(sources.enter(ip("192.0.2.1")).is_ok());
        assert!(sources.waiting.lock().sources.is_empty(), "who is gone is forgotten");
    }

    #[test]
    fn t40_a_network_of_ipv6_is_one_source() {
        let sources = Sources::new(4, 4);
        let visits: Vec<_> = (1..9).filter_map(|n| sources.enter(ip(&format!("2001:db8::{n}"))).ok()).collect();
        assert_eq!(visits.len(), 2);
        assert!(sources.enter(ip("2001:db8:0:1::1")).is_ok());
    }

    #[test]
    fn t40_all_sources_together_have_no_more_places_than_there_are() {
        let sources = Sources::new(4, 4);
        let from = |n: u8| sources.enter(IpAddr::from([192, 0, 2, n]));
        let mut visits: Vec<_> = (0..9).filter_map(|n| from(n).ok()).collect();
        assert_eq!(visits.len(), 4);
        visits.pop();
        assert!(from(9).is_ok());
    }

    #[test]
    fn t40_stalled_handshakes_of_one_source_leave_turns_for_others() {
        let sources = Sources::new(100, 8);
        let visits: Vec<_> = (0..20).map(|_| sources.enter(ip("192.0.2.1")).unwrap()).collect();
        let mut cx = Context::from_waker(std::task::Waker::noop());
        let mut turns: Vec<_> = visits.iter().map(|visit| Box::pin(sources.turn(visit))).collect();
        let granted: Vec<_> =
            turns.iter_mut().map(|turn| turn.as_mut().poll(&mut cx)).filter(|p| p.is_ready()).collect();
        assert_eq!(granted.len(), 2);
        let other = sources.enter(ip("192.0.2.2")).unwrap();
        assert!(pin!(sources.turn(&other)).poll(&mut cx).is_ready());
    }
}
