//! One entry of the audit log on its way: filled in step by step, written when the last who knows of the request lets go of it.

use super::Admitted;
use mctunnel_core::{AuditOutcome, AuditSlot, AuditSubject, Decision, Destination, Identity};
use parking_lot::Mutex;
use std::{
    fmt,
    net::IpAddr,
    sync::{Arc, Weak},
};
use tokio::time::Instant;

/// An entry of the audit log. All clones are the same entry; it is written when the last is dropped.
#[derive(Clone)]
pub struct Recording(Arc<Mutex<Entry>>);

/// An entry, for who must not keep it open.
#[derive(Clone)]
pub(super) struct WeakRecording(Weak<Mutex<Entry>>);

impl WeakRecording {
    /// See [`Recording::started`]; nothing if it was written already.
    pub(super) fn started(&self) {
        if let Some(entry) = self.0.upgrade() {
            Recording(entry).started();
        }
    }
}

struct Entry {
    slot: Option<Box<dyn AuditSlot>>,
    subject: AuditSubject,
    outcome: AuditOutcome,
    begun: Instant,
    is_started: bool,
}

impl Recording {
    pub(super) fn new(slot: Box<dyn AuditSlot>, gateway: &'static str, request_id: &str) -> Self {
        let subject = AuditSubject {
            request_id: request_id.into(),
            gateway,
            identity: None,
            source: None,
            cluster: None,
            destination: None,
            action: None,
            decision: None,
        };
        let outcome =
            AuditOutcome { status: 0, bytes_up: 0, bytes_down: 0, lasted: std::time::Duration::ZERO, error: None };
        let begun = Instant::now();
        Self(Arc::new(Mutex::new(Entry { slot: Some(slot), subject, outcome, begun, is_started: false })))
    }

    pub(super) fn downgrade(&self) -> WeakRecording {
        WeakRecording(Arc::downgrade(&self.0))
    }

    /// Where the client's connection comes from.
    pub fn came_from(&self, source: IpAddr) {
        self.0.lock().subject.source = Some(source);
    }

    /// Who it is.
    pub fn identified(&self, identity: &Identity) {
        self.0.lock().subject.identity = Some(identity.clone());
    }

    /// Where it wants to go.
    pub fn routed(&self, destination: &Destination) {
        self.0.lock().subject.destination = Some(destination.clone());
    }

    /// What policy said.
    pub(super) fn decided(&self, admitted: &Admitted, decision: &Decision) {
        let subject = &mut self.0.lock().subject;
        subject.destination = Some(admitted.destination.clone());
        subject.action = Some(admitted.action.clone());
        subject.decision = Some(decision.clone());
    }

    /// The status the client is given.
    pub fn answered(&self, status: u16) {
        self.0.lock().outcome.status = status;
    }

    /// A stream begins that may live long: the log shows it from now on. Said again, it changes nothing.
    pub fn started(&self) {
        let entry = &mut *self.0.lock();
        if let Some(slot) = entry.slot.as_mut().filter(|_| !entry.is_started) {
            slot.started(&entry.subject);
            entry.is_started = true;
        }
    }

    /// The client was refused, whatever was moved by then and whatever broke: this is what it was told.
    pub fn refused(&self, error: String) {
        self.0.lock().outcome.error = Some(error);
    }

    /// What was moved, and what broke.
    pub fn ended(&self, bytes_up: u64, bytes_down: u64, error: Option<String>) {
        let outcome = &mut self.0.lock().outcome;
        (outcome.bytes_up, outcome.bytes_down) = (bytes_up, bytes_down);
        outcome.error = outcome.error.take().or(error);
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.outcome.lasted = self.begun.elapsed();
        if let Some(slot) = self.slot.take() {
            slot.finish(&self.subject, &self.outcome);
        }
    }
}

impl fmt::Debug for Recording {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recording").field("subject", &self.0.lock().subject).finish_non_exhaustive()
    }
}
