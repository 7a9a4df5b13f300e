//! Clients that have to say who they are: by a token in `Proxy-Authorization`, for every connection.

use crate::rig::{ESTABLISHED, PATIENCE, Rig, read_some};
use mctunnel_core::{
    Access, Action, Authenticate, Authorize, Decision, Evidence, Identity, Limit, OpenError, OpenRequest, Place,
    Unaudited, Unauthenticated, Unobserved, User,
};
use mctunnel_gateway::{Checkpoint, Gateway, SniAdapter, SniConfig};
use parking_lot::Mutex;
use std::{
    future::{Ready, ready},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex},
    net::{TcpListener, TcpStream},
    task::JoinSet,
    time::timeout,
};
use tokio_util::sync::CancellationToken;

/// Believes tokens that are names of people, and does not know what to do with `later`.
pub(crate) struct Names;

impl Authenticate for Names {
    async fn authenticate(&self, evidence: &Evidence) -> Result<Identity, Unauthenticated> {
        let token = evidence.authorization.as_ref().and_then(|shown| shown.expose().strip_prefix("Bearer "));
        match token {
            Some(name @ ("alice" | "mallory")) => Ok(User::new(name, "test").into()),
            Some("later") => Err(Unauthenticated::Unavailable("the provider does not answer".to_owned())),
            _ => Err(Unauthenticated::Rejected("no valid token".to_owned())),
        }
    }
}

/// Alice may, until the generation is not 0 any more.
#[derive(Default)]
pub(crate) struct OnlyAlice(pub(crate) AtomicU64);

impl Authorize for OnlyAlice {
    fn authorize(&self, access: &Access<'_>) -> Decision {
        assert_eq!(access.action, &Action::Bytes);
        match access.identity.user() {
            Some(user) if &*user.name == "alice" && self.0.load(Ordering::SeqCst) == 0 => Decision::allowed("alice"),
            _ => Decision::denied("only alice may"),
        }
    }

    fn generation(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }
}

fn accepting() -> impl Fn(OpenRequest) -> Ready<Result<DuplexStream, OpenError>> + Send + Sync + 'static {
    let far_ends = Mutex::new(Vec::new());
    move |_| {
        let (near, far) = duplex(1024);
        far_ends.lock().push(far);
        ready(Ok(near))
    }
}

fn checkpoint() -> (Checkpoint, Arc<OnlyAlice>) {
    let rules = Arc::new(OnlyAlice::default());
    (Checkpoint::new(Arc::new(Names), Arc::clone(&rules) as _, Arc::new(Unaudited)), rules)
}

pub(crate) fn request(headers: &str) -> String {
    format!("CONNECT db.c1.mctunnel:1 HTTP/1.1\r\n{headers}\r\n")
}

#[tokio::test]
async fn every_answer_to_a_client_that_may_not() {
    let rig = Rig::start_behind(checkpoint().0, accepting()).await;
    for (headers, status, said) in [
        ("", "407", "MCT-CONNECT-UNAUTHENTICATED"),
        ("Proxy-Authorization: Bearer nobody\r\n", "407", "Proxy-Authenticate: Basic"),
        ("Proxy-Authorization: Basic YzE6\r\n", "407", "no valid token"),
        ("Proxy-Authorization: Bearer mallory\r\n", "403", "only alice may"),
        ("Proxy-Authorization: Bearer later\r\n", "503", "Retry-After: 1"),
        ("Authorization: Bearer alice\r\n", "400", "MCT-CONNECT-TWO-CREDENTIALS"),
        (
            "Proxy-Authorization: Bearer alice\r\nProxy-Authorization: Bearer alice\r\n",
            "400",
            "MCT-CONNECT-TWO-CREDENTIALS",
        ),
    ] {
        let answer = rig.exchange(request(headers).as_bytes()).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")) && answer.contains(said), "{headers}: {answer}");
    }
    assert_eq!(rig.requests.lock().len(), 0);
}

#[tokio::test]
async fn the_agent_is_told_whom_a_stream_is_for() {
    let rig = Rig::start_behind(checkpoint().0, accepting()).await;
    // c1:alice
    for headers in ["Proxy-Authorization: Bearer alice\r\n", "Proxy-Authorization: Basic YzE6YWxpY2U=\r\n"] {
        let mut client = rig.connect().await;
        client.write_all(request(headers).as_bytes()).await.expect("sent");
        assert_eq!(read_some(&mut client, ESTABLISHED.len()).await, ESTABLISHED);
    }
    let requests = rig.requests.lock();
    assert_eq!(requests.len(), 2);
    assert!(requests.iter().all(|request| request.identity.to_string() == "alice"));
}

