//! T37: line ends, escapes and separators where clients can write, through a real hub: each line of its log and of its record is one
//! line of JSON, and there are as many as there were requests.

use crate::{
    rig::{Hub, run},
    tls_clients::{Ca, Shown, connect},
};
use serde_json::Value;
use std::{
    fs,
    io::{Read, Write},
};

const AUTH: &str = "providers:
  - {name: keys, api_keys: {}}
  - {name: portal, front_proxy: {ca_file: proxies.pem, allowed_names: [portal]}}
";

const POLICY: &str = "version: 1
roles:
  all: {rules: [{clusters: ['*'], nonResourcePaths: ['*'], verbs: ['*']}]}
bindings: [{name: b, role: all, users: ['*'], providers: [keys, portal]}]
deny: []
";

/// What would begin a line of its own, or colour a terminal.
const LURES: [&str; 8] = [
    "\r\nINJECTED",
    "\nINJECTED",
    "\rINJECTED",
    "\u{1b}[31mINJECTED",
    "\u{2028}INJECTED",
    "\u{2029}INJECTED",
    "\u{85}INJECTED",
    "\",\"decision\":\"INJECTED",
];

fn percent_encoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02x}")).collect()
}

/// The status of the answer to these bytes.
fn status(hub: &Hub, shown: Option<&Shown>, bytes: &str) -> u16 {
    let mut client = connect(hub, shown);
    client.write_all(bytes.as_bytes()).expect("it reads");
    let mut answer = Vec::new();
    // One that is refused in the middle of its head may be reset.
    let _ = client.read_to_end(&mut answer);
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let status = answer.split(' ').nth(1).and_then(|word| word.parse().ok());
    status.unwrap_or_else(|| panic!("{bytes:?}: {answer}"))
}

/// Each line is an object, and nothing in the text would be more to whoever shows it.
#[track_caller]
fn lines_of(what: &str, text: &str) -> Vec<Value> {
    let steers = |c: char| (c.is_control() && c != '\n') || matches!(c, '\u{2028}' | '\u{2029}');
    assert_eq!(text.find(steers), None, "{what}: {text}");
    let lines = text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{what}: {line}")));
    let lines: Vec<Value> = lines.collect();
    assert!(lines.iter().all(Value::is_object), "{what}");
    lines
}

#[test]
fn t37_whatever_clients_write_each_line_is_one_and_there_are_as_many_as_requests() {
    let (files, proxies) = (tempfile::tempdir().expect("a directory"), Ca::new("proxies"));
    let path = |name: &str| files.path().join(name).to_str().expect("UTF-8").to_owned();
    for (name, text) in [("auth.yaml", AUTH), ("policy.yaml", POLICY), ("proxies.pem", proxies.pem.as_str())] {
        fs::write(path(name), text).expect("a file");
    }
    let trust = ["--auth-config", &path("auth.yaml"), "--policy", &path("policy.yaml"), "--log-level", "debug"];
    let mut hub = Hub::start(&trust);
    let made = run(&["api-key", "create", "a", "--user", "alice", "--data-dir", &hub.path("data")]);
    let bearer = format!("Authorization: Bearer {}\r\n", made.out.trim_end());
    let portal = proxies.client("portal", "machines");
    let request = |target: &str, lines: &str| {
        format!("GET {target} HTTP/1.1\r\nHost: mctunnel-hub\r\n{lines}Connection: close\r\n\r\n")
    };

    let mut recorded = 0;
    for lure in LURES {
        let encoded = percent_encoded(lure);
        let agent = format!("{bearer}User-Agent: x{lure}\r\n");
        let id = format!("{bearer}X-Request-Id: x{lure}\r\n");
        let user = format!("X-Remote-User: x{lure}\r\n");
        for (what, shown, bytes) in [
            ("a path", None, request(&format!("/c1/version{lure}"), &bearer)),
            ("an encoded path", None, request(&format!("/c1/version{encoded}"), &bearer)),
            ("a query", None, request(&format!("/c1/version?x={lure}"), &bearer)),
            ("an encoded query", None, request(&format!("/c1/version?x={encoded}"), &bearer)),
            ("a cluster", None, request(&format!("/c1{lure}/version"), &bearer)),
            ("an encoded cluster", None, request(&format!("/c1{encoded}/version"), &bearer)),
            ("a User-Agent", None, request("/c1/version", &agent)),
            ("an X-Request-Id", None, request("/c1/version", &id)),
            ("a user", Some(&portal), request("/c1/version", &user)),
        ] {
            let answer = status(&hub, shown, &bytes);
            assert!((400..500).contains(&answer), "{what} {lure:?}: {answer}");
            println!("{what} {lure:?}: {answer}");
            // What cannot be read as a request has a record too.
            recorded += 1;
        }
    }
    hub.role.signal("TERM");
    assert_eq!(hub.role.wait().code(), Some(0));
    let log = lines_of("the log", &hub.role.log());
    let record = lines_of("the record", &fs::read_to_string(hub.path("data/audit/audit.log")).expect("the record"));
    let of_requests = record.iter().filter(|line| line["stage"] == "request" || line["stage"] == "ended").count();
    println!("{} lines of log, {} of the record, {of_requests} of requests", log.len(), record.len());
    assert_eq!(of_requests, recorded, "{:?}", record.last());
}
