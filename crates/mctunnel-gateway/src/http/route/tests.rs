//! Tables of targets: what is routed where, and what is refused.

use super::*;
use mctunnel_core::InvalidTarget;
use proptest::prelude::*;

fn routed(target: &str) -> Result<(String, String), BadTarget> {
    route(target).map(|routed| (routed.destination.to_string(), routed.forward))
}

#[test]
fn paths_of_kubernetes_go_to_the_kube_apiserver_as_they_came() {
    for (target, forward) in [
        ("/c", "/"),
        ("/c/", "/"),
        ("/c?timeout=32s", "/?timeout=32s"),
        ("/c/?timeout=32s", "/?timeout=32s"),
        ("/c?", "/?"),
        ("/c/version", "/version"),
        ("/c/healthz", "/healthz"),
        ("/c/readyz?verbose", "/readyz?verbose"),
        ("/c/api", "/api"),
        ("/c/apis", "/apis"),
        ("/c/apis/apps/v1", "/apis/apps/v1"),
        ("/c/openapi/v3", "/openapi/v3"),
        ("/c/openapi/v3/apis/apps/v1?hash=A1%2F", "/openapi/v3/apis/apps/v1?hash=A1%2F"),
        ("/c/.well-known/openid-configuration", "/.well-known/openid-configuration"),
        ("/c/api/v1/namespaces/default/pods?limit=500", "/api/v1/namespaces/default/pods?limit=500"),
        ("/c/api/v1/namespaces/default/pods/", "/api/v1/namespaces/default/pods/"),
        (
            "/c/apis/rbac.authorization.k8s.io/v1/clusterroles/system:node",
            "/apis/rbac.authorization.k8s.io/v1/clusterroles/system:node",
        ),
        (
            "/c/apis/rbac.authorization.k8s.io/v1/clusterroles/system%3Anode",
            "/apis/rbac.authorization.k8s.io/v1/clusterroles/system%3Anode",
        ),
        (
            "/c/api/v1/namespaces/d/pods/p/exec?command=sh&command=-c&command=a%20b%2Fc;d",
            "/api/v1/namespaces/d/pods/p/exec?command=sh&command=-c&command=a%20b%2Fc;d",
        ),
        (
            "/c/api/v1/namespaces/d/services/https:web:443/proxy/a/b/",
            "/api/v1/namespaces/d/services/https:web:443/proxy/a/b/",
        ),
        ("/c/api/v1/namespaces/d/services/web/proxy-services/x", "/api/v1/namespaces/d/services/web/proxy-services/x"),
        ("/c/api/v1/namespaces/d/services/web/proxy%2Dservice", "/api/v1/namespaces/d/services/web/proxy%2Dservice"),
        ("/c/api/v1/namespaces/d/services/web", "/api/v1/namespaces/d/services/web"),
        ("/c/api/v1/services/web/proxy-service/x", "/api/v1/services/web/proxy-service/x"),
        ("/c/api/v2/namespaces/d/services/web/proxy-service/x", "/api/v2/namespaces/d/services/web/proxy-service/x"),
        ("/c/a~b/c%20d/e%7Ef/$&'()*+,=:@!", "/a~b/c%20d/e%7Ef/$&'()*+,=:@!"),
        ("/c/%C3%A9/x...y/...", "/%C3%A9/x...y/..."),
        ("/c/a?b=//../%2e%2e/%zz%00\\;?|{}`^", "/a?b=//../%2e%2e/%zz%00\\;?|{}`^"),
        ("/c/c/c", "/c/c"),
    ] {
        let expected = ("kube-apiserver in c".to_owned(), forward.to_owned());
        assert_eq!(routed(target), Ok(expected), "{target}");
    }
}

#[test]
fn proxy_service_goes_to_the_service() {
    for (target, destination, forward) in [
        ("web/proxy-service", "http://d/web in c", "/"),
        ("web/proxy-service/", "http://d/web in c", "/"),
        ("web/proxy-service?a=b", "http://d/web in c", "/?a=b"),
        ("web:80/proxy-service/?a=b", "http://d/web:80 in c", "/?a=b"),
        ("web:http/proxy-service/a/b/?c=/d/", "http://d/web:http in c", "/a/b/?c=/d/"),
        ("https:web:8443/proxy-service/a%20b", "https://d/web:8443 in c", "/a%20b"),
        ("https:web:/proxy-service/x", "https://d/web in c", "/x"),
        (
            "web/proxy-service/api/v1/namespaces/d/services/x/proxy-service/y",
            "http://d/web in c",
            concat!("/api/v1/namespaces/d/services/x/", "proxy-service/y"),
        ),
    ] {
        let target = format!("/c/api/v1/namespaces/d/services/{target}");
        assert_eq!(routed(&target), Ok((destination.to_owned(), forward.to_owned())), "{target}");
    }
}

