//! Steps 4 and 5 as a library: forwards single requests for a program that has an HTTP server, and rules, of its own.
//!
//! It is *not* a gateway: it authenticates nobody, routes nothing and asks no policy.

use super::{
    BadHead, GuardConfig, HttpConfig,
    answer::Refused,
    body::ForwardedBody,
    exchange, fields, grpc,
    guard::check_names,
    service::Routed,
    upgrade::{self, Asked},
};
use crate::open_stream::Held;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, Request, Response, StatusCode, header, request::Parts, uri::PathAndQuery};
use http_body_util::Full;
use hyper::body::Body;
use mctunnel_core::{
    Destination, ErrorCode, Happening, Identity, Open, OpenError, Protocol, bad_target, observe::SharedObserver,
};
use std::fmt;
use tokio::time::Instant;

/// Forwards HTTP requests to targets inside clusters: one stream each, with bodies of any length both ways.
///
/// The embedding program does what comes before: it finds out who asks (1 authenticate), where the request goes (2 route) and
/// whether it may (3 authorise). What the gateway does to every request is done here as well: fields of the connection and
/// `x-mctunnel-*` are taken off; a request that claims an identity (`Impersonate-*`, `X-Remote-*`), has two credentials or a
/// path that two readers could read differently is refused; a redirect out of the target is not passed on. Upgrades are refused:
/// they need a connection, which is what [`HttpAdapter`](super::HttpAdapter) serves.
///
/// ```
/// use http::{Request, Response};
/// use http_body_util::Full;
/// use mctunnel_core::{ClusterName, Destination, Open, ServiceTarget};
/// use mctunnel_gateway::{ForwardError, ForwardedBody, HttpForward, Onward};
///
/// async fn shop<O: Open>(
///     forward: &HttpForward<O>,
///     request: Request<Full<bytes::Bytes>>,
/// ) -> Result<Response<ForwardedBody<O::Stream>>, Box<dyn std::error::Error>> {
///     let target = ServiceTarget::parse("default", "shop:8080")?.into();
///     let destination = Destination { cluster: ClusterName::parse("cluster-a")?, target };
///     Ok(forward.forward(Onward::new(destination, "/orders?open=1".parse()?), request).await?)
/// }
/// ```
pub struct HttpForward<O: Open> {
    pub(super) opener: O,
    pub(super) config: HttpConfig,
    pub(super) observer: SharedObserver,
}

impl<O: Open> HttpForward<O> {
    /// Opens its streams with `opener`. Of the limits, those of streams are used: the server and its clients are not ours.
    #[must_use]
    pub fn new(opener: O, config: HttpConfig, observer: SharedObserver) -> Self {
        Self { opener, config, observer }
    }

    /// Sends one request to the target and gives its answer as soon as the head is there. The request's own URI is not looked
    /// at. Dropping the future, or the answer's body, ends the exchange.
    pub async fn forward<B>(
        &self,
        onward: Onward,
        request: Request<B>,
    ) -> Result<Response<ForwardedBody<O::Stream>>, ForwardError>
    where
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: fmt::Display + Send,
    {
        let begun = Instant::now();
        let destination = onward.destination.clone();
        let (mut parts, body) = request.into_parts();
        let body = Box::pin(body);
        let passed = match prepare(onward, &mut parts, &body) {
            Ok(routed) => exchange::pass(self, routed, parts, body, begun, Held::default()).await,
            Err(refused) => Err(refused),
        };
        passed.map(|response| response.map(ForwardedBody)).map_err(|refused| {
            self.refused(Some(&destination), &refused);
            ForwardError(refused)
        })
    }

    /// Reports a request for which no stream was opened, or whose target gave no answer.
    pub(super) fn refused(&self, destination: Option<&Destination>, refused: &Refused) {
        // Clients make up names of clusters; only known ones become a label.
        let known = !matches!(refused, Refused::Open(OpenError::UnknownCluster) | Refused::Denied(_));
        self.observer.observe(&Happening::StreamRefused {
            cluster: destination.filter(|_| known).map(|destination| destination.cluster.clone()),
            target: destination.map(|destination| destination.target.to_string()).unwrap_or_default(),
            code: refused.code().code,
            reason: refused.to_string(),
        });
    }
}

impl<O: Open> fmt::Debug for HttpForward<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpForward").field("config", &self.config).finish_non_exhaustive()
    }
}

/// Where a request goes, as the embedding program decided.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Onward {
    /// To whom.
    pub destination: Destination,
    /// What the target is asked for. Take it from the request as it was sent, not decoded.
    pub path: PathAndQuery,
    /// What the client sees in front of the target's paths, such as `/apps/shop`: redirects get it. Default nothing.
    pub prefix: String,
    /// For whom, as the embedding program verified: the agent speaks for that user. Default nobody in particular.
    pub identity: Identity,
}

impl Onward {
    /// Asks this target for this path.
    #[must_use]
    pub fn new(destination: Destination, path: PathAndQuery) -> Self {
        Self { destination, path, prefix: String::new(), identity: Identity::Anonymous }
    }

    /// Asks for this user.
    #[must_use]
    pub fn on_behalf_of(mut self, identity: Identity) -> Self {
        self.identity = identity;
        self
    }

