//! T10: what joins a client to a process, and what issues a credential, is its own verb whatever the method.

use mctunnel_core::{Access, Action, Destination, Identity, Protocol, Target, User};
use mctunnel_policy::Policy;
use std::time::SystemTime;

fn reader(resources: &str, verbs: &str) -> Policy {
    let rule = format!(
        "{{clusters: ['*'], namespaces: ['*'], apiGroups: ['*'], resources: [{resources}], names: ['*'], verbs: [{verbs}]}}"
    );
    let binding = "{name: b, role: r, users: [alice], providers: ['*']}";
    Policy::parse(&format!("{{version: 1, roles: {{r: {{rules: [{rule}]}}}}, bindings: [{binding}], deny: []}}"))
        .unwrap()
}

fn may(policy: &Policy, method: &str, path: &str) -> bool {
    let identity = Identity::from(User::new("alice", "corp"));
    let destination = Destination { cluster: "c1".parse().unwrap(), target: Target::KubeApi };
    let action = Action::of_http(&destination.target, method, path).unwrap();
    let access = Access {
        identity: &identity,
        destination: &destination,
        action: &action,
        protocol: &Protocol::http(),
        source: None,
    };
    policy.decide(&access, SystemTime::now()).is_allowed()
}

const POD: &str = "/api/v1/namespaces/team-a/pods/p";

#[test]
fn t10_a_read_only_role_never_reaches_into_a_pod() {
    for resources in ["'*'", "'*/*'", "pods, 'pods/*'", "pods, pods/exec, pods/attach, pods/portforward, pods/proxy"] {
        let policy = reader(resources, "get, list, watch");
        assert!(may(&policy, "GET", POD), "{resources}");
        for method in ["GET", "HEAD", "POST", "PUT", "DELETE", "PATCH"] {
            for path in [
                format!("{POD}/exec"),
                format!("{POD}/exec?command=sh&stdin=true&tty=true"),
                format!("{POD}/attach"),
                format!("{POD}/portforward?ports=80"),
                format!("{POD}/proxy"),
                format!("{POD}/proxy/metrics"),
                format!("{POD}/%65xec"),
                "/api/v1/namespaces/team-a/services/s/proxy/x".to_owned(),
                "/api/v1/nodes/n/proxy/exec".to_owned(),
                "/api/v1/proxy/namespaces/team-a/pods/p".to_owned(),
                "/api/v1/proxy/nodes/n".to_owned(),
                "/api/v1/watch/namespaces/team-a/pods/p/exec".to_owned(),
                "/api/v1/namespaces/team-a/serviceaccounts/default/token".to_owned(),
            ] {
                assert!(!may(&policy, method, &path), "{resources} {method} {path}");
            }
        }
    }
}

#[test]
fn t10_pods_are_not_what_is_reached_through_them() {
    let policy = reader("pods", "'*'");
    for way in ["exec", "attach", "portforward", "proxy", "log", "status", "ephemeralcontainers", "eviction", "binding"]
    {
        for method in ["GET", "POST"] {
            assert!(!may(&policy, method, &format!("{POD}/{way}")), "{method} {way}");
        }
    }
    for (resources, verbs, method, path, expected) in [
        ("pods/exec", "connect", "GET", format!("{POD}/exec"), true),
        ("pods/exec", "connect", "POST", format!("{POD}/exec"), true),
        ("pods/exec", "create, get", "POST", format!("{POD}/exec"), false),
        ("pods/exec", "connect", "GET", format!("{POD}/attach"), false),
        ("pods/log", "get", "GET", format!("{POD}/log?follow=true"), true),
        ("serviceaccounts/token", "create", "POST", "/api/v1/namespaces/a/serviceaccounts/s/token".to_owned(), true),
        ("serviceaccounts/token", "get", "GET", "/api/v1/namespaces/a/serviceaccounts/s/token".to_owned(), false),
    ] {
        assert_eq!(may(&reader(resources, verbs), method, &path), expected, "{resources} {verbs} {method} {path}");
    }
}

#[test]
fn a_method_without_a_meaning_is_denied_to_everybody() {
    let policy = reader("'*/*'", "'*'");
    for method in ["OPTIONS", "TRACE", "CONNECT", "get", "PROPFIND", ""] {
        assert!(!may(&policy, method, POD), "{method}");
    }
    assert!(may(&policy, "GET", POD));
}
