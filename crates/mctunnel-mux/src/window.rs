//! Credit, not advice: what a receiver has promised to take, and how that promise grows with the bandwidth-delay product.

use crate::{Moment, error::ProtocolError};
use core::time::Duration;

/// A window above this is a broken or hostile peer.
pub(crate) const MAX_CREDIT: u64 = 1 << 40;

/// The receiving side of one stream's window.
///
/// Invariant: `granted + buffered + pending == size`. Bytes move from `granted` (the peer may send them) to `buffered` (they came,
/// the application has not read) to `pending` (read, credit not yet given back) and by a WINDOW frame to `granted` again.
/// With a window of 256 KiB: the peer sends 100 KiB, the application reads 60 KiB: 156 + 40 + 60 = 256.
#[derive(Debug)]
pub(crate) struct RecvWindow {
    size: u64,
    granted: u64,
    buffered: u64,
    pending: u64,
    last_grant: Moment,
}

impl RecvWindow {
    pub(crate) fn new(size: u64) -> Self {
        Self { size, granted: size, buffered: 0, pending: 0, last_grant: Moment::ZERO }
    }

    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// Enlarges the window by what JOINED grants on top of the early window.
    pub(crate) fn extend(&mut self, by: u64) {
        self.size += by;
        self.granted += by;
    }

    /// Bytes arrived.
    pub(crate) fn receive(&mut self, len: u64) -> Result<(), ProtocolError> {
        let Some(rest) = self.granted.checked_sub(len) else {
            return Err(ProtocolError::flow_control("more bytes were sent on a stream than were granted"));
        };
        self.granted = rest;
        self.buffered += len;
        Ok(())
    }

    /// The application has read; gives the credit to send, when enough has gathered.
    ///
    /// Credit goes back a quarter of a window at a time. The window doubles (up to `cap`, and by no more than `spare` bytes of the
    /// tunnel's memory) when a quarter of it was read within one round trip: then less than four round trips' worth fits into it,
    /// and the sender may have been waiting for us. `rtt` is the round trip without queues: with queues counted, windows and queues
    /// would make each other grow.
    pub(crate) fn consume(
        &mut self,
        len: u64,
        now: Moment,
        rtt: Option<Duration>,
        cap: u64,
        spare: u64,
    ) -> Option<u64> {
        self.buffered = self.buffered.saturating_sub(len);
        self.pending += len;
        if self.pending < self.size / 4 {
            return None;
        }
        let fast = rtt.is_some_and(|rtt| now.since(self.last_grant) < rtt);
        if fast {
            let more = self.size.min(cap.saturating_sub(self.size)).min(spare);
            self.size += more;
            self.pending += more;
        }
        self.last_grant = now;
        self.granted += self.pending;
        Some(core::mem::take(&mut self.pending))
    }

    pub(crate) fn assert_invariants(&self) {
        debug_assert_eq!(self.granted + self.buffered + self.pending, self.size, "credit is conserved");
    }
}

/// The sending side: how much the peer has promised to take.
#[derive(Debug)]
pub(crate) struct SendCredit(u64);

impl SendCredit {
    pub(crate) fn new(credit: u64) -> Self {
        Self(credit)
    }

    pub(crate) fn available(&self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }

    pub(crate) fn grant(&mut self, credit: u64) -> Result<(), ProtocolError> {
        match self.0.checked_add(credit) {
            Some(sum) if sum <= MAX_CREDIT => {
                self.0 = sum;
                Ok(())
            }
            _ => Err(ProtocolError::flow_control("a window was granted beyond all bounds")),
        }
    }

    pub(crate) fn spend(&mut self, len: u64) {
        debug_assert!(len <= self.0, "the scheduler never exceeds the credit");
        self.0 = self.0.saturating_sub(len);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn credit_comes_back_when_read_and_is_conserved() {
        let mut w = RecvWindow::new(100);
        w.receive(80).unwrap();
        assert_eq!(w.consume(20, Moment::ZERO + MS * 100, Some(MS), 1000, 1000), None, "less than a quarter");
        assert_eq!(w.consume(40, Moment::ZERO + MS * 100, Some(MS), 1000, 1000), Some(60));
        w.assert_invariants();
        w.receive(80).unwrap();
        assert!(w.receive(1).is_err(), "the window is exact");
    }

    #[test]
    fn a_window_grows_only_when_it_was_the_limit_and_memory_allows() {
        let fast = Moment::ZERO + MS / 2;
        for (now, cap, spare, size) in [
            (fast, 1000, 1000, 200),
            (fast, 150, 1000, 150),
            (fast, 1000, 30, 130),
            (Moment::ZERO + MS * 3, 1000, 1000, 100),
        ] {
            let mut w = RecvWindow::new(100);
            w.receive(50).unwrap();
            assert!(w.consume(50, now, Some(MS), cap, spare).is_some());
            assert_eq!(w.size(), size);
            w.assert_invariants();
        }
    }
}
