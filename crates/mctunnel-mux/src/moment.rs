//! A point in time, as told from outside.

use core::{ops::Add, time::Duration};

/// Microseconds since a start the driver chose. Only differences mean anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Moment(u64);

impl Moment {
    /// The driver's start.
    pub const ZERO: Self = Self(0);

    /// The moment so long after the start.
    #[must_use]
    pub fn after_start(elapsed: Duration) -> Self {
        Self(micros(elapsed))
    }

    /// How long after `earlier` this is; zero if it is not.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(self.0.saturating_sub(earlier.0))
    }

    /// How long after the driver's start this is.
    #[must_use]
    pub fn elapsed(self) -> Duration {
        Duration::from_micros(self.0)
    }
}

impl Add<Duration> for Moment {
    type Output = Self;
    fn add(self, rhs: Duration) -> Self {
        Self(self.0.saturating_add(micros(rhs)))
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
