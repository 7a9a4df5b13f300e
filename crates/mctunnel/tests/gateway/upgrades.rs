//! Upgrades become plain bytes; those that fail end the connection.

use crate::rig::{Rig, Target};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

const UPGRADE: &str = "GET /cluster-a/exec HTTP/1.1\r\nHost: hub\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
    Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n";

#[tokio::test]
async fn bytes_right_behind_the_answer_are_kept_and_each_side_ends_alone() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let rig = Rig::start().await;
    let _agent = rig.agent("cluster-a", listener.local_addr().unwrap()).await;
    let mut client = rig.client().await;
    client.send(UPGRADE).await;
    let (mut target, _) = listener.accept().await.unwrap();
    let mut head = vec![0; 4096];
    let read = target.read(&mut head).await.unwrap();
    let head = String::from_utf8_lossy(&head[..read]).to_ascii_lowercase();
    assert!(head.contains("connection: upgrade") && head.contains("sec-websocket-key: dghl"), "{head}");
    target
        .write_all(
            b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nX-A: b\r\n\r\nearly",
        )
        .await
        .unwrap();
    let answer = client.until("\r\n\r\n").await.to_ascii_lowercase();
    assert!(answer.starts_with("http/1.1 101") && answer.contains("x-a: b") && answer.contains("upgrade: websocket"));
    client.until("early").await;
    client.send("question").await;
    let mut question = [0; 8];
    target.read_exact(&mut question).await.unwrap();
    assert_eq!(&question, b"question");
    target.write_all(b"last words").await.unwrap();
    target.shutdown().await.unwrap();
    assert_eq!(client.rest().await, "last words");
}

#[tokio::test]
async fn t13_an_upgrade_that_fails_ends_the_connection() {
    let rig = Rig::start().await;
    for status in ["200 OK", "302 Found", "403 Forbidden"] {
        let target =
            Target::start(move |_| format!("HTTP/1.1 {status}\r\nContent-Length: 2\r\n\r\nno").into_bytes()).await;
        let bundle = rig.bundle(&format!("c{}", &status[..3]));
        let _agent = rig.run(&bundle, target.address).await;
        let mut client = rig.client().await;
        let cluster = bundle.cluster.to_string();
        let asked = UPGRADE.replace("cluster-a", &cluster);
        client.send(format!("{asked}GET /{cluster}/second HTTP/1.1\r\nHost: hub\r\n\r\n")).await;
        let answers = client.rest().await;
        assert!(answers.starts_with(&format!("HTTP/1.1 {}", &status[..3])), "{answers}");
        assert_eq!(answers.matches("HTTP/1.1").count(), 1, "{answers}");
        assert_eq!(target.seen.lock().len(), 1, "{status}");
    }
}

#[tokio::test]
async fn t13_an_upgrade_that_nobody_asked_for_is_refused() {
    let rig = Rig::start().await;
    let target = Target::start(|_| {
        b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n".to_vec()
    })
    .await;
    let _agent = rig.agent("cluster-a", target.address).await;
    let answer = rig.once("GET /cluster-a/x HTTP/1.1\r\nHost: hub\r\nConnection: close\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 502"), "{answer}");
    for upgrade in ["h2c", "TLS/1.0", "websocket, h2c"] {
        let request =
            format!("GET /cluster-a/x HTTP/1.1\r\nHost: hub\r\nConnection: Upgrade\r\nUpgrade: {upgrade}\r\n\r\n");
        let answer = rig.once(&request).await;
        assert!(answer.starts_with("HTTP/1.1 400"), "{upgrade}: {answer}");
    }
    assert_eq!(target.seen.lock().len(), 1);
}
