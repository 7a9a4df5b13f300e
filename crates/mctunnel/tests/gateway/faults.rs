//! An agent that goes away in the middle is always an error to the client; one that is just coming back is waited for.

use crate::{
    rig::{Client, Rig, Target, get},
    websocket_http2::h2_client,
};
use bytes::Bytes;
use mctunnel::{HttpConfig, Offered, OpenError, Protocol, ProxyAdapter};
use std::sync::Arc;
use tokio::{
    io::AsyncWriteExt,
    net::TcpListener,
    time::{Duration, timeout},
};

#[tokio::test]
async fn an_agent_lost_in_the_middle_of_an_answer_is_an_error() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let rig = Rig::start().await;
    let bundle = rig.bundle("cluster-a");
    for head in ["Content-Length: 100", "Transfer-Encoding: chunked"] {
        let agent = rig.run(&bundle, listener.local_addr().unwrap()).await;
        let mut client = rig.client().await;
        client.send("GET /cluster-a/x HTTP/1.1\r\nHost: hub\r\n\r\n").await;
        let (mut target, _) = listener.accept().await.unwrap();
        target.write_all(format!("HTTP/1.1 200 OK\r\n{head}\r\n\r\n4\r\nabcd\r\n").as_bytes()).await.unwrap();
        client.until("abcd").await;
        agent.kill();
        let rest = timeout(Duration::from_secs(10), client.ended()).await.expect("the end");
        assert!(rest, "{head}");
    }
}

/// The longest anything here may take; nothing waits for it to pass.
const LIMIT: Duration = Duration::from_secs(20);

#[tokio::test]
async fn an_agent_lost_in_the_middle_of_an_answer_over_http2_is_a_reset() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let rig = Rig::start_tls().await;
    let bundle = rig.bundle("cluster-a");
    for head in ["Content-Length: 100", "Transfer-Encoding: chunked"] {
        let agent = rig.run(&bundle, listener.local_addr().unwrap()).await;
        let (mut client, _connection) = h2_client(&rig).await;
        let request = http::Request::get("https://localhost/cluster-a/x").body(()).unwrap();
        let answer = client.send_request(request, true).unwrap().0;
        let (mut target, _) = timeout(LIMIT, listener.accept()).await.expect("a request").unwrap();
        target.write_all(format!("HTTP/1.1 200 OK\r\n{head}\r\n\r\n4\r\nabcd\r\n").as_bytes()).await.unwrap();
        let mut body = timeout(LIMIT, answer).await.expect("an answer").unwrap().into_body();
        assert!(!timeout(LIMIT, body.data()).await.expect("bytes").unwrap().unwrap().is_empty());
        agent.kill();
        let end = async {
            loop {
                match body.data().await {
                    Some(Ok(_)) => {}
                    Some(Err(error)) => return Some(error),
                    None => return None,
                }
            }
        };
        let error = timeout(LIMIT, end).await.expect("an end").expect("the client took it for the end of the answer");
        assert!(error.is_reset() && error.is_remote(), "{head}: {error}");
    }
}

#[tokio::test]
async fn an_agent_lost_in_the_middle_of_an_upload_is_an_error() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let rig = Rig::start().await;
    let bundle = rig.bundle("cluster-a");
    for (head, body) in [("Content-Length: 100", "abcd"), ("Transfer-Encoding: chunked", "4\r\nabcd\r\n")] {
        let agent = rig.run(&bundle, listener.local_addr().unwrap()).await;
        let mut client = rig.client().await;
        client.send(format!("POST /cluster-a/x HTTP/1.1\r\nHost: hub\r\n{head}\r\n\r\n{body}")).await;
        let mut target = Client::new(timeout(LIMIT, listener.accept()).await.expect("a request").unwrap().0);
        target.until("abcd").await;
        agent.kill();
        let (answer, status) = timeout(LIMIT, client.answer()).await.expect("an answer");
        assert!(answer.starts_with("http/1.1 502") && status.contains("MCT-"), "{head}: {answer}{status}");
        let more = timeout(LIMIT, target.rest_or_error()).await.expect("an end");
        assert!(!more.ends_with("0\r\n\r\n"), "{head}: the target took it for the whole upload: {more}");
    }
}

#[tokio::test]
async fn an_agent_lost_in_the_middle_of_an_upload_over_http2_is_an_error() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let rig = Rig::start_tls().await;
    let bundle = rig.bundle("cluster-a");
    for length in [Some(100), None] {
        let agent = rig.run(&bundle, listener.local_addr().unwrap()).await;
        let (mut client, _connection) = h2_client(&rig).await;
        let mut request = http::Request::post("https://localhost/cluster-a/x");
        if let Some(length) = length {
            request = request.header("content-length", length);
        }
        let (answer, mut send) = client.send_request(request.body(()).unwrap(), false).unwrap();
        send.send_data(Bytes::from_static(b"abcd"), false).unwrap();
        let mut target = Client::new(timeout(LIMIT, listener.accept()).await.expect("a request").unwrap().0);
        target.until("abcd").await;
        agent.kill();
        let answer = timeout(LIMIT, answer).await.expect("an answer").unwrap();
        assert_eq!(answer.status(), 502, "{length:?}");
        let more = timeout(LIMIT, target.rest_or_error()).await.expect("an end");
        assert!(!more.ends_with("0\r\n\r\n"), "{length:?}: the target took it for the whole upload: {more}");
    }
}

