//! Tables of requests, in the shape `verb group/version resource[/subresource] namespace name`, `-` for none.

use super::*;
use proptest::prelude::*;

fn shown(request: KubeRequest) -> String {
    match request {
        KubeRequest::NonResource { path, verb } => format!("{verb} {path}"),
        KubeRequest::Resource(request) => {
            let ResourceRequest { verb, plain_verb, api_group, api_version, resource, subresource, namespace, name } =
                request;
            let verb = plain_verb.map_or_else(|| verb.to_string(), |plain| format!("{verb}+{plain}"));
            let subresource = subresource.map(|text| format!("/{text}")).unwrap_or_default();
            let or_none = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
            let (namespace, name) = (or_none(namespace), or_none(name));
            format!("{verb} {api_group}/{api_version} {resource}{subresource} {namespace} {name}")
        }
    }
}

fn check(rows: &[(&str, &str, &str)]) {
    for (method, target, expected) in rows {
        let request = KubeRequest::parse(method, target).expect("a good target");
        assert_eq!(shown(request), *expected, "{method} {target}");
    }
}

#[test]
fn methods_and_paths_become_verbs_and_resources() {
    check(&[
        ("GET", "/api/v1/pods", "list /v1 pods - -"),
        ("HEAD", "/api/v1/pods", "list /v1 pods - -"),
        ("GET", "/api/v1/namespaces/d/pods", "list /v1 pods d -"),
        ("GET", "/api/v1/namespaces/d/pods/", "list /v1 pods d -"),
        ("GET", "/api/v1/namespaces/d/pods/p", "get /v1 pods d p"),
        ("HEAD", "/api/v1/namespaces/d/pods/p", "get /v1 pods d p"),
        ("POST", "/api/v1/namespaces/d/pods", "create /v1 pods d -"),
        ("PUT", "/api/v1/namespaces/d/pods/p", "update /v1 pods d p"),
        ("PATCH", "/api/v1/namespaces/d/pods/p", "patch /v1 pods d p"),
        ("DELETE", "/api/v1/namespaces/d/pods/p", "delete /v1 pods d p"),
        ("DELETE", "/api/v1/namespaces/d/pods", "deletecollection /v1 pods d -"),
        ("DELETE", "/api/v1/nodes", "deletecollection /v1 nodes - -"),
        ("OPTIONS", "/api/v1/namespaces/d/pods", " /v1 pods d -"),
        ("TRACE", "/api/v1/namespaces/d/pods", " /v1 pods d -"),
        ("get", "/api/v1/namespaces/d/pods", " /v1 pods d -"),
        ("GET", "/api/v1/namespaces", "list /v1 namespaces - -"),
        ("GET", "/api/v1/namespaces/d", "get /v1 namespaces d d"),
        ("DELETE", "/api/v1/namespaces/d", "delete /v1 namespaces d d"),
        ("PUT", "/api/v1/namespaces/d/finalize", "update /v1 namespaces/finalize d d"),
        ("GET", "/api/v1/namespaces/d/status", "get /v1 namespaces/status d d"),
        ("GET", "/api/v1/namespaces/d/other", "list /v1 other d -"),
        ("GET", "/api/v1/nodes/n", "get /v1 nodes - n"),
        ("GET", "/api/v1/namespaces/d/pods/p/log?follow=true", "get /v1 pods/log d p"),
        ("PUT", "/api/v1/namespaces/d/pods/p/status", "update /v1 pods/status d p"),
        ("POST", "/api/v1/namespaces/d/pods/p/eviction", "create /v1 pods/eviction d p"),
        ("POST", "/api/v1/namespaces/d/pods/p/binding", "create /v1 pods/binding d p"),
        ("PATCH", "/api/v1/namespaces/d/pods/p/ephemeralcontainers", "patch /v1 pods/ephemeralcontainers d p"),
        ("GET", "/apis/apps/v1/deployments", "list apps/v1 deployments - -"),
        ("GET", "/apis/apps/v1/namespaces/d/deployments/x/scale", "get apps/v1 deployments/scale d x"),
        (
            "GET",
            "/apis/rbac.authorization.k8s.io/v1/clusterroles/system:node",
            "get rbac.authorization.k8s.io/v1 clusterroles - system:node",
        ),
        (
            "GET",
            "/apis/rbac.authorization.k8s.io/v1/clusterroles/system%3Anode",
            "get rbac.authorization.k8s.io/v1 clusterroles - system:node",
        ),
        (
            "POST",
            "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
            "create authorization.k8s.io/v1 selfsubjectaccessreviews - -",
        ),
        ("GET", "/apis/example.com/v1alpha1/namespaces/d/things/t", "get example.com/v1alpha1 things d t"),
        ("GET", "/api/v1/namespaces/d/pods/p/a/b/c", "get /v1 pods/a d p"),
        // One request in two spellings is one request.
        ("GET", "/api/v1/namespaces/d/%73ecrets/s", "get /v1 secrets d s"),
        ("GET", "/%61pi/v1/secrets", "list /v1 secrets - -"),
        ("GET", "/api/v1/%6eamespaces/d/secrets", "list /v1 secrets d -"),
    ]);
}

