//! Wall-clock time, as tokens and certificates mean it. Not for measuring how long something took.

use std::{
    fmt,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// How far the clocks of others may be off.
pub(crate) const SKEW: Duration = Duration::from_secs(30);

/// Tells the time. Tests bring their own.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> SystemTime + Send + Sync>);

impl Clock {
    /// The clock of this machine.
    #[must_use]
    pub fn system() -> Self {
        Self::from_fn(SystemTime::now)
    }

    /// A clock that says what `now` says.
    pub fn from_fn(now: impl Fn() -> SystemTime + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    pub(crate) fn now(&self) -> SystemTime {
        (self.0)()
    }
}

impl Default for Clock {
    fn default() -> Self {
        Self::system()
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Clock")
    }
}

/// Seconds since 1970; 0 for what lies before it, which makes everything not yet valid rather than valid.
pub(crate) fn unix(moment: SystemTime) -> u64 {
    moment.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// The moment without its fraction of a second, as records keep it.
pub(crate) fn whole_seconds(time: SystemTime) -> SystemTime {
    moment(unix(time)).unwrap_or(time)
}

/// The moment so many seconds after 1970; `None` when no clock goes that far.
pub(crate) fn moment(unix: u64) -> Option<SystemTime> {
    UNIX_EPOCH.checked_add(Duration::from_secs(unix))
}
