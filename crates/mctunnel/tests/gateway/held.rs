//! What a client holds while it lives, whatever way it came: its permission, also when it does not read, and its share of bytes.

use crate::{
    bodies::{echo_http2, http2_client},
    rig::{Client, Rig, Target, get, ok},
    websocket_http2::h2_client,
};
use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use mctunnel::{
    Checkpoint, HttpConfig,
    core::{
        Access, Authenticate, Authorize, Decision, Evidence, Happening, Identity, Limit, Place, Unauthenticated,
        Unlimited, User,
    },
};
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::{net::TcpListener, time::timeout};

/// Believes `Bearer NAME`.
pub(crate) struct Names;

impl Authenticate for Names {
    async fn authenticate(&self, evidence: &Evidence) -> Result<Identity, Unauthenticated> {
        let shown = evidence.authorization.as_ref().and_then(|shown| shown.expose().strip_prefix("Bearer "));
        shown.map(|name| User::new(name, "test").into()).ok_or_else(|| Unauthenticated::Rejected("no token".to_owned()))
    }
}

/// Alice may until the generation is not 0 any more; everybody else always.
#[derive(Default)]
struct NotAlice(AtomicU64);

impl Authorize for NotAlice {
    fn authorize(&self, access: &Access<'_>) -> Decision {
        let is_alice = access.identity.user().is_some_and(|user| &*user.name == "alice");
        if is_alice && self.0.load(Ordering::SeqCst) > 0 {
            return Decision::denied("alice may not any more");
        }
        Decision::allowed("everybody else")
    }

    fn generation(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }
}

/// More than all buffers between target and client together, if it is asked for.
fn large_or_small(request: &str) -> Vec<u8> {
    if !request.contains("large") {
        return ok("A");
    }
    let mut answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {LARGE}\r\n\r\n").into_bytes();
    answer.resize(answer.len() + LARGE, b'x');
    answer
}

const LARGE: usize = 64 << 20;

/// How a stream has ended, as soon as it has; within the time that permission may linger.
async fn how_it_ended(rig: &Rig) -> String {
    let ended = async {
        loop {
            let ended = rig.happenings.lock().iter().find_map(|happening| {
                let Happening::StreamEnded { error, .. } = happening else { return None };
                error.clone()
            });
            match ended {
                Some(error) => return error,
                None => tokio::task::yield_now().await,
            }
        }
    };
    timeout(Duration::from_secs(5), ended).await.expect("it ends within 5 s")
}

#[tokio::test]
async fn t32_a_client_that_does_not_read_is_cut_too() {
    let rules = Arc::new(NotAlice::default());
    let authorize = Arc::clone(&rules);
    let rig = Rig::start_with(|adapter| adapter.authenticate(Arc::new(Names)).authorize(authorize)).await;
    let target = Target::start(large_or_small).await;
    let _agent = rig.speaking_agent("cluster-a", target.address).await;
    let mut client = rig.client().await;
    let request = get("/cluster-a/large").replace("Host: hub\r\n", "Host: hub\r\nAuthorization: Bearer alice\r\n");
    client.send(request).await;
    client.until("\r\n\r\n").await;
    rules.0.store(1, Ordering::SeqCst);
    assert_eq!(how_it_ended(&rig).await, "alice may not any more");
    assert!(client.error().await.is_some(), "a reset, not a clean end");
}

