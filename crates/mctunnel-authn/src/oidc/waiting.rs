//! Who waits for an issuer's keys. An issuer that hangs must not gather everybody's requests: so many wait in total, so many of one
//! source, and the next one is refused at once. Who shows a token that known keys have signed waits in another room than who shows
//! one that nobody can tell yet: those cost nothing to make up.

use mctunnel_core::source_of;
use parking_lot::Mutex;
use std::{collections::BTreeMap, net::IpAddr, net::SocketAddr, sync::Arc};

/// In which room somebody waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Room {
    /// The token is signed by a key that was the issuer's a while ago.
    Signed,
    /// Anybody could have made up the token.
    Unknown,
}

impl Room {
    /// How many find place in it, and how many of one source.
    const fn places(self) -> (usize, usize) {
        match self {
            Self::Signed => (2 * 1024, 512),
            Self::Unknown => (4 * 1024, 256),
        }
    }
}

/// Those who wait.
#[derive(Debug, Default)]
pub(super) struct Waiting(Mutex<Counts>);

/// No source stands here that nobody waits of, so there are never more of them than places.
#[derive(Debug, Default)]
struct Counts {
    rooms: BTreeMap<Room, usize>,
    sources: BTreeMap<(Room, Option<IpAddr>), usize>,
}

/// Somebody's place. Dropping it gives it back.
#[derive(Debug)]
pub(super) struct Seat {
    waiting: Arc<Waiting>,
    room: Room,
    source: Option<IpAddr>,
}

impl Waiting {
    /// A place for somebody who comes from there; `None` if there is none left.
    pub(super) fn enter(self: &Arc<Self>, room: Room, peer: Option<SocketAddr>) -> Option<Seat> {
        let (in_total, of_a_source) = room.places();
        let source = peer.map(|peer| source_of(peer.ip()));
        let mut counts = self.0.lock();
        let all = counts.rooms.get(&room).copied().unwrap_or_default();
        let own = counts.sources.get(&(room, source)).copied().unwrap_or_default();
        if all >= in_total || own >= of_a_source {
            return None;
        }
        counts.rooms.insert(room, all + 1);
        counts.sources.insert((room, source), own + 1);
        Some(Seat { waiting: Arc::clone(self), room, source })
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut counts = self.waiting.0.lock();
        take_one(&mut counts.rooms, &self.room);
        take_one(&mut counts.sources, &(self.room, self.source));
    }
}

fn take_one<K: Ord>(counts: &mut BTreeMap<K, usize>, key: &K) {
    if let Some(count) = counts.get_mut(key) {
        *count = count.saturating_sub(1);
        if *count == 0 {
            counts.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(text: &str) -> Option<SocketAddr> {
        Some(SocketAddr::new(text.parse().unwrap(), 1))
    }

    #[test]
    fn t40_a_source_has_its_share_and_all_together_have_theirs() {
        for room in [Room::Signed, Room::Unknown] {
            let (in_total, of_a_source) = room.places();
            let waiting = Arc::new(Waiting::default());
            let enter = |from: &str| waiting.enter(room, peer(from));
            let of_one: Vec<Seat> = (0..of_a_source).map_while(|_| enter("2001:db8::1")).collect();
            assert_eq!(of_one.len(), of_a_source);
            assert!(enter("2001:db8::2").is_none(), "what is beside it is the same source");
            let other = if room == Room::Signed { Room::Unknown } else { Room::Signed };
            assert!(waiting.enter(other, peer("2001:db8::1")).is_some(), "the other room is another matter");
            let others: Vec<Seat> =
                (0..in_total).map_while(|n| enter(&format!("192.0.{}.{}", n / 256, n % 256))).collect();
            assert_eq!(others.len(), in_total - of_a_source);
            assert!(waiting.enter(room, None).is_none());
            drop(of_one);
            assert!(enter("2001:db8::2").is_some());
            drop(others);
            let counts = waiting.0.lock();
            assert!(counts.rooms.is_empty() && counts.sources.is_empty(), "{counts:?}");
        }
    }
}
