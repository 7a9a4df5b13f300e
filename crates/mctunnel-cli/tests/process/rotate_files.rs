//! Files that an operator keeps are replaced under load (T47): the certificate and the key of an agent, and the CA that the hub believes
//! for agents. Nobody notices, but for who stands on a certificate of the CA that is gone: it is sent away, and not let in again.

use crate::{
    rig::{BINARY, Process, Rig, Target, echo, exchange, metric, start, text, until},
    rotate::{Load, expect_in_use, mctunnel},
};
use rcgen::{
    BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose, SanType,
};
use rustls::{ClientConfig, RootCertStore, crypto::aws_lc_rs};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject};
use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::{Arc, atomic::Ordering},
};
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    process::Command,
    time::Instant,
};
use tokio_rustls::TlsConnector;

/// A CA of the operator's.
struct Ca {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate of a cluster and its key, as PEM.
struct Pair {
    certificate: String,
    key: String,
}

impl Ca {
    fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let key = KeyPair::generate().expect("a key");
        Self { pem: params.self_signed(&key).expect("a CA").pem(), issuer: Issuer::new(params, key) }
    }

    fn issue(&self, cluster: &str) -> Pair {
        let mut params = CertificateParams::default();
        let name = format!("spiffe://mctunnel/cluster/{cluster}");
        params.subject_alt_names = vec![SanType::URI(name.as_str().try_into().expect("a URI"))];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate").pem();
        Pair { certificate, key: key.serialize_pem() }
    }
}

/// The operator's files.
struct Files(TempDir);

impl Files {
    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Replaced as a whole, as cert-manager does it.
    fn replace(&self, name: &str, text: &str) {
        let new = self.path("new");
        fs::write(&new, text).expect("a file");
        fs::set_permissions(&new, fs::Permissions::from_mode(0o600)).expect("a mode");
        fs::rename(new, self.path(name)).expect("it is replaced");
    }

    fn replace_pair(&self, cluster: &str, pair: &Pair) {
        self.replace(&format!("{cluster}.key"), &pair.key);
        self.replace(&format!("{cluster}.crt"), &pair.certificate);
    }

    /// An agent of this name that follows the files of its cluster.
    async fn agent(&self, rig: &Rig, cluster: &str, name: &str, target: &Target) -> Process {
        let mut command = Command::new(BINARY);
        command.args(["agent", "--log-level", "warn", "--admin-listen", "127.0.0.1:0", "--hub", &rig.tunnel]);
        command
            .args(["--allow", &format!("tcp://{}", target.address), "--hub-ca"])
            .arg(rig.dir.path().join("pki/ca.pem"));
        command.arg("--certificate").arg(self.path(&format!("{cluster}.crt")));
        command.arg("--key").arg(self.path(&format!("{cluster}.key")));
        start(command, &self.path(&format!("{name}.ready"))).await
    }
}

/// Whether the hub lets somebody in by TLS who shows this now: then it speaks first, by its settings.
async fn lets_in(tunnel: &str, hub_ca: &Path, shown: &Pair) -> bool {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(hub_ca).expect("PEM")).expect("a CA");
    let certificate = CertificateDer::from_pem_slice(shown.certificate.as_bytes()).expect("PEM");
    let key = PrivateKeyDer::from_pem_slice(shown.key.as_bytes()).expect("PEM");
    let mut config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_client_auth_cert(vec![certificate], key)
        .expect("a pair");
    config.alpn_protocols = vec![b"h2".to_vec()];
    let socket = TcpStream::connect(tunnel).await.expect("it listens");
    let name = ServerName::try_from("mctunnel-hub").expect("a name");
    let Ok(mut tls) = TlsConnector::from(Arc::new(config)).connect(name, socket).await else { return false };
    tls.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await.is_ok()
        && tls.flush().await.is_ok()
        && tls.read_u8().await.is_ok()
}

async fn still_open(stream: &mut TcpStream) {
    stream.write_u8(7).await.expect("still open");
    assert_eq!(stream.read_u8().await.expect("still served"), 7);
}

fn up(cluster: &str) -> String {
    format!("mctunnel_tunnel_up_total{{cluster=\"{cluster}\"}}")
}

fn down(cluster: &str) -> String {
    format!("mctunnel_tunnel_down_total{{cluster=\"{cluster}\"}}")
}

/// Replaces the files of c1's agent, which says in time that it has them.
async fn renew(files: &Files, agent: &Process, pair: &Pair) {
    files.replace_pair("c1", pair);
    let since = Instant::now();
    let (admin, renewed) = (text(&agent.ready, "admin"), "mctunnel_certificates_renewed_total{cluster=\"c1\"}");
    until("the new certificate", async || metric(&admin, renewed).await).await;
    expect_in_use(since);
}

