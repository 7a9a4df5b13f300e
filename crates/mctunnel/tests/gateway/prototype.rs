//! Nine ways in which a tunnel of this kind has failed before, as tests that pass here.

use crate::{
    bodies::head_of,
    rig::{CUT, Client, Rig, Target, get, ok},
    websocket_http2::h2_client,
};
use mctunnel::{HttpConfig, PinnedTargets, ServiceProxy, ServiceProxyConfig};
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    time::{Duration, timeout},
};
use tokio_util::task::AbortOnDropHandle;

#[tokio::test]
async fn t07_each_request_of_a_connection_is_routed_by_itself() {
    let rig = Rig::start().await;
    let (a, b) = (Target::named("A").await, Target::named("B").await);
    let _agents = [rig.agent("cluster-a", a.address).await, rig.agent("cluster-b", b.address).await];
    let mut client = rig.client().await;
    for (cluster, name) in [("cluster-a", "A"), ("cluster-b", "B"), ("cluster-a", "A")] {
        client.send(format!("GET /{cluster}/whoami HTTP/1.1\r\nHost: hub\r\n\r\n")).await;
        assert_eq!(client.answer().await.1, name);
    }
    // Pipelined.
    client.send("GET /cluster-b/1 HTTP/1.1\r\nHost: hub\r\n\r\nGET /cluster-a/2 HTTP/1.1\r\nHost: hub\r\n\r\n").await;
    assert_eq!(client.answer().await.1, "B");
    assert_eq!(client.answer().await.1, "A");
}

#[tokio::test]
async fn a_watch_is_passed_on_at_once_and_for_as_long_as_it_lasts() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let rig = Rig::start().await;
    let _agent = rig.agent("cluster-a", address).await;
    let mut client = rig.client().await;
    client.send("GET /cluster-a/api/v1/pods?watch=1 HTTP/1.1\r\nHost: hub\r\n\r\n").await;
    let (mut target, _) = listener.accept().await.unwrap();
    target.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n").await.unwrap();
    client.until("\r\n\r\n").await;
    // Each event is there before the next one is sent: nothing waits for a buffer to fill.
    for tick in 0..50 {
        let event = format!("event {tick}\n");
        target.write_all(format!("{:x}\r\n{event}\r\n", event.len()).as_bytes()).await.unwrap();
        client.until(&event).await;
    }
    target.write_all(b"0\r\n\r\n").await.unwrap();
    client.until("0\r\n\r\n").await;
}

/// Shorter than any limit should be, and long enough to open a stream.
const SHORT: Duration = Duration::from_millis(700);

#[tokio::test]
async fn a_watch_that_is_silent_outlives_every_limit() {
    let mut config = HttpConfig::default();
    (config.head_timeout, config.idle_timeout) = (SHORT, SHORT);
    (config.open_timeout, config.wait_for_tunnel) = (SHORT, SHORT);
    let (plain, tls) = (Rig::start_configured(config.clone()).await, Rig::start_tls_configured(config).await);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut agents = Vec::new();
    for rig in [&plain, &tls] {
        let pinned = PinnedTargets::new().pin_kube_api(&format!("http://{}", listener.local_addr().unwrap()), None);
        let mut config = ServiceProxyConfig::default();
        (config.dial_timeout, config.idle_timeout) = (SHORT, SHORT);
        let proxy = ServiceProxy::new(Arc::new(pinned.unwrap()), config).kube_api(true);
        agents.push(rig.run_proxy(&rig.bundle("cluster-a"), proxy).await);
    }
    let begin = async |answer: &str| {
        let mut target = Client::new(listener.accept().await.unwrap().0);
        target.until("\r\n\r\n").await;
        target.send(answer).await;
        target
    };
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n6\r\nfirst\n\r\n";

    let mut http1 = plain.client().await;
    http1.send("GET /cluster-a/api/v1/pods?watch=1 HTTP/1.1\r\nHost: hub\r\n\r\n").await;
    let mut of_http1 = begin(chunked).await;
    http1.until("first\n").await;

    let mut upgraded = plain.client().await;
    upgraded
        .send("POST /cluster-a/exec HTTP/1.1\r\nHost: hub\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n")
        .await;
    let switching = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\nfirst\n";
    let mut of_upgraded = begin(switching).await;
    upgraded.until("first\n").await;

    let (mut http2, _connection) = h2_client(&tls).await;
    let request = http::Request::get("https://localhost/cluster-a/api/v1/pods?watch=1").body(()).unwrap();
    let answer = http2.send_request(request, true).unwrap().0;
    let mut of_http2 = begin(chunked).await;
    let mut events = answer.await.unwrap().into_body();
    assert_eq!(events.data().await.unwrap().unwrap(), "first\n");

    // tidy: sleep because silence is what is tested
    tokio::time::sleep(4 * SHORT).await;
    of_http1.send("5\r\nnext\n\r\n").await;
    http1.until("next\n").await;
    of_upgraded.send("next\n").await;
    upgraded.until("next\n").await;
    upgraded.send("typed\n").await;
    of_upgraded.until("typed\n").await;
    of_http2.send("5\r\nnext\n\r\n0\r\n\r\n").await;
    assert_eq!(events.data().await.unwrap().unwrap(), "next\n");
    assert!(events.data().await.is_none_or(|end| end.unwrap().is_empty()));
}

