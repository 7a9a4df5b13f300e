//! Counts failed attempts by where they come from, and says when it was too often. Memory is bounded: an attacker with more
//! addresses than there is room for gains what the addresses give it anyway.

use crate::recent::Recent;
use mctunnel_core::{Unauthenticated, source_of};
use parking_lot::Mutex;
use std::{
    net::{IpAddr, SocketAddr},
    num::NonZeroU32,
    time::Duration,
};
use tokio::time::Instant;

/// How many addresses are remembered.
const ROOM: usize = 32 * 1024;

/// How many attempts an address may fail in a minute, when nothing else was said.
pub(crate) const PER_MINUTE: NonZeroU32 = NonZeroU32::MIN.saturating_add(29);

/// The failed attempts of all addresses.
#[derive(Debug)]
pub(crate) struct FailedAttempts {
    /// When each address will have none left, were there no further one.
    forgotten_at: Mutex<Recent<Source, Instant>>,
    /// How long one failed attempt counts.
    each: Duration,
    /// From here on it is too often.
    most: Duration,
}

impl FailedAttempts {
    pub(crate) fn per_minute(limit: NonZeroU32) -> Self {
        let each = Duration::from_secs(60) / limit.get();
        Self { forgotten_at: Mutex::new(Recent::with_room(ROOM)), each, most: each * limit.get() }
    }

    /// Whether another attempt may be looked at. Asked before, so that a right guess among too many wrong ones is refused too.
    pub(crate) fn check(&self, peer: Option<SocketAddr>) -> Result<(), Unauthenticated> {
        let now = Instant::now();
        let left = match self.forgotten_at.lock().get(&source(peer)) {
            Some(at) => at.saturating_duration_since(now),
            None => return Ok(()),
        };
        if left + self.each > self.most {
            return Err(Unauthenticated::TooMany(
                "too many failed attempts from this address; try again later".to_owned(),
            ));
        }
        Ok(())
    }

    pub(crate) fn failed(&self, peer: Option<SocketAddr>) {
        let now = Instant::now();
        let source = source(peer);
        let mut all = self.forgotten_at.lock();
        match all.get(&source) {
            // Those that were under way at once may all fail: a burst is forgotten as soon as the last that was too many.
            Some(at) => *at = ((*at).max(now) + self.each).min(now + self.most),
            None => all.insert(source, now + self.each),
        }
    }
}

/// What one attacker can be expected to have; those of whom nobody knows where they come from are one.
type Source = Option<IpAddr>;

fn source(peer: Option<SocketAddr>) -> Source {
    peer.map(|peer| source_of(peer.ip()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::advance;

    fn peer(text: &str) -> Option<SocketAddr> {
        Some(SocketAddr::new(text.parse().unwrap(), 1))
    }

    /// How many of so many wrong guesses were looked at.
    fn guesses(attempts: &FailedAttempts, from: Option<SocketAddr>, count: usize) -> usize {
        (0..count).filter(|_| attempts.check(from).map(|()| attempts.failed(from)).is_ok()).count()
    }

    #[tokio::test(start_paused = true)]
    async fn an_address_has_so_many_a_minute_and_gets_them_back_one_by_one() {
        let attempts = FailedAttempts::per_minute(PER_MINUTE);
        let (one, other) = (peer("192.0.2.1"), peer("192.0.2.2"));
        assert_eq!(guesses(&attempts, one, 1_000), 30);
        assert_eq!(guesses(&attempts, other, 1_000), 30, "another address is another matter");
        advance(Duration::from_secs(2)).await;
        assert_eq!(guesses(&attempts, one, 1_000), 1);
        advance(Duration::from_secs(3_600)).await;
        assert_eq!(guesses(&attempts, one, 1_000), 30);
        assert_eq!(guesses(&attempts, None, 1_000), 30, "no address is an address");
    }

    #[tokio::test(start_paused = true)]
    async fn t30_a_burst_that_failed_at_once_is_forgotten_in_a_minute_however_large() {
        let attempts = FailedAttempts::per_minute(PER_MINUTE);
        for _ in 0..4_096 {
            attempts.failed(peer("192.0.2.1"));
        }
        assert_eq!(guesses(&attempts, peer("192.0.2.1"), 10), 0);
        advance(Duration::from_secs(60)).await;
        assert_eq!(guesses(&attempts, peer("192.0.2.1"), 1_000), 30);
    }

    #[tokio::test(start_paused = true)]
    async fn a_network_of_addresses_is_one_source() {
        let attempts = FailedAttempts::per_minute(PER_MINUTE);
        assert_eq!(guesses(&attempts, peer("2001:db8::1"), 100), 30);
        assert_eq!(guesses(&attempts, peer("2001:db8::ffff:1"), 100), 0);
        assert_eq!(guesses(&attempts, peer("2001:db8:0:1::1"), 100), 30);
        assert_eq!(guesses(&attempts, peer("192.0.2.9"), 100), 30);
        assert_eq!(guesses(&attempts, peer("::ffff:192.0.2.9"), 100), 0, "the same address in another dress");
    }

    #[tokio::test(start_paused = true)]
    async fn a_million_addresses_take_no_more_room_than_there_is() {
        let attempts = FailedAttempts::per_minute(PER_MINUTE);
        for n in 0..1_000_000u32 {
            attempts.failed(Some(SocketAddr::new(IpAddr::from(n.to_be_bytes()), 1)));
        }
        assert!(attempts.forgotten_at.lock().len() <= ROOM);
    }
}
