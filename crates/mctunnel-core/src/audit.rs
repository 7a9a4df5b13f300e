//! Port: the record of every request and stream: who, by which credential, where, what, the decision, and how it ended.
//!
//! A request that cannot be recorded is not served: its place in the record is taken before anything is opened for it.

use crate::{Action, ClusterName, Decision, Destination, Identity};
use std::{fmt, net::IpAddr, sync::Arc, time::Duration};

/// What is known of a request when it is decided.
#[derive(Debug, Clone)]
pub struct AuditSubject {
    /// The request's id, which client, hub, agent and target share.
    pub request_id: Arc<str>,
    /// Which way in: `http`, `connect`, `sni`.
    pub gateway: &'static str,
    /// Who; `None` if that was not established.
    pub identity: Option<Identity>,
    /// Where the client's connection comes from.
    pub source: Option<IpAddr>,
    /// The cluster it is about, if it goes nowhere: the one a certificate is asked for.
    pub cluster: Option<ClusterName>,
    /// Where to; `None` if it could not be told.
    pub destination: Option<Destination>,
    /// What.
    pub action: Option<Action>,
    /// What policy said; `None` if it was not asked.
    pub decision: Option<Decision>,
}

/// How it went.
#[derive(Debug, Clone)]
pub struct AuditOutcome {
    /// The status the client was given; 0 if the protocol has none.
    pub status: u16,
    /// Bytes from the client to the target.
    pub bytes_up: u64,
    /// Bytes from the target to the client.
    pub bytes_down: u64,
    /// From the first byte of the request to its end.
    pub lasted: Duration,
    /// What ended it, if it did not end cleanly: a stable code, then a text.
    pub error: Option<String>,
}

/// Keeps the record.
///
/// Obligations: 1. `begin` never waits; 2. a slot that was given can always be filled, once, without waiting; 3. a slot that is
/// dropped unfilled is recorded as cut.
pub trait Audit: Send + Sync + 'static {
    /// Takes a place in the record. Without one the request is refused.
    fn begin(&self) -> Result<Box<dyn AuditSlot>, AuditFull>;

    /// The same for a client at this address, if that is known: for records of which no source may have all places.
    fn begin_from(&self, source: Option<IpAddr>) -> Result<Box<dyn AuditSlot>, AuditFull> {
        let _ = source;
        self.begin()
    }
}

/// A place in the record.
pub trait AuditSlot: Send + Sync {
    /// Records that a long stream begins, so that the record shows it while it lives. For streams only; requests have one line.
    fn started(&mut self, subject: &AuditSubject);

    /// Records the end.
    fn finish(self: Box<Self>, subject: &AuditSubject, outcome: &AuditOutcome);
}

/// The record cannot take another entry now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the audit log cannot take another record")]
pub struct AuditFull;

impl fmt::Debug for dyn Audit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Audit")
    }
}

// === Unaudited ===

/// Records nothing: for programs that bring their own, and for tests.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unaudited;

impl Audit for Unaudited {
    fn begin(&self) -> Result<Box<dyn AuditSlot>, AuditFull> {
        Ok(Box::new(Self))
    }
}

impl AuditSlot for Unaudited {
    fn started(&mut self, _: &AuditSubject) {}

    fn finish(self: Box<Self>, _: &AuditSubject, _: &AuditOutcome) {}
}
