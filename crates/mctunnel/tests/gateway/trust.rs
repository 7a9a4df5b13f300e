//! Verified users: what the cluster is told of them, what it is not, how long permission lasts, and what is written down.

use crate::rig::{Rig, Target, get, ok};
use mctunnel::{
    agent::Impersonate,
    core::{
        Access, Audit, AuditFull, AuditOutcome, AuditSlot, AuditSubject, Authenticate, Authorize, Decision, Evidence,
        Identity, Secret, Unauthenticated, User,
    },
};
use parking_lot::Mutex;
use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64, Ordering},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

/// Believes `Bearer NAME`; names in upper case are of groups of Kubernetes' own.
struct Names;

impl Authenticate for Names {
    async fn authenticate(&self, evidence: &Evidence) -> Result<Identity, Unauthenticated> {
        let shown = evidence.authorization.as_ref().and_then(|shown| shown.expose().strip_prefix("Bearer "));
        let name = shown.ok_or_else(|| Unauthenticated::Rejected("no token".to_owned()))?;
        let mut user = User::new(name, "test");
        user.groups = vec![if name == "ROOT" { "system:masters" } else { "dev" }.into()];
        user.uid = Some("u-1".into());
        user.extra.insert("example.com/team".to_owned(), vec!["blue".to_owned()]);
        Ok(user.into())
    }
}

/// Allows all, until it is told not to.
#[derive(Default)]
struct Switch {
    off: AtomicBool,
    generation: AtomicU64,
}

impl Switch {
    fn turn_off(&self) {
        self.off.store(true, Ordering::SeqCst);
        self.generation.fetch_add(1, Ordering::SeqCst);
    }
}

impl Authorize for Switch {
    fn authorize(&self, _: &Access<'_>) -> Decision {
        if self.off.load(Ordering::SeqCst) {
            Decision::denied("the switch is off")
        } else {
            Decision::allowed("the switch")
        }
    }

    fn generation(&self) -> u64 {
        self.generation.load(Ordering::SeqCst)
    }
}

/// Keeps entries as text.
#[derive(Clone, Default)]
struct Book {
    entries: Arc<Mutex<Vec<String>>>,
    full: Arc<AtomicBool>,
}

impl Audit for Book {
    fn begin(&self) -> Result<Box<dyn AuditSlot>, AuditFull> {
        if self.full.load(Ordering::SeqCst) { Err(AuditFull) } else { Ok(Box::new(self.clone())) }
    }
}

impl AuditSlot for Book {
    fn started(&mut self, subject: &AuditSubject) {
        self.entries.lock().push(format!("{} started", subject.request_id));
    }

    fn finish(self: Box<Self>, subject: &AuditSubject, outcome: &AuditOutcome) {
        let or_none = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        self.entries.lock().push(format!(
            "{} {} {} {} {} up {} down {}: {}",
            subject.request_id,
            or_none(subject.identity.as_ref().map(ToString::to_string)),
            or_none(subject.destination.as_ref().map(ToString::to_string)),
            or_none(subject.action.as_ref().map(ToString::to_string)),
            outcome.status,
            outcome.bytes_up,
            outcome.bytes_down,
            or_none(outcome.error.clone()),
        ));
    }
}

fn asked(path: &str, token: &str, more: &str) -> String {
    get(path)
        .replace("Host: hub\r\n", &format!("Host: hub\r\nX-Request-Id: r1\r\nAuthorization: Bearer {token}\r\n{more}"))
}

#[tokio::test]
async fn the_cluster_is_told_who_it_is_and_never_how_that_was_shown() {
    let rig = Rig::start_with(|adapter| adapter.authenticate(Arc::new(Names))).await;
    let target = Target::named("A").await;
    let _agent = rig.speaking_agent("cluster-a", target.address).await;
    assert!(rig.once(&asked("/cluster-a/api/v1/pods", "alice", "")).await.ends_with('A'));
    assert!(
        rig.once(&asked("/cluster-a/api/v1/namespaces/default/services/web/proxy-service/", "alice", ""))
            .await
            .ends_with('A')
    );
    let seen = target.seen.lock().clone();
    let [api, service] = &seen[..] else { panic!("{seen:?}") };
    for line in [
        "authorization: Bearer agent-token",
        "impersonate-user: alice",
        "impersonate-group: dev",
        "impersonate-uid: u-1",
        "impersonate-extra-example.com%2fteam: blue",
    ] {
        assert_eq!(api.lines().filter(|seen| seen.eq_ignore_ascii_case(line)).count(), 1, "{line}: {api}");
    }
    assert!(!api.contains("Bearer alice"), "{api}");
    // A service has no reason to believe us, and gets nobody's credential.
    let service = service.to_ascii_lowercase();
    assert!(!service.contains("impersonate") && !service.contains("authorization"), "{service}");
}

