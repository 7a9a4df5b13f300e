//! Requests that a web page makes a browser send. The page chooses them, the browser adds what it has: cookies, the user's client
//! certificate, a place inside the network.
//!
//! The gateway takes no cookies and sets none. What is left is refused here: a foreign page's request that stands on anything but a token
//! that counts, which a page can only send if it has it; and, from who comes in as nobody, a name that somebody else's DNS has led here.

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
    ["accept-language", "origin", "cookie", "sec-fetch-site"].iter().any(|name| headers.contains_key(*name))
}

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
        "https" | "wss" => "443",
        "http" | "ws" if !is_tls => "80",
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

#[cfg(test)]
mod tests {
    use super::*;
    use http::Request;

    fn parts_of(host: &str, fields: &[(&str, &str)]) -> Parts {
        let mut request = Request::get("/c/api").header("host", host);
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        request.body(()).unwrap().into_parts().0
    }

    /// Of somebody who turns out to be a user, or nobody where names are asked about.
    fn checked(host: &str, fields: &[(&str, &str)], known: Option<&[&str]>) -> Result<(), Browsed> {
        let parts = parts_of(host, fields);
        check_page(&parts, false)?;
        known.map_or(Ok(()), |known| nobody(host, fields, Some(known)))
    }

    /// Of somebody who turns out to be nobody.
    fn nobody(host: &str, fields: &[(&str, &str)], known: Option<&[&str]>) -> Result<(), Browsed> {
        let known = known.map(|names| names.iter().map(|&name| name.to_owned()).collect());
        check_page_of_nobody(&parts_of(host, fields), false, known.as_ref())
    }

    #[test]
    fn t33_a_foreign_origin_counts_for_nothing_but_a_token() {
        for (host, origin) in [
            ("hub.example:8080", "https://evil.example"),
            ("hub.example:8080", "https://hub.example"),
            ("hub.example:8080", "https://hub.example:8081"),
            ("hub.example:8080", "https://evil-hub.example:8080"),
            ("hub.example:8080", "https://hub.example.evil:8080"),
            ("hub.example:8080", "https://sub.hub.example:8080"),
            ("hub.example", "https://example"),
            ("hub.example", "null"),
            ("hub.example", ""),
            ("hub.example", "hub.example"),
            ("hub.example", "file://"),
            ("hub.example", "chrome-extension://hub.example"),
            ("hub.example", "https://hub.example@evil.example"),
            ("hub.example", "https://hub.example/"),
        ] {
            for cookie in [&[][..], &[("cookie", "session=1")]] {
                let fields = [&[("origin", origin)][..], cookie].concat();
                assert_eq!(checked(host, &fields, None), Err(Browsed::ForeignOrigin), "{host} {origin}");
            }
            let token = [("origin", origin), ("authorization", "Bearer t")];
            assert_eq!(checked(host, &token, None), Ok(()), "{host} {origin}");
            assert_eq!(nobody(host, &token, None), Err(Browsed::ForeignOrigin), "nobody's token: {host} {origin}");
        }
        let in_protocols = "v5.channel.k8s.io, base64url.bearer.authorization.k8s.io.dG9rZW4";
        let fields = [("origin", "https://console.example"), ("sec-websocket-protocol", in_protocols)];
        assert_eq!(checked("hub.example", &fields, None), Ok(()));
        assert_eq!(nobody("hub.example", &fields, None), Err(Browsed::ForeignOrigin));
        let two = [("origin", "https://hub.example"), ("origin", "https://evil.example")];
        assert_eq!(checked("hub.example", &two, None), Err(Browsed::ForeignOrigin));
    }

    #[test]
    fn t33_the_own_origin_and_none_are_fine() {
        for (host, origin) in [
            ("hub.example:8080", "https://hub.example:8080"),
            ("hub.example:8080", "http://HUB.example:8080"),
            ("hub.example", "https://hub.example"),
            ("hub.example:443", "https://hub.example"),
            ("hub.example", "https://hub.example:443"),
            ("hub.example:80", "http://hub.example"),
            ("[::1]:8080", "https://[::1]:8080"),
        ] {
            assert_eq!(checked(host, &[("origin", origin)], None), Ok(()), "{host} {origin}");
        }
        assert_eq!(checked("hub.example", &[], None), Ok(()), "not a browser");
    }

