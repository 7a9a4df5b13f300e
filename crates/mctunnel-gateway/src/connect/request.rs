//! Routes a request: from the head's text to the destination, once and strictly. Pure.

use super::Refusal;
use base64::{Engine, engine::general_purpose::STANDARD};
use mctunnel_core::{ClusterName, Destination, Endpoint, Host, Secret, Target};

/// The port under which a kube-apiserver goes here, whatever it has in its cluster.
const KUBE_API_PORT: u16 = 443;
/// The header that names the cluster.
const CLUSTER_HEADER: &str = "x-mctunnel-cluster";
/// More than any client has reason to send.
const MAX_HEADERS: usize = 64;

/// The destination that a complete head asks for.
///
/// The cluster comes from the header `x-mctunnel-cluster`, from the user in `Proxy-Authorization`, or from a destination that
/// ends in `.CLUSTER` and `suffix`. If there are several they must agree. A destination that is nothing but `CLUSTER` and
/// `suffix` is the cluster's kube-apiserver.
///
/// A token comes in `Proxy-Authorization` as well: as a bearer token, or as the password beside the cluster's name, so that
/// `http://CLUSTER:TOKEN@HUB:8081` works as a proxy's address.
pub(super) fn route(head: &[u8], suffix: &str) -> Result<Routed, Refusal> {
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    match request.parse(head) {
        Ok(httparse::Status::Complete(_)) => {}
        Ok(httparse::Status::Partial) => return Err(Refusal::BadHead("it is not complete")),
        Err(error) => return Err(malformed(error, head.len())),
    }
    if request.method != Some("CONNECT") {
        return Err(Refusal::NotConnect);
    }
    let (from_header, token) = check_headers(request.headers)?;
    let text = request.path.unwrap_or_default();
    let target = parse_target(text)?;
    let (from_target, target) = match split_cluster(text, &target, suffix)? {
        Some((cluster, target)) => (Some(cluster), target),
        None => (None, target.into()),
    };
    let cluster = match (from_header, from_target) {
        (Some(one), Some(other)) if one != other => return Err(Refusal::TwoClusters),
        (Some(cluster), _) | (None, Some(cluster)) => cluster,
        (None, None) => return Err(Refusal::NoCluster),
    };
    Ok(Routed { destination: Destination { cluster, target }, token })
}

/// What a head asks for, and what it shows.
#[derive(Debug)]
pub(super) struct Routed {
    pub(super) destination: Destination,
    pub(super) token: Option<Secret>,
}

fn malformed(error: httparse::Error, limit: usize) -> Refusal {
    use httparse::Error;
    Refusal::BadHead(match error {
        Error::TooManyHeaders => return Refusal::LongHead { limit },
        Error::HeaderName => "a header's name",
        Error::HeaderValue => "a header's value",
        Error::Version => "only HTTP/1.0 and HTTP/1.1 are served",
        Error::NewLine => "a line end",
        Error::Token | Error::Status => "the request line",
    })
}

