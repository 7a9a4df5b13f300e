//! An agent that goes away in the middle is always an error to the client; one that is just coming back is waited for.

use crate::rig::{Rig, Target, get};
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
