//! The files by which `make run-hub` asks: what they let through, and to whom.

use crate::rig::{Greeter, Hub, Role, request, run};
use std::path::Path;

const QUICK_START: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../quickstart");

/// `make run-hub` asks by these files: from elsewhere nothing but the service of the quick start can be reached.
#[test]
fn the_files_of_the_quick_start_let_others_reach_one_service_only() {
    let policy = format!("{QUICK_START}/policy.yaml");
    let checked = run(&["policy", "check", "--strict", &policy]);
    assert_eq!(checked.status, Some(0), "{checked:?}");
    let can = |source: &str, words: &str| {
        let asked = ["can-i", "--policy", &policy, "--cluster", "cluster-a", "--source", source];
        let words: Vec<&str> = words.split(' ').collect();
        run(&[&asked[..], &words].concat()).status
    };
    for (words, from_elsewhere) in [
        ("GET --service default/https:helloworld:8080 --path /ping", Some(0)),
        ("POST --service default/helloworld:80 --path /", Some(0)),
        ("GET --service default/other:8080 --path /ping", Some(1)),
        ("GET --service kube-system/helloworld:8080 --path /", Some(1)),
        ("get pods -n default", Some(1)),
        ("get /version", Some(1)),
        ("--bytes kube-apiserver", Some(1)),
        ("--bytes 10.0.0.1:5432", Some(1)),
    ] {
        assert_eq!(can("10.1.2.3", words), from_elsewhere, "{words}");
        assert_eq!(can("127.0.0.1", words), Some(0), "{words}");
        assert_eq!(can("::1", words), Some(0), "{words}");
        assert_eq!(can("10.1.2.3", &format!("{words} --as me --as-provider keys")), Some(0), "{words}");
    }
}

#[test]
fn the_quick_start_works_without_a_credential_and_not_with_a_bad_one() {
    let (auth, policy) = (format!("{QUICK_START}/auth.yaml"), format!("{QUICK_START}/policy.yaml"));
    assert!(Path::new(&auth).exists());
    let hub = Hub::start(&["--auth-config", &auth, "--policy", &policy, "--gateway-plain"]);
    let bundle = hub.add("cluster-a");
    let target = Greeter::start();
    let pin = format!("default/helloworld:8080={}", target.address);
    let arguments = ["agent", "--join", &bundle, "--allow-service", "default/helloworld", "--pin-service", &pin];
    let mut agent = Role::start(hub.dir.path(), "agent", &arguments, &[]);
    agent.ready();
    let path = "/cluster-a/api/v1/namespaces/default/services/helloworld:8080/proxy-service/ping?time-out=32s";
    let asked = |shown: &str| {
        let head = format!("GET {path} HTTP/1.1\r\nHost: x\r\n{shown}Connection: close\r\n\r\n");
        request(hub.address("gateway"), &head)
    };
    assert_eq!(asked(""), (200, "/ping?time-out=32s".to_owned()));
    assert_eq!(asked("Authorization: Bearer a-token-of-the-cluster\r\n").0, 200, "the target judges it");
    assert_eq!(asked("Authorization: Bearer mctk_forged\r\n").0, 401);
    assert_eq!(asked("Authorization: Basic YTpi\r\n").0, 401);
    // So do programs of this machine at CONNECT.
    let refused = "CONNECT 127.0.0.1:1 HTTP/1.1\r\nHost: 127.0.0.1:1\r\nx-mctunnel-cluster: cluster-a\r\n\r\n";
    assert_eq!(request(hub.address("connect"), refused).0, 403, "the agent's list has the last word");
}
