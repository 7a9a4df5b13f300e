//! What of a head goes on, either way.

use super::*;

fn fields(list: &[(&'static str, &'static str)]) -> HeaderMap {
    list.iter().map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value))).collect()
}

fn names(fields: &HeaderMap) -> Vec<&str> {
    let mut names: Vec<&str> = fields.keys().map(HeaderName::as_str).collect();
    names.sort_unstable();
    names
}

#[test]
fn t01_what_is_for_one_connection_or_would_pass_for_ours_does_not_reach_the_target() {
    let all = [
        ("accept", "x"),
        ("connection", "upgrade"),
        ("host", "hub"),
        ("http2-settings", "x"),
        ("impersonate-future", "x"),
        ("impersonate-user", "root"),
        ("keep-alive", "x"),
        ("proxy-authorization", "x"),
        ("proxy-connection", "x"),
        ("te", "trailers"),
        ("transfer-encoding", "chunked"),
        ("upgrade", "websocket"),
        ("x-mctunnel-cluster", "c"),
        ("x-other", "x"),
        ("x-remote-group", "system:masters"),
    ];
    let mut plain = fields(&all);
    for_target(&mut plain, false);
    without_identity(&mut plain);
    assert_eq!(names(&plain), ["accept", "te", "x-other"]);
    let mut upgraded = fields(&all);
    for_target(&mut upgraded, true);
    without_identity(&mut upgraded);
    assert_eq!(names(&upgraded), ["accept", "te", "upgrade", "x-other"]);
    // Of `TE` only this is for the target.
    let mut other = fields(&[("te", "gzip")]);
    for_target(&mut other, false);
    assert!(other.is_empty());
    for_target(&mut other, false);
    assert!(other.is_empty(), "and it is not asked for where the client did not");
}

#[test]
fn what_is_for_one_connection_does_not_reach_the_client() {
    let all = [
        ("access-control-allow-credentials", "true"),
        ("access-control-allow-origin", "*"),
        ("connection", "x"),
        ("keep-alive", "x"),
        ("server", "x"),
        ("transfer-encoding", "x"),
        ("upgrade", "x"),
        ("x-access-control-", "x"),
    ];
    let mut plain = fields(&all);
    for_client(&mut plain, false);
    assert_eq!(names(&plain), ["server", "x-access-control-"]);
    let mut upgraded = fields(&all);
    for_client(&mut upgraded, true);
    assert_eq!(names(&upgraded), ["connection", "server", "upgrade", "x-access-control-"]);
    assert_eq!(upgraded[CONNECTION], "upgrade");
}

#[test]
fn t34_what_acts_on_the_whole_origin_is_not_for_a_target_to_say() {
    for name in [
        "access-control-allow-origin",
        "accept-ch",
        "alt-svc",
        "clear-site-data",
        "expect-ct",
        "nel",
        "origin-agent-cluster",
        "public-key-pins",
        "public-key-pins-report-only",
        "report-to",
        "reporting-endpoints",
        "sec-session-registration",
        "secure-session-registration",
        "service-worker-allowed",
        "set-login",
        "strict-transport-security",
        "supports-loading-mode",
        "use-as-dictionary",
    ] {
        for upgraded in [false, true] {
            let mut answer = fields(&[(name, "*"), ("server", "x")]);
            answer.append(HeaderName::from_static(name), HeaderValue::from_static("again"));
            for_client(&mut answer, upgraded);
            assert!(!answer.contains_key(name) && answer.contains_key("server"), "{name}: {answer:?}");
        }
    }
    // About the one answer, its page or its own cookies.
    let kept = [
        "accept-ranges",
        "cache-control",
        "content-security-policy",
        "cross-origin-opener-policy",
        "link",
        "nelly",
        "permissions-policy",
        "refresh",
        "retry-after",
        "set-cookie",
        "vary",
        "x-frame-options",
    ];
    let mut answer: HeaderMap =
        kept.map(|name| (HeaderName::from_static(name), HeaderValue::from_static("x"))).into_iter().collect();
    for_client(&mut answer, false);
    assert_eq!(names(&answer), kept);
}

#[test]
fn a_request_has_one_id_of_reasonable_length() {
    let longest = "x".repeat(LONGEST_REQUEST_ID);
    let mut own = HeaderMap::new();
    own.insert(REQUEST_ID, HeaderValue::from_str(&longest).unwrap());
    assert_eq!(ensure_request_id(&mut own), longest);
    for bad in [String::new(), format!("{longest}x")] {
        let mut other = HeaderMap::new();
        other.insert(REQUEST_ID, HeaderValue::from_str(&bad).unwrap());
        let id = ensure_request_id(&mut other);
        assert!(id.len() == 32 && other[REQUEST_ID] == id && other.len() == 1, "{id:?}");
    }
    assert_ne!(ensure_request_id(&mut HeaderMap::new()), ensure_request_id(&mut HeaderMap::new()));
}
