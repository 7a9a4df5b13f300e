//! Keeps strangers from filling the log: of what they cause, only so many lines are written in a while.

use std::time::Duration;
use tokio::time::Instant;

const WINDOW: Duration = Duration::from_secs(10);
const LINES: u32 = 20;

/// Counts lines in a window of time.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    since: Option<Instant>,
    lines: u32,
    unmentioned: u64,
}

impl Pace {
    /// Whether to write this line; if so, how many were left out since the last one.
    pub(crate) fn mention(&mut self) -> Option<u64> {
        self.mention_at(Instant::now())
    }

    fn mention_at(&mut self, now: Instant) -> Option<u64> {
        if self.since.is_none_or(|since| now.duration_since(since) >= WINDOW) {
            self.since = Some(now);
            self.lines = 0;
        }
        if self.lines >= LINES {
            self.unmentioned += 1;
            return None;
        }
        self.lines += 1;
        Some(std::mem::take(&mut self.unmentioned))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_counted_and_not_written() {
        let (mut pace, start) = (Pace::default(), Instant::now());
        let written = (0..1000).filter_map(|_| pace.mention_at(start)).count();
        assert_eq!(written, 20);
        assert_eq!(pace.mention_at(start + WINDOW), Some(980));
        assert_eq!(pace.mention_at(start + WINDOW), Some(0));
    }
}
