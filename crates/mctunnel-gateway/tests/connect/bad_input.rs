//! Requests that are refused before anything is opened.

use crate::rig::{Rig, read_all};
use mctunnel_core::Happening;
use mctunnel_gateway::ConnectConfig;
use tokio::io::AsyncWriteExt;

const CLUSTER: &str = "x-mctunnel-cluster: c1\r\n";

/// Heads with the status each must get. `$` stands for a good cluster header.
const HEADS: &[(&str, u16)] = &[
    // methods
    ("GET / HTTP/1.1\r\n$\r\n", 405),
    ("GET http://db:1/ HTTP/1.1\r\n$\r\n", 405),
    ("POST / HTTP/1.1\r\n$Content-Length: 3\r\n\r\nabc", 405),
    ("connect db:1 HTTP/1.1\r\n$\r\n", 405),
    ("OPTIONS * HTTP/1.1\r\n$\r\n", 405),
    // targets
    ("CONNECT db HTTP/1.1\r\n$\r\n", 400),
    ("CONNECT db: HTTP/1.1\r\n$\r\n", 400),
    ("CONNECT :1 HTTP/1.1\r\n$\r\n", 400),
    ("CONNECT db:0 HTTP/1.1\r\n$\r\n", 400),
    ("CONNECT db:0443 HTTP/1.1\r\n$\r\n", 400),
    ("CONNECT db:65536 HTTP/1.1\r\n$\r\n", 400),
    ("CONNECT db:+1 HTTP/1.1\r\n$\r\n", 400),
    ("CONNECT user@db:1 HTTP/1.1\r\n$\r\n", 400),
    ("CONNECT user:pass@db:1 HTTP/1.1\r\n$\r\n", 400),
    ("CONNECT http://db:1 HTTP/1.1\r\n$\r\n", 400),
    ("CONNECT db:1/path HTTP/1.1\r\n$\r\n", 400),
    ("CONNECT /db:1 HTTP/1.1\r\n$\r\n", 400),
    ("CONNECT * HTTP/1.1\r\n$\r\n", 400),
    ("CONNECT db:1#x HTTP/1.1\r\n$\r\n", 400),
    ("CONNECT db:1?x HTTP/1.1\r\n$\r\n", 400),
    ("CONNECT 2130706433:1 HTTP/1.1\r\n$\r\n", 400),
    ("CONNECT 0x7f.1:1 HTTP/1.1\r\n$\r\n", 400),
    ("CONNECT 127.1:1 HTTP/1.1\r\n$\r\n", 400),
    ("CONNECT ::1:1 HTTP/1.1\r\n$\r\n", 400),
    ("CONNECT [fe80::1%25eth0]:1 HTTP/1.1\r\n$\r\n", 400),
    ("CONNECT %64b:1 HTTP/1.1\r\n$\r\n", 400),
    ("CONNECT a..b:1 HTTP/1.1\r\n$\r\n", 400),
    ("CONNECT d\\b:1 HTTP/1.1\r\n$\r\n", 400),
    // clusters
    ("CONNECT db:1 HTTP/1.1\r\n\r\n", 400),
    ("CONNECT db:1 HTTP/1.1\r\nx-mctunnel-cluster:\r\n\r\n", 400),
    ("CONNECT db:1 HTTP/1.1\r\nx-mctunnel-cluster: C1\r\n\r\n", 400),
    ("CONNECT db:1 HTTP/1.1\r\nx-mctunnel-cluster: c1, c2\r\n\r\n", 400),
    ("CONNECT db:1 HTTP/1.1\r\nx-mctunnel-cluster: ../c1\r\n\r\n", 400),
    ("CONNECT db:1 HTTP/1.1\r\nx_mctunnel_cluster: c1\r\n\r\n", 400),
    ("CONNECT db:1 HTTP/1.1\r\n$x-mctunnel-cluster: c2\r\n\r\n", 400),
    ("CONNECT db.c2.mctunnel:1 HTTP/1.1\r\n$\r\n", 400),
    ("CONNECT c1.mctunnel:1 HTTP/1.1\r\n\r\n", 400),
    ("CONNECT db.C1.mctunnel:1 HTTP/1.1\r\n\r\n", 400),
    // bodies
    ("CONNECT db:1 HTTP/1.1\r\n$Content-Length: 1\r\n\r\nx", 400),
    ("CONNECT db:1 HTTP/1.1\r\n$Content-Length: 0, 0\r\n\r\n", 400),
    ("CONNECT db:1 HTTP/1.1\r\n$Content-Length: -0\r\n\r\n", 400),
    ("CONNECT db:1 HTTP/1.1\r\n$Transfer-Encoding: chunked\r\n\r\n", 400),
    ("CONNECT db:1 HTTP/1.1\r\n$transfer-encoding: identity\r\n\r\n", 400),
    // framing
    ("CONNECT db:1 HTTP/1.1\n$\n", 400),
    ("CONNECT db:1 HTTP/1.1\r\n$x: y\n\r\n", 400),
    ("CONNECT db:1 HTTP/1.1\r\n$x: a\rb\r\n\r\n", 400),
    ("CONNECT db:1 HTTP/1.1\r\n$x: a\0b\r\n\r\n", 400),
    ("CONNECT d\0b:1 HTTP/1.1\r\n$\r\n", 400),
    ("CONNECT d\u{e9}:1 HTTP/1.1\r\n$\r\n", 400),
    ("CONNECT db:1 HTTP/1.1\r\n$x: \u{e9}\r\n\r\n", 400),
    ("CONNECT db:1 HTTP/1.1\r\n$ folded: y\r\n\r\n", 400),
    ("CONNECT db:1 HTTP/1.1\r\n$spaced : y\r\n\r\n", 400),
    ("CONNECT db:1 HTTP/1.1\r\n$no colon\r\n\r\n", 400),
    ("CONNECT db:1 HTTP/1.1\r\n$Host: a\r\nHost: b\r\n\r\n", 400),
    ("CONNECT  db:1 HTTP/1.1\r\n$\r\n", 400),
    ("CONNECT db:1  HTTP/1.1\r\n$\r\n", 400),
    ("CONNECT db:1\r\n$\r\n", 400),
    ("CONNECT db:1 HTTP/2.0\r\n$\r\n", 400),
    ("CONNECT db:1 HTTP/1.2\r\n$\r\n", 400),
    ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400),
    ("\r\nCONNECT db:1 HTTP/1.1\r\n$\r\n", 400),
    ("\u{16}\u{3}\u{1}\u{2}", 400),
    ("SSH-2.0-client\r\n\r\n", 400),
];

