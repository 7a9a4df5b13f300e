//! What a head that came out of the tunnel may not say: who somebody is, what holds for one connection only, and a length that is not
//! its body's. No gateway of ours sends any of it (`http/guard`, `http/fields.rs` there), so a hub that does is not to be believed.
//!
//! It is refused and not taken off: of two readers that take off different things, one is wrong. What the agent itself says of a user
//! is `impersonate.rs`.

use super::impersonate::{begins, names_a_user};
use http::{
    HeaderMap, HeaderName, HeaderValue,
    header::{self, CONTENT_LENGTH},
};
use mctunnel_http::{BodyKind, RequestHead};

#[cfg(test)]
mod tests;

/// Why the head is refused, if it is.
pub(super) fn forged(head: &RequestHead) -> Option<String> {
    let outside = |(name, value): &(&HeaderName, &HeaderValue)| match name.as_str() {
        "te" => !value.as_bytes().eq_ignore_ascii_case(b"trailers"),
        "upgrade" => !head.upgrade,
        name => is_ours(name),
    };
    if let Some((name, _)) = head.fields.iter().find(outside) {
        return Some(format!("the field {name} may not come from outside"));
    }
    let problem = "content-length is not that of the body";
    (!is_length_of(&head.fields, head.body)).then(|| problem.to_owned())
}

/// The name of a trailer for which the request is broken off.
pub(super) fn forged_trailer(trailers: &HeaderMap) -> Option<&HeaderName> {
    let in_front_only = [header::AUTHORIZATION, CONTENT_LENGTH, header::TE, header::UPGRADE];
    trailers.keys().find(|name| is_ours(name.as_str()) || in_front_only.contains(name))
}

/// Whether only the agent may write the field.
fn is_ours(name: &str) -> bool {
    OF_ONE_CONNECTION.contains(&name) || names_a_user(name) || begins(name, "x-mctunnel-")
}

/// Fields between the agent and its target. What `Connection` names, readers take off, be it the user for whom the agent speaks: HTTP/2
/// on its way out does, behind all that is written here. `Host` is among them: to whom a request goes, the agent has decided.
const OF_ONE_CONNECTION: [&str; 7] = [
    "connection",
    "host",
    "http2-settings",
    "keep-alive",
    "proxy-authorization",
    "proxy-connection",
    "transfer-encoding",
];

/// Whether the length, if one is said, can be that of such a body. Else a target waits for bytes that never come, and takes those of
/// the next request for them.
fn is_length_of(fields: &HeaderMap, body: BodyKind) -> bool {
    let mut lengths = fields.get_all(CONTENT_LENGTH).iter();
    match (lengths.next(), lengths.next(), body) {
        (None, ..) => true,
        (Some(length), None, BodyKind::None) => length == "0",
        (Some(length), None, BodyKind::Raw) => is_decimal(length),
        // How long chunks are, they say themselves.
        _ => false,
    }
}

/// Whether it is a number in its one spelling.
fn is_decimal(value: &HeaderValue) -> bool {
    let number = value.to_str().ok().and_then(|text| text.parse::<i64>().ok());
    number.is_some_and(|number| number >= 0 && value == number.to_string().as_str())
}