#[test]
fn b2_what_connects_is_connect_whatever_the_method() {
    check(&[
        ("GET", "/api/v1/namespaces/d/pods/p/exec?command=sh", "connect /v1 pods/exec d p"),
        ("POST", "/api/v1/namespaces/d/pods/p/exec?command=sh", "connect /v1 pods/exec d p"),
        ("HEAD", "/api/v1/namespaces/d/pods/p/exec", "connect /v1 pods/exec d p"),
        ("OPTIONS", "/api/v1/namespaces/d/pods/p/exec", "connect /v1 pods/exec d p"),
        ("GET", "/api/v1/namespaces/d/pods/p/%65xec", "connect /v1 pods/exec d p"),
        ("GET", "/api/v1/namespaces/d/pods/p/exec/", "connect /v1 pods/exec d p"),
        ("GET", "/api/v1/namespaces/d/pods/p/attach", "connect /v1 pods/attach d p"),
        ("POST", "/api/v1/namespaces/d/pods/p/attach", "connect /v1 pods/attach d p"),
        ("GET", "/api/v1/namespaces/d/pods/p/portforward", "connect /v1 pods/portforward d p"),
        ("POST", "/api/v1/namespaces/d/pods/p/portforward", "connect /v1 pods/portforward d p"),
        ("GET", "/api/v1/namespaces/d/pods/p/proxy", "connect /v1 pods/proxy d p"),
        ("DELETE", "/api/v1/namespaces/d/pods/p/proxy/a/b", "connect /v1 pods/proxy d p"),
        ("GET", "/api/v1/namespaces/d/services/https:s:443/proxy/a", "connect /v1 services/proxy d https:s:443"),
        ("PUT", "/api/v1/namespaces/d/services/s/proxy/", "connect /v1 services/proxy d s"),
        ("GET", "/api/v1/nodes/n/proxy/metrics", "connect /v1 nodes/proxy - n"),
        ("PATCH", "/api/v1/nodes/n/proxy/run/d/p/c", "connect /v1 nodes/proxy - n"),
        (
            "GET",
            "/apis/subresources.kubevirt.io/v1/namespaces/d/vms/v/portforward",
            concat!("connect subresources.kubevirt.io/v1 ", "vms/portforward d v"),
        ),
        ("GET", "/api/v1/proxy/nodes/n/metrics", "connect /v1 nodes - n"),
        ("GET", "/api/v1/proxy/namespaces/d/services/s/a", "connect /v1 services d s"),
        ("POST", "/api/v1/namespaces/d/serviceaccounts/a/token", "create /v1 serviceaccounts/token d a"),
        ("GET", "/api/v1/namespaces/d/serviceaccounts/a/token", "create /v1 serviceaccounts/token d a"),
        // Only where it is a subresource.
        ("GET", "/api/v1/namespaces/d/pods/exec", "get /v1 pods d exec"),
        ("GET", "/api/v1/namespaces/proxy/pods/p", "get /v1 pods proxy p"),
        ("GET", "/api/v1/namespaces/d/pods/p/log/exec", "get /v1 pods/log d p"),
        ("GET", "/api/v1/namespaces/d/secrets/a/token", "get /v1 secrets/token d a"),
    ]);
}

