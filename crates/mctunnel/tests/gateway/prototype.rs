//! Nine ways in which a tunnel of this kind has failed before, as tests that pass here.

use crate::rig::{CUT, Rig, Target, get, ok};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
    time::{Duration, timeout},
};

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

#[tokio::test]
async fn a_slow_reader_gets_every_byte() {
    let body: String = (0..400_000).map(|n| format!("{n:09}\n")).collect();
    let answer = ok(&body);
    let target = Target::start(move |_| answer.clone()).await;
    let rig = Rig::start().await;
    let _agent = rig.agent("cluster-a", target.address).await;
    let mut client = rig.client().await;
    client.send(get("/cluster-a/big")).await;
    // The target has written what it could long before the client reads: let everybody else run first.
    for _ in 0..10_000 {
        tokio::task::yield_now().await;
    }
    let (_, received) = client.answer().await;
    assert!(received == body, "{} of {} bytes", received.len(), body.len());
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
