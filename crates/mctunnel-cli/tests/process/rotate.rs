//! Certificates of agents, the hub's certificate and the CA change under load, and nobody notices (T47).

use crate::rig::{BINARY, Process, Rig, Target, echo, exchange, start, start_hub, text, until};
use rustls::{ClientConfig, RootCertStore, crypto::aws_lc_rs};
use rustls_pki_types::{CertificateDer, ServerName, pem::PemObject};
use serde_json::Value;
use std::{
    path::Path,
    process::Stdio,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    process::Command,
    task::JoinSet,
    time::Instant,
};
use tokio_rustls::{TlsConnector, client::TlsStream};

/// How long certificates of agents live: they are renewed within the test's patience, and a busy machine has seconds to do it in.
const LIFE: &str = "12s";

/// Short exchanges from eight clients until told to stop.
pub(crate) struct Load {
    pub(crate) done: Arc<AtomicUsize>,
    stop: Arc<AtomicBool>,
    clients: JoinSet<Vec<String>>,
}

impl Load {
    pub(crate) fn start(proxy: &str, target: &str) -> Self {
        let (proxy, target) = (proxy.to_owned(), target.to_owned());
        Self::of(move || {
            let (proxy, target) = (proxy.clone(), target.clone());
            async move { exchange(&proxy, "c1", &target, b"a short exchange").await }
        })
    }

    fn of<F: Future<Output = Result<(), String>> + Send>(once: impl Fn() -> F + Clone + Send + 'static) -> Self {
        let (done, stop) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        let mut clients = JoinSet::new();
        for _ in 0..8 {
            let (done, stop, once) = (Arc::clone(&done), Arc::clone(&stop), once.clone());
            clients.spawn(async move {
                let mut failed = Vec::new();
                while !stop.load(Ordering::Relaxed) {
                    if let Err(error) = once().await {
                        failed.push(error);
                    }
                    done.fetch_add(1, Ordering::Relaxed);
                }
                failed
            });
        }
        Self { done, stop, clients }
    }

    pub(crate) async fn finish(self) -> (usize, Vec<String>) {
        self.stop.store(true, Ordering::Relaxed);
        let failed = self.clients.join_all().await.concat();
        (self.done.load(Ordering::Relaxed), failed)
    }
}

pub(crate) async fn mctunnel(arguments: &[&str], data_dir: &Path) -> String {
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
    let rig = Rig::start_with("127.0.0.1:0", "127.0.0.1:0", &["--agent-cert-ttl", LIFE]).await;
    let target = Target::start(echo).await;
    let (data_dir, gateway) = (rig.dir.path(), text(&rig.hub.ready, "gateway"));
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
    let both = data_dir.join("both.pem");
    std::fs::copy(data_dir.join("pki/ca.pem"), &both).expect("a copy");
    until("both CAs", async || (kept(&home).1 == 2).then_some(())).await;
    let (before, _) = kept(&home);
    until("one more renewal", async || (kept(&home).0 != before).then_some(())).await;
    let (old, since) = (certificate(&gateway, &both).await, Instant::now());
    mctunnel(&["ca", "retire", "--force"], data_dir).await;
    until("the new certificate", async || (certificate(&gateway, &both).await != old).then_some(())).await;
    expect_in_use(since);
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

    // The next connection shows what it has now, which has long to live still; who knows only the old CA is out.
    drop(long);
    let (before, _) = kept(&home);
    until("a fresh certificate", async || (kept(&home).0 != before).then_some(())).await;
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

// === a client of the gateway ===

const AUTH: &str = "providers: [{name: keys, api_keys: {}}]\n";
const POLICY: &str = "version: 1
roles:
  all: {rules: [{clusters: ['*'], nonResourcePaths: ['*'], verbs: ['*']}]}
bindings: [{name: b, role: all, users: [alice], providers: [keys]}]
deny: []
";

/// Answers every request of a connection.
async fn serve_http(mut socket: TcpStream) {
    let mut head = Vec::new();
    while let Ok(byte) = socket.read_u8().await {
        head.push(byte);
        if head.ends_with(b"\r\n\r\n") {
            head.clear();
            if socket.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").await.is_err() {
                return;
            }
        }
    }
}

/// What is promised for a new certificate to be shown to who connects.
const IN_USE_WITHIN: Duration = Duration::from_secs(5);

/// A new certificate was seen now that came with a change of that moment.
pub(crate) fn expect_in_use(since: Instant) {
    let took = since.elapsed();
    println!("the new certificate was shown after {took:?}");
    assert!(took < IN_USE_WITHIN, "{took:?}");
}

