//! How often something may happen.

use tokio::time::Instant;

/// So many a second on average, and so many at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// The average.
    pub per_second: u32,
    /// What may come without a pause.
    pub at_once: u32,
}

/// Counts against a rate.
#[derive(Debug)]
pub(super) struct Bucket {
    rate: Rate,
    /// In millionths of one.
    level: u64,
    filled: Option<Instant>,
}

const ONE: u64 = 1_000_000;

impl Bucket {
    pub(super) fn new(rate: Rate) -> Self {
        Self { rate, level: u64::from(rate.at_once) * ONE, filled: None }
    }

    /// Takes one; false when there is none left.
    pub(super) fn take(&mut self, now: Instant) -> bool {
        let full = u64::from(self.rate.at_once) * ONE;
        let passed = self.filled.replace(now).map_or(0, |then| now.saturating_duration_since(then).as_micros());
        let gained = u64::try_from(passed).unwrap_or(u64::MAX).saturating_mul(u64::from(self.rate.per_second));
        // What was added on top of a full bucket is kept, but time adds nothing to it.
        self.level = self.level.max(self.level.saturating_add(gained).min(full));
        let left = self.level.checked_sub(ONE);
        self.level = left.unwrap_or(self.level);
        left.is_some()
    }

    /// Allows so many more, at most as many again as may come at once.
    pub(super) fn add(&mut self, count: u64) {
        let most = u64::from(self.rate.at_once) * 2 * ONE;
        self.level = self.level.max(self.level.saturating_add(count.saturating_mul(ONE)).min(most));
    }
}
