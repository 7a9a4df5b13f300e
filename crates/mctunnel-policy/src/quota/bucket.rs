//! A rate with room for bursts, kept as one instant: when what was taken so far will have been paid for.

use std::{num::NonZeroU64, time::Duration};
use tokio::time::Instant;

/// Of what cannot be refused any more, so much may be taken before anybody waits.
const FREE: Duration = Duration::from_secs(1);

/// Who is let in waits no longer than this for those who were there before.
const LONGEST_WAIT: Duration = Duration::from_secs(1);

/// What was taken, of requests or of bytes.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Bucket {
    paid_at: Option<Instant>,
}

impl Bucket {
    /// How long to wait until one more may be taken; `None` if it may be now.
    pub(super) fn wait(&self, rate: NonZeroU64, burst: NonZeroU64, now: Instant) -> Option<Duration> {
        let ahead = self.ahead(now);
        // One of the burst is for the one that is asked for.
        let room = cost(burst.get() - 1, rate);
        ahead.checked_sub(room).filter(|wait| !wait.is_zero())
    }

    /// Takes one.
    pub(super) fn take(&mut self, rate: NonZeroU64, now: Instant) {
        self.paid_at = Some(now + self.ahead(now) + cost(1, rate));
    }

    /// Takes what cannot be refused any more; gives how long to wait before the next. A second's worth is free.
    pub(super) fn owe(&mut self, count: u64, rate: NonZeroU64, now: Instant) -> Duration {
        let ahead = self.ahead(now) + cost(count, rate);
        self.paid_at = Some(now + ahead);
        ahead.saturating_sub(FREE)
    }

    /// How long it takes until whoever took on credit waits no longer than a second; `None` if nobody does.
    pub(super) fn overdue(&self, now: Instant) -> Option<Duration> {
        self.ahead(now).checked_sub(FREE + LONGEST_WAIT).filter(|wait| !wait.is_zero())
    }

    /// Whether nothing is owed.
    pub(super) fn is_full(&self, now: Instant) -> bool {
        self.ahead(now).is_zero()
    }

    fn ahead(&self, now: Instant) -> Duration {
        self.paid_at.map(|paid_at| paid_at.saturating_duration_since(now)).unwrap_or_default()
    }
}

/// How long it takes until so many are paid for; at most a year, so that no sum of times overflows.
fn cost(count: u64, rate: NonZeroU64) -> Duration {
    const LONGEST: u64 = 365 * 24 * 3600;
    let nanos = u128::from(count) * 1_000_000_000 / u128::from(rate.get());
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX)).min(Duration::from_secs(LONGEST))
}