#[tokio::test]
async fn t32_a_stream_is_cut_when_its_permission_goes_away() {
    let (checkpoint, rules) = checkpoint();
    let rig = Rig::start_behind(checkpoint, accepting()).await;
    let mut client = rig.connect().await;
    client.write_all(request("Proxy-Authorization: Bearer alice\r\n").as_bytes()).await.expect("sent");
    assert_eq!(read_some(&mut client, ESTABLISHED.len()).await, ESTABLISHED);
    rules.0.store(1, Ordering::SeqCst);
    let cut = timeout(PATIENCE, client.read(&mut [0])).await.expect("cut in time");
    assert!(cut.is_err(), "a reset, not a clean end");
}

/// Counts bytes, and lets all of them through.
#[derive(Clone, Default)]
struct Counted(Arc<AtomicU64>);

impl Limit for Counted {
    fn take(&self, _: &Access<'_>) -> Result<Box<dyn Place>, Decision> {
        Ok(Box::new(self.clone()))
    }
}

impl Place for Counted {
    fn moved(&self, bytes: u64) -> Duration {
        self.0.fetch_add(bytes, Ordering::SeqCst);
        Duration::ZERO
    }
}

pub(crate) type FarEnds = Arc<Mutex<Vec<DuplexStream>>>;

/// An opener's answers, and the far ends of the streams it gives.
pub(crate) fn far_ends()
-> (FarEnds, impl Fn(OpenRequest) -> Ready<Result<DuplexStream, OpenError>> + Send + Sync + 'static) {
    let far_ends = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&far_ends);
    let open = move |_| {
        let (near, far) = duplex(64 * 1024);
        kept.lock().push(far);
        ready(Ok(near))
    };
    (far_ends, open)
}

#[tokio::test]
async fn bytes_of_a_connect_are_counted_both_ways() {
    let counted = Counted::default();
    let (far_ends, open) = far_ends();
    let rig = Rig::start_behind(Checkpoint::default().with_limit(Arc::new(counted.clone())), open).await;
    let mut client = rig.connect().await;
    client.write_all(format!("{}123", request("")).as_bytes()).await.expect("sent");
    assert_eq!(read_some(&mut client, ESTABLISHED.len()).await, ESTABLISHED);
    let mut far = far_ends.lock().pop().expect("a stream");
    assert_eq!(read_some(&mut far, 3).await, "123");
    client.write_all(b"45678").await.expect("sent");
    assert_eq!(read_some(&mut far, 5).await, "45678");
    far.write_all(b"answer").await.expect("sent");
    assert_eq!(read_some(&mut client, 6).await, "answer");
    assert_eq!(counted.0.load(Ordering::SeqCst), 3 + 5 + 6);
}

#[tokio::test]
async fn bytes_of_an_sni_client_are_counted_both_ways() {
    let counted = Counted::default();
    let (far_ends, open) = far_ends();
    let adapter = SniAdapter::new(crate::rig::opener(open), SniConfig::new("hub.test"), Arc::new(Unobserved))
        .checkpoint(Checkpoint::default().with_limit(Arc::new(counted.clone())));
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback");
    let mut client = TcpStream::connect(listener.local_addr().expect("bound")).await.expect("it listens");
    let mut serving = JoinSet::new();
    serving.spawn(async move { Gateway::new(adapter).serve(listener, CancellationToken::new()).await });
    let hello = hello_for("c1.hub.test");
    client.write_all(&hello).await.expect("sent");
    let mut far = loop {
        let opened = far_ends.lock().pop();
        match opened {
            Some(far) => break far,
            None => tokio::task::yield_now().await,
        }
    };
    let mut arrived = vec![0; hello.len()];
    timeout(PATIENCE, far.read_exact(&mut arrived)).await.expect("in time").expect("the hello");
    assert_eq!(arrived, hello);
    far.write_all(b"answer").await.expect("sent");
    assert_eq!(read_some(&mut client, 6).await, "answer");
    assert_eq!(counted.0.load(Ordering::SeqCst), u64::try_from(hello.len()).expect("small") + 6);
}

/// The first words of a TLS client.
pub(crate) fn hello_for(name: &str) -> Vec<u8> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth();
    let name = name.to_owned().try_into().expect("a name");
    let mut client = rustls::ClientConnection::new(Arc::new(config), name).expect("a client");
    let mut hello = Vec::new();
    client.write_tls(&mut hello).expect("a hello");
    hello
}
