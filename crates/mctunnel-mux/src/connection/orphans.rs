//! Streams of ours that the application has let go of, and of which the peer does not take the rest. Whoever asked for them is gone, and
//! with it what held it to a measure: its permit, its quota, its line in the record. So there are few of them, and not for long.
//!
//! A stream that only waits for the carrier is none: it is on its way. Nor is one that the peer opened: whoever asked for that one
//! is at the peer, is measured there, and may be a slow reader of a long answer.

use super::Connection;
use crate::{Moment, ResetCode, StreamId};
use alloc::collections::BTreeSet;

#[derive(Debug, Default)]
pub(super) struct Orphans {
    /// Those that wait for credit or for the answer, the oldest first.
    waiting: BTreeSet<(Moment, StreamId)>,
}

impl Connection {
    /// Counts the stream if it is an orphan that waits for the peer. Beyond the budget the oldest is cut at once.
    pub(super) fn count_orphan(&mut self, id: StreamId) {
        let now = self.liveness.last_heard();
        let Some(stream) = self.streams.get_mut(&id) else { return };
        if !stream.released || !stream.opened_by_us || stream.can_send() || stream.is_off_the_wire() {
            return;
        }
        let since = *stream.orphaned_at.get_or_insert(now);
        self.orphans.waiting.insert((since, id));
        if self.orphans.waiting.len() > self.config.budgets.orphans
            && let Some((_, oldest)) = self.orphans.waiting.first().copied()
        {
            self.cut_orphan(oldest);
        }
    }

    /// The stream waits for the peer no more. Its age stays.
    pub(super) fn discount_orphan(&mut self, id: StreamId, orphaned_at: Option<Moment>) {
        if let Some(since) = orphaned_at {
            self.orphans.waiting.remove(&(since, id));
        }
    }

    /// When the oldest one has waited for long enough.
    pub(super) fn orphans_deadline(&self) -> Option<Moment> {
        self.orphans.waiting.first().map(|(since, _)| *since + self.config.budgets.orphan_patience)
    }

    /// Cuts those that have waited for long enough.
    pub(super) fn cut_old_orphans(&mut self, now: Moment) {
        while let Some((since, id)) = self.orphans.waiting.first().copied()
            && since + self.config.budgets.orphan_patience <= now
        {
            self.cut_orphan(id);
        }
    }

    fn cut_orphan(&mut self, id: StreamId) {
        let behind = self.streams.get(&id).and_then(|stream| stream.cut_behind);
        self.reset(id, behind.unwrap_or(ResetCode::Cancelled));
        self.forget_if_done(id);
    }

    pub(super) fn assert_orphans(&self) {
        let budget = self.config.budgets.orphans;
        debug_assert!(self.orphans.waiting.len() <= budget, "orphans are bounded");
        debug_assert!(self.orphans.waiting.iter().all(|(_, id)| self.streams.contains_key(id)), "orphans are streams");
    }
}
