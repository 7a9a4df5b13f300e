//! Whoever can reach a hub and has no credential can neither push records out of its audit log, on any way in, nor keep others from the
//! hub's own pages.

use crate::rig::{Hub, PATIENCE, request, run, until};
use serde_json::{Value, json};
use std::{
    collections::BTreeSet,
    fs,
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    thread,
    time::Duration,
};
use tempfile::TempDir;
use tokio::time::Instant;

pub(crate) const POLICY: &str = "version: 1
roles:
  all: {rules: [{clusters: ['*'], nonResourcePaths: ['*'], verbs: ['*']}]}
bindings: [{name: b, role: all, users: [alice], providers: [keys]}]
deny: []
";

/// A hub with a policy, its files, and Alice's key.
pub(crate) fn stage(more: &[&str]) -> (Hub, TempDir, String) {
    let files = tempfile::tempdir().expect("a directory");
    let path = |name: &str| files.path().join(name).to_str().expect("UTF-8").to_owned();
    fs::write(path("auth.yaml"), "providers: [{name: keys, api_keys: {}}]\n").expect("a file");
    fs::write(path("policy.yaml"), POLICY).expect("a file");
    let trust = ["--auth-config", &path("auth.yaml"), "--policy", &path("policy.yaml"), "--gateway-plain"];
    let hub = Hub::start(&[&trust[..], more].concat());
    let made = run(&["api-key", "create", "alice", "--user", "alice", "--data-dir", &hub.path("data")]);
    assert_eq!(made.status, Some(0), "{made:?}");
    (hub, files, made.out.trim_end().to_owned())
}

/// So many requests without a credential over one connection, none of which waits for the one before.
fn flood(gateway: &str, count: usize) {
    let mut socket = TcpStream::connect(gateway).expect("it listens");
    socket.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let mut writer = socket.try_clone().expect("a socket");
    let writing = thread::spawn(move || {
        let one = "GET /c1/version HTTP/1.1\r\nHost: x\r\n\r\n";
        writer.write_all(one.repeat(count - 1).as_bytes()).expect("it reads");
        let last = "GET /c1/version HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
        writer.write_all(last.as_bytes()).expect("it reads");
    });
    let mut answers = String::new();
    socket.read_to_string(&mut answers).expect("answers");
    writing.join().expect("all is sent");
    assert_eq!(answers.matches("HTTP/1.1 401 ").count(), count);
}

/// Something at each of the other ways in that nobody known has sent.
fn elsewhere(hub: &Hub) {
    let connect = "CONNECT db:1 HTTP/1.1\r\nHost: db:1\r\nx-mctunnel-cluster: c1\r\n\r\n";
    assert_eq!(request(hub.address("connect"), connect).0, 407);
    let mut sni = TcpStream::connect(hub.address("sni")).expect("it listens");
    sni.write_all(b"GET / HTTP/1.1\r\n\r\n").expect("it reads");
    // It is closed without a word, or reset.
    let _ = sni.read(&mut [0; 16]);
}

/// The records in all files.
pub(crate) fn records(hub: &Hub) -> Vec<Value> {
    let files = fs::read_dir(hub.path("data/audit")).expect("a directory").map(|entry| entry.expect("a file").path());
    let logs = files.filter(|path| path.extension().is_some_and(|extension| extension == "log"));
    let texts: Vec<String> = logs.map(|path| fs::read_to_string(path).expect("text")).collect();
    // The last line may be on its way.
    texts.iter().flat_map(|text| text.lines()).filter_map(|line| serde_json::from_str(line).ok()).collect()
}

