//! Requests that a web page makes a browser send. The page chooses them, the browser adds what it has: cookies, the user's client
//! certificate, a place inside the network.
//!
//! The gateway takes no cookies and sets none. What is left is refused here: a foreign page's request that stands on anything but a token
//! that counts, which a page can only send if it has it; and, from who comes in as nobody, a name that somebody else's DNS has led here.

#[cfg(test)]
mod tests;

use super::credential;
use http::{HeaderMap, Uri, header, request::Parts};
use mctunnel_core::ErrorCode;
use std::{collections::BTreeSet, net::IpAddr};

/// Why a browser's request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Browsed {
    /// The page is of another origin.
    #[error("a page of another origin made this request, and it shows no token that counts")]
    ForeignOrigin,
    /// The name is not one of the gateway's.
    #[error("this gateway does not go by the name that the request has as its host")]
    UnknownHost,
}

impl Browsed {
    pub(super) fn code(self) -> ErrorCode {
        match self {
            Self::ForeignOrigin => ErrorCode {
                code: "MCT-HTTP-FOREIGN-ORIGIN",
                remedy: "send a token that the hub knows, or serve the page from the gateway's own origin; CORS is not offered",
            },
            Self::UnknownHost => ErrorCode {
                code: "MCT-HTTP-UNKNOWN-HOST",
                remedy: "use an address, localhost or a name in the hub's certificate, or have clients authenticate",
            },
        }
    }
}

/// Before somebody is asked who it is: whether the page is of our own origin. A token that a page had to have to send it counts for the
/// page; if it turns out to be nobody's, see below.
pub(super) fn check_page(parts: &Parts, is_tls: bool) -> Result<(), Browsed> {
    if credential::has_token(&parts.headers) { Ok(()) } else { check_origin(parts, is_tls) }
}

/// Of somebody who comes in as nobody: a token has said nothing, any page can make one up.
pub(super) fn check_page_of_nobody(
    parts: &Parts,
    is_tls: bool,
    hosts: Option<&BTreeSet<String>>,
) -> Result<(), Browsed> {
    check_origin(parts, is_tls)?;
    check_host(parts, hosts)
}

fn check_origin(parts: &Parts, is_tls: bool) -> Result<(), Browsed> {
    // Some clients that are no browsers make an origin up, and always with `http`.
    let is_tls = is_tls && AMBIENT.iter().any(|name| parts.headers.contains_key(*name));
    let host = host_of(&parts.uri, &parts.headers);
    let mut origins = parts.headers.get_all(header::ORIGIN).iter();
    let mut sites = parts.headers.get_all("sec-fetch-site").iter();
    // Browsers leave the origin out of links and images, and show a client certificate there all the same. `none` is an address typed in.
    let foreign = origins.any(|origin| !origin.to_str().is_ok_and(|origin| is_of(origin, host, is_tls)))
        || sites.any(|site| site != "same-origin" && site != "none");
    if foreign { Err(Browsed::ForeignOrigin) } else { Ok(()) }
}

/// Whether a browser came by a name of ours.
fn check_host(parts: &Parts, hosts: Option<&BTreeSet<String>>) -> Result<(), Browsed> {
    let host = host_of(&parts.uri, &parts.headers);
    let strange = hosts.is_some_and(|known| is_of_a_browser(&parts.headers) && !is_known(host, known));
    if strange { Err(Browsed::UnknownHost) } else { Ok(()) }
}

/// Whether a browser sent it: by what every browser adds, a page cannot leave out, and other clients do not send unasked.
fn is_of_a_browser(headers: &HeaderMap) -> bool {
    headers.contains_key(header::ORIGIN) || AMBIENT.iter().any(|name| headers.contains_key(*name))
}

/// What every browser adds one of, whatever the page wants.
const AMBIENT: [&str; 3] = ["accept-language", "cookie", "sec-fetch-site"];

/// What the client takes us for: `:authority`, or `Host`, of which the guard lets exactly one through.
fn host_of<'a>(uri: &'a Uri, headers: &'a HeaderMap) -> &'a str {
    match uri.authority() {
        Some(authority) => authority.as_str(),
        None => headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default(),
    }
}

/// Whether the origin is the host's own. A page that came without TLS is whoever's who is on the way, unless we have none ourselves: then
/// what is in front of us may have ended it.
fn is_of(origin: &str, host: &str, is_tls: bool) -> bool {
    let Some((scheme, at)) = origin.split_once("://") else { return false };
    let default = match scheme {
        "https" => "443",
        "http" if !is_tls => "80",
        _ => return false,
    };
    let ((name, port), (host, host_port)) = (split(at), split(host));
    !name.is_empty() && name.eq_ignore_ascii_case(host) && port.unwrap_or(default) == host_port.unwrap_or(default)
}

/// An address names nobody, so no DNS has led here by it; nor by `localhost`.
fn is_known(host: &str, known: &BTreeSet<String>) -> bool {
    let name = split(host).0.to_ascii_lowercase();
    let address = name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(&name);
    address.parse::<IpAddr>().is_ok() || name == "localhost" || known.contains(&name)
}

/// The name and the port of an authority.
fn split(authority: &str) -> (&str, Option<&str>) {
    match authority.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) && !port.is_empty() => (name, Some(port)),
        _ => (authority, None),
    }
}
