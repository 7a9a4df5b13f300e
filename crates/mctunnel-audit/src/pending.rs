//! What waits to be written, and the slots that bound it: a slot is taken before a request is served and given back when its last
//! record was written, so at most two records per slot ever wait. Pushing never waits.

use crate::{
    AuditStatus, OnFull,
    json::Members,
    slots::{Held, NoneLeft, Slots},
    strangers::{Asker, LeftOut, Strangers, Verdict},
};
use parking_lot::{Condvar, Mutex};
use std::{
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::time::Instant;

/// So many records wake the writer at once; fewer wait for a moment, to be written together.
const ENOUGH: usize = 1_024;
/// That moment.
const MOMENT: Duration = Duration::from_millis(2);

/// Shared by the slots and the writer.
#[derive(Debug)]
pub(crate) struct Pending {
    slots: Slots,
    on_full: OnFull,
    strangers: Strangers,
    is_blocked: AtomicBool,
    blocked: Mutex<Option<String>>,
    queue: Mutex<Queue>,
    /// The writer waits here.
    work: Condvar,
    /// Whoever wants all to be written waits here.
    done: Condvar,
    written: AtomicU64,
    refused: AtomicU64,
    dropped: AtomicU64,
    deleted: AtomicU64,
    left_out: Arc<AtomicU64>,
}

#[derive(Debug, Default)]
struct Queue {
    entries: Vec<Entry>,
    is_idle: bool,
    is_closed: bool,
    /// How often all was asked to be written, and up to which of these it was.
    flushes: u64,
    flushed: u64,
    /// How many unrecorded requests the record knows of.
    told: u64,
    /// The writer is gone.
    is_over: bool,
}

/// A record that waits.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) members: Members,
    /// The slot whose last it is.
    pub(crate) ends: Option<Held>,
}

/// What the writer is to do.
#[derive(Debug)]
pub(crate) struct Work {
    pub(crate) entries: Vec<Entry>,
    /// Requests that were not recorded since it was last said.
    pub(crate) dropped: u64,
    /// Requests of strangers that have no record of their own.
    pub(crate) left_out: Option<LeftOut>,
    /// Make it durable now, and tell those who wait.
    pub(crate) flush: Option<u64>,
    pub(crate) is_closed: bool,
}

impl Pending {
    pub(crate) fn new(slots: Slots, on_full: OnFull, left_out: Arc<AtomicU64>) -> Self {
        Self {
            slots,
            on_full,
            strangers: Strangers::new(),
            is_blocked: AtomicBool::new(false),
            blocked: Mutex::new(None),
            queue: Mutex::new(Queue::default()),
            work: Condvar::new(),
            done: Condvar::new(),
            written: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
            deleted: AtomicU64::new(0),
            left_out,
        }
    }

    // === Slots ===

    /// Takes a slot for a client at this address, as far as that is known.
    pub(crate) fn take_slot(&self, source: Option<IpAddr>) -> Taken {
        let none_left = match self.is_blocked.load(Ordering::Acquire) {
            true => NoneLeft::ForAnybody,
            false => match self.slots.take(source) {
                Ok(held) => return Taken::Slot(held),
                Err(none_left) => none_left,
            },
        };
        match (self.on_full, none_left) {
            // Whoever fills its own share must not switch off the record of what it does.
            (OnFull::Refuse, _) | (OnFull::DropAndCount, NoneLeft::ForThisSource) => {
                self.refused.fetch_add(1, Ordering::Relaxed);
                Taken::Refused
            }
            (OnFull::DropAndCount, NoneLeft::ForAnybody) => {
                self.dropped.fetch_add(1, Ordering::Relaxed);
                self.wake(&mut self.queue.lock());
                Taken::Unrecorded
            }
        }
    }

    /// Adds a record.
    pub(crate) fn push(&self, entry: Entry) {
        let mut queue = self.queue.lock();
        if queue.is_over {
            // Closed under a request that still ran: there is no record any more that it could stand in.
            drop(queue);
            self.slots.give(entry.ends);
            return;
        }
        queue.entries.push(entry);
        if queue.is_idle || queue.entries.len() == ENOUGH {
            self.wake(&mut queue);
        }
    }

    // === Strangers ===

    /// Whether the record of a stranger is written; if not, it is counted.
    pub(crate) fn writes_stranger(&self, asker: &Asker<'_>) -> bool {
        match self.strangers.judge(asker, Instant::now()) {
            Verdict::Written => true,
            Verdict::LeftOut => false,
            Verdict::FirstLeftOut => {
                // The writer looks again when it is to say so.
                self.wake(&mut self.queue.lock());
                false
            }
        }
    }

    /// It was written, and is so long.
    pub(crate) fn wrote_stranger(&self, asker: &Asker<'_>, bytes: usize) {
        self.strangers.wrote(asker, bytes, Instant::now());
    }