/// TLS to the hub's gateway, by a client that knows the hub by this file alone.
async fn hello(gateway: &str, ca: &Path) -> Result<TlsStream<TcpStream>, String> {
    let mut roots = RootCertStore::empty();
    let pem = std::fs::read(ca).expect("the file of the hub's CAs");
    for authority in CertificateDer::pem_slice_iter(&pem) {
        roots.add(authority.expect("PEM")).expect("a CA");
    }
    let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let socket = TcpStream::connect(gateway).await.map_err(|e| e.to_string())?;
    let name = ServerName::try_from("mctunnel-hub").expect("a name");
    let tls = TlsConnector::from(Arc::new(config)).connect(name, socket).await;
    tls.map_err(|e| format!("TLS: {e}"))
}

/// The certificate that the hub shows to a new client now.
async fn certificate(gateway: &str, ca: &Path) -> Vec<u8> {
    let tls = hello(gateway, ca).await.expect("it is one of these CAs");
    let chain = tls.get_ref().1.peer_certificates().expect("certificates");
    chain.first().expect("one at least").to_vec()
}

/// One request to c1 over a new connection, by a client that knows the hub by this file alone.
async fn ask(gateway: &str, ca: &Path, key: &str) -> Result<(), String> {
    ask_cluster(gateway, ca, key, "c1").await
}

/// The same, to that cluster.
pub(crate) async fn ask_cluster(gateway: &str, ca: &Path, key: &str, cluster: &str) -> Result<(), String> {
    let mut tls = hello(gateway, ca).await?;
    let head = format!(
        "GET /{cluster}/version HTTP/1.1\r\nHost: mctunnel-hub\r\nAuthorization: Bearer {key}\r\nConnection: close\r\n\r\n"
    );
    tls.write_all(head.as_bytes()).await.map_err(|e| format!("write: {e}"))?;
    let mut answer = Vec::new();
    let read = tls.read_to_end(&mut answer).await;
    let answer = String::from_utf8_lossy(&answer).into_owned();
    match answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("\r\nok") {
        true => Ok(()),
        false => Err(format!("{read:?} {answer}")),
    }
}

/// Files of a hub that asks for keys, and the flags that name them.
pub(crate) struct Trust {
    files: tempfile::TempDir,
}

impl Trust {
    pub(crate) fn new() -> Self {
        let trust = Self { files: tempfile::tempdir().expect("a directory") };
        for (name, text) in [("auth.yaml", AUTH), ("policy.yaml", POLICY), ("token", "the agent's own")] {
            std::fs::write(trust.path(name), text).expect("a file");
        }
        trust
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.files.path().join(name).to_str().expect("UTF-8").to_owned()
    }

    /// An agent that has enrolled with a new token, and speaks for users to this kube-apiserver.
    async fn agent(&self, rig: &Rig, cluster: &str, api: &Target) -> Process {
        let create = ["join-token", "create", "--cluster", cluster, "-o", "token", "--hub", &rig.tunnel];
        let token = mctunnel(&create, rig.dir.path()).await;
        let mut agent = Command::new(BINARY);
        agent.args(["agent", "--join-token", &token, "--log-level", "warn", "--impersonate", "--kube-token-file"]);
        agent.args([&self.path("token"), "--kube-api", &format!("http://{}", api.address), "--data-dir"]);
        agent.arg(rig.dir.path().join(format!("agent-{cluster}")));
        start(agent, &rig.dir.path().join(format!("{cluster}.ready"))).await
    }
}

/// What is promised for a tunnel to be cut, from when the command has said that it will be.
const CUT_WITHIN: Duration = Duration::from_secs(5);

