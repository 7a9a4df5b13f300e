//! How many questions to the gateway itself are read and answered at a time. Each holds a place in the record before its client has
//! sent anything, so all sources together may not have as many as they like, and however greedy some are, they leave some to others.

use crate::shares::{Share, Shares};
use std::net::IpAddr;
use tokio::sync::{Semaphore, SemaphorePermit};

/// The places for questions.
#[derive(Debug)]
pub(in crate::http) struct Places {
    free: Semaphore,
    shares: Shares,
}

/// One place, until it is dropped.
#[derive(Debug)]
pub(super) struct Place<'a> {
    _free: SemaphorePermit<'a>,
    _share: Share,
}

impl Places {
    /// So many.
    pub(super) fn of(count: usize) -> Self {
        Self { free: Semaphore::new(count), shares: Shares::default() }
    }

    /// Takes a place for a client at this address; the error says of whom there are too many.
    pub(super) fn take(&self, address: IpAddr) -> Result<Place<'_>, &'static str> {
        let free = self.free.try_acquire().map_err(|_| "too many questions are being answered")?;
        // With the one that it would have.
        let left = self.free.available_permits() + 1;
        let share = self.shares.take(address, left).ok_or("too many questions from this address are being answered")?;
        Ok(Place { _free: free, _share: share })
    }
}

#[cfg(test)]
mod tests {
    use super::super::{BODIES, QUESTIONS};
    use super::*;
    use std::{net::Ipv4Addr, ops::RangeInclusive};

    /// Has these sources take what they get, in turns.
    fn taken(places: &Places, greedy: RangeInclusive<u8>) -> Vec<Place<'_>> {
        let mut taken = Vec::new();
        loop {
            let before = taken.len();
            taken.extend(greedy.clone().filter_map(|last| places.take([10, 0, 0, last].into()).ok()));
            if taken.len() == before {
                return taken;
            }
        }
    }

    #[test]
    fn t40_one_source_has_its_share_of_the_places_and_gives_it_back() {
        let places = Places::of(QUESTIONS);
        let held = taken(&places, 1..=1);
        assert_eq!(held.len(), QUESTIONS * 3 / 4);
        assert!(places.take([10, 0, 0, 1].into()).unwrap_err().contains("from this address"));
        let address = |number: u32| Ipv4Addr::from_bits(number).into();
        let others: Vec<_> = (1..).map_while(|number| places.take(address(number)).ok()).collect();
        assert_eq!(others.len(), QUESTIONS / 4);
        assert_eq!(places.take([10, 0, 0, 2].into()).unwrap_err(), "too many questions are being answered");
        drop((held, others));
        assert_eq!(places.free.available_permits(), QUESTIONS);
        assert_eq!(taken(&places, 1..=1).len(), QUESTIONS * 3 / 4, "what is given back can be had again");
    }

    #[test]
    fn t40_eight_greedy_sources_leave_places_to_a_ninth() {
        for count in [QUESTIONS, BODIES] {
            let places = Places::of(count);
            let held = taken(&places, 1..=8);
            assert!((count * 9 / 10..count).contains(&held.len()), "{} of {count}", held.len());
            let ninth: Vec<_> = (0..5).map(|_| places.take([192, 0, 2, 1].into()).unwrap()).collect();
            assert_eq!(ninth.len(), 5);
        }
    }
}