/// Everything that some reader might take for another path, or another cluster.
const BAD: [(&str, BadTarget); 81] = [
    ("", BadTarget::NotAPath),
    ("*", BadTarget::NotAPath),
    ("c", BadTarget::NotAPath),
    ("c/api", BadTarget::NotAPath),
    ("?a", BadTarget::NotAPath),
    (" /c", BadTarget::NotAPath),
    ("\\c", BadTarget::NotAPath),
    ("%2fc", BadTarget::NotAPath),
    ("http://hub/c/api", BadTarget::NotAPath),
    ("https://hub/c/api", BadTarget::NotAPath),
    ("HTTP://user:secret@hub/c", BadTarget::NotAPath),
    ("hub:8080", BadTarget::NotAPath),
    ("user@hub:8080", BadTarget::NotAPath),
    ("//hub/c/api", BadTarget::EmptySegment),
    ("//", BadTarget::EmptySegment),
    ("///", BadTarget::EmptySegment),
    ("//c", BadTarget::EmptySegment),
    ("/c//", BadTarget::EmptySegment),
    ("/c//api", BadTarget::EmptySegment),
    ("/c/api//v1", BadTarget::EmptySegment),
    ("/c/api/v1/namespaces//services/web/proxy-service", BadTarget::EmptySegment),
    ("/", BadTarget::NoCluster),
    ("/?c", BadTarget::NoCluster),
    ("/c/..", BadTarget::DotSegment),
    ("/c/../", BadTarget::DotSegment),
    ("/c/../d/api", BadTarget::DotSegment),
    ("/../c", BadTarget::DotSegment),
    ("/./c", BadTarget::DotSegment),
    ("/c/./api", BadTarget::DotSegment),
    ("/c/api/.", BadTarget::DotSegment),
    ("/c/api/..?x", BadTarget::DotSegment),
    ("/c/%2e%2e/d", BadTarget::EncodedSeparator),
    ("/c/%2E%2E/d", BadTarget::EncodedSeparator),
    ("/c/.%2e/d", BadTarget::EncodedSeparator),
    ("/c/%2e./d", BadTarget::EncodedSeparator),
    ("/c/%2e/api", BadTarget::EncodedSeparator),
    ("/c/api%2e/", BadTarget::EncodedSeparator),
    ("/c/..%2fd", BadTarget::EncodedSeparator),
    ("/c%2fapi", BadTarget::EncodedSeparator),
    ("/c%2Fapi", BadTarget::EncodedSeparator),
    ("/c/a%5cb", BadTarget::EncodedSeparator),
    ("/c/a%5Cb", BadTarget::EncodedSeparator),
    ("/c/a%00", BadTarget::EncodedSeparator),
    ("/c%00", BadTarget::EncodedSeparator),
    ("/c/a%0d%0ahost:%20b", BadTarget::EncodedSeparator),
    ("/c/a%7fb", BadTarget::EncodedSeparator),
    ("/c/%252e%252e/d", BadTarget::EncodedSeparator),
    ("/c/a%252fb", BadTarget::EncodedSeparator),
    ("/c/a%25%32%66b", BadTarget::EncodedSeparator),
    ("/c/%zz", BadTarget::PercentCode),
    ("/c/%", BadTarget::PercentCode),
    ("/c/%4", BadTarget::PercentCode),
    ("/c/%4/a", BadTarget::PercentCode),
    ("/c/%+4", BadTarget::PercentCode),
    ("/c/%u002e", BadTarget::PercentCode),
    ("/c/%c0%ae%c0%ae/d", BadTarget::NotUtf8),
    ("/c/a%c0%afb", BadTarget::NotUtf8),
    ("/c/a%ff", BadTarget::NotUtf8),
    ("/c/..;/d", BadTarget::Semicolon),
    ("/c;a=b/api", BadTarget::Semicolon),
    ("/c/api;v=1/v1", BadTarget::Semicolon),
    ("/c\\api", BadTarget::Backslash),
    ("/c/..\\d", BadTarget::Backslash),
    ("/\\hub/c", BadTarget::Backslash),
    ("/c/api#x", BadTarget::Fragment),
    ("/c#", BadTarget::Fragment),
    ("/c/api?a#b", BadTarget::Fragment),
    ("/c/a b", BadTarget::Control),
    ("/c/a?b c", BadTarget::Control),
    ("/c/a\t", BadTarget::Control),
    ("/c/a\r\nx: y", BadTarget::Control),
    ("/c/a?\0", BadTarget::Control),
    ("/c/a\u{7f}", BadTarget::Control),
    ("/c/\u{1b}[31m", BadTarget::Control),
    ("/c/é", BadTarget::NotAscii),
    ("/ｃ/api", BadTarget::NotAscii),
    ("/c/a?b=\u{2028}", BadTarget::NotAscii),
    ("/c/a[0]", BadTarget::NotEncoded),
    ("/c/a?b=\"", BadTarget::NotEncoded),
    ("/c/a?b=<", BadTarget::NotEncoded),
    ("/c/a?>=b", BadTarget::NotEncoded),
];

