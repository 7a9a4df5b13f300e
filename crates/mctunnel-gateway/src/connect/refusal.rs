//! Why the gateway turned a client away before anything was opened. What the opener refuses is `OpenError`.

use mctunnel_core::{AuditFull, ErrorCode, InvalidTarget, Unauthenticated};
use std::time::Duration;

/// A request that is not opened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The head is not strict HTTP/1.
    #[error("the request's head is malformed: {0}")]
    BadHead(&'static str),
    /// The method is not CONNECT.
    #[error("only the method CONNECT is served here")]
    NotConnect,
    /// The target is not `host:port`.
    #[error("the request target is not host:port: {0}")]
    BadTarget(&'static str),
    /// The target does not name a host and port.
    #[error("{0}")]
    InvalidTarget(#[from] InvalidTarget),
    /// Neither header nor destination names a cluster.
    #[error("the request names no cluster")]
    NoCluster,
    /// What stands for the cluster's name is none.
    #[error("the cluster's name must be 1 to 63 of the letters a-z, digits and '-'")]
    BadCluster,
    /// Two names for the cluster.
    #[error("the request names two different clusters")]
    TwoClusters,
    /// The destination is a cluster without a host.
    #[error("the destination names a cluster but no host in it")]
    NoHost,
    /// A CONNECT request with a body.
    #[error("a CONNECT request has no body, but this one announces one")]
    Body,
    /// `Authorization` is for a target, and no target sees this request.
    #[error("a CONNECT request has no Authorization header: tokens for the hub go into Proxy-Authorization")]
    Authorization,
    /// Two `Proxy-Authorization` headers.
    #[error("the request has two Proxy-Authorization headers")]
    TwoCredentials,
    /// Who the client is could not be established.
    #[error("{0}")]
    Unauthenticated(#[from] Unauthenticated),
    /// Policy says no.
    #[error("{0}")]
    Denied(String),
    /// Policy says not so much at once.
    #[error("{rule}")]
    Limited {
        /// Which quota.
        rule: String,
        /// When to try again.
        retry_after: Duration,
    },
    /// The request cannot be recorded, so it is not served.
    #[error("{0}")]
    Unrecorded(#[from] AuditFull),
    /// The head did not arrive in time.
    #[error("the request's head did not arrive in time")]
    SlowHead,
    /// The head has too many bytes or headers.
    #[error("the request's head is longer than the {limit} bytes or 64 headers it may have")]
    LongHead {
        /// The limit in force.
        limit: usize,
    },
    /// The gateway is at its limit.
    #[error("the gateway is at its limit of {limit} connections")]
    TooManyConnections {
        /// The limit in force.
        limit: usize,
    },
    /// The client went away while the stream was being opened; it gets no answer.
    #[error("the client went away before the target answered")]
    ClientGone,
}

impl Refusal {
    /// The stable code and its remedy.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        let (code, remedy) = match self {
            Self::BadHead(_) => (
                "MCT-CONNECT-BAD-HEAD",
                "send HTTP/1.1 with CRLF line ends and ASCII text only; TLS is not spoken on this port",
            ),
            Self::NotConnect => ("MCT-CONNECT-METHOD", CURL_EXAMPLE),
            Self::BadTarget(_) | Self::InvalidTarget(_) | Self::NoHost => (
                "MCT-CONNECT-BAD-TARGET",
                "send 'CONNECT host:port HTTP/1.1', for example 'CONNECT db.default.svc:5432 HTTP/1.1'",
            ),
            Self::NoCluster => (
                "MCT-CONNECT-NO-CLUSTER",
                "add the header 'x-mctunnel-cluster: NAME', or use the destination HOST.NAME.mctunnel:PORT",
            ),
            Self::BadCluster => {
                ("MCT-CONNECT-BAD-CLUSTER", "use the name under which the cluster was added, as in cluster-a")
            }
            Self::TwoClusters => (
                "MCT-CONNECT-TWO-CLUSTERS",
                "name the cluster once, in the header 'x-mctunnel-cluster' or in the destination",
            ),
            Self::Authorization | Self::TwoCredentials | Self::Unauthenticated(Unauthenticated::Conflict(_)) => {
                ("MCT-CONNECT-TWO-CREDENTIALS", "send exactly one credential, in one Proxy-Authorization header")
            }
            Self::Unauthenticated(Unauthenticated::Rejected(_)) => (
                "MCT-CONNECT-UNAUTHENTICATED",
                "use the proxy's address http://CLUSTER:TOKEN@HUB:8081, or send 'Proxy-Authorization: Bearer TOKEN'",
            ),
            Self::Unauthenticated(Unauthenticated::TooMany(_)) => {
                ("MCT-CONNECT-TOO-MANY-ATTEMPTS", "wait, then try again with a valid credential")
            }
            Self::Unauthenticated(Unauthenticated::Unavailable(_)) => (
                "MCT-CONNECT-AUTHENTICATION-UNAVAILABLE",
                "try again later; the hub's log says which provider does not answer",
            ),
            Self::Denied(_) => ("MCT-CONNECT-DENIED", "ask the hub's operator for a policy that allows it"),
            Self::Limited { .. } => ("MCT-CONNECT-QUOTA", "wait, or ask the hub's operator for a larger quota"),
            Self::Unrecorded(_) => {
                ("MCT-CONNECT-AUDIT-FULL", "try again later; the hub's log says why its audit log takes no more")
            }
            Self::Body => ("MCT-CONNECT-BODY", "leave out 'Content-Length' and 'Transfer-Encoding'"),
            Self::SlowHead => ("MCT-CONNECT-SLOW-HEAD", "send the whole head at once, right after connecting"),
            Self::LongHead { .. } => ("MCT-CONNECT-LONG-HEAD", "send fewer or shorter headers"),
            Self::TooManyConnections { .. } => {
                ("MCT-CONNECT-BUSY", "try again later, or raise the limit on connections")
            }
            Self::ClientGone => ("MCT-CONNECT-CLIENT-GONE", "none needed if the client gave up on purpose"),
        };
        ErrorCode { code, remedy }
    }

    /// The HTTP status a client gets.
    #[must_use]
    pub fn http_status(&self) -> u16 {
        match self {
            Self::NotConnect => 405,
            Self::SlowHead => 408,
            Self::LongHead { .. } => 431,
            Self::Unauthenticated(Unauthenticated::Rejected(_)) => 407,
            Self::Denied(_) => 403,
            Self::Limited { .. } | Self::Unauthenticated(Unauthenticated::TooMany(_)) => 429,
            Self::TooManyConnections { .. }
            | Self::Unrecorded(_)
            | Self::Unauthenticated(Unauthenticated::Unavailable(_)) => 503,
            Self::BadHead(_)
            | Self::BadTarget(_)
            | Self::InvalidTarget(_)
            | Self::NoCluster
            | Self::BadCluster
            | Self::TwoClusters
            | Self::NoHost
            | Self::Body
            | Self::Authorization
            | Self::TwoCredentials
            | Self::Unauthenticated(Unauthenticated::Conflict(_))
            | Self::ClientGone => 400,
        }
    }
}

/// What to do instead of a plain GET.
const CURL_EXAMPLE: &str = "use this port as a tunnelling proxy: curl --proxytunnel --proxy http://127.0.0.1:8081 \
    --proxy-header 'x-mctunnel-cluster: cluster-a' http://web.default.svc:80/";
