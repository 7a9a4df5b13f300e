//! Why a request is refused before anybody acts on it, and where the answer's writer finds the reason.

use crate::http::BadTarget;
use mctunnel_core::ErrorCode;
use parking_lot::Mutex;
use std::time::Duration;

/// The head of a request is refused. Nothing in here is text of the client's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadHead {
    /// The head is not strict HTTP.
    #[error("the request's head is malformed: {0}")]
    Malformed(&'static str),
    /// The method is not one of those served.
    #[error("the method is not one of GET, HEAD, POST, PUT, PATCH, DELETE and OPTIONS")]
    Method,
    /// The target is not one that is served.
    #[error("{0}")]
    Target(#[from] BadTarget),
    /// Two readers could see the body end in two places.
    #[error("the length of the body is in doubt: {0}")]
    Length(&'static str),
    /// The request does not name its host once.
    #[error("the request does not name its host: {0}")]
    Host(&'static str),
    /// A header that only the gateway may set, or that could be taken for one.
    #[error("the request has a header that clients may not send: {0}")]
    ReservedHeader(&'static str),
    /// A header that is only for this connection names others, or does not belong to this version of HTTP.
    #[error("the request has a connection header that is not served: {0}")]
    Connection(&'static str),
    /// The request asks for another protocol in a way that is not served.
    #[error("the connection cannot be upgraded like this: {0}")]
    Upgrade(&'static str),
    /// More than one credential.
    #[error("the request has more than one credential")]
    TwoCredentials,
    /// The head has too many bytes.
    #[error("the request's head is longer than {limit} bytes")]
    TooLong {
        /// The limit in force.
        limit: usize,
    },
    /// The head was not whole in time.
    #[error("the request's head was not whole after {limit:?}")]
    TooSlow {
        /// The limit in force.
        limit: Duration,
    },
    /// The head has too many header lines.
    #[error("the request has more than {limit} headers")]
    TooManyHeaders {
        /// The limit in force.
        limit: usize,
    },
}

impl BadHead {
    /// The stable code and its remedy.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        let (code, remedy) = match self {
            Self::Target(target) => return target.code(),
            Self::Malformed(_) => ("MCT-HTTP-BAD-HEAD", "send HTTP/1.1 with CRLF line ends, or HTTP/2"),
            Self::Method => ("MCT-HTTP-BAD-METHOD", "use a method of the Kubernetes API, in upper case"),
            Self::Length(_) => {
                ("MCT-HTTP-BAD-LENGTH", "send one 'Content-Length' or one 'Transfer-Encoding: chunked', never both")
            }
            Self::Host(_) => ("MCT-HTTP-BAD-HOST", "send exactly one 'Host' with the name of the hub"),
            Self::ReservedHeader(_) => {
                ("MCT-HTTP-RESERVED-HEADER", "leave the header out: the gateway sets it from your credential")
            }
            Self::Connection(_) => (
                "MCT-HTTP-BAD-CONNECTION",
                "list only close, keep-alive, upgrade or te in 'Connection', and send no such header over HTTP/2",
            ),
            Self::Upgrade(_) => (
                "MCT-HTTP-BAD-UPGRADE",
                "send 'Connection: upgrade' with 'Upgrade: websocket' or 'Upgrade: SPDY/3.1', over HTTP/1.1 and \
                    without a body",
            ),
            Self::TwoCredentials => ("MCT-HTTP-TWO-CREDENTIALS", "send exactly one credential"),
            Self::TooLong { .. } | Self::TooManyHeaders { .. } => {
                ("MCT-HTTP-LONG-HEAD", "send fewer or shorter headers")
            }
            Self::TooSlow { .. } => ("MCT-HTTP-SLOW-HEAD", "send the head of a request at once, and try again"),
        };
        ErrorCode { code, remedy }
    }

    /// The HTTP status a client gets.
    #[must_use]
    pub fn http_status(&self) -> u16 {
        match self {
            Self::TooLong { .. } | Self::TooManyHeaders { .. } => 431,
            Self::TooSlow { .. } => 408,
            Self::Malformed(_)
            | Self::Method
            | Self::Target(_)
            | Self::Length(_)
            | Self::Host(_)
            | Self::ReservedHeader(_)
            | Self::Connection(_)
            | Self::Upgrade(_)
            | Self::TwoCredentials => 400,
        }
    }
}

/// The body of a request is not what its head promised. The connection ends with it, inside an [`std::io::Error`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the request's body is malformed: {0}")]
pub struct BadBody(pub(super) &'static str);

/// Holds the reason for which a connection's last request was refused, until the one who answers it takes it.
#[derive(Debug, Default)]
pub struct RefusedHead(Mutex<Option<BadHead>>);

impl RefusedHead {
    /// The reason, once.
    #[must_use]
    pub fn take(&self) -> Option<BadHead> {
        self.0.lock().take()
    }

    pub(super) fn put(&self, reason: BadHead) {
        *self.0.lock() = Some(reason);
    }
}