#[test]
fn t08_another_spelling_of_a_path_is_refused() {
    for (target, reason) in BAD {
        assert_eq!(routed(target), Err(reason), "{target:?}");
    }
}

#[test]
fn t08_another_spelling_of_a_cluster_is_refused() {
    let long = "c".repeat(64);
    for cluster in [
        "C",
        "Cluster-a",
        "c.",
        ".c",
        "c.d",
        "-c",
        "c-",
        "c_d",
        "c%61",
        "%63",
        "xn--c~",
        "c:80",
        "c@d",
        "c,d",
        "c=d",
        &long,
    ] {
        for target in [format!("/{cluster}"), format!("/{cluster}/"), format!("/{cluster}/api?x")] {
            let outcome = routed(&target);
            assert!(matches!(outcome, Err(BadTarget::Cluster(_))), "{target} {outcome:?}");
        }
    }
}

#[test]
fn t08_another_spelling_of_a_service_is_refused() {
    for service in [
        "d/services/Web/proxy-service",
        "D/services/web/proxy-service",
        "d/services/web%3A80/proxy-service",
        "d/services/web:0/proxy-service/",
        "d/services/web:080/proxy-service/",
        "d/services/ftp:web:80/proxy-service/",
        "d/services/https:web:80:90/proxy-service/",
        "d/services/web.e/proxy-service/",
        "d%65/services/web/proxy-service/",
        "d./services/web/proxy-service/",
    ] {
        let outcome = routed(&format!("/c/api/v1/namespaces/{service}"));
        assert!(matches!(outcome, Err(BadTarget::Service(_))), "{service} {outcome:?}");
    }
    assert_eq!(
        routed("/c/api/v1/namespaces/d/services/web:65536/proxy-service"),
        Err(BadTarget::Service(InvalidTarget::BadPort))
    );
}

#[test]
fn t37_a_refusal_repeats_nothing_of_the_client() {
    for (target, reason) in BAD {
        let shown = reason.to_string();
        assert!(shown.bytes().all(|b| (b' '..=b'~').contains(&b)), "{shown}");
        assert!(!shown.ends_with('.') && !shown.contains("secret"), "{target} {shown}");
        assert_eq!(reason.code().code, "MCT-HTTP-BAD-TARGET");
    }
}

proptest! {
    #[test]
    fn what_is_routed_is_what_was_sent(target in "(/[-a-z0-9.%/;:~?#A-F]{0,12}){1,6}") {
        if let Ok(routed) = route(&target) {
            let prefix = format!("/{}", routed.destination.cluster.as_str());
            prop_assert!(target.starts_with(&prefix));
            let rest = target.strip_prefix(&prefix).unwrap();
            let expected = if rest.starts_with('/') { rest.to_owned() } else { format!("/{rest}") };
            prop_assert_eq!(&routed.forward, &expected);
            let path = routed.forward.split('?').next().unwrap();
            prop_assert!(!path.contains("//") && !path.to_ascii_lowercase().contains("%2f"));
            prop_assert!(path.split('/').all(|segment| segment != ".." && segment != "."));
        }
    }

    #[test]
    fn any_text_is_judged(target in any::<String>()) {
        let _ = route(&target);
        let _ = route(&format!("/c/{target}"));
    }
}
