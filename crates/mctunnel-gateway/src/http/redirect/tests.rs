//! Locations as targets write them, and where they lead.

use super::*;
use http::StatusCode;

fn led(location: &str, prefix: &str, asked: &str) -> Leads {
    leads(&HeaderValue::from_str(location).unwrap(), prefix, asked)
}

#[test]
fn t14_paths_are_resolved_as_the_target_meant_them() {
    for (asked, location, expected) in [
        ("/", "/login", "/a/login"),
        ("/", "login", "/a/login"),
        ("/x/y", "login", "/a/x/login"),
        ("/x/y", "../login", "/a/login"),
        ("/x/y/", "../login?next=/../x#/../y", "/a/x/login?next=/../x#/../y"),
        ("/x/y", ".", "/a/x/"),
        ("/x/y", "./%2E", "/a/x/"),
        ("/x/y", "..", "/a/"),
        ("/x/y/z", "..", "/a/x/"),
        ("/x/y", "/b/./c/%2e%2E/", "/a/b/"),
        ("/x/y", "/b//../c", "/a/b/c"),
        ("/x/y", "/.//b", "/a//b"),
        ("/x/y", "/...", "/a/..."),
        ("/x/y", "/.%2e.", "/a/.%2e."),
        ("/x/y", " /b ", "/a/b"),
        ("/x/y", "/b c", "/a/b c"),
    ] {
        for prefix in ["/a", "/a/"] {
            assert_eq!(led(location, prefix, asked), Leads::To(HeaderValue::from_static(expected)), "{location}");
        }
    }
    for location in ["", "?a=..", "#/../x"] {
        assert_eq!(led(location, "/a", "/x"), Leads::AsTold, "{location}");
    }
}

#[test]
fn t14_whatever_may_lead_elsewhere_is_seen() {
    for location in [
        "..",
        "../b",
        "./../b",
        "/..",
        "/../b",
        "/%2e%2e/b",
        "/.%2E/b",
        "%2e./b",
        "/x/../../b",
        "x/../../b",
        " ../b",
        "/.././b",
    ] {
        for prefix in ["", "/", "/a"] {
            assert_eq!(led(location, prefix, "/x"), Leads::Out, "{location}");
        }
    }
    for location in
        ["//b", " //b", "/\t/b", "\t..\t/b", ".\t./b", "/.\t./b", "\\\\b", "/\\b", "https://hub/", "x:y", "ht\ttp://b"]
    {
        assert_eq!(led(location, "/a", "/x"), Leads::Away, "{location:?}");
    }
    let not_text = HeaderValue::from_bytes(b"/\xc3\xa9").unwrap();
    assert_eq!(leads(&not_text, "/a", "/x"), Leads::Away);
}

#[test]
fn without_a_prefix_paths_stay_as_they_are_told() {
    for prefix in ["", "/"] {
        for location in ["/login", "login", "/.//b"] {
            assert_eq!(led(location, prefix, "/x"), Leads::AsTold, "{location}");
        }
    }
}

#[test]
fn t14_redirects_are_refused_and_other_answers_lead_nowhere() {
    let answer = |status: u16, locations: &[&str]| {
        let mut response = Response::new(());
        *response.status_mut() = StatusCode::from_u16(status).unwrap();
        for location in locations {
            response.headers_mut().append(header::LOCATION, HeaderValue::from_str(location).unwrap());
        }
        let confined = confine(response, "/a", "/x").ok()?;
        Some(confined.headers().get(header::LOCATION).map(|location| location.to_str().unwrap().to_owned()))
    };
    for status in [300, 301, 302, 303, 305, 307, 308] {
        for locations in [&["/../b"][..], &["//b"], &["/c", "/../b"], &["/c", "/c"]] {
            assert_eq!(answer(status, locations), None, "{status} {locations:?}");
        }
    }
    assert_eq!(answer(201, &["/../b"]), Some(None));
    assert_eq!(answer(201, &["/c", "/../b"]), Some(None));
    assert_eq!(answer(201, &["https://store/c"]), Some(Some("https://store/c".to_owned())));
    assert_eq!(answer(201, &["/c"]), Some(Some("/a/c".to_owned())));
    assert_eq!(answer(302, &[]), Some(None));
}
