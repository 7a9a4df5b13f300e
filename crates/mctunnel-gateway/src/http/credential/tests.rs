//! Where credentials are found, which are one too many, and what goes no further.

use super::*;
use crate::http::upgrade::Pipes;

fn shown(fields: &[(&'static str, &str)]) -> (Result<Evidence, Unauthenticated>, HeaderMap) {
    let mut headers = HeaderMap::new();
    for (name, value) in fields {
        headers.append(*name, HeaderValue::from_str(value).unwrap());
    }
    let peer = ([127, 0, 0, 1], 1).into();
    let cut = tokio_util::sync::CancellationToken::new();
    let connection = Connection {
        peer,
        certificate: None,
        refused: None,
        last_shown: LastShown::default(),
        pipes: Pipes::default(),
        cut,
    };
    (evidence(&headers, &connection, Vec::new()), headers)
}

#[test]
fn a_token_comes_in_one_of_two_places() {
    let token =
        |fields: &[(&'static str, &str)]| shown(fields).0.unwrap().authorization.map(|token| token.expose().to_owned());
    assert_eq!(token(&[("authorization", "Bearer t")]).as_deref(), Some("Bearer t"));
    let protocols = format!("v5.channel.k8s.io, {IN_PROTOCOLS}dG9rZW4");
    assert_eq!(token(&[("sec-websocket-protocol", &protocols)]).as_deref(), Some("Bearer token"));
    assert_eq!(token(&[("sec-websocket-protocol", "v5.channel.k8s.io")]), None);
}

#[test]
fn t31_two_tokens_are_one_too_many() {
    let in_protocols = format!("{IN_PROTOCOLS}dG9rZW4");
    let twice = format!("{in_protocols}, {in_protocols}");
    for fields in [
        [("authorization", "Bearer a"), ("authorization", "Bearer a")],
        [("authorization", "Bearer a"), ("sec-websocket-protocol", &in_protocols)],
        [("sec-websocket-protocol", &in_protocols), ("sec-websocket-protocol", &in_protocols)],
        [("accept", "*/*"), ("sec-websocket-protocol", &twice)],
    ] {
        assert!(matches!(shown(&fields).0, Err(Unauthenticated::Conflict(_))), "{fields:?}");
    }
    let bad = format!("{IN_PROTOCOLS}***");
    assert!(matches!(shown(&[("sec-websocket-protocol", &bad)]).0, Err(Unauthenticated::Rejected(_))));
}

#[test]
fn what_a_front_proxy_says_is_evidence_and_goes_no_further() {
    let guard = GuardConfig {
        forwarded_headers: vec!["x-remote-user".to_owned(), "x-remote-group".to_owned()],
        forwarded_prefixes: vec!["x-remote-extra-".to_owned(), "impersonate-".to_owned()],
        ..GuardConfig::default()
    };
    let mut headers = HeaderMap::new();
    for (name, value) in [
        ("x-remote-user", "alice"),
        ("x-remote-group", "a"),
        ("x-remote-group", "b"),
        ("x-remote-extra-team", "blue"),
        ("accept", "x"),
    ] {
        headers.append(name, HeaderValue::from_static(value));
    }
    let mut forwarded = take_forwarded(&mut headers, &guard);
    forwarded.sort();
    let expected =
        [("x-remote-extra-team", "blue"), ("x-remote-group", "a"), ("x-remote-group", "b"), ("x-remote-user", "alice")];
    assert_eq!(forwarded, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    assert_eq!(headers.len(), 1);
    assert!(!guard.is_forwarded("Impersonate-User") && !guard.is_forwarded("X-Remote-Uid"));
    assert!(guard.is_forwarded("X-Remote-User"));
}

#[test]
fn fields_of_a_front_proxy_are_known_by_their_name_or_by_its_beginning() {
    let all = [("x-remote-user", "alice"), ("x-remote-extra-team", "blue"), ("accept", "x")];
    for (names, prefixes, taken) in [
        (&[][..], &[][..], &[][..]),
        (&["x-remote-user"], &[], &["x-remote-user"]),
        (&[], &["x-remote-extra-"], &["x-remote-extra-team"]),
        (&[], &["x-remote-"], &["x-remote-extra-team", "x-remote-user"]),
        (&[], &[""], &[]),
        (&["impersonate-user"], &["impersonate-"], &[]),
    ] {
        let owned = |list: &[&str]| list.iter().map(|&text| text.to_owned()).collect::<Vec<_>>();
        let guard = GuardConfig {
            forwarded_headers: owned(names),
            forwarded_prefixes: owned(prefixes),
            ..GuardConfig::default()
        };
        let mut headers = HeaderMap::new();
        for (name, value) in all.into_iter().chain([("impersonate-user", "root")]) {
            headers.insert(name, HeaderValue::from_static(value));
        }
        let mut forwarded: Vec<String> =
            take_forwarded(&mut headers, &guard).into_iter().map(|(name, _)| name).collect();
        forwarded.sort();
        assert_eq!(forwarded, taken, "{names:?} {prefixes:?}");
        assert_eq!(headers.len(), all.len() + 1 - taken.len());
    }
}

#[test]
fn a_token_is_what_no_browser_adds_by_itself() {
    let protocol = format!("v5.channel.k8s.io, {IN_PROTOCOLS}dG9rZW4");
    for (name, value, expected) in [
        ("accept", "Bearer t", false),
        ("authorization", "Bearer t", true),
        ("authorization", "bearer t", true),
        ("authorization", "Bearer", true),
        ("authorization", "Bearers t", false),
        ("authorization", "Basic YTpi", false),
        ("authorization", "", false),
        ("sec-websocket-protocol", protocol.as_str(), true),
        ("sec-websocket-protocol", "v5.channel.k8s.io", false),
    ] {
        let (_, headers) = shown(&[(name, value)]);
        assert_eq!(has_token(&headers), expected, "{name}: {value}");
    }
}

#[test]
fn protocols_without_a_token_are_left_as_they_are() {
    for value in ["v5.channel.k8s.io,v4.channel.k8s.io", "", " , "] {
        let (outcome, mut headers) = shown(&[("sec-websocket-protocol", value)]);
        assert!(outcome.unwrap().authorization.is_none());
        take_off(&mut headers);
        assert_eq!(headers[header::SEC_WEBSOCKET_PROTOCOL], value);
    }
}

#[test]
fn t31_a_token_in_the_protocols_is_text_in_base64url() {
    // With and without padding.
    for good in ["dG9r", "dG9rZW4", "dG9rZW4="] {
        let (outcome, _) = shown(&[("sec-websocket-protocol", &format!("{IN_PROTOCOLS}{good}"))]);
        assert!(outcome.unwrap().authorization.is_some_and(|token| token.expose().starts_with("Bearer tok")));
    }
    for bad in ["***", "dG9rZW4+", "_w", "dG9yZ"] {
        let (outcome, _) = shown(&[("sec-websocket-protocol", &format!("{IN_PROTOCOLS}{bad}"))]);
        assert!(matches!(outcome, Err(Unauthenticated::Rejected(_))), "{bad}");
    }
}

#[test]
fn t36_a_token_that_was_shown_to_us_goes_no_further() {
    let protocols = format!("v5.channel.k8s.io,{IN_PROTOCOLS}dG9rZW4 , base64.binary.k8s.io");
    let (_, mut headers) = shown(&[("sec-websocket-protocol", &protocols), ("accept", "x")]);
    headers.insert(header::AUTHORIZATION, HeaderValue::from_static("Bearer t"));
    take_off(&mut headers);
    assert!(!headers.contains_key(header::AUTHORIZATION));
    assert_eq!(headers[header::SEC_WEBSOCKET_PROTOCOL], "v5.channel.k8s.io, base64.binary.k8s.io");
    let (_, mut alone) = shown(&[("sec-websocket-protocol", &format!("{IN_PROTOCOLS}dG9rZW4"))]);
    take_off(&mut alone);
    assert!(alone.is_empty());
}
