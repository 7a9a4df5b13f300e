//! The budgets against abuse and stall: each has a name, a number, and the attack or the stall it stops.

use crate::{Moment, error::ProtocolError};
use core::time::Duration;

/// The limits a peer is held to. Exceeding a limit on streams refuses that stream; exceeding any other ends the tunnel.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Budgets {
    /// Streams the peer may have open at once. Stops: memory taken by opening without end. Default 32,768 (about 1 KiB each).
    pub streams: usize,
    /// Streams the peer may have offered that we have neither joined nor refused. Stops: dials piling up behind a target that
    /// never answers. Default 4,096.
    pub half_open: usize,
    /// What the headers of those streams take in memory, together. Stops: many opens with large headers, each within its own budget.
    /// Default 8 MiB.
    pub half_open_bytes: usize,
    /// Bytes of names and values in one OPEN. Stops: memory taken by headers. Default 16 KiB.
    pub header_bytes: usize,
    /// Headers in one OPEN. Default 64.
    pub headers: usize,
    /// Resets a second, on average over ten seconds. Stops: the rapid-reset attack, work that is started and thrown away.
    /// Default 20,000.
    pub resets_per_second: u32,
    /// Frames a second that carry nothing (DATA without bytes or end), on average over ten seconds. Stops: a peer that keeps us
    /// busy for free. Default 100.
    pub empty_frames_per_second: u32,
    /// PINGs a second, on average over ten seconds. Stops: answers piling up. Default 100.
    pub pings_per_second: u32,
    /// WINDOWs a second for streams that are gone, on average over ten seconds. Some cross our end; a flood of them is work for
    /// nothing. Default 20,000.
    pub late_windows_per_second: u32,
    /// Streams of ours that the application has let go of and whose last bytes the peer does not take. Beyond it the oldest is cut.
    /// Stops: clients that leave again and again, each leaving memory here and a target's connection there behind, with neither permit nor
    /// quota nor record. Default 128, which cost up to `send_buffer` each.
    pub orphans: usize,
    /// How long such a stream may last before it is cut. Stops: a target that never reads. Default 30 s.
    pub orphan_patience: Duration,
    /// Answers to a peer that it does not pick up: PONG, REFUSED for streams over a limit. Stops: memory taken by asking and not
    /// reading. Default 4,096.
    pub unread_answers: usize,
}

impl Default for Budgets {
    fn default() -> Self {
        Self {
            streams: 32_768,
            half_open: 4_096,
            half_open_bytes: 8 * 1024 * 1024,
            header_bytes: 16 * 1024,
            headers: 64,
            resets_per_second: 20_000,
            empty_frames_per_second: 100,
            pings_per_second: 100,
            late_windows_per_second: 20_000,
            orphans: 128,
            orphan_patience: Duration::from_secs(30),
            unread_answers: 4_096,
        }
    }
}

/// Allows `rate` a second on average, and ten seconds' worth at once.
#[derive(Debug)]
pub(crate) struct Bucket {
    rate: u32,
    /// In millionths of one.
    level: u64,
    filled: Moment,
    name: &'static str,
}

const BURST_SECONDS: u64 = 10;
const ONE: u64 = 1_000_000;

impl Bucket {
    pub(crate) fn new(rate: u32, name: &'static str) -> Self {
        Self { rate, level: u64::from(rate) * BURST_SECONDS * ONE, filled: Moment::ZERO, name }
    }

    pub(crate) fn take(&mut self, now: Moment) -> Result<(), ProtocolError> {
        let passed = now.since(self.filled).min(Duration::from_secs(BURST_SECONDS));
        let gained = u64::try_from(passed.as_micros()).unwrap_or(u64::MAX).saturating_mul(u64::from(self.rate));
        self.level = self.level.saturating_add(gained).min(u64::from(self.rate) * BURST_SECONDS * ONE);
        self.filled = now;
        match self.level.checked_sub(ONE) {
            Some(rest) => {
                self.level = rest;
                Ok(())
            }
            None => Err(ProtocolError::budget(self.name)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_allows_the_burst_then_the_rate() {
        let mut bucket = Bucket::new(2, "too much");
        for _ in 0..20 {
            assert!(bucket.take(Moment::ZERO).is_ok());
        }
        assert_eq!(bucket.take(Moment::ZERO), Err(ProtocolError::budget("too much")));
        assert!(bucket.take(Moment::ZERO + Duration::from_millis(500)).is_ok());
        assert!(bucket.take(Moment::ZERO + Duration::from_millis(500)).is_err());
    }
}
