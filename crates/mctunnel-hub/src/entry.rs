//! An entry of the audit log about what an agent asked of the hub itself.

use mctunnel_core::{
    Action, Audit, AuditFull, AuditOutcome, AuditSlot, AuditSubject, ClusterName, Decision, ErrorCode, User,
};
use std::net::IpAddr;
use tokio::time::Instant;

/// The way in of streams that clusters open.
pub(crate) const HUB_SERVICE: &str = "hub-service";
/// The way in of agents that ask for a certificate.
pub(crate) const ENROL: &str = "enrol";

/// An entry that is not written yet. Dropping it records that nobody said how it ended.
pub(crate) struct Entry {
    slot: Box<dyn AuditSlot>,
    pub(crate) subject: AuditSubject,
    since: Instant,
}

impl Entry {
    /// Takes its place in the log.
    pub(crate) fn begin(audit: &dyn Audit, gateway: &'static str, source: Option<IpAddr>) -> Result<Self, AuditFull> {
        let subject = AuditSubject {
            request_id: format!("{:032x}", rand::random::<u128>()).into(),
            gateway,
            identity: None,
            source,
            cluster: None,
            destination: None,
            action: None,
            decision: None,
        };
        Ok(Self { slot: audit.begin_from(source)?, subject, since: Instant::now() })
    }

    /// Takes its place for a stream that a cluster opened.
    pub(crate) fn of_stream(
        audit: &dyn Audit,
        cluster: &ClusterName,
        source: Option<IpAddr>,
    ) -> Result<Self, AuditFull> {
        let mut entry = Self::begin(audit, HUB_SERVICE, source)?;
        entry.by(cluster, "tunnel", "");
        entry.subject.action = Some(Action::Bytes);
        Ok(entry)
    }

    /// It is a cluster that asks; says what vouches for that, and which credential it was.
    pub(crate) fn by(&mut self, cluster: &ClusterName, provider: &str, credential: &str) {
        let mut user = User::new(format!("cluster:{cluster}"), provider);
        user.credential = credential.into();
        self.subject.identity = Some(user.into());
    }

    /// The cluster it is about, where there is nothing in it that is asked for.
    pub(crate) fn about(&mut self, cluster: Option<ClusterName>) {
        self.subject.cluster = cluster;
    }

    pub(crate) fn started(&mut self) {
        self.slot.started(&self.subject);
    }

    /// It was refused: what was asked for, and why not.
    pub(crate) fn denied(mut self, asked: impl Into<String>, code: ErrorCode, reason: &str) {
        self.subject.decision = Some(Decision::denied(asked.into()));
        self.failed(code, reason);
    }

    /// It was given, and that was all.
    pub(crate) fn granted(mut self, by: impl Into<String>) {
        self.subject.decision = Some(Decision::allowed(by.into()));
        self.ended(0, 0, None);
    }

    pub(crate) fn failed(self, code: ErrorCode, reason: &str) {
        self.failed_after(0, 0, code, reason);
    }

    /// It failed when so many bytes had been moved.
    pub(crate) fn failed_after(self, bytes_up: u64, bytes_down: u64, code: ErrorCode, reason: &str) {
        self.ended(bytes_up, bytes_down, Some(format!("{}: {reason}", code.code)));
    }

    pub(crate) fn ended(self, bytes_up: u64, bytes_down: u64, error: Option<String>) {
        let outcome = AuditOutcome { status: 0, bytes_up, bytes_down, lasted: self.since.elapsed(), error };
        self.slot.finish(&self.subject, &outcome);
    }
}
