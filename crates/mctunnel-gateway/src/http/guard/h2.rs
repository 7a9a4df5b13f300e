//! The same rules for HTTP/2, where the framing is the library's business and the head comes parsed.

use super::{
    BadHead, GuardConfig,
    fields::{Credentials, check_name, check_trailer_name, is_host, is_method, parse_length},
};
use crate::http::bad_target;
use ::http::{HeaderMap, header, request::Parts};

/// Headers that HTTP/2 does not have.
const CONNECTION_ONLY: [header::HeaderName; 4] =
    [header::CONNECTION, header::TRANSFER_ENCODING, header::UPGRADE, header::HeaderName::from_static("keep-alive")];

/// Checks the head of an HTTP/2 request by the rules that a [`Guarded`](super::Guarded) connection has for HTTP/1.1.
pub fn check_h2(request: &Parts, config: &GuardConfig) -> Result<(), BadHead> {
    if !is_method(request.method.as_str()) {
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

fn check_names(headers: &HeaderMap, config: &GuardConfig) -> Result<(), BadHead> {
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
