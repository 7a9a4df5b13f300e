//! The same rules for HTTP/2, where the framing is the library's business and the head comes parsed.

use super::{
    BadHead, GuardConfig,
    fields::{Credentials, check_name, check_trailer_name, is_host, is_method, parse_length},
};
use crate::http::upgrade::is_websocket_over_http2;
use ::http::{HeaderMap, header, request::Parts};
use mctunnel_core::bad_target;

/// Headers that HTTP/2 does not have.
const CONNECTION_ONLY: [header::HeaderName; 4] =
    [header::CONNECTION, header::TRANSFER_ENCODING, header::UPGRADE, header::HeaderName::from_static("keep-alive")];

/// Checks the head of an HTTP/2 request by the rules that a [`Guarded`](super::Guarded) connection has for HTTP/1.1.
pub fn check_h2(request: &Parts, config: &GuardConfig) -> Result<(), BadHead> {
    if !is_method(request.method.as_str()) && !is_websocket_over_http2(request) {
        return Err(BadHead::Method);
    }
    bad_target::split(request.uri.path_and_query().map_or("", |target| target.as_str()))?;
    if request.headers.len() > config.max_headers {
        return Err(BadHead::TooManyHeaders { limit: config.max_headers });
    }
    check_names(&request.headers, config)?;
    check_connection(&request.headers)?;
    check_host(request)?;
    let mut lengths = request.headers.get_all(header::CONTENT_LENGTH).iter();
    if let Some(length) = lengths.next() {
        parse_length(length.as_bytes())?;
    }
    if lengths.next().is_some() {
        return Err(BadHead::Length("there are two Content-Length"));
    }
    Ok(())
}

/// Checks the trailers of an HTTP/2 request; those of HTTP/1.1 are checked on the connection.
pub fn check_trailers(trailers: &HeaderMap) -> Result<(), BadHead> {
    trailers.keys().try_for_each(|name| check_trailer_name(name.as_str()))
}

/// Refuses headers that clients may not send, and more than one credential.
pub(in crate::http) fn check_names(headers: &HeaderMap, config: &GuardConfig) -> Result<(), BadHead> {
    let mut credentials = Credentials::default();
    for (name, _) in headers {
        check_name(name.as_str(), config)?;
        credentials.handle(name.as_str())?;
    }
    Ok(())
}

fn check_connection(headers: &HeaderMap) -> Result<(), BadHead> {
    let other = ["proxy-connection", "http2-settings"];
    if CONNECTION_ONLY.iter().any(|name| headers.contains_key(name)) || other.iter().any(|n| headers.contains_key(*n)) {
        return Err(BadHead::Connection("HTTP/2 does not have it"));
    }
    if headers.get_all(header::TE).iter().any(|value| value != "trailers") {
        return Err(BadHead::Connection("TE is something else than trailers"));
    }
    Ok(())
}

