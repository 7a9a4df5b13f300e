//! Canaries: what is secret never shows, however much is logged.

use crate::rig::{Greeter, Hub, Role, get, mctunnel, ran, run, until};
use std::{
    fs,
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    thread,
};

/// A proxy's answer, so that the password is sent and all code around it runs.
fn start_proxy(answer: &'static str) -> (String, thread::JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    let asked = thread::spawn(move || {
        let (mut socket, _) = listener.accept().expect("the agent comes");
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            socket.read_exact(&mut byte).expect("a head");
            head.extend(byte);
        }
        socket.write_all(answer.as_bytes()).expect("it reads");
        String::from_utf8(head).expect("UTF-8")
    });
    (address, asked)
}

#[test]
fn the_key_of_a_bundle_and_the_password_of_a_proxy_are_never_logged() {
    let hub = Hub::start(&["--log-level", "trace"]);
    let bundle = hub.add("cluster-a");
    let text = fs::read_to_string(&bundle).expect("the bundle");
    let parsed: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let key: Vec<&str> = parsed["key_pem"].as_str().expect("a key").lines().filter(|l| !l.starts_with("---")).collect();
    assert!(key.iter().map(|line| line.len()).sum::<usize>() > 40, "there is a key to look for");

    // Once through a proxy that refuses, once to the hub itself.
    let (proxy, asked) = start_proxy("HTTP/1.1 407 Proxy Authentication Required\r\n\r\n");
    let url = format!("http://canary:hunter2@{proxy}");
    let trace = ["agent", "--join", &bundle, "--log-level", "trace"];
    let through = [&trace[..], &["--hub", "hub.invalid:8443"]].concat();
    let mut refused = Role::start(hub.dir.path(), "refused", &through, &[("HTTPS_PROXY", &url)]);
    let head = asked.join().expect("the proxy was asked");
    let encoded = "Y2FuYXJ5Omh1bnRlcjI=";
    assert!(head.contains(encoded), "the password is sent to the proxy: {head}");
    until("the refusal in the log", || refused.log().contains("407").then_some(()));
    refused.signal("TERM");
    assert_eq!(refused.wait().code(), Some(0), "an agent without a tunnel ends on a signal too");
    let mut direct = Role::start(hub.dir.path(), "direct", &trace, &[("HTTPS_PROXY", &url)]);
    direct.ready();
    direct.signal("TERM");
    direct.wait();

    for (name, log, level) in
        [("hub", hub.role.log(), "TRACE"), ("refused", refused.log(), "WARN"), ("direct", direct.log(), "TRACE")]
    {
        assert!(log.contains(&format!("\"{level}\"")), "{name} logs everything");
        for secret in ["hunter2", encoded, "BEGIN PRIVATE KEY", "BEGIN EC PRIVATE KEY"].iter().chain(&key) {
            assert!(!log.contains(secret), "the log of {name} has a secret");
        }
    }
}

#[test]
fn the_settings_in_effect_show_no_password() {
    let mut command = mctunnel(&["agent", "--join", "a.join", "--print-config"]);
    let printed = ran(command.env("https_proxy", "http://canary:hunter2@proxy.example:3128"));
    assert_eq!(printed.status, Some(0), "{printed:?}");
    assert!(printed.out.contains("https_proxy: \"http://***@proxy.example:3128\" # https_proxy"), "{}", printed.out);
    assert!(!printed.out.contains("hunter2") && !printed.out.contains("canary"));
    let wrong = ran(mctunnel(&["agent", "--join", "a.join"]).env("HTTPS_PROXY", "https://canary:hunter2@proxy"));
    assert_eq!(wrong.status, Some(2), "{wrong:?}");
    assert!(wrong.err.starts_with("error[MCT-AGENT-BAD-PROXY]: ") && !wrong.err.contains("hunter2"), "{}", wrong.err);
}

#[test]
fn a_bundle_that_others_can_read_is_not_used() {
    use std::os::unix::fs::PermissionsExt;
    let hub = Hub::start(&[]);
    let bundle = hub.add("cluster-a");
    fs::set_permissions(&bundle, fs::Permissions::from_mode(0o644)).expect("a mode");
    let failed = ran(&mut mctunnel(&["agent", "--join", &bundle]));
    assert_eq!(failed.status, Some(1));
    assert!(failed.err.contains("error[MCT-IDENTITY-FILE-EXPOSED]: "), "{}", failed.err);
}

const POLICY: &str = "version: 1
roles:
  all: {rules: [{clusters: ['*'], nonResourcePaths: ['*'], verbs: ['*']}]}
bindings: [{name: b, role: all, users: [alice], providers: [keys]}]
deny: []
";

