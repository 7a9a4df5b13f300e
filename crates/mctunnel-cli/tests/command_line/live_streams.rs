//! T32: what is open ends within 5 s when what allowed it goes away: the binding, the mapping of a group, the key, the issuer, the time of a
//! token; and within 1 s nothing new gets in. A real hub, a real agent, answers that go on for ever, an exec; each cause ends its own
//! streams and no other.

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
    time::{Duration, SystemTime, UNIX_EPOCH},
};
use tempfile::TempDir;
use tokio::time::Instant;

/// What is promised for what is open, and as much again for a machine that has more to do.
const CUT_WITHIN: Duration = Duration::from_secs(5 + 5);
/// And for what is asked anew, with the same: a file is read twice a second, and twice when it has changed.
const DENIED_WITHIN: Duration = Duration::from_secs(1 + 1);

/// How far apart the clocks of an issuer and of the hub may be: a token counts for so many seconds longer than it says.
const SKEW: u64 = 30;

const BINDING: &str = "  - {name: alice, role: all, users: [alice], providers: [keys]}\n";
const POLICY: &str = "version: 1
roles:
  all:
    rules:
      - {clusters: ['*'], nonResourcePaths: ['*'], verbs: ['*']}
      - {clusters: ['*'], namespaces: ['*'], apiGroups: ['*'], resources: ['*/*'], names: ['*'], verbs: ['*']}
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

fn read_head(socket: &mut impl Read) -> String {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") && socket.read_exact(&mut byte).is_ok() {
        head.extend(byte);
    }
    String::from_utf8_lossy(&head).into_owned()
}

/// A kube-apiserver: an exec is an echo, a watch goes on for ever, all else has a short answer.
fn kube_api(mut socket: TcpStream, ticks: &AtomicU64) {
    let head = read_head(&mut socket).to_ascii_lowercase();
    if head.contains("\r\nupgrade: websocket\r\n") {
        let switched = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n";
        // Whoever went away needs no answer.
        let _ = write!(socket, "{switched}Sec-WebSocket-Protocol: v5.channel.k8s.io\r\n\r\n");
        echo(socket);
    } else if head.contains("watch=1") {
        watch(socket, ticks);
    } else {
        let _ = socket.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok");
    }
}

