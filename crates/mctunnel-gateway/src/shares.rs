//! Places of a gateway, counted by where its clients come from: one address cannot take so many that none are left for the others.
//! It is *not* about what a client may do, and knows no protocol.

use mctunnel_core::source_of;
use parking_lot::Mutex;
use std::{collections::BTreeMap, net::IpAddr, sync::Arc};

/// A source may have so many times as many places as are left for the others. All clients may come from one front proxy, so one source
/// alone may have three quarters of all; several greedy ones have less each, and always leave some.
const TIMES_WHAT_IS_LEFT: usize = 3;

/// How many clients of each source are connected. Sources of which there are none are forgotten.
#[derive(Debug, Clone, Default)]
pub(crate) struct Shares(Arc<Mutex<BTreeMap<IpAddr, usize>>>);

impl Shares {
    /// Counts a client that would have one of the places that are `left`; `None` if its source has enough already.
    pub(crate) fn take(&self, address: IpAddr, left: usize) -> Option<Share> {
        let source = source_of(address);
        let mut held = self.0.lock();
        let own = held.get(&source).copied().unwrap_or(0);
        if own >= left.saturating_mul(TIMES_WHAT_IS_LEFT) {
            return None;
        }
        held.insert(source, own + 1);
        Some(Share { shares: self.clone(), source })
    }
}

/// A place that is counted, until it is dropped.
#[derive(Debug)]
pub(crate) struct Share {
    shares: Shares,
    source: IpAddr,
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut held = self.shares.0.lock();
        if let Some(own) = held.get_mut(&self.source) {
            *own -= 1;
            if *own == 0 {
                held.remove(&self.source);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A gateway with so many places.
    struct Places {
        shares: Shares,
        limit: usize,
        taken: Vec<Share>,
    }

    impl Places {
        fn of(limit: usize) -> Self {
            Self { shares: Shares::default(), limit, taken: Vec::new() }
        }

        /// Whether one more client of this address is let in.
        fn enter(&mut self, address: &str) -> bool {
            let share = self.shares.take(address.parse().unwrap(), self.limit - self.taken.len());
            let entered = share.is_some();
            self.taken.extend(share);
            entered
        }

        fn enter_as_many_as_may(&mut self, address: &str) -> usize {
            (0..).take_while(|_| self.taken.len() < self.limit && self.enter(address)).count()
        }
    }

    #[test]
    fn t40_one_source_alone_has_three_quarters_and_leaves_the_rest_to_others() {
        let mut places = Places::of(1000);
        assert_eq!(places.enter_as_many_as_may("192.0.2.1"), 750);
        assert!(!places.enter("::ffff:192.0.2.1"), "another spelling of the same");
        let others = (1..=200).filter(|n| places.enter(&format!("198.51.100.{n}"))).count();
        assert_eq!(others, 200);
        places.taken.clear();
        assert!(places.shares.0.lock().is_empty(), "who is gone is forgotten");
        assert!(places.enter("192.0.2.1"));
    }

    #[test]
    fn t40_several_greedy_sources_leave_places_too() {
        let mut places = Places::of(1000);
        while (1..=8).filter(|n| places.enter(&format!("2001:db8:0:{n}::{n}"))).count() > 0 {}
        assert!((950..1000).contains(&places.taken.len()), "{}", places.taken.len());
        assert!(places.enter("192.0.2.1"));
        assert!(!places.enter("2001:db8:0:1:ffff::"), "who has one address of IPv6 has those beside it");
    }

    #[test]
    fn a_gateway_with_few_places_gives_all_of_them_to_one() {
        for limit in 1..=3 {
            assert_eq!(Places::of(limit).enter_as_many_as_may("127.0.0.1"), limit);
        }
    }
}
