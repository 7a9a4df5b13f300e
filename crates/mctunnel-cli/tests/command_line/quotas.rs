//! `bytesPerSecond` in the policy of a hub that runs: a user who is more than a second behind gets 429 for what is new, what is open goes
//! on at its pace, and nobody else notices.

use crate::{
    rig::{Hub, PATIENCE, Role, run, until},
    tls_servers::serve,
};
use parking_lot::Mutex;
use std::{
    fs,
    io::{Read, Write},
    net::TcpStream,
    sync::{Arc, mpsc},
};

const POLICY: &str = "version: 1
roles:
  all: {rules: [{clusters: ['*'], services: ['*/*:*'], methods: ['*'], paths: ['*'], protocols: ['*']}]}
bindings: [{name: b, role: all, users: [alice, bob], providers: [keys]}]
deny: []
quotas: [{name: slow, per: user, users: ['*'], clusters: ['*'], bytesPerSecond: 2KiB}]
";

/// Six seconds' worth.
const LONG: usize = 12 * 1024;

/// A service: `/long` is a long answer that has one word more when it is told so, all else a short one.
fn service(go_on: mpsc::Receiver<()>) -> String {
    let go_on = Arc::new(Mutex::new(go_on));
    serve(None, move |connection| {
        let mut head = [0; 4096];
        let length = connection.read(&mut head).unwrap_or_default();
        // Whoever went away needs no answer.
        let _ = if head[..length].starts_with(b"GET /long ") {
            let begin = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
            let _ = connection.write_all(format!("{begin}{LONG:x}\r\n{}\r\n", "Z".repeat(LONG)).as_bytes());
            let _ = go_on.lock().recv();
            connection.write_all(b"4\r\nmore\r\n0\r\n\r\n")
        } else {
            connection.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")
        };
    })
}

/// Asks the service with a key, over a connection of its own.
fn ask(hub: &Hub, key: &str, path: &str) -> TcpStream {
    let mut socket = TcpStream::connect(hub.address("gateway")).expect("it listens");
    socket.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let path = format!("/c1/api/v1/namespaces/default/services/web:80/proxy-service{path}");
    let head = format!("GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\nConnection: close\r\n\r\n");
    socket.write_all(head.as_bytes()).expect("it reads");
    socket
}

/// The whole answer to a short request.
fn answer(hub: &Hub, key: &str) -> String {
    let mut answer = String::new();
    ask(hub, key, "/short").read_to_string(&mut answer).expect("an answer");
    answer
}

#[test]
fn who_is_behind_with_bytes_begins_nothing_new_and_what_is_open_goes_on() {
    let files = tempfile::tempdir().expect("a directory");
    let path = |name: &str| files.path().join(name).to_str().expect("UTF-8").to_owned();
    fs::write(path("auth.yaml"), "providers: [{name: keys, api_keys: {}}]\n").expect("a file");
    fs::write(path("policy.yaml"), POLICY).expect("a file");
    let trust = ["--auth-config", &path("auth.yaml"), "--policy", &path("policy.yaml"), "--gateway-plain"];
    let hub = Hub::start(&trust);
    let [alice, bob] = ["alice", "bob"].map(|user| {
        let made = run(&["api-key", "create", user, "--user", user, "--data-dir", &hub.path("data")]);
        assert_eq!(made.status, Some(0), "{made:?}");
        made.out.trim_end().to_owned()
    });
    let (say, go_on) = mpsc::channel();
    let (bundle, pin) = (hub.add("c1"), format!("default/web:80={}", service(go_on)));
    let flags = ["agent", "--join", &bundle, "--allow-service", "default/web:80", "--pin-service", &pin];
    let mut agent = Role::start(files.path(), "agent", &flags, &[]);
    agent.ready();
    assert!(answer(&hub, &alice).ends_with("\r\n\r\nok"));

    let mut long = ask(&hub, &alice, "/long");
    let refused = until("a refusal", || {
        let answer = answer(&hub, &alice);
        (!answer.starts_with("HTTP/1.1 200 ")).then_some(answer)
    });
    assert!(refused.starts_with("HTTP/1.1 429 "), "{refused}");
    assert!(refused.contains("MCT-HTTP-QUOTA") && refused.contains("quota slow, bytes per second"), "{refused}");
    let wait = refused.lines().find_map(|line| line.to_ascii_lowercase().strip_prefix("retry-after: ")?.parse().ok());
    assert!(wait.is_some_and(|seconds: u64| (1..=6).contains(&seconds)), "{refused}");
    assert!(answer(&hub, &bob).starts_with("HTTP/1.1 200 "), "he has his own");

    // All of what was begun comes, and what is said now, too.
    say.send(()).expect("the service waits for it");
    let mut whole = String::new();
    long.read_to_string(&mut whole).expect("an answer");
    let (head, body) = whole.split_once("\r\n\r\n").expect("a head");
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    assert_eq!((body.matches('Z').count(), body.contains("more")), (LONG, true));
    assert!(body.ends_with("0\r\n\r\n"), "to its end");
    until("alice to be let in again", || answer(&hub, &alice).starts_with("HTTP/1.1 200 ").then_some(()));
}
