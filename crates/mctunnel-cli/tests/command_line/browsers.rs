//! What a web page could do from the browser of somebody on this machine (T34). Origins are tested in the gateway.

use crate::rig::{Hub, request};
use std::fs;

const POLICY: &str = "version: 1
roles:
  all: {rules: [{clusters: ['*'], nonResourcePaths: ['*'], verbs: ['*']}]}
bindings: [{name: b, role: all, anonymous: true}]
deny: []
";

#[test]
fn t34_a_page_does_not_come_in_as_nobody_by_a_name_of_its_own() {
    for (anonymous, strange) in [("anonymous: {}\n", 421), ("", 401)] {
        let files = tempfile::tempdir().expect("a directory");
        let path = |name: &str| files.path().join(name).to_str().expect("UTF-8").to_owned();
        let auth = format!("providers: [{{name: keys, api_keys: {{}}}}]\n{anonymous}");
        fs::write(path("auth.yaml"), auth).expect("a file");
        fs::write(path("policy.yaml"), POLICY).expect("a file");
        let trust = ["--auth-config", &path("auth.yaml"), "--policy", &path("policy.yaml"), "--gateway-plain"];
        let hub = Hub::start(&[&trust[..], &["--hub-name", "hub.example"]].concat());
        let ask = |host: &str, more: &str| {
            let head = format!("GET /nowhere/version HTTP/1.1\r\nHost: {host}\r\n{more}Connection: close\r\n\r\n");
            request(hub.address("gateway"), &head).0
        };
        for host in ["attacker.test", "attacker.test:8080", "localhost.attacker.test"] {
            assert_eq!(ask(host, "Accept-Language: en\r\n"), strange, "{host} {anonymous}");
        }
        let known = if strange == 421 { 404 } else { 401 };
        for host in ["hub.example", "localhost:8080", "127.0.0.1"] {
            assert_eq!(ask(host, "Accept-Language: en\r\n"), known, "{host} {anonymous}: there is no such cluster");
        }
        assert_eq!(ask("attacker.test", ""), known, "not a browser");
    }
}
