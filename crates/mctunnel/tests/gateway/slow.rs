//! Clients that are slow on purpose (T40): each is ended at its limit, or costs nobody else anything.

use crate::{
    rig::{Client, Rig, Target, get},
    websocket_http2::h2_client,
};
use mctunnel::HttpConfig;
use std::time::Duration;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::{Instant, timeout},
};

const PATIENCE: Duration = Duration::from_secs(15);

fn hasty() -> HttpConfig {
    let mut config = HttpConfig::default();
    config.head_timeout = Duration::from_millis(300);
    config
}

/// Sends a byte of this, over and over, as slowly as slowloris does; gives when the gateway hung up.
async fn dribble(mut socket: TcpStream, text: &[u8]) -> Duration {
    let begin = Instant::now();
    let mut answer = [0; 1024];
    for byte in text.iter().cycle() {
        tokio::select! {
            read = socket.read(&mut answer) => if !matches!(read, Ok(1..)) { break },
            // tidy: sleep because slowness is the attack
            () = tokio::time::sleep(Duration::from_millis(20)) => if socket.write_all(&[*byte]).await.is_err() { break },
        }
        assert!(begin.elapsed() < PATIENCE, "nobody hung up");
    }
    begin.elapsed()
}

#[tokio::test]
async fn t40_heads_that_dribble_in_end_at_the_limit_and_others_are_served() {
    let rig = Rig::start_configured(hasty()).await;
    let target = Target::named("served").await;
    let _agent = rig.agent("c1", target.address).await;
    let mut slow = tokio::task::JoinSet::new();
    for _ in 0..50 {
        let socket = TcpStream::connect(rig.gateway).await.unwrap();
        slow.spawn(dribble(
            socket,
            b"GET /c1/api HTTP/1.1\r\nHost: hub\r\nX-a: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
        ));
    }
    for _ in 0..20 {
        assert!(rig.once(&get("/c1/api")).await.ends_with("served"));
    }
    for lived in slow.join_all().await {
        assert!(lived < Duration::from_secs(3), "{lived:?}");
    }
}

#[tokio::test]
async fn t40_a_head_that_dribbles_in_behind_a_whole_request_ends_at_the_limit_too() {
    let rig = Rig::start_configured(hasty()).await;
    let target = Target::named("served").await;
    let _agent = rig.agent("c1", target.address).await;
    let mut socket = TcpStream::connect(rig.gateway).await.unwrap();
    socket.write_all(b"GET /c1/api HTTP/1.1\r\nHost: hub\r\n\r\n").await.unwrap();
    let mut answer = [0; 1024];
    assert!(socket.read(&mut answer).await.unwrap() > 0);
    let lived = dribble(socket, b"GET /c1/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa").await;
    assert!(lived < Duration::from_secs(3), "{lived:?}");
}

#[tokio::test]
async fn t40_a_slow_head_is_told_so() {
    let rig = Rig::start_configured(hasty()).await;
    let mut client = rig.client().await;
    client.send("GET /c1/api HTTP/1.1\r\nHost: hu").await;
    let answer = timeout(PATIENCE, client.rest()).await.expect("the gateway hangs up");
    assert!(answer.starts_with("HTTP/1.1 408 ") && answer.contains("MCT-HTTP-SLOW-HEAD"), "{answer}");
    let mut silent = rig.client().await;
    assert_eq!(timeout(PATIENCE, silent.rest()).await.expect("the gateway hangs up"), "");
}

#[tokio::test]
async fn a_client_may_wait_longer_between_requests_than_within_a_head() {
    let rig = Rig::start_configured(hasty()).await;
    let target = Target::named("served").await;
    let _agent = rig.agent("c1", target.address).await;
    let mut client = rig.client().await;
    for _ in 0..2 {
        client.send("GET /c1/api HTTP/1.1\r\nHost: hub\r\n\r\n").await;
        client.until("served").await;
        // tidy: sleep because waiting is what the client does
        tokio::time::sleep(2 * hasty().head_timeout).await;
    }
    client.send(get("/c1/api")).await;
    assert!(client.rest().await.ends_with("served"));
}

