//! Errors with stable codes: each says who ended it, whether to try again, and what the client is told.

use mctunnel_mux::RefuseCode;
use std::time::Duration;

/// A stable code with its remedy. The table in `docs/errors.md` is written from these.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ErrorCode {
    /// Never changes once released: `MCT-OPEN-NO-TUNNEL`.
    pub code: &'static str,
    /// What to do about it, in one line.
    pub remedy: &'static str,
}

/// A stream could not be opened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// No such cluster was added to the hub.
    #[error("no cluster of that name was added to this hub")]
    UnknownCluster,
    /// The cluster's agent is not connected.
    #[error("no agent of the cluster is connected")]
    NoTunnel {
        /// When it may be worth another try.
        retry_after: Duration,
    },
    /// The agent's allow-list does not have the target.
    #[error("{0}")]
    NotAllowed(String),
    /// The target refused the connection.
    #[error("{0}")]
    TargetRefused(String),
    /// The target cannot be reached or its name does not resolve.
    #[error("{0}")]
    TargetUnreachable(String),
    /// The target did not answer in time.
    #[error("{0}")]
    Timeout(String),
    /// The agent or the tunnel is at one of its limits.
    #[error("{0}")]
    Busy(String),
    /// The peer did not understand the request.
    #[error("{0}")]
    BadRequest(String),
    /// The tunnel was lost while the open was under way.
    #[error("the tunnel was lost before the target answered: {0}")]
    TunnelLost(String),
    /// Something broke on our side.
    #[error("{0}")]
    Internal(String),
}

impl OpenError {
    /// The stable code and its remedy.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        let (code, remedy) = match self {
            Self::UnknownCluster => (
                "MCT-OPEN-UNKNOWN-CLUSTER",
                "check the cluster's name, or add it at the hub with 'mctunnel cluster add NAME'",
            ),
            Self::NoTunnel { .. } => {
                ("MCT-OPEN-NO-TUNNEL", "check that the cluster's agent runs and reaches the hub, then try again")
            }
            Self::NotAllowed(_) => (
                "MCT-OPEN-NOT-ALLOWED",
                "allow it at the agent: '--allow tcp://host:port', '--allow-service namespace/name', or '--kubeconfig' for the API",
            ),
            Self::TargetRefused(_) => {
                ("MCT-OPEN-TARGET-REFUSED", "check that something listens on that port inside the cluster")
            }
            Self::TargetUnreachable(_) => {
                ("MCT-OPEN-TARGET-UNREACHABLE", "check the target's name and route from inside the cluster")
            }
            Self::Timeout(_) => {
                ("MCT-OPEN-TIMEOUT", "check that the target accepts connections and that the agent is alive")
            }
            Self::Busy(_) => ("MCT-OPEN-BUSY", "try again later, or raise the limit named in the message"),
            Self::BadRequest(_) => ("MCT-OPEN-BAD-REQUEST", "correct the request as the message says"),
            Self::TunnelLost(_) => ("MCT-OPEN-TUNNEL-LOST", "try again: the agent reconnects by itself"),
            Self::Internal(_) => ("MCT-OPEN-INTERNAL", "report this with the hub's and the agent's log"),
        };
        ErrorCode { code, remedy }
    }

    /// The HTTP status a client gets.
    #[must_use]
    pub fn http_status(&self) -> u16 {
        match self {
            Self::UnknownCluster => 404,
            Self::NotAllowed(_) => 403,
            Self::BadRequest(_) => 400,
            Self::TargetRefused(_) | Self::TargetUnreachable(_) | Self::TunnelLost(_) => 502,
            Self::NoTunnel { .. } | Self::Busy(_) => 503,
            Self::Timeout(_) => 504,
            Self::Internal(_) => 500,
        }
    }

    /// When another try may succeed without anybody changing anything; `None` when it would not.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::NoTunnel { retry_after } => Some(*retry_after),
            Self::Busy(_) | Self::TunnelLost(_) => Some(Duration::from_secs(1)),
            Self::UnknownCluster
            | Self::NotAllowed(_)
            | Self::TargetRefused(_)
            | Self::TargetUnreachable(_)
            | Self::Timeout(_)
            | Self::BadRequest(_)
            | Self::Internal(_) => None,
        }
    }

    /// The error for what the far side of a tunnel answered.
    #[must_use]
    pub fn from_refusal(code: RefuseCode, message: String) -> Self {
        match code {
            RefuseCode::NotAllowed => Self::NotAllowed(message),
            RefuseCode::TargetRefused => Self::TargetRefused(message),
            RefuseCode::TargetUnreachable => Self::TargetUnreachable(message),
            RefuseCode::TargetTimeout => Self::Timeout(message),
            RefuseCode::TooManyStreams | RefuseCode::Draining => Self::Busy(message),
            RefuseCode::BadRequest => Self::BadRequest(message),
            RefuseCode::Internal => Self::Internal(message),
        }
    }
}
