//! The rules for header fields that HTTP/1.1 and HTTP/2 have in common.

use super::{BadHead, GuardConfig};

/// Headers that carry an identity; only who has verified one may send them.
const IDENTITY: [(&str, &str); 2] =
    [("impersonate-", "a name beginning with Impersonate-"), ("x-remote-", "a name beginning with X-Remote-")];
/// Headers that route a stream.
const ROUTING: &str = "x-mctunnel-";

/// Refuses the names of headers that clients may not send. `name` may be in any case.
pub(super) fn check_name(name: &str, config: &GuardConfig) -> Result<(), BadHead> {
    if name.contains('_') {
        // Servers that know headers as environment variables cannot tell '_' from '-'.
        return Err(BadHead::ReservedHeader("a name with '_'"));
    }
    for (prefix, what) in IDENTITY {
        if starts_with(name, prefix) && !config.is_forwarded(name) {
            return Err(BadHead::ReservedHeader(what));
        }
    }
    if starts_with(name, ROUTING) && !config.routing_headers.iter().any(|allowed| allowed.eq_ignore_ascii_case(name)) {
        return Err(BadHead::ReservedHeader("a name beginning with x-mctunnel-"));
    }
    Ok(())
}

/// Refuses names that have a meaning only in front of a body, or none that a client could give them.
pub(super) fn check_trailer_name(name: &str) -> Result<(), BadHead> {
    const IN_FRONT_ONLY: [&str; 16] = [
        "authorization",
        "connection",
        "content-encoding",
        "content-length",
        "content-type",
        "cookie",
        "expect",
        "host",
        "http2-settings",
        "keep-alive",
        "proxy-authorization",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "x-forwarded-for",
    ];
    if starts_with(name, ROUTING) || IN_FRONT_ONLY.iter().any(|other| name.eq_ignore_ascii_case(other)) {
        return Err(BadHead::ReservedHeader("a trailer that may stand in the head only"));
    }
    check_name(name, &GuardConfig::default())
}

/// Whether a host is a name or an address with or without a port, and nothing else.
pub(super) fn is_host(host: &[u8]) -> bool {
    let plain = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_' | b':' | b'[' | b']');
    !host.is_empty() && host.len() <= 300 && host.iter().all(plain)
}

/// Whether the method is one of those served.
pub(super) fn is_method(method: &str) -> bool {
    matches!(method, "GET" | "HEAD" | "POST" | "PUT" | "PATCH" | "DELETE" | "OPTIONS")
}

/// Parses a length in its one spelling.
pub(super) fn parse_length(value: &[u8]) -> Result<u64, BadHead> {
    let text = str::from_utf8(value).unwrap_or_default();
    let plain = text.bytes().all(|b| b.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    match text.parse() {
        // More than a signed number holds is nobody's body, and another reader's overflow.
        Ok(length) if plain && i64::try_from(length).is_ok() => Ok(length),
        _ => Err(BadHead::Length("Content-Length is not a decimal number")),
    }
}

/// Counts what may identify the client.
#[derive(Debug, Default)]
pub(super) struct Credentials(usize);

impl Credentials {
    pub(super) fn handle(&mut self, name: &str) -> Result<(), BadHead> {
        if name.eq_ignore_ascii_case("authorization") || name.eq_ignore_ascii_case("proxy-authorization") {
            self.0 += 1;
        }
        if self.0 > 1 { Err(BadHead::TwoCredentials) } else { Ok(()) }
    }
}

fn starts_with(name: &str, prefix: &str) -> bool {
    name.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix))
}
