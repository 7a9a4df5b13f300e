//! The slots of the record: how many are taken, and by which sources. One source has a share, so that nobody takes them all.

use mctunnel_core::source_of;
use parking_lot::Mutex;
use std::{collections::BTreeMap, net::IpAddr};

/// A bound on what is open or not written yet.
#[derive(Debug)]
pub(crate) struct Slots {
    most: usize,
    most_each: usize,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    count: usize,
    /// Of those that hold any; so there are never more than slots.
    sources: BTreeMap<IpAddr, usize>,
}

/// One slot that was taken. Whoever has it gives it back.
#[derive(Debug)]
pub(crate) struct Held {
    /// Who is counted for it, if that is known.
    source: Option<IpAddr>,
}

/// Why there is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoneLeft {
    /// All are taken.
    ForAnybody,
    /// There are some, but this source has its share.
    ForThisSource,
}

impl Slots {
    pub(crate) fn new(most: usize, most_each: usize) -> Self {
        Self { most, most_each, taken: Mutex::default() }
    }

    /// Takes one for a client at this address, if there is one left for it.
    pub(crate) fn take(&self, address: Option<IpAddr>) -> Result<Held, NoneLeft> {
        let source = address.map(source_of);
        let taken = &mut *self.taken.lock();
        if taken.count >= self.most {
            return Err(NoneLeft::ForAnybody);
        }
        if let Some(source) = source {
            let count = taken.sources.get(&source).copied().unwrap_or_default();
            if count >= self.most_each {
                return Err(NoneLeft::ForThisSource);
            }
            taken.sources.insert(source, count + 1);
        }
        taken.count += 1;
        Ok(Held { source })
    }

    pub(crate) fn give(&self, held: impl IntoIterator<Item = Held>) {
        let taken = &mut *self.taken.lock();
        for Held { source } in held {
            taken.count = taken.count.saturating_sub(1);
            let Some(source) = source else { continue };
            match taken.sources.get_mut(&source) {
                Some(count) if *count > 1 => *count -= 1,
                _ => {
                    taken.sources.remove(&source);
                }
            }
        }
    }

    pub(crate) fn taken(&self) -> usize {
        self.taken.lock().count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn t40_one_source_has_its_share_and_no_more() {
        let slots = Slots::new(8, 2);
        let address = |last: u8| Some(IpAddr::from([10, 0, 0, last]));
        let mut held: Vec<Held> = (0..2).map(|_| slots.take(address(1)).unwrap()).collect();
        assert_eq!(slots.take(address(1)).unwrap_err(), NoneLeft::ForThisSource);
        held.extend((0..2).map(|_| slots.take(address(2)).unwrap()));
        // Who has an address of the sixth version has all that begin like it.
        held.push(slots.take(Some("2001:db8::1".parse().unwrap())).unwrap());
        held.push(slots.take(Some("2001:db8::2".parse().unwrap())).unwrap());
        assert_eq!(slots.take(Some("2001:db8::3".parse().unwrap())).unwrap_err(), NoneLeft::ForThisSource);
        held.extend((0..2).map(|_| slots.take(None).unwrap()));
        for anybody in [None, address(1), address(3)] {
            assert_eq!(slots.take(anybody).unwrap_err(), NoneLeft::ForAnybody, "all are taken");
        }
        assert_eq!((slots.taken(), slots.taken.lock().sources.len()), (8, 3));
        slots.give(held.drain(..1));
        assert!(slots.take(address(2)).is_err());
        held.push(slots.take(address(1)).unwrap());
        slots.give(held);
        assert_eq!((slots.taken(), slots.taken.lock().sources.len()), (0, 0), "nothing is left of those who are gone");
    }
}
