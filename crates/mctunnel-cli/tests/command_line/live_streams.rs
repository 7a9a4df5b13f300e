//! T32: what is open ends within 5 s when what allowed it goes away: the binding, the mapping of a group, the key, the issuer. A real hub,
//! a real agent, answers that go on for ever; each cause ends its own stream and no other.

use crate::{
    rig::{Hub, PATIENCE, Role, run},
    tls_clients::{Ca, Client, Shown, connect, status},
};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use rcgen::{KeyPair, PKCS_ED25519, PublicKeyData, SigningKey};
use serde_json::{Value, json};
use std::{
    fs,
    io::{ErrorKind, Read, Write},
    net::{TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};
use tempfile::TempDir;
use tokio::time::Instant;

/// What is promised, and as much again for a machine that has more to do.
const CUT_WITHIN: Duration = Duration::from_secs(5 + 5);

const BINDING: &str = "  - {name: alice, role: all, users: [alice], providers: [keys]}\n";
const POLICY: &str = "version: 1
roles:
  all:
    rules:
      - {clusters: ['*'], nonResourcePaths: ['*'], verbs: ['*']}
      - {clusters: ['*'], bytes: ['*:*'], protocols: ['*']}
bindings:
  - {name: alice, role: all, users: [alice], providers: [keys]}
  - {name: ci, role: all, users: [ci], providers: [keys]}
  - {name: developers, role: all, groups: [developers], providers: [people]}
  - {name: olga, role: all, users: [olga], providers: [idp]}
deny: []
";

const MAPPING: &str = ", map_groups: {devs: developers}";

/// The authentication file, and the part of it that is the issuer.
fn auth(issuer: &str) -> (String, String) {
    let idp = format!(
        "  - {{name: idp, oidc: {{issuer: {issuer:?}, audiences: [mctunnel], algorithms: [EdDSA], user_prefix: '', \
         insecure_plain_loopback: true}}}}\n"
    );
    let others = format!(
        "providers:\n  - {{name: keys, api_keys: {{}}}}\n  - {{name: people, client_certificates: {{ca_file: people.pem{MAPPING}}}}}\n"
    );
    (format!("{others}{idp}"), idp)
}

// === the far ends ===

/// Serves each connection on a thread of its own, for as long as the test runs.
fn serve(each: impl Fn(TcpStream) + Clone + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    thread::spawn(move || {
        for socket in listener.incoming().flatten() {
            let each = each.clone();
            thread::spawn(move || each(socket));
        }
    });
    address
}

fn read_head(socket: &mut TcpStream) -> String {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") && socket.read_exact(&mut byte).is_ok() {
        head.extend(byte);
    }
    String::from_utf8_lossy(&head).into_owned()
}

/// A watch: an answer of numbers that grow, all over the process.
fn watch(mut socket: TcpStream, ticks: &AtomicU64) {
    read_head(&mut socket);
    let mut sent = socket.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
    while sent.is_ok() {
        let tick = format!("tick{:012}\n", ticks.fetch_add(1, Ordering::SeqCst));
        sent = write!(socket, "{:x}\r\n{tick}\r\n", tick.len());
        // tidy: sleep because a watch has something to say now and then
        thread::sleep(Duration::from_millis(20));
    }
}

fn echo(mut socket: TcpStream) {
    let mut bytes = [0; 64];
    while let Ok(read @ 1..) = socket.read(&mut bytes) {
        if socket.write_all(&bytes[..read]).is_err() {
            return;
        }
    }
}

/// An issuer of tokens.
struct Issuer {
    url: String,
    key: Arc<KeyPair>,
}

impl Issuer {
    fn start() -> Self {
        let key = Arc::new(KeyPair::generate_for(&PKCS_ED25519).expect("a key"));
        let public = Arc::clone(&key);
        let address = serve(move |mut socket| {
            let head = read_head(&mut socket);
            let host =
                head.lines().find_map(|line| line.to_ascii_lowercase().strip_prefix("host: ").map(str::to_owned));
            let url = format!("http://{}", host.unwrap_or_default());
            let jwk =
                json!({"kty": "OKP", "crv": "Ed25519", "kid": "k1", "x": URL_SAFE_NO_PAD.encode(public.der_bytes())});
            let body = if head.starts_with("GET /keys ") {
                json!({"keys": [jwk]}).to_string()
            } else {
                json!({"issuer": url, "jwks_uri": format!("{url}/keys")}).to_string()
            };
            let length = body.len();
            // Whoever went away needs no answer.
            let _ = write!(socket, "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}");
        });
        Self { url: format!("http://{address}"), key }
    }