#[tokio::test]
async fn t23_t47_a_cluster_is_revoked_under_the_load_of_another_which_does_not_notice() {
    let trust = Trust::new();
    let (auth, policy) = (trust.path("auth.yaml"), trust.path("policy.yaml"));
    let flags = ["--auth-config", &auth, "--policy", &policy];
    let mut rig = Rig::start_with("127.0.0.1:0", "127.0.0.1:0", &flags).await;
    let data_dir = rig.dir.path().to_owned();
    let key = mctunnel(&["api-key", "create", "alice", "--user", "alice"], &data_dir).await;
    let (api, ca) = (Target::start(serve_http).await, data_dir.join("pki/ca.pem"));
    let _first = trust.agent(&rig, "c1", &api).await;
    let gateway = text(&rig.hub.ready, "gateway");
    let load = {
        let (gateway, ca, key) = (gateway.clone(), ca.clone(), key.clone());
        Load::of(move || {
            let (gateway, ca, key) = (gateway.clone(), ca.clone(), key.clone());
            async move { ask(&gateway, &ca, &key).await }
        })
    };
    let done = || load.done.load(Ordering::Relaxed);

    // Under load: it enrols, it serves, it is revoked.
    let _second = trust.agent(&rig, "c2", &api).await;
    ask_cluster(&gateway, &ca, &key, "c2").await.expect("it serves");
    let before = done();
    mctunnel(&["cluster", "revoke", "c2"], &data_dir).await;
    let since = Instant::now();
    let down = "mctunnel_tunnel_down_total{cluster=\"c2\"}";
    until("the tunnel's end", async || rig.metric(down).await).await;
    let took = since.elapsed();
    assert!(took < CUT_WITHIN, "{took:?}");
    let refused = ask_cluster(&gateway, &ca, &key, "c2").await.expect_err("it is revoked");
    assert!(refused.contains("HTTP/1.1 503 "), "{refused}");
    let revoked = "mctunnel_peers_refused_total{code=\"MCT-ADMIT-REVOKED\"}";
    until("the agent's next try", async || rig.metric(revoked).await).await;
    until("requests after that", async || (done() > before + 50).then_some(())).await;
    let (done, failed) = load.finish().await;
    assert!(failed.is_empty(), "{} of {done} failed: {:?}", failed.len(), failed.first());
    println!("c2 was cut after {took:?}, under {done} requests to c1, of which none failed");

    // The hub is killed and started again: c1 comes back, c2 does not.
    rig.hub.signal("KILL").await;
    rig.hub.wait().await;
    rig.hub = start_hub(&data_dir, "again.ready", &rig.tunnel, &rig.connect, &flags).await;
    rig.admin = text(&rig.hub.ready, "admin");
    let gateway = text(&rig.hub.ready, "gateway");
    until("c1", async || ask(&gateway, &ca, &key).await.ok()).await;
    until("the agent of c2", async || rig.metric(revoked).await).await;
    assert_eq!(rig.metric("mctunnel_tunnel_up_total{cluster=\"c2\"}").await, None);
    let refused = ask_cluster(&gateway, &ca, &key, "c2").await.expect_err("it is revoked still");
    assert!(refused.contains("HTTP/1.1 503 "), "{refused}");
}

#[tokio::test]
async fn t47_the_ca_changes_under_a_client_of_the_gateway_who_was_given_both() {
    let trust = Trust::new();
    let path = |name: &str| trust.path(name);
    let flags = ["--auth-config", &path("auth.yaml"), "--policy", &path("policy.yaml"), "--agent-cert-ttl", LIFE];
    let rig = Rig::start_with("127.0.0.1:0", "127.0.0.1:0", &flags).await;
    let data_dir = rig.dir.path();
    let key = mctunnel(&["api-key", "create", "alice", "--user", "alice"], data_dir).await;
    let api = Target::start(serve_http).await;
    let home = data_dir.join("agent-c1");
    let _agent = trust.agent(&rig, "c1", &api).await;

    // Replaced as a whole, as an operator would who hands out a file.
    let known = trust.files.path().join("hub-ca.pem");
    let hand_out = async || {
        std::fs::write(path("hub-ca.new"), mctunnel(&["ca", "show"], data_dir).await).expect("a file");
        std::fs::rename(path("hub-ca.new"), &known).expect("a file");
    };
    hand_out().await;
    std::fs::copy(&known, path("first.pem")).expect("a copy");
    let gateway = text(&rig.hub.ready, "gateway");
    let load = {
        let (gateway, known, key) = (gateway.clone(), known.clone(), key.clone());
        Load::of(move || {
            let (gateway, known, key) = (gateway.clone(), known.clone(), key.clone());
            async move { ask(&gateway, &known, &key).await }
        })
    };
    mctunnel(&["ca", "rotate"], data_dir).await;
    hand_out().await;
    std::fs::copy(data_dir.join("pki/ca.pem"), path("overlap.pem")).expect("a copy");
    until("both CAs", async || (kept(&home).1 == 2).then_some(())).await;
    let since = Instant::now();
    mctunnel(&["ca", "retire"], data_dir).await;
    // Who has the first file alone sees that the hub shows the new certificate.
    let shut_out =
        until("the new certificate", async || ask(&gateway, Path::new(&path("first.pem")), &key).await.err()).await;
    expect_in_use(since);
    assert!(shut_out.starts_with("TLS: "), "{shut_out}");
    ask(&gateway, Path::new(&path("overlap.pem")), &key).await.expect("pki/ca.pem of the overlap has both");
    let (before, now) = (load.done.load(Ordering::Relaxed), || load.done.load(Ordering::Relaxed));
    until("requests after that", async || (now() > before + 50).then_some(())).await;
    let (done, failed) = load.finish().await;
    assert!(failed.is_empty(), "{} of {done} failed: {:?}", failed.len(), failed.first());
    println!("{done} requests of clients of the gateway while the CA changed");
    assert!(done > 200, "{done} requests");
}