#[test]
fn b2_an_upgrade_connects_besides_what_its_method_does() {
    const VM: &str = "/apis/subresources.kubevirt.io/v1/namespaces/d/virtualmachineinstances/vm";
    let of_vm =
        |verb: &str, way: &str| format!("{verb} subresources.kubevirt.io/v1 virtualmachineinstances/{way} d vm");
    for (method, target, expected) in [
        ("GET", format!("{VM}/console"), of_vm("connect+get", "console")),
        ("GET", format!("{VM}/vnc?a=b"), of_vm("connect+get", "vnc")),
        ("HEAD", format!("{VM}/console"), of_vm("connect+get", "console")),
        // With SPDY any method can ask for an upgrade, and the target may pay no attention to it.
        ("POST", "/api/v1/namespaces/d/pods/p/eviction".to_owned(), "connect+create /v1 pods/eviction d p".to_owned()),
        ("PUT", "/api/v1/namespaces/d/pods/p/status".to_owned(), "connect+update /v1 pods/status d p".to_owned()),
        (
            "POST",
            "/api/v1/namespaces/d/serviceaccounts/a/token".to_owned(),
            "connect+create /v1 serviceaccounts/token d a".to_owned(),
        ),
        ("GET", "/api/v1/namespaces/d/secrets/s".to_owned(), "connect+get /v1 secrets d s".to_owned()),
        ("GET", "/api/v1/namespaces/d/secrets".to_owned(), "connect+list /v1 secrets d -".to_owned()),
        ("GET", "/api/v1/watch/namespaces/d/pods/p/x".to_owned(), "connect+watch /v1 pods/x d p".to_owned()),
        ("POST", "/api/v1/namespaces/d/pods/p/log".to_owned(), "connect+create /v1 pods/log d p".to_owned()),
        // What comes over a websocket as it comes without one.
        ("GET", "/api/v1/pods?watch=true".to_owned(), "watch /v1 pods - -".to_owned()),
        ("GET", "/api/v1/watch/pods".to_owned(), "watch /v1 pods - -".to_owned()),
        ("GET", "/api/v1/namespaces/d/pods/p/log?follow=true".to_owned(), "get /v1 pods/log d p".to_owned()),
        // What connects anyway, and what means nothing.
        ("GET", "/api/v1/namespaces/d/pods/p/exec".to_owned(), "connect /v1 pods/exec d p".to_owned()),
        ("GET", "/api/v1/proxy/nodes/n".to_owned(), "connect /v1 nodes - n".to_owned()),
        ("OPTIONS", format!("{VM}/console"), of_vm("", "console")),
        ("GET", "/version".to_owned(), "get /version".to_owned()),
    ] {
        let request = KubeRequest::parse_upgrade(method, &target).expect("a good target");
        assert_eq!(shown(request), expected, "{method} {target}");
    }
    assert!(KubeRequest::parse_upgrade("GET", "/api/v1/../x").is_err());
}

#[test]
fn a_query_tells_watch_from_list() {
    check(&[
        ("GET", "/api/v1/pods?watch=true", "watch /v1 pods - -"),
        ("GET", "/api/v1/pods?watch=1", "watch /v1 pods - -"),
        ("GET", "/api/v1/pods?watch", "watch /v1 pods - -"),
        ("GET", "/api/v1/pods?watch=", "watch /v1 pods - -"),
        ("GET", "/api/v1/pods?watch=yes", "watch /v1 pods - -"),
        ("GET", "/api/v1/pods?w%61tch=%74rue", "watch /v1 pods - -"),
        ("GET", "/api/v1/pods?watch=true&watch=false", "watch /v1 pods - -"),
        ("GET", "/api/v1/pods?watch=%zz&watch=true", "watch /v1 pods - -"),
        ("GET", "/api/v1/pods?watch=0", "list /v1 pods - -"),
        ("GET", "/api/v1/pods?watch=False", "list /v1 pods - -"),
        ("GET", "/api/v1/pods?watch=false&watch=true", "list /v1 pods - -"),
        ("GET", "/api/v1/pods?Watch=true", "list /v1 pods - -"),
        ("GET", "/api/v1/pods?watch=true;a=b", "list /v1 pods - -"),
        ("GET", "/api/v1/pods?limit=500&a=watch=true", "list /v1 pods - -"),
        ("GET", "/api/v1/namespaces/d/pods/p?watch=true", "get /v1 pods d p"),
        ("POST", "/api/v1/namespaces/d/pods?watch=true", "create /v1 pods d -"),
        ("GET", "/api/v1/watch/pods", "watch /v1 pods - -"),
        ("GET", "/api/v1/watch/namespaces/d/pods/p", "watch /v1 pods d p"),
        ("GET", "/apis/apps/v1/watch/deployments", "watch apps/v1 deployments - -"),
    ]);
}