    /// A token for a user, for a long time.
    fn token(&self, user: &str) -> String {
        let part = |value: Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let claims = json!({"iss": self.url, "aud": "mctunnel", "sub": user, "exp": 4_102_444_800_u64});
        let message = format!("{}.{}", part(json!({"alg": "EdDSA", "kid": "k1"})), part(claims));
        format!("{message}.{}", URL_SAFE_NO_PAD.encode(self.key.sign(message.as_bytes()).expect("a signature")))
    }
}

// === the stage ===

struct Stage {
    files: TempDir,
    hub: Hub,
    ticks: Arc<AtomicU64>,
    echo: String,
    issuer: Issuer,
    carol: Shown,
    _agent: Role,
}

impl Stage {
    fn start() -> Self {
        let (files, people, issuer) = (tempfile::tempdir().expect("a directory"), Ca::new("people"), Issuer::start());
        let path = |name: &str| files.path().join(name).to_str().expect("UTF-8").to_owned();
        let auth = auth(&issuer.url).0;
        for (name, text) in [
            ("auth.yaml", &*auth),
            ("policy.yaml", POLICY),
            ("people.pem", people.pem.as_str()),
            ("token", "the-agents-own"),
        ] {
            fs::write(path(name), text).expect("a file");
        }
        let hub = Hub::start(&["--auth-config", &path("auth.yaml"), "--policy", &path("policy.yaml")]);
        let ticks: Arc<AtomicU64> = Arc::default();
        let counted = Arc::clone(&ticks);
        let api = format!("http://{}", serve(move |socket| watch(socket, &counted)));
        let echo = serve(echo);
        let (bundle, token, allow) = (hub.add("c1"), path("token"), format!("tcp://{echo}"));
        let flags = ["agent", "--join", &bundle, "--impersonate", "--kube-token-file", &token, "--kube-api", &api];
        let mut agent = Role::start(files.path(), "agent", &[&flags[..], &["--allow", &allow]].concat(), &[]);
        agent.ready();
        Self { files, hub, ticks, echo, issuer, carol: people.client("carol", "devs"), _agent: agent }
    }

    /// As an editor does it: the whole file at once.
    fn edit(&self, file: &str, text: &str) {
        let (new, old) = (self.files.path().join("new"), self.files.path().join(file));
        fs::write(&new, text).expect("a file");
        fs::rename(new, old).expect("a file");
    }

    /// A key of a user.
    fn key(&self, user: &str) -> String {
        let made = run(&["api-key", "create", user, "--user", user, "--data-dir", &self.hub.path("data")]);
        assert_eq!(made.status, Some(0), "{made:?}");
        made.out.trim_end().to_owned()
    }

    fn watch(&self, who: Who<'_>) -> Watch {
        let mut client = connect(&self.hub, who.certificate());
        let head = format!("GET /c1/version?watch=1 HTTP/1.1\r\nHost: mctunnel-hub\r\n{}\r\n", who.line());
        client.write_all(head.as_bytes()).expect("it reads");
        let mut watch = Watch { client, last: String::new() };
        watch.goes_on(self);
        watch
    }

    /// A connection to the echo by CONNECT.
    fn open(&self, key: &str) -> TcpStream {
        let mut socket = TcpStream::connect(self.hub.address("connect")).expect("it listens");
        socket.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        let to = &self.echo;
        let head = format!("CONNECT {to} HTTP/1.1\r\nHost: {to}\r\nx-mctunnel-cluster: c1\r\n");
        write!(socket, "{head}Proxy-Authorization: Bearer {key}\r\n\r\n").expect("it reads");
        let answer = read_head(&mut socket);
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
        socket
    }

    /// What a new request gets.
    fn refused(&self, who: Who<'_>) -> Option<u16> {
        status(&self.hub, who.certificate(), "/c1/no/such/cluster/path", &who.line())
    }
}

/// What a client shows.
#[derive(Clone, Copy)]
enum Who<'a> {
    Token(&'a str),
    Certificate(&'a Shown),
}

impl Who<'_> {
    fn certificate(&self) -> Option<&Shown> {
        match self {
            Self::Token(_) => None,
            Self::Certificate(shown) => Some(shown),
        }
    }

    fn line(&self) -> String {
        match self {
            Self::Token(token) => format!("Authorization: Bearer {token}\r\n"),
            Self::Certificate(_) => String::new(),
        }
    }
}