#[test]
fn t40_requests_without_a_credential_do_not_erase_the_audit_log() {
    const FLOOD: usize = 10_000;
    const ELSEWHERE: usize = 20;
    let files = ["--audit-file-size", "256KiB", "--audit-keep", "1", "--sni-listen", "127.0.0.1:0"];
    let (mut hub, _files, alice) = stage(&files);
    let asked = format!(
        "GET /c1/version HTTP/1.1\r\nHost: x\r\nX-Request-Id: needed\r\nAuthorization: Bearer {alice}\r\nConnection: close\r\n\r\n"
    );
    assert_eq!(request(hub.address("gateway"), &asked).0, 404, "there is no such cluster");
    (0..ELSEWHERE).for_each(|_| elsewhere(&hub));
    flood(hub.address("gateway"), FLOOD);
    (0..ELSEWHERE).for_each(|_| elsewhere(&hub));
    hub.role.signal("TERM");
    assert_eq!(hub.role.wait().code(), Some(0));

    let records = records(&hub);
    let allowed = records.iter().find(|record| record["id"] == "needed").expect("it is still there");
    assert_eq!((&allowed["user"], &allowed["decision"]), (&json!("alice"), &json!("allowed")));
    let whole: Vec<&Value> = records.iter().filter(|record| record["identity"] == "unknown").collect();
    let ways: BTreeSet<&str> = whole.iter().map(|record| record["gateway"].as_str().expect("a way in")).collect();
    assert_eq!(ways, BTreeSet::from(["connect", "http", "sni"]));
    let left_out: Vec<&Value> = records.iter().filter(|record| record["event"] == "strangers").collect();
    let count: u64 = left_out.iter().map(|record| record["left_out"].as_u64().expect("a number")).sum();
    assert_eq!(whole.len() + usize::try_from(count).expect("few"), FLOOD + 4 * ELSEWHERE, "each is counted");
    assert!(left_out.iter().all(|record| record["source"] == "127.0.0.1"), "{left_out:?}");
    let verified = run(&["audit", "verify", "--data-dir", &hub.path("data")]);
    assert!(verified.out.contains(", from 1 to "), "none is gone: {verified:?}");
}

/// The beginning of a question whose rest does not come.
fn unfinished(from: &str, to: &str, key: &str) -> TcpStream {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let (from, to): (SocketAddr, SocketAddr) = (from.parse().expect("an address"), to.parse().expect("an address"));
    let socket = runtime.block_on(async {
        let socket = tokio::net::TcpSocket::new_v4().expect("a socket");
        socket.bind(from).expect("an address of this machine");
        socket.connect(to).await.expect("it listens").into_std().expect("a socket")
    });
    socket.set_nonblocking(false).expect("a socket");
    socket.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let head = format!("POST /-/can-i HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\nContent-Length: 9\r\n\r\n");
    (&socket).write_all(head.as_bytes()).expect("it reads");
    socket
}

#[test]
fn t40_questions_whose_rest_does_not_come_keep_nobody_else_out() {
    let (hub, _files, alice) = stage(&[]);
    let gateway = hub.address("gateway");
    let question = json!({"where": {"cluster": "c1"}, "what": {"verb": "get", "path": "/version"}}).to_string();
    let ask = || {
        let head = format!(
            "POST /-/can-i HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {alice}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
            question.len()
        );
        request(gateway, &format!("{head}{question}"))
    };
    assert_eq!(ask().0, 200, "{}", ask().1);
    let mut held = Vec::new();
    let mut one_more = String::new();
    until("the share of one source to be taken", || {
        // More than there are places of any source; they have them for two seconds, so older ones make room for newer ones.
        held.extend((0..128).map(|_| unfinished("127.0.0.2:0", gateway, &alice)));
        held.drain(..held.len().saturating_sub(1024));
        let mut socket = unfinished("127.0.0.2:0", gateway, &alice);
        socket.write_all(b"{\"nine\":1").expect("it reads");
        let mut answer = [0; 4096];
        let length = socket.read(&mut answer).expect("an answer");
        one_more = String::from_utf8_lossy(&answer[..length]).into_owned();
        one_more.starts_with("HTTP/1.1 429 ").then_some(())
    });
    assert!(one_more.contains("MCT-HTTP-QUOTA"), "{one_more}");
    assert!(one_more.to_ascii_lowercase().contains("\r\nretry-after: 1\r\n"), "{one_more}");
    assert_eq!(ask().0, 200, "who comes from elsewhere is answered");
    let (begun, mut answer) = (Instant::now(), [0; 4096]);
    let length = unfinished("127.0.0.3:0", gateway, &alice).read(&mut answer).expect("an answer");
    let answer = String::from_utf8_lossy(&answer[..length]);
    assert!(answer.contains("the question took too long"), "{answer}");
    assert!(begun.elapsed() < Duration::from_secs(8), "a place is not held for as long as a head may take");
    drop(held);
    until("the places to be free", || {
        let mut socket = unfinished("127.0.0.2:0", gateway, &alice);
        socket.write_all(b"{\"nine\":1").expect("it reads");
        let mut answer = [0; 4096];
        let length = socket.read(&mut answer).expect("an answer");
        answer[..length].starts_with(b"HTTP/1.1 400 ").then_some(())
    });
}