/// Gives the cluster named in the headers; refuses those that would make two readers see two requests.
fn check_headers(headers: &[httparse::Header<'_>]) -> Result<(Option<ClusterName>, Option<Secret>), Refusal> {
    let mut cluster = None;
    let (mut token, mut credentials) = (None, 0);
    let mut hosts = 0;
    for header in headers {
        let is = |name: &str| header.name.eq_ignore_ascii_case(name);
        if is(CLUSTER_HEADER) {
            let text = str::from_utf8(header.value).map_err(|_| Refusal::BadCluster)?;
            let named = ClusterName::parse(text).map_err(|_| Refusal::BadCluster)?;
            if cluster.replace(named.clone()).is_some_and(|before| before != named) {
                return Err(Refusal::TwoClusters);
            }
        } else if is("proxy-authorization") {
            credentials += 1;
            let named;
            (named, token) = proxy_authorization(header.value).ok_or(Refusal::BadCluster)?;
            if let Some(named) = named
                && cluster.replace(named.clone()).is_some_and(|before| before != named)
            {
                return Err(Refusal::TwoClusters);
            }
        } else if is("authorization") {
            // It would be for the target, which sees nothing of this request.
            return Err(Refusal::Authorization);
        } else if is("host") {
            hosts += 1;
        } else if is("transfer-encoding") || (is("content-length") && header.value != b"0") {
            return Err(Refusal::Body);
        }
    }
    if hosts > 1 {
        return Err(Refusal::BadHead("two Host headers"));
    }
    if credentials > 1 {
        return Err(Refusal::TwoCredentials);
    }
    Ok((cluster, token))
}

/// The cluster and the token of a `Proxy-Authorization`: user and password of `http://CLUSTER:TOKEN@HUB:8081`, or a bearer token.
fn proxy_authorization(value: &[u8]) -> Option<(Option<ClusterName>, Option<Secret>)> {
    let (scheme, shown) = str::from_utf8(value).ok()?.split_once(' ')?;
    let shown = shown.trim();
    if scheme.eq_ignore_ascii_case("bearer") {
        return Some((None, Some(Secret::new(shown))));
    }
    let decoded = scheme.eq_ignore_ascii_case("basic").then(|| STANDARD.decode(shown).ok())??;
    let (user, password) = str::from_utf8(&decoded).ok()?.split_once(':')?;
    let token = (!password.is_empty()).then(|| Secret::new(password));
    Some((Some(ClusterName::parse(user).ok()?), token))
}

fn parse_target(text: &str) -> Result<Endpoint, Refusal> {
    let reason = if text.contains("://") {
        "it has a scheme"
    } else if text.contains('@') {
        "it has a user"
    } else if text.contains('/') {
        "it has a path"
    } else {
        return Ok(Endpoint::parse(text)?);
    };
    Err(Refusal::BadTarget(reason))
}

/// Takes `.CLUSTER` and `suffix` off the target's host, if they are there.
///
/// Host names have no case, cluster names do: they are lower case. So the suffix is recognised in the parsed target, and the
/// cluster is read from the text as it was sent.
fn split_cluster(text: &str, target: &Endpoint, suffix: &str) -> Result<Option<(ClusterName, Target)>, Refusal> {
    let Host::Name(name) = &target.host else {
        return Ok(None);
    };
    if suffix.is_empty() || !name.ends_with(suffix) {
        return Ok(None);
    }
    let sent = text.rsplit_once(':').map_or(text, |(host, _)| host);
    let sent = sent.strip_suffix('.').unwrap_or(sent);
    let sent = sent.strip_suffix(suffix).ok_or(Refusal::BadCluster)?;
    let (host, cluster) = match sent.rsplit_once('.') {
        Some((host, cluster)) => (Some(host), cluster),
        None => (None, sent),
    };
    let cluster = ClusterName::parse(cluster).map_err(|_| Refusal::BadCluster)?;
    let target = match host {
        Some(host) => Endpoint { host: Host::parse(host)?, port: target.port }.into(),
        None if target.port == KUBE_API_PORT => Target::KubeApi,
        None => return Err(Refusal::NoHost),
    };
    Ok(Some((cluster, target)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn routed(line: &str, headers: &str) -> Result<String, Refusal> {
        let head = format!("{line} HTTP/1.1\r\n{headers}\r\n");
        route(head.as_bytes(), ".mctunnel").map(|routed| routed.destination.to_string())
    }

    #[test]
    fn the_cluster_is_named_by_header_or_destination() {
        let header = "x-mctunnel-cluster: c1\r\n";
        for (target, headers, destination) in [
            ("db:1", header, "db:1 in c1"),
            ("db:1", "X-MCTunnel-Cluster:  c1 \r\nHost: x\r\n", "db:1 in c1"),
            ("db:1", "x-mctunnel-cluster: c1\r\nx-mctunnel-cluster: c1\r\n", "db:1 in c1"),
            ("[fd00::1]:1", header, "[fd00::1]:1 in c1"),
            ("db.c1.mctunnel:1", "", "db:1 in c1"),
            ("DB.Default.svc.c1.mctunnel:1", header, "db.default.svc:1 in c1"),
            ("db.c1.mctunnel.:1", "", "db:1 in c1"),
            ("127.0.0.1.cluster-a.mctunnel:7001", "", "127.0.0.1:7001 in cluster-a"),
            ("mctunnel:1", header, "mctunnel:1 in c1"),
            ("c1.mctunnel:443", "", "kube-apiserver in c1"),
            ("db:1", "Proxy-Authorization: Basic YzE6cGFzc3dvcmQ=\r\n", "db:1 in c1"),
            ("c1.mctunnel:443", "Proxy-Authorization: basic YzE6\r\n", "kube-apiserver in c1"),
            ("db:1", "x-mctunnel-cluster: c1\r\nContent-Length: 0\r\n", "db:1 in c1"),
            ("db:1", "x-mctunnel-cluster: c1\r\nProxy-Authorization: Basic YzE6\r\n", "db:1 in c1"),
            ("db.c1.mctunnel:1", "Proxy-Authorization: Basic YzE6\r\n", "db:1 in c1"),
        ] {
            assert_eq!(routed(&format!("CONNECT {target}"), headers).as_deref(), Ok(destination), "{target}");
        }
    }

    #[test]
    fn a_token_is_a_bearer_token_or_the_password_beside_the_cluster() {
        let token = |headers: &str| {
            let head = format!("CONNECT db.c1.mctunnel:1 HTTP/1.1\r\n{headers}\r\n");
            let routed = route(head.as_bytes(), ".mctunnel").unwrap();
            routed.token.map(|token| token.expose().to_owned())
        };
        assert_eq!(token("Proxy-Authorization: Bearer t0ken\r\n").as_deref(), Some("t0ken"));
        assert_eq!(token("Proxy-Authorization: Basic YzE6cGFzc3dvcmQ=\r\n").as_deref(), Some("password"));
        assert_eq!(token("Proxy-Authorization: Basic YzE6\r\n"), None);
        assert_eq!(token(""), None);
    }

    #[test]
    fn contradictions_are_refused() {
        for (target, headers, refusal) in [
            ("db:1", "", Refusal::NoCluster),
            ("db.c1.mctunnel:1", "x-mctunnel-cluster: c2\r\n", Refusal::TwoClusters),
            ("db:1", "x-mctunnel-cluster: c1\r\nx-mctunnel-cluster: c2\r\n", Refusal::TwoClusters),
            ("db:1", "x-mctunnel-cluster: c2\r\nProxy-Authorization: Basic YzE6\r\n", Refusal::TwoClusters),
            ("db:1", "Proxy-Authorization: Basic YzE6\r\nx-mctunnel-cluster: c2\r\n", Refusal::TwoClusters),
            ("http://db:1", "x-mctunnel-cluster: c1\r\n", Refusal::BadTarget("it has a scheme")),
            ("user@db:1", "x-mctunnel-cluster: c1\r\n", Refusal::BadTarget("it has a user")),
            ("db:1/path", "x-mctunnel-cluster: c1\r\n", Refusal::BadTarget("it has a path")),
            ("db.C1.mctunnel:1", "", Refusal::BadCluster),
            ("db.c1.MCTUNNEL:1", "x-mctunnel-cluster: c1\r\n", Refusal::BadCluster),
            ("c1.mctunnel:1", "", Refusal::NoHost),
            ("db.c2.mctunnel:1", "Proxy-Authorization: Basic YzE6\r\n", Refusal::TwoClusters),
            ("db:1", "Proxy-Authorization: Bearer YzE6\r\n", Refusal::NoCluster),
            ("db:1", "Proxy-Authorization: Digest YzE6\r\n", Refusal::BadCluster),
            ("db.c1.mctunnel:1", "Authorization: Bearer x\r\n", Refusal::Authorization),
            (
                "db.c1.mctunnel:1",
                "Proxy-Authorization: Bearer x\r\nProxy-Authorization: Bearer x\r\n",
                Refusal::TwoCredentials,
            ),
            ("db:1", "Proxy-Authorization: Basic !!\r\n", Refusal::BadCluster),
            ("1.2.3.c1.mctunnel:1", "", Refusal::InvalidTarget(mctunnel_core::InvalidTarget::BadHost)),
            ("db:1", "x-mctunnel-cluster: c1\r\nHost: a\r\nHost: a\r\n", Refusal::BadHead("two Host headers")),
        ] {
            assert_eq!(routed(&format!("CONNECT {target}"), headers), Err(refusal), "{target} {headers}");
        }
    }
}