fn check_host(request: &Parts) -> Result<(), BadHead> {
    let mut hosts = request.headers.get_all(header::HOST).iter();
    let host = hosts.next().map(header::HeaderValue::as_bytes);
    if hosts.next().is_some() {
        return Err(BadHead::Host("there are two"));
    }
    let authority = request.uri.authority().map(|authority| authority.as_str().as_bytes());
    let named = match (authority, host) {
        (Some(one), Some(other)) if one != other => return Err(BadHead::Host(":authority and Host differ")),
        (Some(name), _) | (None, Some(name)) => name,
        (None, None) => return Err(BadHead::Host("there is neither :authority nor Host")),
    };
    if is_host(named) { Ok(()) } else { Err(BadHead::Host("it is not a name or address with or without a port")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ::http::{Request, Uri, header::HeaderName};

    fn judged(method: &str, uri: &str, headers: &[(&str, &str)]) -> Result<(), BadHead> {
        let mut request = Request::builder().method(method).uri(uri.parse::<Uri>().expect("a URI"));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        check_h2(&request.body(()).expect("a request").into_parts().0, &GuardConfig::default())
    }

    #[test]
    fn t39_requests_as_clients_send_them_pass() {
        for (method, uri, headers) in [
            ("GET", "https://hub:8080/c/api?x=1", &[("authorization", "Bearer a")][..]),
            ("POST", "https://hub/c", &[("content-length", "3"), ("te", "trailers")]),
            ("GET", "https://hub/c", &[("host", "hub"), ("cookie", "a"), ("cookie", "b")]),
            ("DELETE", "/c", &[("host", "hub")]),
        ] {
            assert_eq!(judged(method, uri, headers), Ok(()), "{method} {uri}");
        }
    }

    #[test]
    fn t39_headers_that_http2_does_not_have_are_refused() {
        for (name, value) in [
            ("connection", "close"),
            ("connection", "upgrade"),
            ("upgrade", "websocket"),
            ("transfer-encoding", "chunked"),
            ("keep-alive", "timeout=5"),
            ("proxy-connection", "close"),
            ("http2-settings", "AAMAAABk"),
            ("te", "gzip"),
        ] {
            let refused = judged("GET", "https://hub/c", &[(name, value)]);
            assert!(matches!(refused, Err(BadHead::Connection(_))), "{name} {refused:?}");
        }
    }

    #[test]
    fn t39_the_same_heads_are_refused_as_over_http1() {
        let refused = |uri: &str, headers: &[(&str, &str)]| judged("GET", uri, headers).expect_err("refused");
        for name in ["impersonate-user", "x-remote-group", "x-mctunnel-cluster", "any_name"] {
            assert!(matches!(refused("https://hub/c", &[(name, "a")]), BadHead::ReservedHeader(_)), "{name}");
        }
        for uri in ["https://hub/c/../d", "https://hub/c%2fd", "https://hub//c", "https://hub/c;d"] {
            assert!(matches!(refused(uri, &[]), BadHead::Target(_)), "{uri}");
        }
        for (uri, headers) in [
            ("https://hub/c", &[("host", "evil")][..]),
            ("https://hub/c", &[("host", "hub"), ("host", "hub")]),
            ("https://hub/c", &[("host", "HUB")]),
            ("https://user@hub/c", &[]),
            ("/c", &[]),
            ("/c", &[("host", "a b")]),
        ] {
            assert!(matches!(refused(uri, headers), BadHead::Host(_)), "{uri} {headers:?}");
        }
        for headers in [&[("content-length", "3"), ("content-length", "3")][..], &[("content-length", "+3")]] {
            assert!(matches!(refused("https://hub/c", headers), BadHead::Length(_)), "{headers:?}");
        }
        let two = [("authorization", "a"), ("authorization", "a")];
        assert_eq!(refused("https://hub/c", &two), BadHead::TwoCredentials);
        assert_eq!(judged("GET", "https://hub/c", &[("a", "b"); 100]), Ok(()));
        assert_eq!(refused("https://hub/c", &[("a", "b"); 101]), BadHead::TooManyHeaders { limit: 100 });
        for method in ["CONNECT", "TRACE", "get", "BREW"] {
            assert_eq!(judged(method, "https://hub/c", &[]), Err(BadHead::Method), "{method}");
        }
        assert!(matches!(judged("OPTIONS", "*", &[("host", "hub")]), Err(BadHead::Target(_))));
    }

    #[test]
    fn t39_trailers_do_not_change_the_head() {
        let trailers = |name| HeaderMap::from_iter([(HeaderName::from_static(name), "a".parse().expect("a value"))]);
        assert_eq!(check_trailers(&trailers("grpc-status")), Ok(()));
        for name in ["authorization", "host", "content-length", "impersonate-user", "x-mctunnel-cluster", "a_b"] {
            assert!(check_trailers(&trailers(name)).is_err(), "{name}");
        }
    }
}
