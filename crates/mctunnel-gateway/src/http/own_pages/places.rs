//! How many questions to the gateway itself are read and answered at a time. Each holds a place in the record before its client has
//! sent anything, so one source may not have all of them, nor all sources together as many as they like.

use mctunnel_core::source_of;
use parking_lot::Mutex;
use std::{collections::BTreeMap, net::IpAddr};

/// Of all sources together, with up to 64 KiB each; and of one: enough for many people behind one address.
const MOST: usize = 512;
const MOST_EACH: usize = 128;

/// The places for questions.
#[derive(Debug, Default)]
pub(in crate::http) struct Places(Mutex<Taken>);

#[derive(Debug, Default)]
struct Taken {
    count: usize,
    sources: BTreeMap<IpAddr, usize>,
}

/// One place, until it is dropped.
#[derive(Debug)]
pub(super) struct Place<'a> {
    places: &'a Places,
    source: IpAddr,
}

impl Places {
    /// Takes a place for a client at this address; the error says of whom there are too many.
    pub(super) fn take(&self, address: IpAddr) -> Result<Place<'_>, &'static str> {
        let (source, taken) = (source_of(address), &mut *self.0.lock());
        if taken.count >= MOST {
            return Err("too many questions are being answered");
        }
        let of_source = taken.sources.entry(source).or_default();
        if *of_source >= MOST_EACH {
            return Err("too many questions from this address are being answered");
        }
        *of_source += 1;
        taken.count += 1;
        Ok(Place { places: self, source })
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let taken = &mut *self.places.0.lock();
        taken.count = taken.count.saturating_sub(1);
        match taken.sources.get_mut(&self.source) {
            Some(count) if *count > 1 => *count -= 1,
            _ => {
                taken.sources.remove(&self.source);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn t40_one_source_has_its_share_of_the_places_and_gives_it_back() {
        let places = Places::default();
        let take = |last: u8| places.take([10, 0, 0, last].into());
        let first: Vec<_> = (0..MOST_EACH).map(|_| take(1).unwrap()).collect();
        assert!(take(1).unwrap_err().contains("from this address"));
        let others: Vec<_> = (2..=4).flat_map(|source| (0..MOST_EACH).map(move |_| source)).collect();
        let others: Vec<_> = others.into_iter().map(|source| take(source).unwrap()).collect();
        assert_eq!(take(5).unwrap_err(), "too many questions are being answered");
        drop(first);
        drop((take(1).unwrap(), take(5).unwrap()));
        drop(others);
        let taken = places.0.lock();
        assert_eq!((taken.count, taken.sources.len()), (0, 0));
    }
}
