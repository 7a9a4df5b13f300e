//! Port: what a client may do. Asked for every request, before anything is opened for it, and again while what was opened lives.

use crate::{Destination, Identity, KubeRequest, Protocol, Target, bad_target::BadTarget};
use std::{fmt, net::IpAddr, sync::Arc, time::Duration};

/// A request, as policy sees it: the same typed destination that is opened afterwards.
#[derive(Debug, Clone, Copy)]
pub struct Access<'a> {
    /// Who.
    pub identity: &'a Identity,
    /// Where to.
    pub destination: &'a Destination,
    /// What to do there.
    pub action: &'a Action,
    /// How the stream is served at the other end.
    pub protocol: &'a Protocol,
    /// Where the client's connection comes from.
    pub source: Option<IpAddr>,
}

/// What a client wants to do at a destination: computed once, from the bytes that are forwarded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// A request to a kube-apiserver, as the kube-apiserver understands it.
    Kube(KubeRequest),
    /// An HTTP request to a service or an endpoint.
    Http {
        /// The method.
        method: String,
        /// The path without its query, as sent.
        path: String,
    },
    /// Plain bytes: the hub sees nothing of what they say. To a kube-apiserver this is end-to-end TLS.
    Bytes,
}

impl Action {
    /// What an HTTP request asks of its target that asks for no upgrade.
    pub fn of_http(target: &Target, method: &str, path_and_query: &str) -> Result<Self, BadTarget> {
        Ok(match target {
            Target::KubeApi => Self::Kube(KubeRequest::parse(method, path_and_query)?),
            Target::Service(_) | Target::Endpoint(_) => Self::plain_http(method, path_and_query),
        })
    }

    /// What an HTTP request asks of its target that asks for an upgrade as well: to a websocket, to SPDY, in HTTP/1.1 or HTTP/2.
    pub fn of_upgrade(target: &Target, method: &str, path_and_query: &str) -> Result<Self, BadTarget> {
        Ok(match target {
            Target::KubeApi => Self::Kube(KubeRequest::parse_upgrade(method, path_and_query)?),
            Target::Service(_) | Target::Endpoint(_) => Self::plain_http(method, path_and_query),
        })
    }

    fn plain_http(method: &str, path_and_query: &str) -> Self {
        let path = path_and_query.split('?').next().unwrap_or_default();
        Self::Http { method: method.to_owned(), path: path.to_owned() }
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kube(request) => request.fmt(f),
            Self::Http { method, path } => write!(f, "{method} {path}"),
            Self::Bytes => f.write_str("plain bytes"),
        }
    }
}

/// What policy says, and which rule of it. Undecided is denied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// It may.
    Allowed {
        /// The rule that says so, for the audit and for people who ask why.
        rule: Arc<str>,
    },
    /// It may not.
    Denied {
        /// The rule that says so, or that none allows it.
        rule: Arc<str>,
    },
    /// It may, but not this much at once.
    Limited {
        /// Which quota.
        rule: Arc<str>,
        /// When to try again.
        retry_after: Duration,
    },
}

impl Decision {
    /// Allowed by a rule.
    pub fn allowed(rule: impl Into<Arc<str>>) -> Self {
        Self::Allowed { rule: rule.into() }
    }

    /// Denied by a rule, or for want of one.
    pub fn denied(rule: impl Into<Arc<str>>) -> Self {
        Self::Denied { rule: rule.into() }
    }

    /// Whether it may.
    #[must_use]
    pub fn is_allowed(&self) -> bool {
        matches!(self, Self::Allowed { .. })
    }

    /// The rule that decided.
    #[must_use]
    pub fn rule(&self) -> &Arc<str> {
        match self {
            Self::Allowed { rule } | Self::Denied { rule } | Self::Limited { rule, .. } => rule,
        }
    }
}

/// Decides what a client may do. It cannot fail: what it cannot decide it denies.
///
/// Obligations: 1. a decision rests on one state of the rules, never on a mixture of two; 2. it is quick and waits for nobody.
pub trait Authorize: Send + Sync + 'static {
    /// Decides.
    fn authorize(&self, access: &Access<'_>) -> Decision;

    /// Decides whether some of what a request for many is about may be seen: for answers that are then decided object by object.
    fn authorize_some(&self, access: &Access<'_>) -> Decision {
        self.authorize(access)
    }

    /// Another number whenever a decision made before may have changed; streams that live are then decided again.
    fn generation(&self) -> u64 {
        0
    }
}

