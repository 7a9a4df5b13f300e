//! What clients are told when there is no answer of the target: a Kubernetes `Status`, or a gRPC status for gRPC clients.

use super::{BadHead, BadTarget, browser::Browsed};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use http_body_util::Full;
use mctunnel_core::{AuditFull, ErrorCode, OpenError, Unauthenticated};
use std::time::Duration;

/// A request that was refused, in the terms of who refused it.
#[derive(Debug, thiserror::Error)]
pub(super) enum Refused {
    /// The head breaks the rules.
    #[error("{0}")]
    Head(BadHead),
    /// The target cannot be read.
    #[error("{0}")]
    Target(#[from] BadTarget),
    /// The request is for the gateway itself, and there is no such page.
    #[error("the gateway has no such page")]
    NoPage,
    /// A question to the gateway itself makes no sense.
    #[error("{0}")]
    Question(String),
    /// The gateway has nothing of what it was asked for.
    #[error("{0}")]
    Nothing(String),
    /// The gateway cannot answer a question right now.
    #[error("{0}")]
    NotNow(String),
    /// The gRPC metadata that should name the target cannot be read.
    #[error("{0}")]
    Metadata(&'static str),
    /// A web page made a browser send it.
    #[error("{0}")]
    Browsed(#[from] Browsed),
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
    /// The stream was not opened, or its target gave no answer.
    #[error("{0}")]
    Open(#[from] OpenError),
    /// The target's answer must not be passed on.
    #[error("{0}")]
    BadAnswer(&'static str),
    /// The answer broke off before its end.
    #[error("the answer was cut: {0}")]
    Cut(String),
}

impl Refused {
    pub(super) fn status(&self) -> StatusCode {
        match self {
            Self::Head(bad) => StatusCode::from_u16(bad.http_status()).unwrap_or(StatusCode::BAD_REQUEST),
            Self::Target(_) | Self::Metadata(_) | Self::Question(_) => StatusCode::BAD_REQUEST,
            Self::NoPage | Self::Nothing(_) => StatusCode::NOT_FOUND,
            Self::NotNow(_) => StatusCode::SERVICE_UNAVAILABLE,
            Self::Browsed(Browsed::ForeignOrigin) => StatusCode::FORBIDDEN,
            Self::Browsed(Browsed::UnknownHost) => StatusCode::MISDIRECTED_REQUEST,
            Self::Unauthenticated(Unauthenticated::Rejected(_)) => StatusCode::UNAUTHORIZED,
            Self::Unauthenticated(Unauthenticated::Conflict(_)) => StatusCode::BAD_REQUEST,
            Self::Unauthenticated(Unauthenticated::TooMany(_)) | Self::Limited { .. } => StatusCode::TOO_MANY_REQUESTS,
            Self::Unauthenticated(Unauthenticated::Unavailable(_)) | Self::Unrecorded(_) => {
                StatusCode::SERVICE_UNAVAILABLE
            }
            Self::Denied(_) => StatusCode::FORBIDDEN,
            Self::Open(error) => StatusCode::from_u16(error.http_status()).unwrap_or(StatusCode::BAD_GATEWAY),
            Self::BadAnswer(_) | Self::Cut(_) => StatusCode::BAD_GATEWAY,
        }
    }

    pub(super) fn code(&self) -> ErrorCode {
        match self {
            Self::Head(bad) => bad.code(),
            Self::Target(bad) => bad.code(),
            Self::NoPage => ErrorCode {
                code: "MCT-HTTP-NO-PAGE",
                remedy: "/-/openapi.json has every page; clusters are at /CLUSTER/...",
            },
            Self::Question(_) => ErrorCode {
                code: "MCT-HTTP-BAD-QUESTION",
                remedy: "ask as /-/openapi.json and docs/security/policy.md show",
            },
            Self::Nothing(_) => ErrorCode {
                code: "MCT-HTTP-NOTHING-THERE",
                remedy: "check the names; reports are there once the agent of the cluster sends them, and until they are too old",
            },
            Self::NotNow(_) => ErrorCode {
                code: "MCT-HTTP-NOT-NOW",
                remedy: "try again in a moment; the hub's log says what it waits for",
            },
            Self::Browsed(reason) => reason.code(),
            Self::Metadata(_) => ErrorCode {
                code: "MCT-HTTP-BAD-METADATA",
                remedy: "set x-mctunnel-cluster, x-mctunnel-host (name.namespace) and x-mctunnel-port, each once",
            },
            Self::Unauthenticated(Unauthenticated::Rejected(_)) => {
                ErrorCode { code: "MCT-HTTP-UNAUTHENTICATED", remedy: "send one valid credential with every request" }
            }
            Self::Unauthenticated(Unauthenticated::Conflict(_)) => {
                ErrorCode { code: "MCT-HTTP-TWO-CREDENTIALS", remedy: "send exactly one credential" }
            }
            Self::Unauthenticated(Unauthenticated::TooMany(_)) => {
                ErrorCode { code: "MCT-HTTP-TOO-MANY-ATTEMPTS", remedy: "wait, then try again with a valid credential" }
            }
            Self::Limited { .. } => ErrorCode {
                code: "MCT-HTTP-QUOTA",
                remedy: "wait as long as Retry-After says, or ask the hub's operator for a larger quota",
            },
            Self::Unrecorded(_) => ErrorCode {
                code: "MCT-HTTP-AUDIT-FULL",
                remedy: "try again later; the hub's log says why its audit log takes no more",
            },
            Self::Unauthenticated(Unauthenticated::Unavailable(_)) => ErrorCode {
                code: "MCT-HTTP-AUTHENTICATION-UNAVAILABLE",
                remedy: "try again later; the hub's log says which provider does not answer",
            },
            Self::Denied(_) => {
                ErrorCode { code: "MCT-HTTP-DENIED", remedy: "ask the hub's operator for a policy that allows it" }
            }
            Self::Open(error) => error.code(),
            Self::BadAnswer(_) => ErrorCode {
                code: "MCT-HTTP-BAD-ANSWER",
                remedy: "check what the target answers; the gateway does not pass this on",
            },
            Self::Cut(_) => ErrorCode {
                code: "MCT-HTTP-CUT",
                remedy: "try again if it may be done twice; the agent's log says whether the target or the tunnel broke",
            },
        }
    }

    fn retry_after(&self) -> Option<u64> {
        let seconds = |wait: Duration| wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
        match self {
            Self::Open(error) => error.retry_after().map(seconds),
            Self::Limited { retry_after, .. } => Some(seconds(*retry_after).max(1)),
            Self::Unauthenticated(Unauthenticated::Unavailable(_) | Unauthenticated::TooMany(_))
            | Self::Unrecorded(_)
            | Self::NotNow(_) => Some(1),
            Self::Unauthenticated(Unauthenticated::Rejected(_) | Unauthenticated::Conflict(_))
            | Self::Head(_)
            | Self::Target(_)
            | Self::Metadata(_)
            | Self::NoPage
            | Self::Question(_)
            | Self::Nothing(_)
            | Self::Browsed(_)
            | Self::Denied(_)
            | Self::BadAnswer(_)
            | Self::Cut(_) => None,
        }
    }

    /// The answer for a client that speaks Kubernetes' HTTP.
    pub(super) fn to_status(&self) -> Response<Full<Bytes>> {
        let (status, code) = (self.status(), self.code());
        let retry_after = self.retry_after();
        let mut details = serde_json::json!({
            "causes": [{ "reason": code.code, "message": code.remedy }],
        });
        if let (Some(seconds), Some(details)) = (retry_after, details.as_object_mut()) {
            details.insert("retryAfterSeconds".to_owned(), seconds.into());
        }
        let body = serde_json::json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": format!("{self} ({}: {})", code.code, code.remedy),
            "reason": reason(status),
            "details": details,
            "code": status.as_u16(),
        });
        let mut response = Response::new(Full::from(body.to_string()));
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(seconds) = retry_after {
            headers.insert(header::RETRY_AFTER, seconds.into());
        }
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"mctunnel\""));
        }
        response
    }