/// The load goes on from here.
async fn goes_on(load: &Load) {
    let before = load.done.load(Ordering::Relaxed);
    until("more exchanges", async || (load.done.load(Ordering::Relaxed) > before + 200).then_some(())).await;
}

#[tokio::test]
async fn t47_an_operators_certificate_and_ca_are_replaced_under_load() {
    let (files, old, new) = (Files(tempfile::tempdir().expect("a directory")), Ca::new(), Ca::new());
    files.replace("agents-ca.pem", &old.pem);
    let agent_ca = files.path("agents-ca.pem");
    let flags = ["--agent-ca", agent_ca.to_str().expect("UTF-8")];
    let rig = Rig::start_with("127.0.0.1:0", "127.0.0.1:0", &flags).await;
    let (hub_ca, target) = (rig.dir.path().join("pki/ca.pem"), Target::start(echo).await);
    for cluster in ["c1", "c2"] {
        mctunnel(&["cluster", "add", cluster, "--own-ca"], rig.dir.path()).await;
        files.replace_pair(cluster, &old.issue(cluster));
    }
    let mut first = files.agent(&rig, "c1", "first", &target).await;
    let left_behind = files.agent(&rig, "c2", "left-behind", &target).await;
    let load = Load::start(&rig.connect, &target.address);
    let mut long = rig.open("c1", &target.address).await.expect("a stream that lives through it");

    // Both CAs count, and the agent follows its files: its tunnel is still the first one, with all its streams.
    let (of_old, of_new) = (old.issue("c1"), new.issue("c1"));
    assert!(lets_in(&rig.tunnel, &hub_ca, &of_old).await && !lets_in(&rig.tunnel, &hub_ca, &of_new).await);
    files.replace("agents-ca.pem", &format!("{}{}", old.pem, new.pem));
    let since = Instant::now();
    until("the new CA", async || lets_in(&rig.tunnel, &hub_ca, &of_new).await.then_some(())).await;
    expect_in_use(since);
    renew(&files, &first, &of_new).await;
    goes_on(&load).await;
    still_open(&mut long).await;
    assert_eq!((rig.metric(&up("c1")).await, rig.metric(&down("c1")).await), (Some(1.0), None));

    // The agent is rolled, so that its tunnel stands on the new certificate; then the old CA goes, and who stands on that.
    let second = files.agent(&rig, "c1", "second", &target).await;
    still_open(&mut long).await;
    drop(long);
    first.signal("TERM").await;
    assert!(first.wait().await.success(), "a drained agent ends with success");
    let mut long = rig.open("c1", &target.address).await.expect("a stream that lives through the rest");
    files.replace("agents-ca.pem", &new.pem);
    let since = Instant::now();
    until("the old CA to go", async || (!lets_in(&rig.tunnel, &hub_ca, &of_old).await).then_some(())).await;
    expect_in_use(since);
    until("the end of a tunnel that stands on it", async || rig.metric(&down("c2")).await).await;
    let admin = text(&left_behind.ready, "admin");
    let tries = async || metric(&admin, "mctunnel_reconnects_total").await.filter(|tries| *tries >= 3.0);
    until("its agent to be refused", tries).await;
    assert_eq!(rig.metric(&up("c2")).await, Some(1.0));
    let refused = exchange(&rig.connect, "c2", &target.address, b"again").await.expect_err("it has no tunnel");
    assert!(refused.contains(" 503 "), "{refused}");
    goes_on(&load).await;
    still_open(&mut long).await;
    let (done, failed) = load.finish().await;
    assert!(failed.is_empty(), "{} of {done} failed: {:?}", failed.len(), failed.first());
    println!("{done} exchanges while certificate, key and CA were replaced");
    assert_eq!(rig.metric(&up("c1")).await, Some(2.0));

    shows_what_its_files_say(&files, &rig, &second, &target).await;
}

/// The next connection of the same process: without overlap it is let in only by what its files say now.
async fn shows_what_its_files_say(files: &Files, rig: &Rig, agent: &Process, target: &Target) {
    let third = Ca::new();
    renew(files, agent, &third.issue("c1")).await;
    files.replace("agents-ca.pem", &third.pem);
    until("its next tunnel", async || rig.metric(&up("c1")).await.filter(|ups| *ups >= 3.0)).await;
    until("c1 to be served", async || exchange(&rig.connect, "c1", &target.address, b"again").await.ok()).await;
}
