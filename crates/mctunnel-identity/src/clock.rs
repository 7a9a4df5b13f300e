//! Wall-clock time as certificates count it: whole seconds since 1970. Not for measuring how long something took.

use rustls::time_provider::TimeProvider;
use rustls_pki_types::UnixTime;
use std::{
    fmt,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// Says what time it is. Certificates are issued, verified and renewed by it.
pub trait Clock: fmt::Debug + Send + Sync + 'static {
    /// Seconds since 1970.
    fn unix_now(&self) -> i64;
}

/// A shared clock.
pub type SharedClock = Arc<dyn Clock>;

/// The machine's clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn unix_now(&self) -> i64 {
        unix_now()
    }
}

/// Seconds since 1970; 0 on a clock set before it, which makes every certificate not yet valid rather than valid.
pub(crate) fn unix_now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

/// The same clock, as TLS asks for it.
#[derive(Debug)]
pub(crate) struct TlsClock(pub(crate) SharedClock);

impl TimeProvider for TlsClock {
    fn current_time(&self) -> Option<UnixTime> {
        Some(as_tls_time(self.0.unix_now()))
    }
}

/// A moment as TLS writes it.
pub(crate) fn as_tls_time(unix: i64) -> UnixTime {
    UnixTime::since_unix_epoch(Duration::from_secs(u64::try_from(unix).unwrap_or_default()))
}

pub(crate) const DAY: i64 = 24 * 60 * 60;
