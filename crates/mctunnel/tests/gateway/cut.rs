//! A gateway that cuts what is left at the end of its grace: no client takes that for the end of what it read.

use crate::rig::{Client, Rig, Target, get};
use rustls_pki_types::ServerName;
use std::{io, sync::Arc, time::Duration};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    time::timeout,
};
use tokio_rustls::TlsConnector;

/// The longest anything here may take; nothing waits for it to pass.
const LIMIT: Duration = Duration::from_secs(20);

const PROTOCOLS: [&str; 2] = ["websocket", "SPDY/3.1"];

fn upgrade(protocol: &str) -> String {
    format!(
        "GET /cluster-a/exec HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: {protocol}\r\n\
         Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
    )
}

/// Has the target's side change the protocol and say something; the client has read that when this returns.
async fn upgraded(client: &mut (impl AsyncRead + AsyncWrite + Unpin), target: &TcpListener, protocol: &str) -> Client {
    client.write_all(upgrade(protocol).as_bytes()).await.unwrap();
    let mut shell = Client::new(target.accept().await.unwrap().0);
    shell.until("\r\n\r\n").await;
    shell
        .send(format!("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: {protocol}\r\n\r\n$ "))
        .await;
    let mut read = Vec::new();
    while !read.ends_with(b"$ ") {
        assert!(timeout(LIMIT, client.read_buf(&mut read)).await.expect("bytes").unwrap() > 0);
    }
    shell
}

/// How a connection ends for who reads it.
async fn end(client: &mut (impl AsyncRead + Unpin)) -> Option<io::ErrorKind> {
    let mut rest = Vec::new();
    timeout(LIMIT, client.read_to_end(&mut rest)).await.expect("an end").err().map(|error| error.kind())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upgraded_connection_is_reset() {
    let rig = Rig::start().await;
    let target = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let _agent = rig.agent("cluster-a", target.local_addr().unwrap()).await;
    // Several times: the task that has the connection and the one that is cut are not the same.
    for protocol in PROTOCOLS.repeat(10) {
        let mut client = TcpStream::connect(rig.gateway).await.unwrap();
        let _shell = upgraded(&mut client, &target, protocol).await;
        rig.cut();
        assert_eq!(end(&mut client).await, Some(io::ErrorKind::ConnectionReset), "{protocol}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upgraded_connection_with_tls_is_reset() {
    let rig = Rig::start_tls().await;
    let target = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let _agent = rig.agent("cluster-a", target.local_addr().unwrap()).await;
    let mut tls = rustls::ClientConfig::clone(rig.trusting_client().config());
    tls.alpn_protocols = vec![b"http/1.1".to_vec()];
    let tls = TlsConnector::from(Arc::new(tls));
    for protocol in PROTOCOLS {
        let socket = TcpStream::connect(rig.gateway).await.unwrap();
        let mut client = tls.connect(ServerName::try_from("localhost").unwrap(), socket).await.unwrap();
        let _shell = upgraded(&mut client, &target, protocol).await;
        rig.cut();
        // Not the end without a goodbye, which many clients take for a good one.
        assert_eq!(end(&mut client).await, Some(io::ErrorKind::ConnectionReset), "{protocol}");
    }
}

#[tokio::test]
async fn an_answer_that_ends_with_its_connection_is_reset() {
    let rig = Rig::start().await;
    let target =
        Target::start(|_| b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n".to_vec()).await;
    let _agent = rig.agent("cluster-a", target.address).await;
    let mut client = rig.client().await;
    client.send(get("/cluster-a/x").replace("HTTP/1.1", "HTTP/1.0")).await;
    let head = client.until("\r\n\r\n").await.to_ascii_lowercase();
    assert!(!head.contains("content-length") && !head.contains("transfer-encoding"), "{head}");
    client.until("first").await;
    rig.cut();
    assert_eq!(timeout(LIMIT, client.error()).await.expect("an end"), Some(io::ErrorKind::ConnectionReset));
}