/// An answer that goes on.
struct Watch {
    client: Client,
    last: String,
}

impl Watch {
    /// Reads what comes next; `false` at the end, whether it is an error or not.
    fn read(&mut self) -> bool {
        let mut bytes = [0; 4096];
        match self.client.read(&mut bytes) {
            Ok(0) => false,
            Ok(read) => {
                self.last.push_str(&String::from_utf8_lossy(&bytes[..read]));
                let from = self.last.len().saturating_sub(64);
                self.last = self.last.chars().skip(from).collect();
                true
            }
            Err(error) if [ErrorKind::WouldBlock, ErrorKind::TimedOut].contains(&error.kind()) => panic!("silence"),
            Err(_) => false,
        }
    }

    /// It has something that was said after this was asked.
    fn goes_on(&mut self, stage: &Stage) {
        let now = stage.ticks.load(Ordering::SeqCst);
        let newest = |text: &str| text.split("tick").filter_map(|tick| tick.get(..12)?.parse::<u64>().ok()).last();
        while newest(&self.last).is_none_or(|tick| tick <= now) {
            assert!(self.read(), "it ended: {}", self.last);
        }
    }

    /// It ends in time, and not as if that was all.
    fn expect_cut(mut self, since: Instant, cause: &str) {
        while self.read() {
            assert!(since.elapsed() < PATIENCE, "{cause}: it goes on");
        }
        let took = since.elapsed();
        println!("{cause}: cut after {took:?}");
        assert!(took < CUT_WITHIN, "{cause}: {took:?}");
        assert!(!self.last.ends_with("0\r\n\r\n"), "{cause}: it looks whole");
    }
}

fn echoes(socket: &mut TcpStream) {
    let mut back = [0; 4];
    socket.write_all(b"ping").and_then(|()| socket.read_exact(&mut back)).expect("it is open");
    assert_eq!(&back, b"ping");
}

#[test]
fn t32_what_is_open_is_cut_when_what_allowed_it_goes_away() {
    let stage = Stage::start();
    let (alice_key, ci_key, olga_token) = (stage.key("alice"), stage.key("ci"), stage.issuer.token("olga"));
    let (alice, carol, olga) = (Who::Token(&alice_key), Who::Certificate(&stage.carol), Who::Token(&olga_token));
    let (alices, mut carols, mut olgas) = (stage.watch(alice), stage.watch(carol), stage.watch(olga));
    let mut cis = stage.open(&ci_key);
    echoes(&mut cis);

    let since = Instant::now();
    assert!(POLICY.contains(BINDING));
    stage.edit("policy.yaml", &POLICY.replace(BINDING, ""));
    alices.expect_cut(since, "the binding is removed");
    assert_eq!(stage.refused(alice), Some(403));
    carols.goes_on(&stage);
    olgas.goes_on(&stage);
    echoes(&mut cis);

    let since = Instant::now();
    let id = ci_key.split('_').nth(1).expect("an id");
    let revoked = run(&["api-key", "revoke", id, "--data-dir", &stage.hub.path("data")]);
    assert_eq!(revoked.status, Some(0), "{revoked:?}");
    let end = cis.read(&mut [0; 64]);
    let took = since.elapsed();
    println!("the key is revoked: cut after {took:?}");
    assert!(matches!(end, Ok(0)) || end.is_err_and(|error| error.kind() == ErrorKind::ConnectionReset));
    assert!(took < CUT_WITHIN, "{took:?}");
    assert_eq!(stage.refused(Who::Token(&ci_key)), Some(401));
    carols.goes_on(&stage);
    olgas.goes_on(&stage);

    let (whole, idp) = auth(&stage.issuer.url);
    let since = Instant::now();
    let unmapped = whole.replace(MAPPING, "");
    assert_ne!(unmapped, whole);
    stage.edit("auth.yaml", &unmapped);
    carols.expect_cut(since, "the mapping of the group is removed");
    assert_eq!(stage.refused(carol), Some(403));
    olgas.goes_on(&stage);

    let since = Instant::now();
    let without = unmapped.replace(&idp, "");
    assert_ne!(without, unmapped);
    stage.edit("auth.yaml", &without);
    olgas.expect_cut(since, "the issuer is removed");
    assert_eq!(stage.refused(olga), Some(401));
}
