//! Holds back an agent that has much to send: whoever else uses the tunnel, its processors and its disks is to notice little of it. The
//! tunnel's classes alone do not do that, for what costs others is less the bytes than the work at both ends.

use std::time::Duration;
use tokio::{
    sync::Mutex,
    time::{Instant, sleep_until},
};

/// The bytes of batches before compression that are sent in a second, of all lanes together.
const BYTES_PER_SECOND: u32 = 28 << 20;
/// What is too late by this much is made up for: timers are no more exact than that.
const SLACK: Duration = Duration::from_millis(5);

/// When the next piece of a batch may go.
#[derive(Debug)]
pub(super) struct Pace {
    due: Mutex<Instant>,
}

impl Pace {
    pub(super) fn new() -> Self {
        Self { due: Mutex::new(Instant::now()) }
    }

    /// Returns when a piece that stands for so many bytes may go. After a pause it goes at once. Lanes that wait take turns.
    pub(super) async fn turn(&self, bytes: u32) {
        let mut due = self.due.lock().await;
        sleep_until(*due).await;
        let now = Instant::now();
        *due = (*due).max(now.checked_sub(SLACK).unwrap_or(now)) + Duration::from_secs(1) * bytes / BYTES_PER_SECOND;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn one_batch_goes_at_once_and_many_take_the_time_of_their_bytes() {
        let (pace, began) = (Pace::new(), Instant::now());
        pace.turn(1 << 20).await;
        assert_eq!(began.elapsed(), Duration::ZERO);
        for _ in 0..BYTES_PER_SECOND >> 20 {
            pace.turn(1 << 20).await;
        }
        let took = began.elapsed().as_secs_f64();
        assert!((0.99..1.2).contains(&took), "{took}");
        tokio::time::advance(Duration::from_secs(5)).await;
        let later = Instant::now();
        pace.turn(1 << 20).await;
        assert_eq!(later.elapsed(), Duration::ZERO);
    }
}