/// Whatever comes back, to the end of the connection.
fn said(address: &str, bytes: &str) -> String {
    let mut socket = TcpStream::connect(address).expect("it listens");
    socket.set_read_timeout(Some(crate::rig::PATIENCE)).expect("a timeout");
    socket.write_all(bytes.as_bytes()).expect("it reads");
    let mut answer = Vec::new();
    // One that is refused in the middle of its head may be reset.
    let _ = socket.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

#[test]
#[expect(clippy::too_many_lines, reason = "it is one table")]
fn t36_what_clients_send_is_in_no_log_no_record_no_metric_and_no_error() {
    let files = tempfile::tempdir().expect("a directory");
    let path = |name: &str| files.path().join(name).to_str().expect("UTF-8").to_owned();
    fs::write(path("auth.yaml"), "providers: [{name: keys, api_keys: {}}]\n").expect("a file");
    fs::write(path("policy.yaml"), POLICY).expect("a file");
    fs::write(path("token"), "canary-agent-token\n").expect("a file");
    let trust = ["--auth-config", &path("auth.yaml"), "--policy", &path("policy.yaml"), "--gateway-plain"];
    let mut hub = Hub::start(&[&trust[..], &["--log-level", "trace"]].concat());
    let api = Greeter::start();
    let bundle = hub.add("c1");
    let kube_api = format!("http://{}", api.address);
    let speak = ["--impersonate", "--kube-token-file", &path("token"), "--kube-api", &kube_api];
    let start = ["agent", "--join", &bundle, "--log-level", "trace", "--admin-listen", "127.0.0.1:0"];
    let mut agent = Role::start(hub.dir.path(), "agent", &[&start[..], &speak].concat(), &[]);
    let agent_admin = agent.ready()["admin"].as_str().expect("an address").to_owned();
    let made = run(&["api-key", "create", "a", "--user", "alice", "--data-dir", &hub.path("data")]);
    let key = made.out.trim_end().to_owned();

    // Each canary is where clients have secrets: first in requests that pass, then in all kinds that do not.
    let (gateway, connect) = (hub.address("gateway").to_owned(), hub.address("connect").to_owned());
    let bearer = format!("Authorization: Bearer {key}\r\n");
    let request = |line: &str, more: &str, body: &str| {
        let length = body.len();
        format!("{line} HTTP/1.1\r\nHost: x\r\n{more}Content-Length: {length}\r\nConnection: close\r\n\r\n{body}")
    };
    let cookie = format!("{bearer}Cookie: session=canary-cookie\r\n");
    let passed = said(&gateway, &request("GET /c1/version?token=canary-query", &cookie, ""));
    assert!(passed.starts_with("HTTP/1.1 200 "), "{passed}");
    let passed = said(&gateway, &request("POST /c1/version", &bearer, "{\"password\": \"canary-body\"}"));
    assert!(passed.starts_with("HTTP/1.1 200 "), "{passed}");
    let websocket = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
        Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
        Sec-WebSocket-Protocol: v5.channel.k8s.io, base64url.bearer.authorization.k8s.io.Y2FuYXJ5LXdlYnNvY2tldA\r\n";
    let exec = "/c1/api/v1/namespaces/d/pods/p/exec?command=canary-command";
    let refused = [
        ("401", &gateway, request("GET /c1/version", "Authorization: Bearer canary-bearer\r\n", "")),
        ("401", &gateway, request("GET /c1/version", "Authorization: Bearer mctk_canary_canary-key\r\n", "")),
        ("401", &gateway, request("GET /c1/version?token=canary-query", "Cookie: session=canary-cookie\r\n", "")),
        ("4", &gateway, request("GET /c1/version", "Authorization: Basic Y2FuYXJ5OmNhbmFyeS1iYXNpYw==\r\n", "")),
        ("4", &gateway, request("GET /c1/version", "Authorization: canary-scheme\r\n", "")),
        ("4", &gateway, format!("GET {exec} HTTP/1.1\r\nHost: x\r\n{websocket}\r\n")),
        ("400", &gateway, request("GET /c1/version", &format!("{bearer}Authorization: Bearer canary-bearer\r\n"), "")),
        ("400", &gateway, request("GET /c1/%zz?token=canary-query", &bearer, "")),
        ("400", &gateway, request("GET /c1/version", "Impersonate-User: canary-user\r\n", "")),
        ("400", &gateway, request("GET /c1/version", "canary header\r\n", "")),
        ("400", &gateway, request("GET /c1/version", "Authorization: Bearer canary-bearer\nX: y\r\n", "")),
        ("400", &gateway, "canary-garbage\r\n\r\n".to_owned()),
        ("403", &gateway, request("GET /c1/api/v1/secrets?token=canary-query", &cookie, "")),
        ("404", &gateway, request("GET /c2/version?token=canary-query", &cookie, "")),
        (
            "407",
            &connect,
            request("CONNECT a:1", "x-mctunnel-cluster: c1\r\nProxy-Authorization: Bearer canary-proxy\r\n", ""),
        ),
        ("400", &connect, request("CONNECT a:1", "Authorization: Bearer canary-bearer\r\n", "")),
    ];
    let mut seen = Vec::new();
    for (status, address, bytes) in refused {
        let answer = said(address, &bytes);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{bytes}\n{answer}");
        seen.push(("an answer", answer));
    }
    seen.push(("metrics of the hub", get(hub.address("admin"), "/metrics").1));
    seen.push(("metrics of the agent", get(&agent_admin, "/metrics").1));
    for role in [&mut agent, &mut hub.role] {
        role.signal("TERM");
        assert_eq!(role.wait().code(), Some(0));
    }
    let record = fs::read_to_string(hub.path("data/audit/audit.log")).expect("the record");
    assert!(record.lines().count() > 10 && record.contains("alice"), "{record}");
    seen.extend([
        ("the record", record),
        ("the log of the hub", hub.role.log()),
        ("the log of the agent", agent.log()),
    ]);
    assert!(seen.iter().filter(|(_, text)| text.contains("\"TRACE\"")).count() == 2, "both log everything");
    let secret = key.split('_').nth(2).filter(|secret| secret.len() == 32).expect("a secret");
    for (place, text) in seen {
        for canary in ["canary", "Y2FuYXJ5", secret] {
            let line = text.lines().find(|line| line.contains(canary));
            assert_eq!(line, None, "{place} has {canary}");
        }
    }
}
