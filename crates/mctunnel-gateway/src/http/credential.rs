//! What a client shows of itself: one certificate, or one token; where a browser can set no header, in the WebSocket's protocols.

mod last_shown;
#[cfg(test)]
mod tests;

pub(super) use last_shown::LastShown;

use super::{guard::GuardConfig, serve::Connection};
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use http::{HeaderMap, HeaderName, HeaderValue, header};
use mctunnel_core::{Authorization, Evidence, Unauthenticated};
use std::sync::Arc;

/// Kubernetes' own way for browsers: this, followed by the token in base64url.
const IN_PROTOCOLS: &str = "base64url.bearer.authorization.k8s.io.";

/// Collects what the client shows. Two tokens are one too many.
pub(super) fn evidence(
    headers: &HeaderMap,
    connection: &Connection,
    forwarded: Vec<(String, String)>,
) -> Result<Evidence, Unauthenticated> {
    let conflict = |text: &str| Err(Unauthenticated::Conflict(text.to_owned()));
    let mut shown = headers.get_all(header::AUTHORIZATION).iter();
    let header = match (shown.next(), shown.next()) {
        (Some(_), Some(_)) => return conflict("the request has two Authorization headers"),
        (Some(value), None) => Some(value.as_bytes()),
        (None, _) => None,
    };
    let authorization = match (header, token_in_protocols(headers)?) {
        (Some(_), Some(_)) => return conflict("the request has a token in two places"),
        (Some(header), None) => Some(connection.last_shown.like(header).map_or_else(|| plain_text(header), Ok)?),
        (None, token) => token,
    };
    let certificate = connection.certificate.as_ref().map(Arc::clone);
    Ok(Evidence { authorization, certificate, forwarded, peer: Some(connection.peer) })
}

fn plain_text(header: &[u8]) -> Result<Authorization, Unauthenticated> {
    let text = str::from_utf8(header).ok().filter(|text| text.is_ascii());
    let bad = || Unauthenticated::Rejected("the Authorization header is not plain text".to_owned());
    text.map(Authorization::new).ok_or_else(bad)
}

/// Takes what a front proxy may have written off a request, whoever sent it: it is evidence, and for nobody behind us.
pub(super) fn take_forwarded(headers: &mut HeaderMap, guard: &GuardConfig) -> Vec<(String, String)> {
    if guard.forwarded_headers.is_empty() && guard.forwarded_prefixes.is_empty() {
        return Vec::new();
    }
    let names: Vec<HeaderName> = headers.keys().filter(|name| guard.is_forwarded(name.as_str())).cloned().collect();
    let mut forwarded = Vec::new();
    for name in names {
        for value in headers.get_all(&name) {
            // A value that is not text is kept as one that is no name either.
            forwarded.push((name.as_str().to_owned(), value.to_str().unwrap_or("\u{fffd}").to_owned()));
        }
        headers.remove(name);
    }
    forwarded
}

/// Takes the client's token off a request. What the client shows to us is not for anybody behind us.
pub(super) fn take_off(headers: &mut HeaderMap) {
    headers.remove(header::AUTHORIZATION);
    if protocols(headers).any(|protocol| protocol.starts_with(IN_PROTOCOLS)) {
        let rest: Vec<&str> = protocols(headers).filter(|protocol| !protocol.starts_with(IN_PROTOCOLS)).collect();
        let rest = rest.join(", ");
        headers.remove(header::SEC_WEBSOCKET_PROTOCOL);
        if let Some(value) = HeaderValue::from_str(&rest).ok().filter(|value| !value.is_empty()) {
            headers.insert(header::SEC_WEBSOCKET_PROTOCOL, value);
        }
    }
}

/// Whether the request has a token, good or bad: what a browser does not add by itself. `Basic` is none, browsers remember it.
pub(super) fn has_token(headers: &HeaderMap) -> bool {
    let bearer = |value: &HeaderValue| {
        let scheme = value.as_bytes().split(|byte| *byte == b' ').next().unwrap_or_default();
        scheme.eq_ignore_ascii_case(b"bearer")
    };
    headers.get_all(header::AUTHORIZATION).iter().any(bearer)
        || protocols(headers).any(|protocol| protocol.starts_with(IN_PROTOCOLS))
}

fn token_in_protocols(headers: &HeaderMap) -> Result<Option<Authorization>, Unauthenticated> {
    let mut tokens = protocols(headers).filter_map(|protocol| protocol.strip_prefix(IN_PROTOCOLS));
    let (Some(token), None) = (tokens.next(), tokens.next()) else {
        return match protocols(headers).filter(|protocol| protocol.starts_with(IN_PROTOCOLS)).count() {
            0 => Ok(None),
            _ => Err(Unauthenticated::Conflict("the WebSocket's protocols have two tokens".to_owned())),
        };
    };
    let bad = || Unauthenticated::Rejected("the token in the WebSocket's protocols is not base64url".to_owned());
    let decoded = URL_SAFE_NO_PAD.decode(token.trim_end_matches('=')).map_err(|_| bad())?;
    let token = String::from_utf8(decoded).map_err(|_| bad())?;
    Ok(Some(Authorization::new(format!("Bearer {token}"))))
}

fn protocols(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let values = headers.get_all(header::SEC_WEBSOCKET_PROTOCOL).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(str::trim).filter(|protocol| !protocol.is_empty())
}