/// Names that say who somebody is, or that are for us alone, and what a careless reader would take for one of them.
const RESERVED: [&str; 30] = [
    "Impersonate-User",
    "impersonate-user",
    "IMPERSONATE-USER",
    "iMpErSoNaTe-UsEr",
    "Impersonate-Group",
    "Impersonate-Uid",
    "Impersonate-Extra-Scopes",
    "Impersonate-Extra-acme.com%2Fproject",
    "Impersonate-Future",
    "Impersonate-",
    "Impersonate_User",
    "impersonate_group",
    "Impersonate-User_",
    "X-Remote-User",
    "x-remote-user",
    "X-REMOTE-GROUP",
    "X-Remote-Extra-Scopes",
    "X-Remote-Uid",
    "X-Remote-Future",
    "X_Remote_User",
    "X-Remote_User",
    "X-MCTUNNEL-TARGET",
    "x-mctunnel-namespace",
    "x-mctunnel-service",
    "x-mctunnel-identity",
    "x-mctunnel-cluster2",
    "x-mctunnel-",
    "x_mctunnel_cluster",
    "any_name",
    "_",
];

/// The name with every other letter in upper case.
fn mixed(name: &str) -> String {
    let letters = name.chars().enumerate();
    letters.map(|(at, c)| if at % 2 == 0 { c.to_ascii_lowercase() } else { c.to_ascii_uppercase() }).collect()
}

#[tokio::test]
async fn t01_with_a_valid_token_the_headers_of_an_identity_are_refused() {
    let rig = Rig::start_with(|adapter| adapter.authenticate(Arc::new(Names))).await;
    let target = Target::named("A").await;
    let _agent = rig.speaking_agent("cluster-a", target.address).await;
    let connection = ["Connection: Impersonate-User", "Connection: close, authorization"].map(str::to_owned);
    let reserved = RESERVED.iter().flat_map(|name| {
        let mixed = mixed(name);
        [
            format!("{name}: admin"),
            format!("{mixed}: system:masters"),
            format!("{name}:"),
            format!("{name}: a\r\n{name}: b"),
            format!("{name}: a\r\nAccept: */*\r\n{mixed}: b"),
        ]
    });
    for header in reserved.chain(connection) {
        let answer = rig.once(&asked("/cluster-a/api/v1/pods", "alice", &format!("{header}\r\n"))).await;
        assert!(answer.starts_with("HTTP/1.1 400"), "{header}: {answer}");
    }
    assert_eq!(target.seen.lock().len(), 0);
    // The same request without them gets there, so nothing else has kept the others away.
    assert!(rig.once(&asked("/cluster-a/api/v1/pods", "alice", "")).await.ends_with('A'));
    assert_eq!(target.seen.lock().len(), 1);
}

#[tokio::test]
async fn t05_t06_the_agent_speaks_for_users_only_and_not_for_kubernetes_own() {
    let open = Rig::start().await;
    let target = Target::named("A").await;
    let _agent = open.speaking_agent("cluster-a", target.address).await;
    let nobody = open.once(&get("/cluster-a/api/v1/pods")).await;
    assert!(nobody.starts_with("HTTP/1.1 403") && nobody.contains("names no user"), "{nobody}");

    let rig = Rig::start_with(|adapter| adapter.authenticate(Arc::new(Names))).await;
    let _agent = rig.speaking_agent("cluster-a", target.address).await;
    for name in ["system:admin", "ROOT"] {
        let answer = rig.once(&asked("/cluster-a/api/v1/pods", name, "")).await;
        assert!(answer.starts_with("HTTP/1.1 403") && answer.contains("Kubernetes' own"), "{answer}");
    }
    let _silent = rig.agent("cluster-b", target.address).await;
    let answer = rig.once(&asked("/cluster-b/api/v1/pods", "alice", "")).await;
    assert!(answer.starts_with("HTTP/1.1 403") && answer.contains("--impersonate"), "{answer}");
    assert_eq!(target.seen.lock().len(), 0);
}