    #[test]
    fn t33_a_page_without_tls_is_not_of_a_gateway_with_it() {
        for (origin, of_plain, of_tls) in [
            ("https://hub.example", Ok(()), Ok(())),
            ("http://hub.example", Ok(()), Err(Browsed::ForeignOrigin)),
            ("ws://hub.example", Ok(()), Err(Browsed::ForeignOrigin)),
        ] {
            let parts = parts_of("hub.example", &[("origin", origin)]);
            assert_eq!((check_page(&parts, false), check_page(&parts, true)), (of_plain, of_tls), "{origin}");
            assert_eq!(check_page_of_nobody(&parts, true, None), of_tls, "{origin}");
        }
    }

    #[test]
    fn t34_what_a_browser_says_comes_from_elsewhere_counts_for_nothing_but_a_token() {
        for site in ["cross-site", "same-site", "Cross-Site", "", "something new"] {
            for origin in [&[][..], &[("origin", "https://hub.example")]] {
                let fields = [&[("sec-fetch-site", site)][..], origin].concat();
                assert_eq!(checked("hub.example", &fields, None), Err(Browsed::ForeignOrigin), "{fields:?}");
            }
            // A link on another page: the browser would show its client certificate.
            let link = [("sec-fetch-site", site), ("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "document")];
            assert_eq!(checked("hub.example", &link, None), Err(Browsed::ForeignOrigin), "{site}");
            let token = [("sec-fetch-site", site), ("authorization", "Bearer t")];
            assert_eq!(checked("hub.example", &token, None), Ok(()), "{site}");
            assert_eq!(nobody("hub.example", &token, None), Err(Browsed::ForeignOrigin), "nobody's token: {site}");
        }
        for site in ["same-origin", "none"] {
            assert_eq!(checked("hub.example", &[("sec-fetch-site", site)], None), Ok(()), "{site}");
        }
        let two = [("sec-fetch-site", "none"), ("sec-fetch-site", "cross-site")];
        assert_eq!(checked("hub.example", &two, None), Err(Browsed::ForeignOrigin));
    }

    #[test]
    fn t34_where_nobody_is_asked_browsers_are_served_under_known_names_only() {
        let known: Option<&[&str]> = Some(&["hub.example"]);
        let browser = [("accept-language", "en")];
        for host in ["localhost", "LOCALHOST:8080", "127.0.0.1:8080", "[::1]:8080", "10.0.0.1", "hub.example:1"] {
            assert_eq!(checked(host, &browser, known), Ok(()), "{host}");
        }
        let strange =
            ["attacker.test", "attacker.test:8080", "localhost.attacker.test", "127.0.0.1.attacker.test", "hub", ""];
        for host in strange {
            for sign in [("accept-language", "en"), ("cookie", "a=b"), ("sec-fetch-site", "same-origin")] {
                assert_eq!(checked(host, &[sign], known), Err(Browsed::UnknownHost), "{host} {sign:?}");
                assert_eq!(checked(host, &[sign], None), Ok(()), "{host}: clients authenticate");
                let token = ("authorization", "Bearer t");
                assert_eq!(nobody(host, &[sign, token], known), Err(Browsed::UnknownHost), "{host} {sign:?}");
                assert_eq!(checked(host, &[sign, token], None), Ok(()), "a user's token: {host} {sign:?}");
            }
            let own = format!("http://{host}");
            // No page has an origin without a name.
            let why = if host.is_empty() { Browsed::ForeignOrigin } else { Browsed::UnknownHost };
            assert_eq!(checked(host, &[("origin", &own)], known), Err(why), "{host}");
            assert_eq!(checked(host, &[("user-agent", "curl/8")], known), Ok(()), "{host}: not a browser");
        }
    }
}
