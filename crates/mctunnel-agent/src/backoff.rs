//! How long to wait before the next try to reach the hub. Pure: the randomness comes in, no clock is read, nothing sleeps.

use std::time::Duration;

/// The waits between tries.
///
/// The first wait after a healthy tunnel is short, so that one cut costs little. Later ones are drawn from a range that doubles
/// up to [`Backoff::LONGEST`] (full jitter), so that a thousand agents that lost the same hub do not come back as one.
#[derive(Debug, Clone, Default)]
pub struct Backoff {
    tries: u32,
}

impl Backoff {
    /// No wait is shorter.
    pub const SHORTEST: Duration = Duration::from_millis(50);
    /// The first wait is not longer.
    pub const FIRST: Duration = Duration::from_millis(250);
    /// No wait is longer.
    pub const LONGEST: Duration = Duration::from_secs(30);
    /// A tunnel that lived this long was healthy: the waits begin anew.
    pub const HEALTHY: Duration = Duration::from_secs(60);

    /// Begins with the first, short wait.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The wait before the next try.
    ///
    /// `lived` is how long the last tunnel was up, zero when it never was. `random` is any number, drawn anew for each call.
    pub fn wait(&mut self, lived: Duration, random: u64) -> Duration {
        if lived >= Self::HEALTHY {
            self.tries = 0;
        }
        let longest = Self::FIRST.saturating_mul(1_u32.checked_shl(self.tries).unwrap_or(u32::MAX)).min(Self::LONGEST);
        self.tries = self.tries.saturating_add(1);
        between(Self::SHORTEST, longest, random)
    }
}

/// The point of the range that `random` stands for: 0 is its start, `u64::MAX` its end.
fn between(start: Duration, end: Duration, random: u64) -> Duration {
    let span = end.saturating_sub(start).as_nanos();
    let part = span * u128::from(random) / u128::from(u64::MAX);
    start + Duration::from_nanos(u64::try_from(part).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: u64 = u64::MAX;

    #[test]
    fn the_first_wait_is_between_50_and_250_ms() {
        assert_eq!(Backoff::new().wait(Duration::ZERO, 0), Duration::from_millis(50));
        assert_eq!(Backoff::new().wait(Duration::ZERO, ALL), Duration::from_millis(250));
        assert_eq!(Backoff::new().wait(Duration::ZERO, ALL / 2).as_millis(), 149);
    }

    #[test]
    fn the_range_doubles_to_30_s() {
        let mut backoff = Backoff::new();
        let ends: Vec<_> = (0..10).map(|_| backoff.wait(Duration::ZERO, ALL).as_millis()).collect();
        assert_eq!(ends, [250, 500, 1000, 2000, 4000, 8000, 16_000, 30_000, 30_000, 30_000]);
        for _ in 0..100 {
            assert_eq!(backoff.wait(Duration::ZERO, ALL), Backoff::LONGEST);
            assert_eq!(backoff.wait(Duration::ZERO, 0), Backoff::SHORTEST);
        }
    }

    #[test]
    fn only_a_healthy_minute_starts_anew() {
        let mut backoff = Backoff::new();
        for _ in 0..5 {
            backoff.wait(Duration::ZERO, 0);
        }
        assert_eq!(backoff.wait(Duration::from_millis(59_999), ALL).as_secs(), 8);
        assert_eq!(backoff.wait(Duration::from_secs(60), ALL), Backoff::FIRST);
        assert_eq!(backoff.wait(Duration::ZERO, ALL), 2 * Backoff::FIRST);
    }
}