    /// The answer for a gRPC client: a call that ended before it began.
    pub(super) fn to_grpc(&self) -> Response<Full<Bytes>> {
        let mut response = Response::new(Full::default());
        *response.headers_mut() = self.to_grpc_trailers();
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
        response
    }

    /// The end of a gRPC call that had begun.
    pub(super) fn to_grpc_trailers(&self) -> HeaderMap {
        let code = self.code();
        let message = printable(&format!("{self} ({}: {})", code.code, code.remedy));
        let mut trailers = HeaderMap::new();
        trailers.insert("grpc-status", HeaderValue::from_static(grpc_code(self.status())));
        if let Ok(message) = HeaderValue::from_str(&message) {
            trailers.insert("grpc-message", message);
        }
        trailers
    }
}

/// Kubernetes' word for a status.
fn reason(status: StatusCode) -> &'static str {
    match status.as_u16() {
        400 => "BadRequest",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "NotFound",
        503 => "ServiceUnavailable",
        504 => "Timeout",
        500 => "InternalError",
        _ => "",
    }
}

/// gRPC's number for a status.
fn grpc_code(status: StatusCode) -> &'static str {
    match status.as_u16() {
        400 | 431 => "3", // INVALID_ARGUMENT
        401 => "16",      // UNAUTHENTICATED
        403 => "7",       // PERMISSION_DENIED
        404 => "5",       // NOT_FOUND
        500 => "13",      // INTERNAL
        504 => "4",       // DEADLINE_EXCEEDED
        _ => "14",        // UNAVAILABLE
    }
}

/// gRPC messages are percent-encoded; what would need it is replaced.
fn printable(text: &str) -> String {
    text.chars().take(1000).map(|c| if (' '..='~').contains(&c) && c != '%' { c } else { '?' }).collect()
}