#[tokio::test]
async fn bad_heads_get_4xx_and_open_nothing() {
    let rig = Rig::start(ConnectConfig::default(), |_| std::future::pending()).await;
    for (head, status) in HEADS {
        let answer = rig.exchange(head.replace('$', CLUSTER).as_bytes()).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} MCT-CONNECT-")), "{head:?} got {answer}");
        let observed = rig.happenings.lock().pop();
        assert!(matches!(observed, Some(Happening::StreamRefused { cluster: None, .. })), "{observed:?}");
    }
    assert_eq!(rig.requests.lock().len(), 0);
}

#[tokio::test]
async fn other_methods_are_told_what_to_do() {
    let rig = Rig::start(ConnectConfig::default(), |_| std::future::pending()).await;
    let answer = rig.exchange(b"GET / HTTP/1.1\r\n\r\n").await;
    assert!(answer.contains("\r\nAllow: CONNECT\r\n"), "{answer}");
    assert!(answer.contains("curl --proxytunnel"), "{answer}");
    let answer = rig.exchange(b"CONNECT db:1 HTTP/1.1\r\n\r\n").await;
    assert!(answer.contains("x-mctunnel-cluster: NAME") && answer.contains("HOST.NAME.mctunnel:PORT"), "{answer}");
}

#[tokio::test]
async fn heads_that_are_too_long_get_431() {
    let rig = Rig::start(ConnectConfig::default(), |_| std::future::pending()).await;
    let long = format!("CONNECT db:1 HTTP/1.1\r\n{CLUSTER}x: {}\r\n\r\n", "y".repeat(20_000));
    let many = format!("CONNECT db:1 HTTP/1.1\r\n{CLUSTER}{}\r\n", "x: y\r\n".repeat(64));
    let endless = format!("CONNECT {}", "y".repeat(16 * 1024));
    for head in [long, many, endless] {
        let answer = rig.exchange(head.as_bytes()).await;
        assert!(answer.starts_with("HTTP/1.1 431 MCT-CONNECT-LONG-HEAD: "), "{answer}");
    }
    assert_eq!(rig.requests.lock().len(), 0);
}

#[tokio::test]
async fn a_head_of_exactly_the_limit_is_served() {
    let mut config = ConnectConfig::default();
    let head = format!("CONNECT db:1 HTTP/1.1\r\n{CLUSTER}x: {}\r\n\r\n", "y".repeat(5000));
    for (limit, status) in [(head.len() - 1, "431"), (head.len(), "404")] {
        config.max_head_bytes = limit;
        let unknown = || std::future::ready(Err(mctunnel_core::OpenError::UnknownCluster));
        let rig = Rig::start(config.clone(), move |_| unknown()).await;
        let answer = rig.exchange(head.as_bytes()).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{limit}: {answer}");
    }
}

#[tokio::test]
async fn slow_heads_get_408() {
    let rig = Rig::start(ConnectConfig::default(), |_| std::future::pending()).await;
    for head in ["", "CONN", "CONNECT db:1 HTTP/1.1\r\nx-mctunnel-cluster: c1\r\n\r"] {
        let mut client = rig.connect().await;
        client.write_all(head.as_bytes()).await.expect("sent");
        // The clock jumps to the next deadline when nothing else is to be done.
        tokio::time::pause();
        let answer = read_all(&mut client).await;
        tokio::time::resume();
        assert!(answer.starts_with("HTTP/1.1 408 MCT-CONNECT-SLOW-HEAD: "), "{head:?} got {answer}");
    }
}

#[tokio::test]
async fn clients_that_leave_early() {
    let rig = Rig::start(ConnectConfig::default(), |_| std::future::pending()).await;
    for (sent, answered) in [("", ""), ("CONNECT db:1 HTT", "HTTP/1.1 400 MCT-CONNECT-BAD-HEAD: ")] {
        let mut client = rig.connect().await;
        client.write_all(sent.as_bytes()).await.expect("sent");
        client.shutdown().await.expect("ended");
        let answer = read_all(&mut client).await;
        assert!(answer.starts_with(answered) && answer.is_empty() == answered.is_empty(), "{sent:?} got {answer}");
    }
    assert_eq!(rig.happenings.lock().len(), 1);
}
