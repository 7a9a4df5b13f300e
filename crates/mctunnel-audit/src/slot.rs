//! A place in the record, from before a request is served until its last word.

use crate::{
    json::Members,
    pending::{Entry, Pending},
    record,
};
use mctunnel_core::{AuditOutcome, AuditSlot, AuditSubject};
use std::{sync::Arc, time::SystemTime};
use tokio::time::Instant;

/// A place that was taken.
#[derive(Debug)]
pub(crate) struct Slot {
    pending: Arc<Pending>,
    taken: Instant,
    /// What is known of a stream whose beginning was recorded.
    started: Option<Members>,
    is_filled: bool,
}

impl Slot {
    pub(crate) fn new(pending: Arc<Pending>) -> Self {
        Self { pending, taken: Instant::now(), started: None, is_filled: false }
    }

    fn fill(&mut self, members: Members) {
        self.is_filled = true;
        self.pending.push(Entry { members, ends_slot: true });
    }
}

impl AuditSlot for Slot {
    fn started(&mut self, subject: &AuditSubject) {
        // Once: two records per slot are what there is room for.
        if self.started.is_none() {
            let (members, about) = record::started(SystemTime::now(), subject);
            self.started = Some(about);
            self.pending.push(Entry { members, ends_slot: false });
        }
    }

    fn finish(mut self: Box<Self>, subject: &AuditSubject, outcome: &AuditOutcome) {
        let members = record::finished(SystemTime::now(), self.started.is_some(), subject, outcome);
        self.fill(members);
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        if !self.is_filled {
            let members = record::cut_off(SystemTime::now(), self.started.as_ref(), self.taken.elapsed());
            self.fill(members);
        }
    }
}

/// No place, but served all the same, because the operator wants it so. It was counted.
#[derive(Debug)]
pub(crate) struct NoSlot;

impl AuditSlot for NoSlot {
    fn started(&mut self, _: &AuditSubject) {}

    fn finish(self: Box<Self>, _: &AuditSubject, _: &AuditOutcome) {}
}
