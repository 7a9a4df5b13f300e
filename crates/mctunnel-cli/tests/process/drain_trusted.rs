//! A hub that asks its clients, has a policy and keeps an audit log is replaced, and nobody notices.

use crate::{
    drain::Load,
    rig::{BINARY, Process, Rig, Target, echo, start_hub, text, until},
};
use serde_json::Value;
use std::{fs, time::Duration};
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    process::Command,
    time::Instant,
};

const POLICY: &str = r#"
version: 1
roles:
  programs:
    rules:
      - {clusters: [c1], bytes: ["127.0.0.1:*"], protocols: [tcp]}
bindings:
  - {name: programs, role: programs, users: [ci], providers: [keys]}
deny: []
"#;

/// Hubs with one data directory, one after the other.
struct Trusted {
    rig: Rig,
    flags: Vec<String>,
    _files: TempDir,
}

impl Trusted {
    async fn start() -> Self {
        let files = tempfile::tempdir().expect("a directory");
        let write = |name: &str, content: &str| {
            let path = files.path().join(name);
            fs::write(&path, content).expect("a file");
            path.to_str().expect("UTF-8").to_owned()
        };
        let auth = write("auth.yaml", "providers: [{name: keys, api_keys: {}}]\n");
        let policy = write("policy.yaml", POLICY);
        let flags = ["--auth-config", &auth, "--policy", &policy, "--reuse-port", "--gateway-plain"];
        let flags = [&flags[..], &["--tunnel-wait", "10s"]].concat();
        let rig = Rig::start_with("127.0.0.1:0", "127.0.0.1:0", &flags).await;
        Self { rig, flags: flags.into_iter().map(str::to_owned).collect(), _files: files }
    }

    /// A hub that takes over from the one that runs.
    async fn next(&self, ready: &str) -> Process {
        let flags: Vec<_> = self.flags.iter().map(String::as_str).collect();
        start_hub(self.rig.dir.path(), ready, &self.rig.tunnel, &self.rig.connect, &flags).await
    }

    /// What a command prints.
    async fn command(&self, arguments: &[&str]) -> String {
        let mut command = Command::new(BINARY);
        let ran = command.args(arguments).arg("--data-dir").arg(self.rig.dir.path()).output().await.expect("it runs");
        assert!(ran.status.success(), "{arguments:?}: {ran:?}");
        String::from_utf8(ran.stdout).expect("UTF-8").trim_end().to_owned()
    }

    async fn key(&self, user: &str) -> String {
        self.command(&["api-key", "create", "test", "--user", user]).await
    }

    async fn revoke(&self, key: &str) {
        self.command(&["api-key", "revoke", key.split('_').nth(1).expect("an id")]).await;
    }

    /// The records of all files, which hold.
    async fn records(&self) -> Vec<Value> {
        self.command(&["audit", "verify"]).await;
        let text = fs::read_to_string(self.rig.dir.path().join("audit/audit.log")).expect("the log");
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }
}

/// What a hub's gateway says to a key; nothing when it is gone.
async fn status(gateway: &str, key: &str) -> Option<u16> {
    let mut socket = TcpStream::connect(gateway).await.ok()?;
    let head = "GET /c1/version HTTP/1.1\r\nHost: x\r\nConnection: close\r\n";
    let request = format!("{head}Authorization: Bearer {key}\r\n\r\n");
    socket.write_all(request.as_bytes()).await.ok()?;
    let mut answer = String::new();
    socket.read_to_string(&mut answer).await.ok()?;
    answer.split(' ').nth(1)?.parse().ok()
}

/// The hub knows whose key it is. What it asks for it may not.
const KNOWN: u16 = 403;
const UNKNOWN: u16 = 401;

fn header(key: &str) -> String {
    format!("Proxy-Authorization: Bearer {key}\r\n")
}

fn count(records: &[Value], key: &str, value: &str) -> usize {
    records.iter().filter(|record| record[key] == value).count()
}

/// How long a key that was revoked may count: a second is promised, and as much again is for a machine that has more to do.
const DEAD_WITHIN: Duration = Duration::from_secs(1 + 1);

/// A key that was revoked is soon dead at each of these hubs.
async fn revoked_everywhere(trusted: &Trusted, gateways: &[String]) {
    let key = trusted.key("doomed").await;
    for gateway in gateways {
        until("the key to count", async || (status(gateway, &key).await == Some(KNOWN)).then_some(())).await;
    }
    trusted.revoke(&key).await;
    let revoked = Instant::now();
    for gateway in gateways {
        until("the key to be dead", async || {
            let asked = Instant::now();
            let is_dead = status(gateway, &key).await == Some(UNKNOWN);
            assert!(is_dead || asked - revoked < DEAD_WITHIN, "it counted for longer");
            is_dead.then_some(())
        })
        .await;
    }
}

#[tokio::test]
async fn t47_handing_over_with_keys_policy_and_audit_fails_none_of_ten_thousand_exchanges() {
    let mut trusted = Trusted::start().await;
    let target = Target::start(echo).await;
    let key = trusted.key("ci").await;
    let _agent = trusted.rig.agent(&trusted.rig.add("c1").await, &[&target.address]).await;
    let load = Load::start_with(&trusted.rig.connect, &target.address, &header(&key));
    for round in 1..=2 {
        load.reach(round * 3_500).await;
        let next = trusted.next(&format!("hub-{round}.ready")).await;
        revoked_everywhere(&trusted, &[text(&trusted.rig.hub.ready, "gateway"), text(&next.ready, "gateway")]).await;
        trusted.rig.hub.signal("TERM").await;
        assert!(trusted.rig.hub.wait().await.success(), "a drained hub ends with success");
        trusted.rig.hub = next;
    }
    load.reach(10_500).await;
    let (done, failed) = load.finish().await;
    assert!(failed.is_empty(), "{} of {done} failed: {:?}", failed.len(), failed.first());
    revoked_everywhere(&trusted, &[text(&trusted.rig.hub.ready, "gateway")]).await;
    trusted.rig.hub.signal("TERM").await;
    assert!(trusted.rig.hub.wait().await.success());
    let records = trusted.records().await;
    for stage in ["started", "ended"] {
        assert_eq!(count(&records, "stage", stage), done, "one record {stage} for each exchange");
    }
    for event in ["start", "stop"] {
        assert_eq!(count(&records, "event", event), 3, "{event} of each hub");
    }
}
