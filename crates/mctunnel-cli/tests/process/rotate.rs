//! Certificates of agents, the hub's certificate and the CA change under load, and nobody notices (T47).

use crate::rig::{BINARY, Process, Rig, Target, echo, exchange, start, until};
use serde_json::Value;
use std::{
    path::Path,
    process::Stdio,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    process::Command,
    task::JoinSet,
};

/// Short exchanges from eight clients until told to stop.
struct Load {
    done: Arc<AtomicUsize>,
    stop: Arc<AtomicBool>,
    clients: JoinSet<Vec<String>>,
}

impl Load {
    fn start(proxy: &str, target: &str) -> Self {
        let (done, stop) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        let mut clients = JoinSet::new();
        for _ in 0..8 {
            let (done, stop) = (Arc::clone(&done), Arc::clone(&stop));
            let (proxy, target) = (proxy.to_owned(), target.to_owned());
            clients.spawn(async move {
                let mut failed = Vec::new();
                while !stop.load(Ordering::Relaxed) {
                    if let Err(error) = exchange(&proxy, "c1", &target, b"a short exchange").await {
                        failed.push(error);
                    }
                    done.fetch_add(1, Ordering::Relaxed);
                }
                failed
            });
        }
        Self { done, stop, clients }
    }

    async fn finish(self) -> (usize, Vec<String>) {
        self.stop.store(true, Ordering::Relaxed);
        let failed = self.clients.join_all().await.concat();
        (self.done.load(Ordering::Relaxed), failed)
    }
}

async fn mctunnel(arguments: &[&str], data_dir: &Path) -> String {
    let mut command = Command::new(BINARY);
    let done = command.args(arguments).arg("--data-dir").arg(data_dir).stderr(Stdio::null()).output().await;
    let done = done.expect("it runs");
    assert!(done.status.success(), "{arguments:?}");
    String::from_utf8(done.stdout).expect("UTF-8").trim().to_owned()
}

async fn enrolled_agent(rig: &Rig, token: &str, home: &Path, allow: &str, ready: &str) -> Process {
    let mut command = Command::new(BINARY);
    command.args([
        "agent",
        "--join-token",
        token,
        "--log-level",
        "warn",
        "--allow",
        &format!("tcp://{allow}"),
        "--data-dir",
    ]);
    command.arg(home);
    start(command, &rig.dir.path().join(ready)).await
}

/// What the agent has kept: its serial is not needed, its certificate and how many CAs it trusts are.
fn kept(home: &Path) -> (String, usize) {
    let text = std::fs::read_to_string(home.join("identity.json")).expect("it has enrolled");
    let identity: Value = serde_json::from_str(&text).expect("JSON");
    let part = |name: &str| {
        identity.pointer(&format!("/identity/{name}")).and_then(|part| part.as_str()).expect("text").to_owned()
    };
    (part("certificate_pem"), part("ca_pem").matches("BEGIN CERTIFICATE").count())
}

#[tokio::test]
async fn t47_certificates_and_the_ca_change_under_load_and_no_exchange_fails() {
    let rig = Rig::start_with("127.0.0.1:0", "127.0.0.1:0", &["--agent-cert-ttl", "6s"]).await;
    let target = Target::start(echo).await;
    let data_dir = rig.dir.path();
    // One with a bundle of a year, to see that the old CA is out in the end.
    let bundle = rig.add("c2").await;
    let create = ["join-token", "create", "--cluster", "c1", "-o", "token", "--hub", &rig.tunnel];
    let token = mctunnel(&create, data_dir).await;
    let home = data_dir.join("agent");
    let mut agent = enrolled_agent(&rig, &token, &home, &target.address, "agent.ready").await;
    let load = Load::start(&rig.connect, &target.address);
    let mut long = rig.open("c1", &target.address).await.expect("a stream that lives through all of it");

    // The agent's certificate, twice.
    for _ in 0..2 {
        let (before, _) = kept(&home);
        until("a renewal", async || (kept(&home).0 != before).then_some(())).await;
    }
    // The CA: the agent gets the new one when it renews, and the old one goes.
    mctunnel(&["ca", "rotate"], data_dir).await;
    until("both CAs", async || (kept(&home).1 == 2).then_some(())).await;
    let (before, _) = kept(&home);
    until("one more renewal", async || (kept(&home).0 != before).then_some(())).await;
    mctunnel(&["ca", "retire", "--force"], data_dir).await;
    until("the new CA alone", async || (kept(&home).1 == 1).then_some(())).await;
    let (before, _) = kept(&home);
    until("a renewal by it", async || (kept(&home).0 != before).then_some(())).await;
    // The tunnel is still the first one.
    assert_eq!(rig.metric("mctunnel_tunnel_up_total{cluster=\"c1\"}").await, Some(1.0));
    assert_eq!(rig.metric("mctunnel_tunnel_down_total{cluster=\"c1\"}").await, None);
    long.write_u8(7).await.expect("still open");
    assert_eq!(long.read_u8().await.expect("still served"), 7);
    let (done, failed) = load.finish().await;
    assert!(failed.is_empty(), "{} of {done} failed: {:?}", failed.len(), failed.first());
    assert!(done > 1_000, "{done} exchanges");

    // The next connection shows what it has now; who knows only the old CA is out.
    drop(long);
    agent.signal("TERM").await;
    assert!(agent.wait().await.success());
    let _again = enrolled_agent(&rig, &token, &home, &target.address, "again.ready").await;
    exchange(&rig.connect, "c1", &target.address, b"x").await.expect("by the new CA");
    let mut old = Command::new(BINARY);
    old.args(["agent", "--log-level", "warn", "--join"]).arg(&bundle).kill_on_drop(true);
    let mut old = old.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it starts");
    let (mut said, mut chunk) = (String::new(), vec![0; 4096]);
    while !said.contains("certificate") {
        let read = old.stderr.as_mut().expect("piped").read(&mut chunk).await.expect("it says why");
        assert!(read > 0, "{said}");
        said.push_str(&String::from_utf8_lossy(chunk.split_at(read).0));
    }
    assert_eq!(rig.metric("mctunnel_tunnel_up_total{cluster=\"c2\"}").await, None);
}
