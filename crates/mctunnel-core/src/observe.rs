//! Port: what happened, for logs and metrics. Roles report here and never name a metric.

use crate::ClusterName;
use std::{sync::Arc, time::Duration};

/// Something worth a log line or a count.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Happening {
    /// A tunnel is up (hub: an agent registered; agent: the hub welcomed us).
    TunnelUp {
        /// Which cluster.
        cluster: ClusterName,
        /// Its generation.
        generation: u64,
        /// The agent process.
        instance: String,
        /// From where, or to where.
        peer: String,
    },
    /// A tunnel is gone.
    TunnelDown {
        /// Which cluster.
        cluster: ClusterName,
        /// Its generation.
        generation: u64,
        /// How long it was up.
        lasted: Duration,
        /// Why.
        reason: String,
    },
    /// A newer tunnel of the same cluster took over.
    TunnelReplaced {
        /// Which cluster.
        cluster: ClusterName,
        /// The generation that left.
        old_generation: u64,
        /// The generation that came.
        new_generation: u64,
        /// Whether two different agents fight for the cluster.
        duel: bool,
    },
    /// The list of clusters could not be read where an agent stands on it. Nobody new gets in by it, and a tunnel that is up stays for a
    /// while; said once for as long as it lasts.
    ClusterUnread {
        /// Whose entry.
        cluster: ClusterName,
        /// Why.
        reason: String,
    },
    /// A peer was turned away before it could register.
    PeerRefused {
        /// From where.
        peer: String,
        /// Stable code.
        code: &'static str,
        /// Why.
        reason: String,
    },
    /// An agent enrolled: it got its first certificate.
    AgentEnrolled {
        /// Which cluster.
        cluster: ClusterName,
        /// The certificate's serial, lower-case hex.
        serial: String,
        /// Who vouched for it, without anything secret: "join token 0123456789abcdef".
        evidence: String,
        /// From where.
        peer: String,
    },
    /// Somebody asked for a certificate, the first one or the next, and got none.
    EnrolRefused {
        /// From where.
        peer: String,
        /// For which cluster, where that was proven.
        cluster: Option<ClusterName>,
        /// Who should have vouched for it, without anything secret.
        evidence: String,
        /// Stable code.
        code: &'static str,
        /// Why.
        reason: String,
    },
    /// An agent's certificate was renewed (hub: issued; agent: obtained).
    CertificateRenewed {
        /// Which cluster.
        cluster: ClusterName,
        /// The new certificate's serial, lower-case hex.
        serial: String,
        /// When it ends, in seconds since 1970.
        not_after_unix: i64,
    },
    /// The agent could not renew its certificate and will try again.
    RenewalFailed {
        /// What went wrong.
        reason: String,
        /// When it tries again.
        retry_in: Duration,
    },
    /// The hub's CAs or its own certificate changed; what is new counts from now on.
    AuthorityChanged {
        /// How many CAs agents may have their certificates from: two while they change.
        authorities: usize,
    },
    /// The files of the hub's CA changed but cannot be used; what was read last still counts.
    AuthorityKept {
        /// Stable code.
        code: &'static str,
        /// Why.
        reason: String,
    },
    /// The agent could not reach the hub and will try again.
    Reconnecting {
        /// What went wrong.
        reason: String,
        /// When it tries again.
        retry_in: Duration,
    },
    /// A stream was opened and joined to its target.
    StreamOpened {
        /// Which cluster.
        cluster: ClusterName,
        /// The target, as text.
        target: String,
        /// Time until the target answered.
        took: Duration,
    },
    /// A stream could not be opened.
    StreamRefused {
        /// Which cluster was asked for, if it was a known one (a label must stay bounded).
        cluster: Option<ClusterName>,
        /// The target, as text.
        target: String,
        /// Stable code.
        code: &'static str,
        /// Why.
        reason: String,
    },
    /// A cluster asked for a service of the hub and did not get it (hub: refused; agent: was refused).
    HubServiceRefused {
        /// Which cluster.
        cluster: ClusterName,
        /// Which service, or what else the stream was for.
        service: String,
        /// Stable code.
        code: &'static str,
        /// Why.
        reason: String,
    },
    /// A stream ended.
    StreamEnded {
        /// Which cluster.
        cluster: ClusterName,
        /// Bytes towards the target.
        bytes_up: u64,
        /// Bytes from the target.
        bytes_down: u64,
        /// How long it was open.
        lasted: Duration,
        /// How it ended, when not cleanly.
        error: Option<String>,
    },
    /// A drain began.
    Draining {
        /// Streams still open.
        streams: usize,
        /// The longest it will take.
        grace: Duration,
    },
    /// A drain ended.
    Drained {
        /// Streams that were cut at the end of the grace.
        cut: usize,
    },
}

/// Receives happenings.
///
/// Obligations: 1. it returns quickly and never blocks: it is called on the path of requests; 2. it never panics.
pub trait Observe: Send + Sync + 'static {
    /// Takes note.
    fn observe(&self, happening: &Happening);
}

impl std::fmt::Debug for dyn Observe {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Observe")
    }
}

/// A shared observer.
pub type SharedObserver = Arc<dyn Observe>;

/// Takes note of nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unobserved;

impl Observe for Unobserved {
    fn observe(&self, _: &Happening) {}
}