/// Decides how much at once, for requests that may at all.
pub trait Limit: Send + Sync + 'static {
    /// Takes a place for a request; the error is [`Decision::Limited`]. Dropping the place gives it back.
    fn take(&self, access: &Access<'_>) -> Result<Box<dyn Place>, Decision>;
}

/// A place among those who are served at once.
pub trait Place: Send + Sync {
    /// Counts bytes that were moved; gives how long to wait before more are.
    fn moved(&self, bytes: u64) -> Duration {
        let _ = bytes;
        Duration::ZERO
    }
}

/// Limits nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unlimited;

impl Limit for Unlimited {
    fn take(&self, _: &Access<'_>) -> Result<Box<dyn Place>, Decision> {
        // Nothing is allocated for what has no size.
        Ok(Box::new(Self))
    }
}

impl Place for Unlimited {}

impl fmt::Debug for dyn Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Limit")
    }
}

impl fmt::Debug for dyn Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Place")
    }
}

impl fmt::Debug for dyn Authorize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Authorize")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Endpoint, ServiceTarget};

    #[test]
    fn an_http_request_asks_what_its_target_understands() {
        let service = ServiceTarget::parse("default", "web:80").unwrap().into();
        let endpoint = Endpoint::parse("db:80").unwrap().into();
        for (target, asked, shown) in [
            (&Target::KubeApi, "/api/v1/namespaces/d/pods?limit=5", Ok("list pods in d")),
            (&Target::KubeApi, "/version?a=b", Ok("get /version")),
            (&Target::KubeApi, "/a/../b", Err(BadTarget::DotSegment)),
            (&service, "/api/v1/pods?limit=5?x", Ok("GET /api/v1/pods")),
            (&endpoint, "/a%20b", Ok("GET /a%20b")),
        ] {
            let action = Action::of_http(target, "GET", asked).map(|action| action.to_string());
            assert_eq!(action.as_deref().map_err(|error| *error), shown, "{target} {asked}");
        }
        let console = "/apis/a.b/v1/namespaces/d/vms/v/console?x";
        for (target, upgrade, plain) in [
            (&Target::KubeApi, "connect vms.a.b/console v in d", "get vms.a.b/console v in d"),
            (&service, "GET /apis/a.b/v1/namespaces/d/vms/v/console", "GET /apis/a.b/v1/namespaces/d/vms/v/console"),
        ] {
            assert_eq!(Action::of_upgrade(target, "GET", console).unwrap().to_string(), upgrade);
            assert_eq!(Action::of_http(target, "GET", console).unwrap().to_string(), plain);
        }
        assert_eq!(Action::Bytes.to_string(), "plain bytes");
    }

    #[test]
    fn only_what_is_allowed_without_more_is_allowed() {
        let limited = Decision::Limited { rule: "q".into(), retry_after: Duration::ZERO };
        for (decision, is_allowed, rule) in
            [(Decision::allowed("a"), true, "a"), (Decision::denied("d"), false, "d"), (limited, false, "q")]
        {
            assert_eq!((decision.is_allowed(), &**decision.rule()), (is_allowed, rule));
        }
    }

    #[test]
    fn who_decides_nothing_in_part_decides_the_whole() {
        struct Never;
        impl Authorize for Never {
            fn authorize(&self, access: &Access<'_>) -> Decision {
                Decision::denied(access.action.to_string())
            }
        }
        let destination = Destination { cluster: "c1".parse().unwrap(), target: Target::KubeApi };
        let access = Access {
            identity: &Identity::Anonymous,
            destination: &destination,
            action: &Action::Bytes,
            protocol: &Protocol::tcp(),
            source: None,
        };
        assert_eq!(Never.authorize_some(&access), Decision::denied("plain bytes"));
        let place = Unlimited.take(&access).unwrap();
        assert_eq!(place.moved(u64::MAX), Duration::ZERO);
    }
}