    /// Gives a slot back that has no record.
    pub(crate) fn leave_out(&self, held: Option<Held>) {
        self.slots.give(held);
    }

    fn wake(&self, queue: &mut Queue) {
        queue.is_idle = false;
        self.work.notify_one();
    }

    // === The writer ===

    /// Waits for work, until `until` if something has to be done then.
    pub(crate) fn take_work(&self, until: Option<Instant>) -> Work {
        let mut queue = self.queue.lock();
        let is_due = |until: Instant| Instant::now() >= until;
        while !self.has_work(&queue) {
            let until = [until, self.strangers.tell_at()].into_iter().flatten().min();
            if until.is_some_and(is_due) {
                break;
            }
            queue.is_idle = true;
            match until {
                None => self.work.wait(&mut queue),
                Some(until) => {
                    self.work.wait_for(&mut queue, until.saturating_duration_since(Instant::now()));
                }
            }
        }
        queue.is_idle = false;
        let moment = Instant::now() + MOMENT;
        while !queue.is_urgent() && !is_due(moment) {
            self.work.wait_for(&mut queue, moment.saturating_duration_since(Instant::now()));
        }
        let dropped = self.dropped.load(Ordering::Relaxed);
        let untold = dropped - queue.told;
        queue.told = dropped;
        let flush = (queue.flushes > queue.flushed).then_some(queue.flushes);
        Work {
            entries: std::mem::take(&mut queue.entries),
            dropped: untold,
            left_out: self.strangers.tell(Instant::now(), flush.is_some() || queue.is_closed),
            flush,
            is_closed: queue.is_closed,
        }
    }

    fn has_work(&self, queue: &Queue) -> bool {
        let untold = self.dropped.load(Ordering::Relaxed) > queue.told;
        !queue.entries.is_empty() || untold || queue.is_urgent()
    }

    /// So many records were written, which ended these slots.
    pub(crate) fn wrote(&self, records: usize, ended: Vec<Held>) {
        self.written.fetch_add(records as u64, Ordering::Relaxed);
        self.slots.give(ended);
    }

    /// So many full files were deleted.
    pub(crate) fn deleted(&self, files: u64) {
        self.deleted.fetch_add(files, Ordering::Relaxed);
    }

    /// Something is in the way; until it is not, no slot is given.
    pub(crate) fn block(&self, reason: String) {
        *self.blocked.lock() = Some(reason);
        self.is_blocked.store(true, Ordering::Release);
    }

    pub(crate) fn unblock(&self) {
        if self.is_blocked.swap(false, Ordering::AcqRel) {
            *self.blocked.lock() = None;
        }
    }

    /// Waits, unless it is closed meanwhile; says whether it is closed.
    pub(crate) fn pause(&self, time: Duration) -> bool {
        let until = Instant::now() + time;
        let mut queue = self.queue.lock();
        while !queue.is_closed && Instant::now() < until {
            self.work.wait_for(&mut queue, until.saturating_duration_since(Instant::now()));
        }
        queue.is_closed
    }

    pub(crate) fn flushed(&self, flush: u64) {
        self.queue.lock().flushed = flush;
        self.done.notify_all();
    }

    /// Nothing is written any more, and no slot is given; gives how many records were left.
    pub(crate) fn over(&self) -> usize {
        self.block("the audit log is closed".to_owned());
        let mut queue = self.queue.lock();
        queue.is_over = true;
        self.done.notify_all();
        queue.entries.len()
    }

    // === Whoever owns the record ===

    /// Waits until all that was pushed before is written and durable.
    pub(crate) fn flush(&self) {
        let mut queue = self.queue.lock();
        queue.flushes += 1;
        let mine = queue.flushes;
        self.wake(&mut queue);
        while queue.flushed < mine && !queue.is_over {
            self.done.wait(&mut queue);
        }
    }

    pub(crate) fn close(&self) {
        let mut queue = self.queue.lock();
        queue.is_closed = true;
        self.wake(&mut queue);
    }

    pub(crate) fn status(&self) -> AuditStatus {
        AuditStatus {
            written: self.written.load(Ordering::Relaxed),
            refused: self.refused.load(Ordering::Relaxed),
            dropped: self.dropped.load(Ordering::Relaxed),
            left_out: self.left_out.load(Ordering::Relaxed),
            strangers: self.strangers.ever(),
            files_deleted: self.deleted.load(Ordering::Relaxed),
            slots_taken: self.slots.taken(),
            blocked: self.blocked.lock().clone(),
        }
    }
}

impl Queue {
    /// Whether waiting for more would keep somebody waiting, or is not needed.
    fn is_urgent(&self) -> bool {
        self.entries.len() >= ENOUGH || self.is_closed || self.flushes > self.flushed
    }
}

/// What came of asking for a slot.
#[derive(Debug)]
pub(crate) enum Taken {
    Slot(Held),
    /// To be served, but there is no place for it in the record.
    Unrecorded,
    Refused,
}