#[tokio::test]
async fn t05_a_mapped_name_of_kubernetes_own_works_where_the_agent_lists_it() {
    let rig = Rig::start_with(|adapter| adapter.authenticate(Arc::new(Names))).await;
    let target = Target::named("A").await;
    let listed = Impersonate::new(Secret::new("agent-token")).only([], ["system:masters".to_owned()]);
    let _agent = rig.agent_speaking_for("cluster-a", target.address, listed).await;
    let answer = rig.once(&asked("/cluster-a/api/v1/pods", "ROOT", "")).await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let seen = target.seen.lock().concat().to_ascii_lowercase();
    assert!(seen.contains("impersonate-user: root\r\n"), "{seen}");
    assert_eq!(seen.matches("impersonate-group: ").count(), 1, "{seen}");
    assert!(seen.contains("impersonate-group: system:masters\r\n"), "{seen}");
    let answer = rig.once(&asked("/cluster-a/api/v1/pods", "system:admin", "")).await;
    assert!(answer.starts_with("HTTP/1.1 403") && answer.contains("Kubernetes' own"), "{answer}");
}

#[tokio::test]
async fn t32_what_is_open_is_cut_when_permission_goes_away() {
    let (switch, book) = (Arc::new(Switch::default()), Book::default());
    let rules: Arc<Switch> = Arc::clone(&switch);
    let audit = book.clone();
    let rig =
        Rig::start_with(|adapter| adapter.authenticate(Arc::new(Names)).authorize(rules).audit(Arc::new(audit))).await;
    let watch =
        Target::start(|_| b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n".to_vec()).await;
    let _watched = rig.speaking_agent("cluster-a", watch.address).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let _execed = rig.speaking_agent("cluster-b", listener.local_addr().unwrap()).await;

    let mut watching = rig.client().await;
    watching.send(asked("/cluster-a/api/v1/pods?watch=1", "alice", "")).await;
    watching.until("first").await;
    let mut exec = rig.client().await;
    let upgrade = "GET /cluster-b/api/v1/namespaces/d/pods/p/exec HTTP/1.1\r\nHost: hub\r\nX-Request-Id: r2\r\nAuthorization: Bearer alice\r\n\
        Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n";
    exec.send(upgrade).await;
    let (mut shell, _) = listener.accept().await.unwrap();
    let mut head = vec![0; 4096];
    let read = shell.read(&mut head).await.unwrap();
    assert!(String::from_utf8_lossy(&head[..read]).to_ascii_lowercase().contains("impersonate-user: alice"));
    shell
        .write_all(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n$ ")
        .await
        .unwrap();
    exec.until("$ ").await;
    exec.send("typed").await;
    let mut typed = [0; 5];
    shell.read_exact(&mut typed).await.unwrap();

    switch.turn_off();
    let denied = rig.once(&asked("/cluster-a/api/v1/pods", "alice", "")).await;
    assert!(denied.starts_with("HTTP/1.1 403") && denied.contains("the switch is off"), "{denied}");
    // Neither looks like a clean end: the chunked body has no last chunk, the bytes are reset.
    assert!(!watching.rest_or_error().await.ends_with("0\r\n\r\n"));
    assert!(exec.error().await.is_some());
    // The far ends learn of it too.
    assert!(shell.read(&mut head).await.map_or(true, |read| read == 0));

    let entries = book.entries.lock().clone();
    let has = |part: &str| entries.iter().any(|entry| entry.contains(part));
    assert!(has("r2 started"), "{entries:?}");
    assert!(
        has("r2 alice kube-apiserver in cluster-b connect pods/exec p in d 101 up 5 down 2: the switch is off"),
        "{entries:?}"
    );
    assert!(has("r1 alice kube-apiserver in cluster-a watch pods 200 up 0 down 5: the switch is off"), "{entries:?}");
    assert!(has("403 up 0 down 0: MCT-HTTP-DENIED"), "{entries:?}");
}

#[tokio::test]
async fn what_cannot_be_written_down_is_not_served() {
    let book = Book::default();
    let audit = book.clone();
    let rig = Rig::start_with(|adapter| adapter.audit(Arc::new(audit))).await;
    let target = Target::start(|_| ok("A")).await;
    let _agent = rig.agent("cluster-a", target.address).await;
    book.full.store(true, Ordering::SeqCst);
    let answer = rig.once(&get("/cluster-a/x")).await;
    assert!(answer.starts_with("HTTP/1.1 503") && answer.contains("MCT-HTTP-AUDIT-FULL"), "{answer}");
    assert_eq!(target.seen.lock().len(), 0);
    book.full.store(false, Ordering::SeqCst);
    assert!(rig.once(&get("/cluster-a/x")).await.ends_with('A'));
    // A request that cannot be read is written down as well.
    rig.once("GET /cluster-a/../x HTTP/1.1\r\nHost: hub\r\n\r\n").await;
    let entries = book.entries.lock().clone();
    assert!(entries.iter().any(|entry| entry.contains("400 up 0 down 0: MCT-HTTP-BAD-TARGET")), "{entries:?}");
}

/// The one entry, once it is there.
async fn entry_of(book: &Book) -> String {
    let written = async {
        loop {
            let entry = book.entries.lock().pop();
            match entry {
                Some(entry) => return entry,
                None => tokio::task::yield_now().await,
            }
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(20), written).await.expect("an entry")
}

#[tokio::test]
async fn bodies_are_written_down_by_their_length_both_ways() {
    let book = Book::default();
    let audit = book.clone();
    let rig = Rig::start_with(|adapter| adapter.audit(Arc::new(audit))).await;
    let target = Target::named("answer").await;
    let _agent = rig.agent("cluster-a", target.address).await;
    // None, one that travels with its head, one that does not, and one in chunks.
    for length in [0, 10, 3_000_000] {
        let mut client = rig.client().await;
        client.send(format!("POST /cluster-a/x HTTP/1.1\r\nHost: hub\r\nContent-Length: {length}\r\n\r\n")).await;
        client.send(vec![b'x'; length]).await;
        assert_eq!(client.answer().await.1, "answer");
        let entry = entry_of(&book).await;
        assert!(entry.ends_with(&format!("200 up {length} down 6: -")), "{entry}");
    }
    let mut client = rig.client().await;
    client.send("POST /cluster-a/x HTTP/1.1\r\nHost: hub\r\nTransfer-Encoding: chunked\r\n\r\n").await;
    client.send("3\r\nabc\r\n4\r\ndefg\r\n0\r\n\r\n").await;
    assert_eq!(client.answer().await.1, "answer");
    let entry = entry_of(&book).await;
    assert!(entry.ends_with("200 up 7 down 6: -"), "{entry}");
}

#[tokio::test]
async fn what_was_sent_before_the_tunnel_was_lost_is_written_down() {
    let book = Book::default();
    let audit = book.clone();
    let rig = Rig::start_with(|adapter| adapter.audit(Arc::new(audit))).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let agent = rig.agent("cluster-a", listener.local_addr().unwrap()).await;
    let mut client = rig.client().await;
    client.send("POST /cluster-a/x HTTP/1.1\r\nHost: hub\r\nContent-Length: 200000\r\n\r\n").await;
    client.send(vec![b'z'; 100_000]).await;
    let (mut target, _) = listener.accept().await.unwrap();
    let mut seen = Vec::new();
    while seen.iter().filter(|byte| **byte == b'z').count() < 100_000 {
        assert!(target.read_buf(&mut seen).await.unwrap() > 0);
    }
    agent.kill();
    assert!(client.until("\r\n\r\n").await.starts_with("HTTP/1.1 502"));
    drop(client);
    let entry = entry_of(&book).await;
    assert!(entry.contains("502 up 100000 down 0: MCT-"), "{entry}");
}