#[tokio::test]
async fn t32_a_stream_of_http2_that_is_not_read_is_cut_alone() {
    let rules = Arc::new(NotAlice::default());
    let authorize = Arc::clone(&rules);
    let rig = Rig::start_tls_with(|adapter| adapter.authenticate(Arc::new(Names)).authorize(authorize)).await;
    let target = Target::start(large_or_small).await;
    let _agent = rig.speaking_agent("cluster-a", target.address).await;
    let (mut client, _connection) = h2_client(&rig).await;
    let mut ask = async |path: &str, user: &str| {
        let request = Request::get(format!("https://localhost/cluster-a/{path}"));
        let request = request.header("authorization", format!("Bearer {user}")).body(()).unwrap();
        client.send_request(request, true).unwrap().0.await.unwrap()
    };
    let mut unread = ask("large", "alice").await.into_body();
    rules.0.store(1, Ordering::SeqCst);
    assert_eq!(how_it_ended(&rig).await, "alice may not any more");
    let end = async {
        loop {
            match unread.data().await {
                Some(Ok(_)) => {}
                Some(Err(error)) => return Some(error),
                None => return None,
            }
        }
    };
    let end = timeout(Duration::from_secs(5), end).await.expect("an end");
    assert!(end.is_some_and(|error| error.is_reset()), "the stream is reset");
    assert_eq!(ask("small", "bob").await.status(), 200, "the connection is as good as before");
}

/// Counts bytes, and lets all of them through.
#[derive(Clone, Default)]
struct Counted(Arc<AtomicU64>);

impl Counted {
    fn checkpoint(&self) -> Checkpoint {
        Checkpoint::default().with_limit(Arc::new(self.clone()))
    }

    fn so_far(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }
}

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

/// Lets nobody in for a while.
struct NoRoom;

impl Limit for NoRoom {
    fn take(&self, _: &Access<'_>) -> Result<Box<dyn Place>, Decision> {
        Err(Decision::Limited { rule: "quota daily".into(), retry_after: Duration::from_millis(2500) })
    }
}

#[tokio::test]
async fn a_client_beyond_its_quota_is_told_when_to_try_again() {
    let quota = Checkpoint::default().with_limit(Arc::new(NoRoom));
    let rig = Rig::start_with(|adapter| adapter.checkpoint(quota)).await;
    let target = Target::named("A").await;
    let _agent = rig.agent("cluster-a", target.address).await;
    let answer = rig.once(&get("/cluster-a/x")).await;
    // Rounded up: whoever comes back as told is not too early.
    assert!(answer.starts_with("HTTP/1.1 429") && answer.contains("\r\nretry-after: 3\r\n"), "{answer}");
    for part in ["\"kind\":\"Status\"", "\"retryAfterSeconds\":3", "MCT-HTTP-QUOTA", "quota daily"] {
        assert!(answer.contains(part), "{part} in {answer}");
    }
    assert_eq!(target.seen.lock().len(), 0);
}

#[tokio::test]
async fn bodies_of_requests_and_answers_are_counted() {
    let counted = Counted::default();
    let rig = Rig::start_with(|adapter| adapter.checkpoint(counted.checkpoint())).await;
    let target = Target::named("answer").await;
    let _agent = rig.agent("cluster-a", target.address).await;
    let mut before = 0;
    // A body that travels with its head, and one that does not.
    for length in [10, 100_000] {
        let mut client = rig.client().await;
        client.send(format!("POST /cluster-a/x HTTP/1.1\r\nHost: hub\r\nContent-Length: {length}\r\n\r\n")).await;
        client.send(vec![b'x'; length]).await;
        assert_eq!(client.answer().await.1, "answer");
        assert_eq!(counted.so_far() - before, u64::try_from(length + "answer".len()).unwrap());
        before = counted.so_far();
    }
}

#[tokio::test]
async fn bytes_of_an_upgraded_request_are_counted_both_ways() {
    let counted = Counted::default();
    let rig = Rig::start_with(|adapter| adapter.checkpoint(counted.checkpoint())).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let _agent = rig.agent("cluster-a", listener.local_addr().unwrap()).await;
    let mut client = rig.client().await;
    let upgrade = "GET /cluster-a/exec HTTP/1.1\r\nHost: hub\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
        Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n";
    client.send(upgrade).await;
    let mut shell = Client::new(listener.accept().await.unwrap().0);
    shell.until("\r\n\r\n").await;
    shell.send("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n").await;
    client.until("\r\n\r\n").await;
    client.send("typed").await;
    shell.until("typed").await;
    shell.send("shown it").await;
    client.until("shown it").await;
    assert_eq!(counted.so_far(), 5 + 8);
}