/// More than all windows and buffers between the target and a client hold.
const LARGE: usize = 64 << 20;
const PIECE: usize = 64 * 1024;

/// Bytes that say where they stand.
fn piece(number: usize) -> Vec<u8> {
    let begin = u64::try_from(number * PIECE).unwrap();
    (begin..).step_by(8).take(PIECE / 8).flat_map(u64::to_be_bytes).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_reader_gets_every_byte() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (rig, other) = (Rig::start().await, Target::named("B").await);
    let _agent = rig.agent("cluster-a", listener.local_addr().unwrap()).await;
    let _other = rig.agent("cluster-b", other.address).await;
    let mut client = TcpStream::connect(rig.gateway).await.unwrap();
    client.write_all(get("/cluster-a/big").as_bytes()).await.unwrap();
    let mut target = listener.accept().await.unwrap().0;
    head_of(&mut target).await;
    let taken = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&taken);
    let _writing = AbortOnDropHandle::new(tokio::task::spawn(async move {
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {LARGE}\r\n\r\n");
        target.write_all(head.as_bytes()).await.unwrap();
        for number in 0..LARGE / PIECE {
            target.write_all(&piece(number)).await.unwrap();
            count.fetch_add(PIECE, Ordering::SeqCst);
        }
        // The agent may keep the connection.
        let _ = target.read_u8().await;
    }));
    head_of(&mut client).await;
    // The target is held up: many requests of others came and went, and it could not write one more piece.
    loop {
        let before = taken.load(Ordering::SeqCst);
        for _ in 0..50 {
            assert!(rig.once(&get("/cluster-b/x")).await.ends_with('B'));
        }
        if before > 0 && taken.load(Ordering::SeqCst) == before {
            assert!(before < LARGE, "all of it is on its way, and nobody reads");
            break;
        }
    }
    let mut received = vec![0; PIECE];
    for number in 0..LARGE / PIECE {
        client.read_exact(&mut received).await.unwrap();
        assert!(received == piece(number), "piece {number}");
    }
    assert_eq!(client.read(&mut received).await.unwrap(), 0);
}

#[tokio::test]
async fn a_large_upload_arrives_whole_and_harms_nobody() {
    let target = Target::start(|request| ok(&request.len().to_string())).await;
    let rig = Rig::start().await;
    let _agent = rig.agent("cluster-a", target.address).await;
    let body = "x".repeat(5 * 1024 * 1024);
    let mut client = rig.client().await;
    let head = format!("POST /cluster-a/upload HTTP/1.1\r\nHost: hub\r\nContent-Length: {}\r\n\r\n", body.len());
    client.send(head).await;
    client.send(&body).await;
    assert!(client.answer().await.0.starts_with("http/1.1 200"));
    assert!(target.seen.lock()[0].ends_with(&body));
    client.send("GET /cluster-a/after HTTP/1.1\r\nHost: hub\r\n\r\n").await;
    assert!(client.answer().await.0.starts_with("http/1.1 200"));
}