/// A watch: an answer of numbers that grow, all over the process.
fn watch(mut socket: TcpStream, ticks: &AtomicU64) {
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
pub(crate) struct Issuer {
    pub(crate) url: String,
    key: Arc<KeyPair>,
}

impl Issuer {
    pub(crate) fn start() -> Self {
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
    pub(crate) fn token(&self, user: &str) -> String {
        self.token_until(user, 4_102_444_800)
    }

    /// The same, up to this second since 1970.
    pub(crate) fn token_until(&self, user: &str, exp: u64) -> String {
        let part = |value: Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let claims = json!({"iss": self.url, "aud": "mctunnel", "sub": user, "exp": exp});
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
        let api = format!("http://{}", serve(move |socket| kube_api(socket, &counted)));
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

    /// An exec as kubectl begins it, up to the answer; what it carries then are bytes.
    fn exec(&self, who: Who<'_>) -> Client {
        let mut client = connect(&self.hub, who.certificate());
        let path = "/c1/api/v1/namespaces/default/pods/p/exec?command=sh&stdin=true&stdout=true&tty=true";
        let upgrade = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
            Sec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: v5.channel.k8s.io\r\n";
        let head = format!("GET {path} HTTP/1.1\r\nHost: mctunnel-hub\r\n{upgrade}{}\r\n", who.line());
        client.write_all(head.as_bytes()).expect("it reads");
        let answer = read_head(&mut client);
        assert!(answer.starts_with("HTTP/1.1 101 "), "{answer}");
        client
    }

    /// The status of a short request.
    fn status(&self, who: Who<'_>) -> Option<u16> {
        status(&self.hub, who.certificate(), "/c1/version", &who.line())
    }

    /// Asks from a change on until it counts. What counts is when a request was sent: one that was let in before, and whose answer
    /// comes late on a busy machine, says nothing.
    fn expect_denied(&self, who: Who<'_>, since: Instant, denied: u16, cause: &str) {
        loop {
            let sent = since.elapsed();
            match self.status(who) {
                Some(200) => assert!(sent < DENIED_WITHIN, "{cause}: let in {sent:?} after it"),
                answer => {
                    println!("{cause}: denied after {:?}", since.elapsed());
                    assert_eq!(answer, Some(denied), "{cause}");
                    return;
                }
            }
        }
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

fn echoes(socket: &mut (impl Read + Write)) {
    let mut back = [0; 4];
    socket.write_all(b"ping").and_then(|()| socket.flush()).expect("it is open");
    socket.read_exact(&mut back).expect("it is open");
    assert_eq!(&back, b"ping");
}

/// Bytes both ways end in time, and as an error.
fn expect_reset(mut socket: impl Read, since: Instant, cause: &str) {
    let end = socket.read(&mut [0; 64]);
    let took = since.elapsed();
    println!("{cause}: cut after {took:?}");
    let error = end.expect_err("it looks whole");
    assert!(![ErrorKind::WouldBlock, ErrorKind::TimedOut].contains(&error.kind()), "{cause}: silence");
    assert!(took < CUT_WITHIN, "{cause}: {took:?}");
}

#[test]
fn t32_what_is_open_is_cut_when_what_allowed_it_goes_away() {
    let stage = Stage::start();
    let (alice_key, ci_key, olga_token) = (stage.key("alice"), stage.key("ci"), stage.issuer.token("olga"));
    let (alice, carol, olga) = (Who::Token(&alice_key), Who::Certificate(&stage.carol), Who::Token(&olga_token));
    let (alices, mut carols, mut olgas) = (stage.watch(alice), stage.watch(carol), stage.watch(olga));
    let (mut exec, mut olgas_exec) = (stage.exec(alice), stage.exec(olga));
    let (mut cis, mut cis_exec) = (stage.open(&ci_key), stage.exec(Who::Token(&ci_key)));
    echoes(&mut exec);
    echoes(&mut cis);
    echoes(&mut cis_exec);
    for who in [alice, Who::Token(&ci_key), carol, olga] {
        assert_eq!(stage.status(who), Some(200));
    }

    let (since, cause) = (Instant::now(), "the binding is removed");
    assert!(POLICY.contains(BINDING));
    stage.edit("policy.yaml", &POLICY.replace(BINDING, ""));
    stage.expect_denied(alice, since, 403, cause);
    alices.expect_cut(since, cause);
    expect_reset(exec, since, cause);
    carols.goes_on(&stage);
    olgas.goes_on(&stage);
    echoes(&mut olgas_exec);
    echoes(&mut cis);
    echoes(&mut cis_exec);

    let (since, cause) = (Instant::now(), "the key is revoked");
    let id = ci_key.split('_').nth(1).expect("an id");
    let revoked = run(&["api-key", "revoke", id, "--data-dir", &stage.hub.path("data")]);
    assert_eq!(revoked.status, Some(0), "{revoked:?}");
    stage.expect_denied(Who::Token(&ci_key), since, 401, cause);
    expect_reset(cis, since, cause);
    expect_reset(cis_exec, since, cause);
    carols.goes_on(&stage);
    olgas.goes_on(&stage);

    let (whole, idp) = auth(&stage.issuer.url);
    let (since, cause) = (Instant::now(), "the mapping of the group is removed");
    let unmapped = whole.replace(MAPPING, "");
    assert_ne!(unmapped, whole);
    stage.edit("auth.yaml", &unmapped);
    stage.expect_denied(carol, since, 403, cause);
    carols.expect_cut(since, cause);
    olgas.goes_on(&stage);
    echoes(&mut olgas_exec);

    let (since, cause) = (Instant::now(), "the issuer is removed");
    let without = unmapped.replace(&idp, "");
    assert_ne!(without, unmapped);
    stage.edit("auth.yaml", &without);
    stage.expect_denied(olga, since, 401, cause);
    olgas.expect_cut(since, cause);
    expect_reset(olgas_exec, since, cause);
}

#[test]
fn t32_what_is_open_is_cut_when_its_token_ends() {
    let stage = Stage::start();
    let lasting = stage.issuer.token("olga");
    let (now, clock) = (Instant::now(), SystemTime::now().duration_since(UNIX_EPOCH).expect("it is not 1970"));
    // In whole seconds, and late enough for all to be open before.
    let ends = clock.as_secs() + 6;
    let since = now + (Duration::from_secs(ends) - clock);
    let short = stage.issuer.token_until("olga", ends - SKEW);
    let (short, lasting) = (Who::Token(&short), Who::Token(&lasting));
    let (mut watch, exec, mut other) = (stage.watch(short), stage.exec(short), stage.watch(lasting));
    watch.goes_on(&stage);
    assert_eq!(stage.status(short), Some(200));
    assert!(Instant::now() < since, "the machine took too long to open all of it");

    let cause = "the token has ended";
    watch.expect_cut(since, cause);
    assert!(Instant::now() >= since, "{cause}: cut before");
    expect_reset(exec, since, cause);
    stage.expect_denied(short, since, 401, cause);
    other.goes_on(&stage);
    assert_eq!(stage.status(lasting), Some(200));
}
