//! What web pages make a browser send, and what of it counts.

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
        ("ws://hub.example", Err(Browsed::ForeignOrigin), Err(Browsed::ForeignOrigin)),
    ] {
        let parts = parts_of("hub.example", &[("origin", origin), ("accept-language", "en")]);
        assert_eq!((check_page(&parts, false), check_page(&parts, true)), (of_plain, of_tls), "{origin}");
        assert_eq!(check_page_of_nobody(&parts, true, None), of_tls, "{origin}");
    }
    // A client for WebSockets that is no browser.
    assert_eq!(check_page(&parts_of("hub.example", &[("origin", "http://hub.example")]), true), Ok(()));
}

#[test]
fn a_port_is_digits_behind_the_last_colon() {
    for (authority, parts) in [
        ("hub:8080", ("hub", Some("8080"))),
        ("[::1]:1", ("[::1]", Some("1"))),
        ("hub", ("hub", None)),
        ("hub:", ("hub:", None)),
        ("hub:8o", ("hub:8o", None)),
        ("[::1]", ("[::1]", None)),
    ] {
        assert_eq!(split(authority), parts, "{authority}");
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
