//! Which heads are refused, and that those of gateways are not.

use super::*;
use bytes::Bytes;
use http::{Method, uri::PathAndQuery};

fn head(fields: &[(&'static str, &'static str)], body: BodyKind, upgrade: bool) -> RequestHead {
    let mut map = HeaderMap::new();
    for (name, value) in fields {
        map.append(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    let path = PathAndQuery::from_static("/");
    RequestHead { method: Method::POST, path, authority: Bytes::new(), fields: map, body, upgrade }
}

fn plain(fields: &[(&'static str, &'static str)]) -> Option<String> {
    forged(&head(fields, BodyKind::None, false))
}

fn refused(name: &str) -> Option<String> {
    Some(format!("the field {name} may not come from outside"))
}

#[test]
fn t01_who_somebody_is_does_not_come_from_the_hub() {
    for name in [
        "impersonate-user",
        "impersonate-group",
        "impersonate-uid",
        "impersonate-extra-scopes",
        "impersonate-future",
        "impersonate_user",
        "x-remote-user",
        "x-remote-group",
        "x-remote-extra-a",
        "x_remote_user",
        "x-remote_user",
        "x-mctunnel-cluster",
        "x-mctunnel-anything",
        "x_mctunnel_target",
    ] {
        assert_eq!(plain(&[("accept", "*/*"), (name, "mallory")]), refused(name));
        assert!(forged_trailer(&head(&[(name, "mallory")], BodyKind::None, false).fields).is_some(), "{name}");
    }
    for name in ["impersonate", "impersonated-user", "remote-user", "x-remote", "x-mctunnel", "my-x-remote-user"] {
        assert_eq!(plain(&[(name, "x")]), None, "{name}");
    }
}

#[test]
fn t02_what_is_for_one_connection_does_not_come_from_the_hub() {
    for (name, value) in [
        ("connection", "impersonate-user, impersonate-group"),
        ("connection", "close"),
        ("connection", "upgrade"),
        ("connection", ""),
        ("host", "elsewhere"),
        ("http2-settings", "AAMAAABk"),
        ("keep-alive", "timeout=5"),
        ("proxy-authorization", "Basic x"),
        ("proxy-connection", "close"),
        ("transfer-encoding", "chunked"),
        ("te", "gzip"),
        ("te", "trailers, gzip"),
        ("te", ""),
        ("upgrade", "websocket"),
    ] {
        assert_eq!(plain(&[("accept", "*/*"), (name, value)]), refused(name), "{value}");
        assert!(forged_trailer(&head(&[(name, value)], BodyKind::None, false).fields).is_some(), "{name}");
        if name != "upgrade" {
            assert_eq!(forged(&head(&[(name, value)], BodyKind::None, true)), refused(name), "{value}");
        }
    }
    assert_eq!(plain(&[("te", "trailers"), ("te", "gzip")]), refused("te"), "each of them counts");
    assert_eq!(plain(&[("te", "trailers")]), None);
    assert_eq!(forged(&head(&[("upgrade", "websocket")], BodyKind::None, true)), None);
    let trailers = head(&[("grpc-status", "0"), ("x-checksum", "1")], BodyKind::None, false).fields;
    assert_eq!(forged_trailer(&trailers), None);
    for name in ["authorization", "content-length"] {
        let trailers = head(&[("grpc-status", "0"), (name, "1")], BodyKind::None, false).fields;
        assert_eq!(forged_trailer(&trailers).map(HeaderName::as_str), Some(name));
    }
}

#[test]
fn t15_a_length_is_that_of_the_body() {
    use BodyKind::{Chunks, None as Nothing, Raw};
    let is_refused = |lengths: &[&'static str], body| {
        let fields: Vec<_> = lengths.iter().map(|length| ("content-length", *length)).collect();
        forged(&head(&fields, body, false)).is_some_and(|why| why.contains("content-length"))
    };
    let most = "9223372036854775807";
    for (lengths, body) in [
        (&[][..], Nothing),
        (&["0"], Nothing),
        (&[], Raw),
        (&["0"], Raw),
        (&["30"], Raw),
        (&[most], Raw),
        (&[], Chunks),
    ] {
        assert!(!is_refused(lengths, body), "{lengths:?} {body:?}");
    }
    for (lengths, body) in [
        (&["30"][..], Nothing),
        (&["00"], Nothing),
        (&["0", "0"], Nothing),
        (&["3", "3"], Raw),
        (&["3", "4"], Raw),
        (&["9223372036854775808"], Raw),
        (&["30"], Chunks),
        (&["0"], Chunks),
    ] {
        assert!(is_refused(lengths, body), "{lengths:?} {body:?}");
    }
    for bad in ["", "+3", "-3", "-0", "03", "3,3", "0x3", "3 3", "3a"] {
        assert!(is_refused(&[bad], Raw), "{bad:?}");
    }
}
