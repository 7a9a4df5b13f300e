//! Requests that do not tell all of what they are, and those that a client can dress up: a deny rule has them, an allow rule does not.

use mctunnel_core::{Access, Action, Destination, Identity, Protocol, Target, User};
use mctunnel_policy::{Policy, Question};
use std::time::SystemTime;

const OBJECTS: &str =
    "{clusters: ['*'], namespaces: ['*'], apiGroups: ['*'], resources: ['*/*'], names: ['*'], verbs: ['*']}";
const PATHS: &str = "{clusters: ['*'], nonResourcePaths: ['*'], verbs: ['*']}";
const SERVICES: &str = "{clusters: ['*'], services: ['*/*:*'], methods: ['*'], paths: ['*'], protocols: ['*']}";
const BYTES: &str = "{clusters: ['*'], bytes: [kube-apiserver, '*/*:*'], protocols: ['*']}";

/// Everything is allowed to alice under `allow_when`; a deny rule, if there is one, has these rules and its own condition.
fn policy(allow_when: &str, deny: &str) -> Policy {
    let when = if allow_when.is_empty() { String::new() } else { format!(", when: {allow_when:?}") };
    let text = format!(
        "{{version: 1, roles: {{r: {{rules: [{OBJECTS}, {PATHS}, {SERVICES}, {BYTES}]}}}}, bindings: [{{name: b, role: r, \
         users: [alice], providers: ['*']{when}}}], deny: [{deny}]}}"
    );
    Policy::parse(&text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// A deny rule for everybody and everything under a condition.
fn denied_when(when: &str) -> Policy {
    let deny = format!(
        "{{name: d, users: ['*'], providers: ['*'], when: {when:?}, rules: [{OBJECTS}, {PATHS}, {SERVICES}, {BYTES}]}}"
    );
    policy("", &deny)
}

fn may(policy: &Policy, what: &str) -> bool {
    let (place, what) = what.split_once(" | ").unwrap_or(("", what));
    let text = format!("{{who: {{user: alice}}, where: {{cluster: c1{place}}}, what: {{{what}}}}}");
    Question::parse(&text).unwrap().ask(policy).unwrap().is_allowed()
}

// === HTTP and gRPC ===

#[test]
fn t10_a_deny_rule_for_http_is_not_passed_by_saying_grpc() {
    let deny = |protocols: &str| {
        format!(
            "{{name: d, users: ['*'], providers: ['*'], rules: [{{clusters: ['*'], services: ['a/b:80'], methods: ['*'], paths: \
             ['/admin/*'], protocols: [{protocols}]}}]}}"
        )
    };
    let asked = |path: &str, protocol: &str| format!("service: 'a/b:80', path: {path}, protocol: {protocol}");
    for protocols in ["http", "grpc", "http, own", "'*'"] {
        let policy = policy("", &deny(protocols));
        for protocol in ["http", "grpc"] {
            assert!(!may(&policy, &asked("/admin/x", protocol)), "{protocols} {protocol}");
            assert!(may(&policy, &asked("/x", protocol)), "{protocols} {protocol}");
        }
    }
    // An adapter is chosen by whoever serves it, not by a field of the request.
    assert!(may(&policy("", &deny("http")), &asked("/admin/x", "own")));
    assert!(may(&policy("", &deny("own")), &asked("/admin/x", "http")));
}

#[test]
fn t10_what_is_allowed_by_http_alone_is_not_allowed_by_grpc() {
    let rule = SERVICES.replace("protocols: ['*']", "protocols: [http]");
    let text = format!(
        "{{version: 1, roles: {{r: {{rules: [{rule}]}}}}, bindings: [{{name: b, role: r, users: [alice], providers: ['*']}}], deny: []}}"
    );
    let policy = Policy::parse(&text).unwrap();
    assert!(may(&policy, "service: 'a/b:80', protocol: http") && !may(&policy, "service: 'a/b:80', protocol: grpc"));
}

#[test]
fn t10_a_condition_of_a_deny_rule_does_not_believe_the_client_what_it_speaks() {
    for (when, http, grpc, tcp) in [
        ("protocol == 'http'", false, false, true),
        ("protocol == 'grpc'", false, false, true),
        ("protocol == 'tcp'", true, true, false),
        ("protocol != 'tcp'", false, false, true),
        ("protocol == 'http' && request.path == '/x'", true, true, true),
        ("protocol.startsWith('own')", true, true, true),
    ] {
        let policy = denied_when(when);
        assert_eq!(may(&policy, "service: 'a/b:80', protocol: http"), http, "{when}");
        assert_eq!(may(&policy, "service: 'a/b:80', protocol: grpc"), grpc, "{when}");
        assert_eq!(may(&policy, "bytes: 'a/b:80'"), tcp, "{when}");
    }
    for (when, http, grpc) in [("protocol == 'http'", true, false), ("protocol == 'grpc'", false, true)] {
        let policy = policy(when, "");
        assert_eq!(may(&policy, "service: 'a/b:80', protocol: http"), http, "{when}");
        assert_eq!(may(&policy, "service: 'a/b:80', protocol: grpc"), grpc, "{when}");
    }
}

// === What a request does not tell ===

const IN_KUBE_SYSTEM: &str = "request.namespace == 'kube-system'";

#[test]
fn b2_a_condition_of_a_deny_rule_has_wider_requests() {
    let denied = [
        ", namespace: kube-system | verb: get, resource: secrets, name: s",
        ", namespace: kube-system | verb: list, resource: secrets",
        "verb: list, resource: secrets",
        "verb: watch, resource: secrets",
        "verb: deletecollection, resource: secrets",
        "bytes: kube-apiserver",
        // The hub cannot know where these live.
        "verb: list, resource: widgets.example.com",
    ];
    let passed = [
        ", namespace: team-a | verb: get, resource: secrets, name: s",
        ", namespace: team-a | verb: list, resource: secrets",
        // What lives in no namespace does not live in this one either.
        "verb: list, resource: nodes",
        "verb: get, resource: nodes, name: n",
        "verb: create, resource: namespaces",
        "verb: get, resource: widgets.example.com, name: w",
        "verb: get, path: /version",
        "service: 'kube-system/dns:53'",
        "bytes: 'kube-system/dns:53'",
    ];
    let policy = denied_when(IN_KUBE_SYSTEM);
    for what in denied {
        assert!(!may(&policy, what), "{what}");
    }
    for what in passed {
        assert!(may(&policy, what), "{what}");
    }
    // Turned round, what is not told may be anything else as well.
    let others = denied_when("request.namespace != 'team-a'");
    assert!(may(&others, ", namespace: team-a | verb: list, resource: secrets"));
    assert!(!may(&others, "verb: list, resource: secrets") && !may(&others, "bytes: kube-apiserver"));
}

#[test]
fn b2_who_wants_exactly_what_is_named_asks_with_has() {
    let policy = denied_when("has(request.namespace) && request.namespace == 'kube-system'");
    assert!(!may(&policy, ", namespace: kube-system | verb: list, resource: secrets"));
    for what in ["verb: list, resource: secrets", "bytes: kube-apiserver", "verb: list, resource: nodes"] {
        assert!(may(&policy, what), "{what}");
    }
    let unnamed = denied_when("!has(request.name) && request.verb == 'delete'");
    assert!(may(&unnamed, ", namespace: a | verb: delete, resource: pods, name: p"));
    assert!(!may(&unnamed, ", namespace: a | verb: delete, resource: pods"));
    let ported = denied_when("has(target.port) && target.port == '80'");
    assert!(!may(&ported, "service: 'a/b:80'") && may(&ported, "service: 'a/b'") && may(&ported, "service: 'a/b:81'"));
}

#[test]
fn b2_each_thing_that_is_not_told_counts_against_the_request() {
    for (when, denied, passed) in [
        (
            "request.name == 'root'",
            &[
                "verb: list, resource: secrets",
                ", namespace: a | verb: create, resource: secrets",
                "bytes: kube-apiserver",
            ][..],
            &[", namespace: a | verb: get, resource: secrets, name: s", "verb: get, path: /version"][..],
        ),
        (
            "request.resource == 'secrets' && request.name == 'root'",
            &["verb: list, resource: secrets", "bytes: kube-apiserver"],
            &["verb: list, resource: pods", "service: 'a/b:80'"],
        ),
        ("request.verb == 'delete'", &["bytes: kube-apiserver"], &["bytes: 'a/b:80'", "verb: list, resource: pods"]),
        ("request.path == '/metrics'", &["bytes: kube-apiserver", "bytes: 'a/b:80'"], &["verb: get, path: /version"]),
        (
            "request.method == 'POST'",
            &["bytes: 'a/b:80'"],
            &["bytes: kube-apiserver", "service: 'a/b:80', method: GET"],
        ),
        ("request.subresource == 'exec'", &["bytes: kube-apiserver"], &["bytes: 'a/b:80'"]),
        ("request.apiGroup == 'apps'", &["bytes: kube-apiserver"], &["bytes: 'a/b:80'"]),
        ("target.port == '80'", &["service: 'a/b'", "bytes: 'a/b'", "bytes: 'a/b:80'"], &["bytes: 'a/b:81'"]),
        // What kind of request it is can be told of every one.
        ("request.kind != 'bytes' && request.verb == 'delete'", &[], &["bytes: kube-apiserver"]),
    ] {
        let policy = denied_when(when);
        denied.iter().for_each(|what| assert!(!may(&policy, what), "{when}: {what}"));
        passed.iter().for_each(|what| assert!(may(&policy, what), "{when}: {what}"));
    }
}

#[test]
fn b2_a_condition_of_a_binding_never_holds_for_what_is_not_told() {
    let wide = ["verb: list, resource: secrets", "verb: deletecollection, resource: secrets", "bytes: kube-apiserver"];
    for when in
        [IN_KUBE_SYSTEM, "request.namespace != 'kube-system'", "has(request.namespace) && request.namespace != 'x'"]
    {
        let policy = policy(when, "");
        for what in wide {
            assert!(!may(&policy, what), "{when}: {what}");
        }
    }
    let elsewhere = policy("request.namespace != 'kube-system'", "");
    for what in [", namespace: a | verb: list, resource: secrets", "verb: list, resource: nodes", "verb: get, path: /x"]
    {
        assert!(may(&elsewhere, what), "{what}");
    }
    // What does not depend on it is not changed by it.
    let reading = policy("request.verb in ['get', 'list'] || request.namespace == 'a'", "");
    assert!(may(&reading, "verb: list, resource: secrets") && !may(&reading, "verb: watch, resource: secrets"));
}

// === Upgrades ===

const CONSOLE: &str = "/apis/subresources.kubevirt.io/v1/namespaces/a/virtualmachineinstances/vm/console";

fn may_upgrade(policy: &Policy, method: &str, path: &str) -> bool {
    let identity = Identity::from(User::new("alice", "corp"));
    let destination = Destination { cluster: "c1".parse().unwrap(), target: Target::KubeApi };
    let action = Action::of_upgrade(&destination.target, method, path).unwrap();
    let protocol = &Protocol::http();
    let access = Access { identity: &identity, destination: &destination, action: &action, protocol, source: None };
    policy.decide(&access, SystemTime::now()).is_allowed()
}

fn with_verbs(verbs: &str, deny: &str) -> Policy {
    let rule = OBJECTS.replace("verbs: ['*']", &format!("verbs: [{verbs}]"));
    let text = format!(
        "{{version: 1, roles: {{r: {{rules: [{rule}]}}}}, bindings: [{{name: b, role: r, users: [alice], providers: ['*']}}], \
         deny: [{deny}]}}"
    );
    Policy::parse(&text).unwrap()
}

#[test]
fn t10_a_read_only_role_has_no_upgrade_but_to_watch_and_to_follow_a_log() {
    let reader = with_verbs("get, list, watch", "");
    for path in [CONSOLE, "/api/v1/namespaces/a/pods/p/anything", "/apis/a.b/v1/tunnels/t"] {
        assert!(!may_upgrade(&reader, "GET", path), "{path}");
    }
    for path in ["/api/v1/pods?watch=true", "/api/v1/watch/pods", "/api/v1/namespaces/a/pods/p/log?follow=true"] {
        assert!(may_upgrade(&reader, "GET", path), "{path}");
    }
    assert!(may_upgrade(&with_verbs("get, connect", ""), "GET", CONSOLE));
    assert!(
        !may_upgrade(&with_verbs("connect", ""), "GET", CONSOLE),
        "it may be answered as what it is without an upgrade"
    );
}

#[test]
fn t10_an_upgrade_does_not_hide_what_the_method_does() {
    let deny = |verbs: &str, when: &str| {
        let rule = OBJECTS.replace("verbs: ['*']", &format!("verbs: [{verbs}]"));
        format!("{{name: d, users: ['*'], providers: ['*'], when: {when:?}, rules: [{rule}]}}")
    };
    let evict = "/api/v1/namespaces/a/pods/p/eviction";
    let secret = "/api/v1/namespaces/a/secrets/s";
    for (deny, method, path, expected) in [
        (deny("create", "true"), "POST", evict, false),
        (deny("get", "true"), "GET", secret, false),
        (deny("get", "true"), "GET", CONSOLE, false),
        (deny("connect", "true"), "GET", CONSOLE, false),
        (deny("'*'", "request.verb == 'create'"), "POST", evict, false),
        (deny("'*'", "request.verb == 'connect'"), "POST", evict, false),
        (deny("update", "true"), "POST", evict, true),
    ] {
        assert_eq!(may_upgrade(&with_verbs("'*'", &deny), method, path), expected, "{deny} {method} {path}");
    }
}

// === Facts ===

#[test]
fn facts_for_policy_alone_are_asked_for_like_any_other() {
    let policy = policy("user.extra.team[0] == 'red' && user.extra.scopes[0] == 'read'", "");
    let mut user = User::new("alice", "corp");
    user.extra.insert("scopes".to_owned(), vec!["read".to_owned()]);
    let may = |user: &User| {
        let (identity, destination) =
            (Identity::from(user.clone()), Destination { cluster: "c1".parse().unwrap(), target: Target::KubeApi });
        let (action, protocol) = (Action::of_http(&destination.target, "GET", "/version").unwrap(), &Protocol::http());
        let access = Access { identity: &identity, destination: &destination, action: &action, protocol, source: None };
        policy.decide(&access, SystemTime::now()).is_allowed()
    };
    assert!(!may(&user));
    user.facts.insert("team".to_owned(), vec!["red".to_owned()]);
    assert!(may(&user));
}
