//! Who may send next: classes first, then deficit round robin among the streams of a class.
//!
//! A stream that was idle is *fresh*: it is served once before those that send all the time, so a short answer does not wait behind
//! sixteen downloads. When its share is spent or its queue is empty it goes to the end of the others, even when empty, so that
//! being idle for a moment cannot be used to jump the queue again.

use crate::{Priority, StreamId};
use alloc::collections::VecDeque;

/// What a stream may send in one turn.
pub(crate) const QUANTUM: i64 = 64 * 1024;

#[derive(Debug, Default)]
pub(crate) struct Scheduler {
    classes: [Class; 3],
}

#[derive(Debug, Default)]
struct Class {
    fresh: VecDeque<StreamId>,
    rest: VecDeque<StreamId>,
    deficit: i64,
}

/// The part of a stream the scheduler keeps in it.
#[derive(Debug, Default)]
pub(crate) struct Share {
    deficit: i64,
    listed: bool,
    priority: Priority,
}

impl Share {
    pub(crate) fn new(priority: Priority) -> Self {
        Self { priority, ..Self::default() }
    }
}

/// Whose turn it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Turn {
    pub(crate) stream: StreamId,
    class: usize,
    fresh: bool,
}

/// Shares of the three classes when all have something to send: none of them ever starves.
const WEIGHTS: [i64; 3] = [8, 4, 1];

fn class_of(priority: Priority) -> usize {
    match priority {
        Priority::Interactive => 0,
        Priority::Normal => 1,
        Priority::Bulk => 2,
    }
}

impl Scheduler {
    /// The stream has something to send and may.
    pub(crate) fn ready(&mut self, stream: StreamId, share: &mut Share) {
        if share.listed {
            return;
        }
        share.listed = true;
        share.deficit = QUANTUM;
        if let Some(class) = self.classes.get_mut(class_of(share.priority)) {
            class.fresh.push_back(stream);
        }
    }

    /// Whether any stream is listed.
    pub(crate) fn is_busy(&self) -> bool {
        self.classes.iter().any(|c| c.front().is_some())
    }

    /// The stream whose turn it is; it stays in place until [`Scheduler::sent`], [`Scheduler::idle`] or [`Scheduler::gone`].
    pub(crate) fn next(&mut self) -> Option<Turn> {
        if self.classes.iter().all(|c| c.front().is_none() || c.deficit <= 0) {
            for (class, weight) in self.classes.iter_mut().zip(WEIGHTS) {
                class.deficit = if class.front().is_none() { 0 } else { class.deficit + weight * QUANTUM };
            }
        }
        self.classes.iter().enumerate().find_map(|(index, class)| {
            let (stream, fresh) = class.front().filter(|_| class.deficit > 0)?;
            Some(Turn { stream, class: index, fresh })
        })
    }

    /// The stream sent `len` bytes and has more.
    pub(crate) fn sent(&mut self, turn: Turn, share: &mut Share, len: i64) {
        let Some(class) = self.classes.get_mut(turn.class) else { return };
        // A frame costs something even when it carries little.
        let cost = len.max(256);
        class.deficit -= cost;
        share.deficit -= cost;
        if share.deficit <= 0 {
            share.deficit += QUANTUM;
            class.move_to_end(turn);
        }
    }

    /// The stream has nothing to send now, or may not.
    pub(crate) fn idle(&mut self, turn: Turn, share: &mut Share) {
        let Some(class) = self.classes.get_mut(turn.class) else { return };
        if turn.fresh && !class.rest.is_empty() {
            class.move_to_end(turn);
        } else {
            class.take(turn);
            share.listed = false;
        }
    }

    /// The stream no longer exists.
    pub(crate) fn gone(&mut self, turn: Turn) {
        if let Some(class) = self.classes.get_mut(turn.class) {
            class.take(turn);
        }
    }
}

impl Class {
    fn front(&self) -> Option<(StreamId, bool)> {
        let fresh = self.fresh.front().map(|s| (*s, true));
        fresh.or_else(|| self.rest.front().map(|s| (*s, false)))
    }

    fn take(&mut self, turn: Turn) {
        if turn.fresh {
            self.fresh.pop_front()
        } else {
            self.rest.pop_front()
        };
    }

    fn move_to_end(&mut self, turn: Turn) {
        self.take(turn);
        self.rest.push_back(turn.stream);
    }
}

#[cfg(test)]
mod tests;
