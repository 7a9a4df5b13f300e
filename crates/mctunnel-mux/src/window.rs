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
    /// When the reading of the present two windows' worth began, and how much of it was read.
    epoch: Moment,
    read_in_epoch: u64,
    /// What all streams together had read when it began.
    tunnel_at_epoch: u64,
}

/// What all streams of a nearby tunnel have under way together, about: enough to keep both ends busy, a millisecond's worth.
const NEARBY: u64 = 512 * 1024;

/// What a window must know of its tunnel.
#[derive(Debug)]
pub(crate) struct TunnelView {
    pub(crate) now: Moment,
    pub(crate) base_rtt: Option<Duration>,
    /// The most any window may have.
    pub(crate) cap: u64,
    /// What a new stream gets.
    pub(crate) start: u64,
    /// Memory that is left.
    pub(crate) spare: u64,
    /// Bytes that applications have read from all streams so far.
    pub(crate) total_read: u64,
}

impl RecvWindow {
    pub(crate) fn new(size: u64) -> Self {
        Self { size, granted: size, buffered: 0, pending: 0, epoch: Moment::ZERO, read_in_epoch: 0, tunnel_at_epoch: 0 }
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

    /// The application has read; gives the credit to send, when a quarter of a window has gathered.
    pub(crate) fn consume(&mut self, len: u64, tunnel: &TunnelView) -> Option<u64> {
        self.buffered = self.buffered.saturating_sub(len);
        self.pending += len;
        self.adjust(len, tunnel);
        if self.pending < self.size / 4 {
            return None;
        }
        self.granted += self.pending;
        Some(core::mem::take(&mut self.pending))
    }

    /// Judges the window each time two windows' worth was read. One window's worth proves nothing, for it may have been waiting
    /// here and was read at once; the second had to be sent in answer to our credit.
    ///
    /// - Far away: when that took less than four round trips, the window held the sender back, and it doubles. `base_rtt` is the
    ///   round trip without queues: with queues counted, windows and queues would make each other grow.
    /// - Nearby the round trip is nothing and the work at both ends is all: there the streams share [`NEARBY`] by their part of the
    ///   traffic. More would only be a queue that small requests wait behind, so a window that has more gives some back.
    fn adjust(&mut self, len: u64, tunnel: &TunnelView) {
        if len == 0 {
            return;
        }
        if self.read_in_epoch == 0 {
            self.epoch = tunnel.now;
            self.tunnel_at_epoch = tunnel.total_read;
        }
        self.read_in_epoch += len;
        if self.read_in_epoch < 2 * self.size {
            return;
        }
        let everybody = tunnel.total_read.saturating_sub(self.tunnel_at_epoch).max(self.read_in_epoch);
        let share = NEARBY.saturating_mul(self.read_in_epoch) / everybody.max(1);
        let took = tunnel.now.since(self.epoch);
        self.read_in_epoch = 0;
        let Some(rtt) = tunnel.base_rtt else { return };
        if took < rtt * 4 || self.size < share {
            let more = self.size.min(tunnel.cap.saturating_sub(self.size)).min(tunnel.spare);
            self.size += more;
            self.pending += more;
        } else if took > rtt * 16 {
            let excess = self.size.saturating_sub((share * 2).max(tunnel.start)).min(self.pending);
            self.size -= excess;
            self.pending -= excess;
        }
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
    const KIB: u64 = 1024;

    fn view(now: Moment, cap: u64, spare: u64, total_read: u64) -> TunnelView {
        TunnelView { now, base_rtt: Some(MS), cap, start: 64 * KIB, spare, total_read }
    }

    #[test]
    fn credit_comes_back_when_read_and_is_conserved() {
        let mut w = RecvWindow::new(100);
        let late = view(Moment::ZERO + MS * 100, 1000, 1000, 80);
        w.receive(80).unwrap();
        assert_eq!(w.consume(20, &late), None, "less than a quarter");
        assert_eq!(w.consume(40, &late), Some(60));
        w.assert_invariants();
        w.receive(80).unwrap();
        assert!(w.receive(1).is_err(), "the window is exact");
    }

    /// Reads two windows' worth, the second half of it at `now`, while others read so many times as much.
    fn read_two(w: &mut RecvWindow, now: Moment, cap: u64, spare: u64, others: u64) {
        let (size, piece) = (w.size(), w.size() / 2);
        for (n, at) in [Moment::ZERO, Moment::ZERO, now, now].into_iter().enumerate() {
            assert_eq!(w.size(), size, "one window's worth proves nothing");
            w.receive(piece).unwrap();
            let total = piece * (1 + others) * (u64::try_from(n).unwrap() + 1);
            w.consume(piece, &view(at, cap, spare, total));
        }
        w.assert_invariants();
    }

    #[test]
    fn a_window_of_nothing_stays_that() {
        let mut w = RecvWindow::new(0);
        assert_eq!(w.consume(0, &view(Moment::ZERO, 1000, 1000, 0)), Some(0));
        assert_eq!(w.size(), 0);
    }

    #[test]
    fn a_window_grows_when_it_was_the_limit_and_memory_allows() {
        let (fast, slow) = (Moment::ZERO + MS * 3, Moment::ZERO + MS * 4);
        let start = 1024 * KIB;
        for (now, cap, spare, size) in
            [(fast, 8192, 8192, 2048), (fast, 1500, 8192, 1500), (fast, 8192, 300, 1324), (slow, 8192, 8192, 1024)]
        {
            let mut w = RecvWindow::new(start);
            read_two(&mut w, now, cap * KIB, spare * KIB, 0);
            assert_eq!(w.size(), size * KIB);
        }
    }

    #[test]
    fn nearby_a_window_follows_its_part_of_the_traffic() {
        let later = Moment::ZERO + MS * 100;
        for (before, others, after) in [(64, 0, 128), (256, 0, 512), (64, 15, 64), (256, 15, 64), (512, 0, 512)] {
            let mut w = RecvWindow::new(before * KIB);
            read_two(&mut w, later, 8192 * KIB, 8192 * KIB, others);
            let size = w.size() / KIB;
            assert!(size == after || (after < before && size < before), "{before} became {size}, not {after}");
        }
    }
}