#[tokio::test]
async fn upgraded_bytes_keep_their_order() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let rig = Rig::start().await;
    let _agent = rig.agent("cluster-a", address).await;
    let mut client = rig.client().await;
    client.send("POST /cluster-a/exec HTTP/1.1\r\nHost: hub\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n").await;
    let (mut target, _) = listener.accept().await.unwrap();
    let mut head = vec![0; 4096];
    let read = target.read(&mut head).await.unwrap();
    assert!(String::from_utf8_lossy(&head[..read]).to_ascii_lowercase().contains("upgrade: spdy/3.1"));
    target
        .write_all(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n")
        .await
        .unwrap();
    client.until("\r\n\r\n").await;
    let mut sent = Vec::new();
    for number in 0..20_000_u32 {
        sent.extend_from_slice(&number.to_be_bytes());
        client.send(number.to_be_bytes()).await;
    }
    let mut received = vec![0; sent.len()];
    target.read_exact(&mut received).await.unwrap();
    assert!(received == sent);
}

#[tokio::test]
async fn a_chunked_upload_arrives() {
    let target = Target::start(|request| ok(&request.len().to_string())).await;
    let rig = Rig::start().await;
    let _agent = rig.agent("cluster-a", target.address).await;
    let answer = rig
        .once("POST /cluster-a/x HTTP/1.1\r\nHost: hub\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nabcd\r\n6\r\nefghij\r\n0\r\n\r\n")
        .await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let seen = target.seen.lock()[0].replace("\r\n", "");
    assert!(seen.contains("abcd") && seen.contains("efghij"), "{seen}");
}

#[tokio::test]
async fn an_agent_that_restarts_with_a_request_in_flight_harms_no_other_cluster() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let silent = listener.local_addr().unwrap();
    let rig = Rig::start().await;
    let b = Target::named("B").await;
    let _b = rig.agent("cluster-b", b.address).await;
    let bundle = rig.bundle("cluster-a");
    let first = rig.run(&bundle, silent).await;
    let mut waiting = rig.client().await;
    waiting.send(get("/cluster-a/never")).await;
    let (_target, _) = listener.accept().await.unwrap();
    first.kill();
    let answer = timeout(Duration::from_secs(10), waiting.rest()).await.expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 502"), "{answer}");
    assert!(rig.once(&get("/cluster-b/x")).await.ends_with('B'));
    let a = Target::named("A").await;
    let _second = rig.run(&bundle, a.address).await;
    assert!(rig.once(&get("/cluster-a/x")).await.ends_with('A'));
}

#[tokio::test]
async fn a_target_that_breaks_is_never_a_clean_end() {
    let target = Target::start(|request| {
        let head: &[u8] = if request.contains("/chunked") {
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nabcd\r\n"
        } else {
            b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabcd"
        };
        [head, CUT].concat()
    })
    .await;
    let rig = Rig::start().await;
    let _agent = rig.agent("cluster-a", target.address).await;
    for path in ["/cluster-a/chunked", "/cluster-a/length"] {
        let mut client = rig.client().await;
        client.send(format!("GET {path} HTTP/1.1\r\nHost: hub\r\n\r\n")).await;
        // The break may overtake what came before it inside the agent. Then it is a 502; else the answer is cut where the target broke.
        let head = client.until("\r\n\r\n").await;
        if head.starts_with("HTTP/1.1 200") {
            let rest = client.rest_or_error().await;
            assert!(!rest.ends_with("0\r\n\r\n") && rest.len() < 100, "{path}: a clean end: {rest}");
        } else {
            assert!(head.starts_with("HTTP/1.1 502"), "{path}: {head}");
        }
    }
    // Before the answer: a 502 that says so.
    let target = Target::start(|_| CUT.to_vec()).await;
    let _agent = rig.agent("cluster-b", target.address).await;
    let answer = rig.once(&get("/cluster-b/x")).await;
    assert!(answer.starts_with("HTTP/1.1 502") && answer.contains("MCT-OPEN-TARGET-UNREACHABLE"), "{answer}");
}