/// Takes every stream and never says anything.
struct Silent;

impl ProxyAdapter for Silent {
    fn protocol(&self) -> Protocol {
        Protocol::http()
    }

    async fn serve(self: Arc<Self>, offered: Offered) {
        offered.taken_back().await;
    }
}

#[tokio::test]
async fn an_agent_that_says_nothing_is_a_timeout_with_a_remedy() {
    let mut config = HttpConfig::default();
    config.open_timeout = Duration::from_millis(200);
    let rig = Rig::start_configured(config).await;
    let _agent = rig.run_with(&rig.bundle("cluster-a"), |agent| agent.adapter(Arc::new(Silent))).await;
    let answer = timeout(LIMIT, rig.once(&get("/cluster-a/x"))).await.expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 504 "), "{answer}");
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    let status: serde_json::Value = serde_json::from_str(body).unwrap();
    let cause = &status["details"]["causes"][0];
    let code = OpenError::Timeout(String::new()).code();
    for (told, expected) in [
        (&status["kind"], "Status"),
        (&status["reason"], "Timeout"),
        (&cause["reason"], code.code),
        (&cause["message"], code.remedy),
    ] {
        assert_eq!(told, expected, "{body}");
    }
    assert_eq!(status["code"], 504, "{body}");
}

#[tokio::test]
async fn a_request_waits_for_an_agent_that_is_just_reconnecting() {
    let rig = Rig::start().await;
    let target = Target::named("A").await;
    let bundle = rig.bundle("cluster-a");
    rig.run(&bundle, target.address).await.kill();
    let request = get("/cluster-a/x");
    let waiting = rig.once(&request);
    let back = async {
        tokio::task::yield_now().await;
        rig.run(&bundle, target.address).await
    };
    let (answer, _agent) = tokio::join!(waiting, back);
    assert!(answer.ends_with('A'), "{answer}");
}

#[tokio::test]
async fn a_client_that_goes_away_is_noticed_at_the_target() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let rig = Rig::start().await;
    let _agent = rig.agent("cluster-a", listener.local_addr().unwrap()).await;
    // While the target thinks, and while it is silent in the middle of an answer.
    for begun in [false, true] {
        let mut client = rig.client().await;
        client.send("GET /cluster-a/watch HTTP/1.1\r\nHost: hub\r\n\r\n").await;
        let (mut target, _) = listener.accept().await.unwrap();
        if begun {
            target.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nabcd\r\n").await.unwrap();
            client.until("abcd").await;
        }
        drop(client);
        let mut all = Vec::new();
        let ended = timeout(Duration::from_secs(10), tokio::io::AsyncReadExt::read_to_end(&mut target, &mut all)).await;
        assert!(ended.is_ok(), "begun {begun}: the target's connection goes on");
    }
}

#[tokio::test]
async fn without_an_agent_the_answer_says_when_to_try_again() {
    let rig = Rig::start_with(|adapter| adapter).await;
    rig.bundle("cluster-a");
    let answer = timeout(Duration::from_secs(8), rig.once(&get("/cluster-a/x"))).await.expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 503") && answer.contains("retry-after: 2"), "{answer}");
    assert!(answer.contains("\"kind\":\"Status\"") && answer.contains("MCT-OPEN-NO-TUNNEL"), "{answer}");
}

#[tokio::test]
async fn an_agent_lost_under_an_upgraded_connection_is_a_reset() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let rig = Rig::start().await;
    let bundle = rig.bundle("cluster-a");
    let agent = rig.run(&bundle, listener.local_addr().unwrap()).await;
    let mut client = rig.client().await;
    client.send("POST /cluster-a/exec HTTP/1.1\r\nHost: hub\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n").await;
    let (mut target, _) = listener.accept().await.unwrap();
    let answer = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\nhello";
    target.write_all(answer).await.unwrap();
    client.until("hello").await;
    agent.kill();
    let error = timeout(Duration::from_secs(10), client.error()).await.expect("the end");
    assert_eq!(error, Some(std::io::ErrorKind::ConnectionReset), "the client took it for a clean end");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn answers_are_never_lost_however_fast_they_are() {
    let rig = Rig::start().await;
    let target = Target::named("A").await;
    let _agent = rig.agent("cluster-a", target.address).await;
    let mut clients = tokio::task::JoinSet::new();
    for mut client in futures_util::future::join_all((0..16).map(|_| rig.client())).await {
        clients.spawn(async move {
            for _ in 0..200 {
                client.send("GET /cluster-a/x HTTP/1.1\r\nHost: hub\r\n\r\n").await;
                let (head, body) = client.answer().await;
                assert!(head.starts_with("http/1.1 200") && body == "A", "{head}{body}");
            }
        });
    }
    while let Some(client) = clients.join_next().await {
        client.unwrap();
    }
    assert_eq!(target.seen.lock().len(), 3200);
}
