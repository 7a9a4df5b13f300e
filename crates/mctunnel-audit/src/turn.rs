//! Turns at a record that several processes write: who has the turn numbers, chains and appends; the others wait. It is a lock of the
//! system, so it goes with a process that is killed. Not who may write at all: that is `Layout::lock`.

use std::{
    fs::{File, TryLockError},
    io, thread,
    time::Duration,
};
use tokio::time::Instant;

/// Until the next look whether the turn is free.
const PAUSE: Duration = Duration::from_millis(1);

/// The turn of one process, which it has or has not.
#[derive(Debug)]
pub(crate) struct Turn {
    file: File,
    within: Duration,
    is_ours: bool,
}

impl Turn {
    pub(crate) fn new(file: File, within: Duration) -> Self {
        Self { file, within, is_ours: false }
    }

    /// Waits for the turn; says whether it was not ours before, so that others may have written.
    pub(crate) fn take(&mut self) -> io::Result<bool> {
        if self.is_ours {
            return Ok(false);
        }
        let until = Instant::now() + self.within;
        loop {
            match self.file.try_lock() {
                Ok(()) => break,
                Err(TryLockError::WouldBlock) if Instant::now() < until => thread::sleep(PAUSE),
                Err(TryLockError::WouldBlock) => {
                    return Err(io::Error::new(io::ErrorKind::TimedOut, "another process is in its turn to write"));
                }
                Err(TryLockError::Error(error)) => return Err(error),
            }
        }
        self.is_ours = true;
        Ok(true)
    }

    /// Lets others write. If that fails it stays ours.
    pub(crate) fn give(&mut self) {
        self.is_ours = self.is_ours && self.file.unlock().is_err();
    }
}