#[tokio::test]
async fn messages_of_a_grpc_call_are_counted_both_ways() {
    let counted = Counted::default();
    let rig = Rig::start_tls_with(|adapter| adapter.checkpoint(counted.checkpoint())).await;
    let (address, _server) = echo_http2().await;
    let _agent = rig.agent("cluster-a", address).await;
    let (mut sender, _connection) = http2_client(&rig).await;
    let call = Request::post("https://localhost/echo.Echo/Chat")
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .header("x-mctunnel-cluster", "cluster-a")
        .header("x-mctunnel-proto", "grpc")
        .header("x-mctunnel-host", "web.default")
        .header("x-mctunnel-port", "50051");
    let response = sender.send_request(call.body(Full::<Bytes>::from("hello")).unwrap()).await.unwrap();
    assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), "hello");
    assert_eq!(counted.so_far(), 5 + 5);
}

/// Lets one byte of an upload pass whose path says so, and all of the others.
struct HoldsSome;

impl Limit for HoldsSome {
    fn take(&self, access: &Access<'_>) -> Result<Box<dyn Place>, Decision> {
        let held = access.action.to_string().contains("held");
        Ok(if held { Box::new(Holding) } else { Box::new(Unlimited) })
    }
}

struct Holding;

impl Place for Holding {
    fn moved(&self, _: u64) -> Duration {
        Duration::from_secs(3600)
    }
}

#[tokio::test]
async fn t43_uploads_of_an_http2_client_that_are_held_do_not_hold_its_others() {
    const ONE: usize = 1 << 20;
    let rig =
        Rig::start_tls_with(|adapter| adapter.checkpoint(Checkpoint::default().with_limit(Arc::new(HoldsSome)))).await;
    let target = Target::named("whole").await;
    let _agent = rig.agent("cluster-a", target.address).await;
    let (mut client, _connection) = h2_client(&rig).await;
    let bytes = Bytes::from(vec![b'x'; ONE]);
    let mut upload = |path: &str| {
        let request = Request::post(format!("https://localhost/cluster-a/{path}")).header("content-length", ONE);
        let (answer, mut send) = client.send_request(request.body(()).unwrap(), false).unwrap();
        send.send_data(bytes.clone(), true).unwrap();
        (answer, send)
    };
    let held: Vec<_> = (0..40).map(|_| upload("held")).collect();
    let (answer, _send) = upload("flows");
    let answer = timeout(Duration::from_secs(5), answer).await.expect("it flows beside the others").unwrap();
    assert_eq!(answer.status(), 200);
    assert!(target.seen.lock().iter().any(|request| request.starts_with("POST /flows") && request.len() > ONE));
    drop(held);
}

#[tokio::test]
async fn the_time_of_each_hop_is_told_if_it_is_to_be() {
    let mut config = HttpConfig::default();
    for told in [false, true] {
        config.server_timing = told;
        let rig = Rig::start_configured(config.clone()).await;
        let target = Target::named("answer").await;
        let _agent = rig.agent("cluster-a", target.address).await;
        let answer = rig.once(&get("/cluster-a/x")).await.to_ascii_lowercase();
        let timing = answer.lines().find_map(|line| line.strip_prefix("server-timing: "));
        assert_eq!(timing.is_some(), told, "{answer}");
        let Some(timing) = timing else { continue };
        let hops: Vec<(&str, f64)> = timing
            .split(", ")
            .map(|hop| hop.split_once(";dur=").map(|(name, millis)| (name, millis.parse().unwrap())).unwrap())
            .collect();
        assert_eq!(hops.iter().map(|(name, _)| *name).collect::<Vec<_>>(), ["gateway", "open", "target"]);
        assert!(hops.iter().all(|(_, millis)| (0.0..60_000.0).contains(millis)), "{timing}");
    }
}
