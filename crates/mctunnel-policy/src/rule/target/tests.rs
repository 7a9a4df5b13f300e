//! What each form of a target covers, and what is none.

use super::*;

fn bytes(list: &[&str]) -> Result<Targets, String> {
    Targets::for_bytes(&list.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>())
}

fn service(text: &str) -> Target {
    let (namespace, spec) = text.split_once('/').unwrap();
    ServiceTarget::parse(namespace, spec).unwrap().into()
}

#[test]
fn a_service_is_asked_for_by_number_by_name_or_by_neither() {
    for (pattern, asked, certainly, possibly) in [
        ("m/p:9090", "m/p:9090", true, true),
        ("m/p:9090", "m/https:p:9090", true, true),
        ("m/p:9090", "m/p:9091", false, false),
        ("m/p:9090", "m/p:web", false, true),
        ("m/p:9090", "m/p", false, true),
        ("m/p:web", "m/p:web", true, true),
        ("m/p:web", "m/p:other", false, false),
        ("m/p:web", "m/p:9090", false, true),
        ("m/p:*", "m/p", true, true),
        ("m/p:*", "m/p:1", true, true),
        ("m/*:*", "m/q:1", true, true),
        ("m/*:*", "n/q:1", false, false),
        ("*/p:*", "n/p:1", true, true),
        ("*/*:*", "n/q", true, true),
        ("m/p:http2", "m/p:http2", true, true),
        ("m/p:web-1", "m/p:web-1", true, true),
    ] {
        let targets = bytes(&[pattern]).unwrap();
        assert_eq!(targets.cover(&service(asked), Sense::Certainly), certainly, "{pattern} {asked}");
        assert_eq!(targets.cover(&service(asked), Sense::Possibly), possibly, "{pattern} {asked}");
    }
}

#[test]
fn an_endpoint_is_exact_in_each_part_that_is_not_a_star() {
    for (pattern, asked, expected) in [
        ("db.a.svc:5432", "db.a.svc:5432", true),
        ("DB.a.svc.:5432", "db.a.svc:5432", true),
        ("db.a.svc:5432", "db.a.svc:5433", false),
        ("db.a.svc:5432", "db.b.svc:5432", false),
        ("*:5432", "anything:5432", true),
        ("*:5432", "anything:5433", false),
        ("db:*", "db:1", true),
        ("*:*", "[::1]:1", true),
        ("[::ffff:10.0.0.1]:80", "10.0.0.1:80", true),
    ] {
        let target = Target::Endpoint(Endpoint::parse(asked).unwrap());
        assert_eq!(bytes(&[pattern]).unwrap().cover(&target, Sense::Certainly), expected, "{pattern} {asked}");
    }
}

#[test]
fn no_wildcard_is_the_kube_apiserver() {
    let wide = bytes(&["*:*", "*/*:*"]).unwrap();
    assert!(!wide.cover(&Target::KubeApi, Sense::Certainly) && !wide.includes(&bytes(&["kube-apiserver"]).unwrap()));
    assert!(bytes(&["kube-apiserver"]).unwrap().cover(&Target::KubeApi, Sense::Certainly));
}

#[test]
fn nothing_is_left_out_of_a_target() {
    for bad in [
        "",
        "*",
        "*/*",
        "m/p",
        "m/p:",
        "m/:80",
        "/p:80",
        "m/p:0",
        "m/p:080",
        "m/p:80-90",
        "M/p:80",
        "m/p*:80",
        "m/p:80:81",
        "db",
        "db:",
        ":80",
        "db:0",
        "db*:80",
        "127.1:80",
        "10.0.0.0/8:80",
        "kube-apiserver:443x",
        "http://m/p:80",
    ] {
        assert!(bytes(&[bad]).is_err(), "{bad:?}");
    }
}

#[test]
fn a_wider_list_includes_a_narrower() {
    for (wide, narrow, expected) in [
        (&["*/*:*", "*:*", "kube-apiserver"][..], &["m/p:80", "db:1", "kube-apiserver"][..], true),
        (&["m/*:*"], &["m/p:80"], true),
        (&["m/p:80"], &["m/p:*"], false),
        (&["*:443"], &["db:443"], true),
        (&["*:443"], &["db:444"], false),
        (&["m/p:80", "m/q:80"], &["m/q:80"], true),
        (&["m/p:80"], &["m/p:80", "m/q:80"], false),
        (&["m/p:80"], &["m/q:80"], false),
        (&["m/p:80"], &["n/p:80"], false),
        (&["m/p:80"], &["m/p:81"], false),
        (&["a:1", "db:1"], &["db:1"], true),
        (&["db:1"], &["db:1", "a:1"], false),
        (&["db:1"], &["a:1"], false),
        (&["db:1"], &["db:*"], false),
        (&["db:*"], &["db:1"], true),
    ] {
        assert_eq!(bytes(wide).unwrap().includes(&bytes(narrow).unwrap()), expected, "{wide:?} {narrow:?}");
    }
}
