//! A place in the record, from before a request is served until its last word.

use crate::{
    json::Members,
    pending::{Entry, Pending},
    record,
    slots::Held,
    strangers::Asker,
};
use mctunnel_core::{AuditOutcome, AuditSlot, AuditSubject, Decision};
use std::{net::IpAddr, sync::Arc, time::SystemTime};
use tokio::time::Instant;

/// A place that was taken.
#[derive(Debug)]
pub(crate) struct Slot {
    pending: Arc<Pending>,
    /// Until it is filled.
    held: Option<Held>,
    source: Option<IpAddr>,
    taken: Instant,
    /// What is known of a stream whose beginning was recorded.
    started: Option<Members>,
}

impl Slot {
    pub(crate) fn new(pending: Arc<Pending>, held: Held, source: Option<IpAddr>) -> Self {
        Self { pending, held: Some(held), source, taken: Instant::now(), started: None }
    }

    fn fill(&mut self, members: Members) {
        if let Some(held) = self.held.take() {
            self.pending.push(Entry { members, ends: Some(held) });
        }
    }

    /// The same for a request of a stranger, which has no record of its own when there are too many.
    fn fill_of_stranger(&mut self, asker: &Asker<'_>, members: impl FnOnce(&Self) -> Members) {
        if !self.pending.writes_stranger(asker) {
            return self.pending.leave_out(self.held.take());
        }
        let members = members(self);
        self.pending.wrote_stranger(asker, members.as_str().len());
        self.fill(members);
    }
}

/// Whether it was neither found out who asks nor allowed to whoever asks.
fn is_stranger(subject: &AuditSubject) -> bool {
    let is_user = subject.identity.as_ref().is_some_and(|identity| identity.user().is_some());
    !is_user && !subject.decision.as_ref().is_some_and(Decision::is_allowed)
}

impl AuditSlot for Slot {
    fn started(&mut self, subject: &AuditSubject) {
        // Once: two records per slot are what there is room for.
        if self.started.is_none() {
            let (members, about) = record::started(SystemTime::now(), subject);
            self.started = Some(about);
            self.pending.push(Entry { members, ends: None });
        }
    }

    fn finish(mut self: Box<Self>, subject: &AuditSubject, outcome: &AuditOutcome) {
        let members = |slot: &Self| record::finished(SystemTime::now(), slot.started.is_some(), subject, outcome);
        // What was begun has an end.
        if self.started.is_none() && is_stranger(subject) {
            // Whoever names a cluster without being somebody had a secret of it.
            let asker = Asker { source: subject.source.or(self.source), cluster: subject.cluster.as_ref() };
            return self.fill_of_stranger(&asker, members);
        }
        let members = members(&self);
        self.fill(members);
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        if self.held.is_none() {
            return;
        }
        let members = |slot: &Self| record::cut_off(SystemTime::now(), slot.started.as_ref(), slot.taken.elapsed());
        if self.started.is_none() {
            // Nobody said anything of it.
            return self.fill_of_stranger(&Asker { source: self.source, cluster: None }, members);
        }
        let members = members(self);
        self.fill(members);
    }
}

/// No place, but served all the same, because the operator wants it so. It was counted.
#[derive(Debug)]
pub(crate) struct NoSlot;

impl AuditSlot for NoSlot {
    fn started(&mut self, _: &AuditSubject) {}

    fn finish(self: Box<Self>, _: &AuditSubject, _: &AuditOutcome) {}
}
