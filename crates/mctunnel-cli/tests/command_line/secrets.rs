//! Canaries: what is secret never shows, however much is logged.

use crate::rig::{Hub, Role, mctunnel, ran, until};
use std::{
    fs,
    io::{Read, Write},
    net::TcpListener,
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
