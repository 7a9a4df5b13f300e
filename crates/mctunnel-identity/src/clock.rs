//! Wall-clock time as certificates count it: whole seconds since 1970. Not for measuring how long something took.

use std::time::{SystemTime, UNIX_EPOCH};

/// Seconds since 1970; 0 on a clock set before it, which makes every certificate not yet valid rather than valid.
pub(crate) fn unix_now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

pub(crate) const DAY: i64 = 24 * 60 * 60;