#[test]
fn a_selector_can_name_one() {
    check(&[
        ("GET", "/api/v1/pods?fieldSelector=metadata.name=p", "list /v1 pods - p"),
        ("GET", "/api/v1/pods?fieldSelector=metadata.name%3Dp&watch=1", "watch /v1 pods - p"),
        ("GET", "/api/v1/pods?fieldSelector=metadata.name==p", "list /v1 pods - p"),
        ("GET", "/api/v1/pods?fieldSelector=a=b,metadata.name=p", "list /v1 pods - p"),
        ("GET", "/api/v1/pods?fieldSelector=metadata.name=q,metadata.name=p", "list /v1 pods - p"),
        ("GET", "/api/v1/pods?fieldSelector=metadata.name!=p", "list /v1 pods - -"),
        ("GET", "/api/v1/pods?fieldSelector=metadata.name=p,nonsense", "list /v1 pods - -"),
        ("GET", "/api/v1/pods?fieldSelector=metadata.name=a/b", "list /v1 pods - -"),
        ("GET", "/api/v1/pods?fieldSelector=metadata.name=..", "list /v1 pods - -"),
        ("GET", "/api/v1/pods?fieldSelector=metadata.name=", "list /v1 pods - -"),
        ("GET", "/api/v1/pods?fieldSelector=a=b\\,metadata.name=p", "list /v1 pods - -"),
        ("GET", "/api/v1/pods?fieldSelector=metadata.name=a\\,b", "list /v1 pods - a,b"),
        ("DELETE", "/api/v1/pods?fieldSelector=metadata.name=p", "deletecollection /v1 pods - -"),
        ("GET", "/api/v1/pods?fieldSelector=,metadata.name=p,", "list /v1 pods - p"),
        ("GET", "/api/v1/pods?fieldSelector=metadata.name=a%2525b", "list /v1 pods - -"),
        ("GET", "/api/v1/pods?fieldSelector=metadata.name=.", "list /v1 pods - -"),
        ("GET", "/api/v1/pods?fieldSelector=metadata.name=a=b", "list /v1 pods - -"),
        ("GET", "/api/v1/pods?fieldSelector=metadata.name=a\\=b", "list /v1 pods - a=b"),
        ("GET", "/api/v1/pods?fieldSelector=metadata.name=a\\\\b", "list /v1 pods - a\\b"),
        ("GET", "/api/v1/pods?fieldSelector=metadata.name=a\\\\,b=c", "list /v1 pods - a\\"),
        ("GET", "/api/v1/pods?fieldSelector=metadata.name=a\\b", "list /v1 pods - -"),
        ("GET", "/api/v1/pods?fieldSelector=metadata.name!=q,metadata.name=p", "list /v1 pods - p"),
        ("GET", "/api/v1/pods?fieldSelector=metadata.namespace=p", "list /v1 pods - -"),
        ("GET", "/api/v1/pods?fieldSelector=metadata.name!==q,metadata.name=p", "list /v1 pods - -"),
    ]);
}

#[test]
fn other_paths_are_not_about_resources() {
    check(&[
        ("GET", "/", "get /"),
        ("GET", "/version?timeout=32s", "get /version"),
        ("HEAD", "/healthz", "head /healthz"),
        ("POST", "/healthz/", "post /healthz/"),
        ("PUT", "/a/b/c/d", "put /a/b/c/d"),
        ("PATCH", "/metrics", "patch /metrics"),
        ("DELETE", "/logs/x", "delete /logs/x"),
        ("OPTIONS", "/openapi/v3/apis/apps/v1", "options /openapi/v3/apis/apps/v1"),
        ("BREW", "/version", " /version"),
        ("GET", "/api", "get /api"),
        ("GET", "/api/", "get /api/"),
        ("GET", "/api/v1", "get /api/v1"),
        ("GET", "/api/v1/", "get /api/v1/"),
        ("GET", "/apis", "get /apis"),
        ("GET", "/apis/apps", "get /apis/apps"),
        ("GET", "/apis/apps/v1", "get /apis/apps/v1"),
        ("GET", "/apis/apps/v1/", "get /apis/apps/v1/"),
        ("GET", "/api/v1/watch", "get /api/v1/watch"),
        ("GET", "/api/v1/proxy", "get /api/v1/proxy"),
        ("GET", "/API/v1/pods", "get /API/v1/pods"),
        ("GET", "/ver%73ion", "get /version"),
    ]);
}

#[test]
fn a_request_reads_as_one_would_ask_for_it() {
    for (method, target, expected) in [
        ("GET", "/version", "get /version"),
        ("GET", "/api/v1/pods", "list pods"),
        ("GET", "/api/v1/namespaces/d/pods/p/log", "get pods/log p in d"),
        ("POST", "/apis/apps/v1/namespaces/d/deployments", "create deployments.apps in d"),
        ("PUT", "/apis/apps/v1/namespaces/d/deployments/x/scale", "update deployments.apps/scale x in d"),
        ("DELETE", "/api/v1/nodes/n", "delete nodes n"),
    ] {
        let request = KubeRequest::parse(method, target).unwrap();
        assert_eq!(request.to_string(), expected, "{method} {target}");
        assert_eq!(request.verb().as_str(), expected.split(' ').next().unwrap());
    }
}

#[test]
fn b2_a_target_that_is_not_routed_means_nothing() {
    for target in ["", "*", "/api/v1//pods", "/api/v1/../x", "/api/v1/a%2fb", "/%zz", "/a;b"] {
        assert!(KubeRequest::parse("GET", target).is_err(), "{target}");
    }
}

proptest! {
    #[test]
    fn any_target_is_judged(method in "[A-Z]{0,7}", target in "/[ -~]{0,40}") {
        let _ = KubeRequest::parse(&method, &target);
    }
}