#[tokio::test]
async fn an_idle_connection_ends_with_a_goodbye() {
    let mut config = HttpConfig::default();
    config.idle_timeout = Duration::from_millis(300);
    let rig = Rig::start_tls_configured(config).await;
    let socket = TcpStream::connect(rig.gateway).await.unwrap();
    let name = rustls_pki_types::ServerName::try_from("localhost").unwrap();
    let mut tls = rustls::ClientConfig::clone(rig.trusting_client().config());
    tls.alpn_protocols = vec![b"http/1.1".to_vec()];
    let mut client = tokio_rustls::TlsConnector::from(std::sync::Arc::new(tls)).connect(name, socket).await.unwrap();
    client.write_all(b"GET /nowhere/api HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    let read = timeout(PATIENCE, client.read_to_string(&mut answer)).await.expect("the gateway hangs up");
    assert!(read.is_ok(), "without close_notify it could have been anybody who hung up: {read:?}");
    assert!(answer.starts_with("HTTP/1.1 404 "), "{answer}");
}

fn soon_idle() -> HttpConfig {
    let mut config = hasty();
    config.idle_timeout = Duration::from_millis(300);
    config
}

#[tokio::test]
async fn t40_an_http2_client_that_asks_for_nothing_is_told_to_go() {
    let rig = Rig::start_tls_configured(soon_idle()).await;
    for requests in [0, 1] {
        let (mut client, connection) = h2_client(&rig).await;
        for _ in 0..requests {
            let request = http::Request::get("https://localhost/nowhere/api").body(()).unwrap();
            let answer = client.send_request(request, true).unwrap().0.await.unwrap();
            assert_eq!(answer.status(), 404);
        }
        let ended = timeout(PATIENCE, connection).await.expect("the gateway hangs up").unwrap();
        assert!(ended.is_ok(), "a goodbye, not {ended:?}");
    }
}

#[tokio::test]
async fn an_http2_client_whose_request_takes_long_is_not_idle() {
    let rig = Rig::start_tls_configured(soon_idle()).await;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let _agent = rig.agent("c1", listener.local_addr().unwrap()).await;
    let (mut client, connection) = h2_client(&rig).await;
    let request = http::Request::get("https://localhost/c1/api").body(()).unwrap();
    let answer = client.send_request(request, true).unwrap().0;
    let mut target = Client::new(listener.accept().await.unwrap().0);
    target.until("\r\n\r\n").await;
    // tidy: sleep because waiting is what the client does
    tokio::time::sleep(3 * soon_idle().idle_timeout).await;
    target.send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nla").await;
    let mut body = answer.await.unwrap().into_body();
    // tidy: sleep because waiting is what the client does
    tokio::time::sleep(3 * soon_idle().idle_timeout).await;
    target.send("te").await;
    let mut late = Vec::new();
    while let Some(data) = timeout(PATIENCE, body.data()).await.expect("bytes") {
        late.extend_from_slice(&data.unwrap());
    }
    assert_eq!(late, b"late");
    drop(body);
    assert!(timeout(PATIENCE, connection).await.expect("the gateway hangs up").unwrap().is_ok());
}

#[tokio::test]
async fn t40_an_http2_client_that_says_nothing_ends_at_the_limit() {
    let rig = Rig::start_tls_configured(hasty()).await;
    for first in [&b""[..], b"PRI * HTTP/2.0\r\n"] {
        let socket = TcpStream::connect(rig.gateway).await.unwrap();
        let name = rustls_pki_types::ServerName::try_from("localhost").unwrap();
        let mut client = rig.trusting_client().connect(name, socket).await.unwrap();
        client.write_all(first).await.unwrap();
        let begin = Instant::now();
        let mut rest = Vec::new();
        let _ = timeout(PATIENCE, client.read_to_end(&mut rest)).await.expect("the gateway hangs up");
        assert!(begin.elapsed() < Duration::from_secs(3), "{:?}", begin.elapsed());
    }
}

#[tokio::test]
async fn t40_a_tls_handshake_that_stalls_ends_at_the_limit() {
    let rig = Rig::start_tls_configured(hasty()).await;
    for first in [&b""[..], b"\x16\x03\x01", b"\x16\x03\x01\x40\x00\x01"] {
        let mut socket = TcpStream::connect(rig.gateway).await.unwrap();
        socket.write_all(first).await.unwrap();
        let begin = Instant::now();
        let mut rest = Vec::new();
        let _ = timeout(PATIENCE, socket.read_to_end(&mut rest)).await.expect("the gateway hangs up");
        assert!(begin.elapsed() < Duration::from_secs(3), "{:?}", begin.elapsed());
    }
}

#[tokio::test]
async fn t40_a_body_that_stalls_holds_its_own_request_alone_and_breaks_with_its_client() {
    let rig = Rig::start().await;
    let target = Target::named("served").await;
    let _agent = rig.agent("c1", target.address).await;
    let mut slow = Vec::new();
    for _ in 0..50 {
        let mut client = rig.client().await;
        client.send("POST /c1/api HTTP/1.1\r\nHost: hub\r\nContent-Length: 1000\r\n\r\nsome").await;
        slow.push(client);
    }
    for _ in 0..20 {
        assert!(rig.once(&get("/c1/api")).await.ends_with("served"));
    }
    drop(slow);
    // The target never took one of them for a whole request.
    let mut last = Client::new(TcpStream::connect(rig.gateway).await.unwrap());
    last.send(get("/c1/last")).await;
    assert!(last.rest().await.ends_with("served"));
    assert!(target.seen.lock().iter().all(|request| request.starts_with("GET ")), "{:?}", target.seen.lock());
}