    /// The target's paths begin like this for the client.
    #[must_use]
    pub fn below(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }
}

/// Judges the head, which no guard has seen, and makes it one that may leave.
fn prepare(onward: Onward, parts: &mut Parts, body: &impl Body) -> Result<Routed, Refused> {
    if upgrade::asked(parts)? != Asked::Nothing {
        return Err(Refused::Head(BadHead::Upgrade("single requests are forwarded, not connections")));
    }
    bad_target::split(onward.path.as_str())?;
    take_off_named_by_connection(&mut parts.headers);
    fields::for_target(&mut parts.headers, false);
    check_names(&parts.headers, &GuardConfig::default()).map_err(Refused::Head)?;
    let sent_length = parts.headers.remove(header::CONTENT_LENGTH).is_some();
    // The program may have changed the body; its length is what it is, whatever the client said.
    if let Some(length) = body.size_hint().exact().filter(|length| *length > 0 || sent_length) {
        parts.headers.insert(header::CONTENT_LENGTH, length.into());
    }
    fields::ensure_request_id(&mut parts.headers);
    let protocol = if grpc::is_grpc(&parts.headers) { Protocol::grpc() } else { Protocol::http() };
    let Onward { destination, path, prefix, identity } = onward;
    Ok(Routed { destination, protocol, path, prefix, asked: Asked::Nothing, identity })
}

fn take_off_named_by_connection(headers: &mut HeaderMap) {
    let values = headers.get_all(header::CONNECTION).iter().filter_map(|value| value.to_str().ok());
    let names = values.flat_map(|value| value.split(',')).filter_map(|name| name.trim().parse::<HeaderName>().ok());
    // `TE: trailers` is for the target too; what else it may say is taken off with the others.
    let names: Vec<HeaderName> = names.filter(|name| name != header::TE).collect();
    for name in names {
        headers.remove(name);
    }
}

// === ForwardError ===

/// A request was not answered by its target. The error says what its client is to be told.
#[derive(Debug)]
pub struct ForwardError(Refused);

impl ForwardError {
    /// The status for the client.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        self.0.status()
    }

    /// The stable code and its remedy.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        self.0.code()
    }

    /// The whole answer as the gateway would give it: a Kubernetes `Status`, with `Retry-After` where it helps.
    #[must_use]
    pub fn to_response(&self) -> Response<Full<Bytes>> {
        self.0.to_status()
    }
}

impl fmt::Display for ForwardError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for ForwardError {}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::Empty;
    use mctunnel_core::{ClusterName, Target};

    fn prepared(path: &str, headers: &[(&str, &str)], body: &'static str) -> Result<HeaderMap, StatusCode> {
        let mut request = Request::post("/somewhere/else");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let (mut parts, ()) = request.body(()).unwrap().into_parts();
        let destination = Destination { cluster: ClusterName::parse("a").unwrap(), target: Target::KubeApi };
        let onward = Onward::new(destination, path.parse().unwrap());
        let prepared = prepare(onward, &mut parts, &Full::<Bytes>::from(body));
        prepared.map(|_| parts.headers).map_err(|refused| refused.status())
    }

    #[test]
    fn fields_of_the_connection_and_of_the_tunnel_stay_behind() {
        let headers = [
            ("host", "front"),
            ("connection", "keep-alive, x-secret"),
            ("x-secret", "1"),
            ("keep-alive", "timeout=5"),
            ("te", "trailers"),
            ("proxy-authorization", "Basic x"),
            ("x-mctunnel-cluster", "b"),
            ("x-request-id", "7"),
            ("accept", "*/*"),
        ];
        let sent = prepared("/", &headers, "").unwrap();
        let mut names: Vec<&str> = sent.keys().map(HeaderName::as_str).collect();
        names.sort_unstable();
        assert_eq!(names, ["accept", "te", "x-request-id"]);
    }

    #[test]
    fn the_length_is_that_of_the_body() {
        let length = |headers: &[(&str, &str)], body| {
            prepared("/", headers, body).unwrap().get(header::CONTENT_LENGTH).map(|v| v.to_str().unwrap().to_owned())
        };
        assert_eq!(length(&[("content-length", "9"), ("content-length", "8")], "abc").as_deref(), Some("3"));
        assert_eq!(length(&[], "abc").as_deref(), Some("3"));
        assert_eq!(length(&[("content-length", "0")], "").as_deref(), Some("0"));
        assert_eq!(length(&[], ""), None);
    }

    #[test]
    fn what_the_gateway_refuses_is_refused() {
        for (path, name) in [
            ("/a/../b", "accept"),
            ("/a/%2e%2e/b", "accept"),
            ("/", "impersonate-user"),
            ("/", "x-remote-group"),
            ("/", "x_remote_user"),
            ("/", "upgrade"),
        ] {
            assert_eq!(prepared(path, &[(name, "x")], ""), Err(StatusCode::BAD_REQUEST), "{path} {name}");
        }
        let (mut parts, ()) = Request::connect("a:1").body(()).unwrap().into_parts();
        let destination = Destination { cluster: ClusterName::parse("a").unwrap(), target: Target::KubeApi };
        let onward = Onward::new(destination, PathAndQuery::from_static("/"));
        assert!(prepare(onward, &mut parts, &Empty::<Bytes>::new()).is_err());
    }
}
