//! What clients are told when a stream is not opened.

use crate::rig::{PATIENCE, REQUEST, Rig, read_all};
use mctunnel_core::{Happening, OpenError};
use mctunnel_gateway::ConnectConfig;
use std::time::Duration;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpSocket, TcpStream},
    time::timeout,
};

/// Every situation with its status line and `Retry-After`.
fn table() -> Vec<(OpenError, &'static str, Option<&'static str>)> {
    let text = || "the reason".to_owned();
    vec![
        (
            OpenError::UnknownCluster,
            "404 MCT-OPEN-UNKNOWN-CLUSTER: no cluster of that name was added to this hub",
            None,
        ),
        (
            OpenError::NoTunnel { retry_after: Duration::from_millis(1500) },
            "503 MCT-OPEN-NO-TUNNEL: no agent of the cluster is connected",
            Some("2"),
        ),
        (OpenError::NotAllowed(text()), "403 MCT-OPEN-NOT-ALLOWED: the reason", None),
        (OpenError::TargetRefused(text()), "502 MCT-OPEN-TARGET-REFUSED: the reason", None),
        (OpenError::TargetUnreachable(text()), "502 MCT-OPEN-TARGET-UNREACHABLE: the reason", None),
        (OpenError::Timeout(text()), "504 MCT-OPEN-TIMEOUT: the reason", None),
        (OpenError::Busy(text()), "503 MCT-OPEN-BUSY: the reason", Some("1")),
        (OpenError::BadRequest(text()), "400 MCT-OPEN-BAD-REQUEST: the reason", None),
        (
            OpenError::TunnelLost(text()),
            "502 MCT-OPEN-TUNNEL-LOST: the tunnel was lost before the target answered: the reason",
            Some("1"),
        ),
        (OpenError::Internal(text()), "500 MCT-OPEN-INTERNAL: the reason", None),
    ]
}

#[tokio::test]
async fn each_open_error_has_its_status_line() {
    for (error, status, retry_after) in table() {
        let scripted = error.clone();
        let rig = Rig::start(ConnectConfig::default(), move |_| std::future::ready(Err(scripted.clone()))).await;
        let answer = rig.exchange(REQUEST).await;
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
        let mut lines = head.split("\r\n");
        assert_eq!(lines.next(), Some(format!("HTTP/1.1 {status}").as_str()));
        let headers: Vec<_> = lines.collect();
        let length = format!("Content-Length: {}", body.len());
        assert!(headers.contains(&"Content-Type: text/plain") && headers.contains(&"Connection: close"), "{head}");
        assert!(headers.contains(&length.as_str()), "{head}");
        let retry = headers.iter().find_map(|header| header.strip_prefix("Retry-After: "));
        assert_eq!(retry, retry_after, "{status}");
        let code = error.code();
        assert_eq!(body, format!("{}\n{error}\n{}\n", code.code, code.remedy));
    }
}

#[tokio::test]
async fn refusals_are_observed_and_only_known_clusters_named() {
    for (error, ..) in table() {
        let scripted = error.clone();
        let rig = Rig::start(ConnectConfig::default(), move |_| std::future::ready(Err(scripted.clone()))).await;
        rig.exchange(REQUEST).await;
        let happenings = std::mem::take(&mut *rig.happenings.lock());
        let [Happening::StreamRefused { cluster, target, code, reason }] = happenings.as_slice() else {
            panic!("one refusal, not {happenings:?}");
        };
        assert_eq!(cluster.is_some(), error != OpenError::UnknownCluster, "{error:?}");
        assert_eq!((target.as_str(), *code, reason), ("db:1", error.code().code, &error.to_string()));
    }
}

#[tokio::test]
async fn an_opener_that_never_answers_ends_in_504() {
    // The clock stands still and jumps to the next deadline whenever nothing else is to be done.
    let rig = Rig::start(ConnectConfig::default(), |_| std::future::pending()).await;
    tokio::time::pause();
    let answer = rig.exchange(REQUEST).await;
    assert!(answer.starts_with("HTTP/1.1 504 MCT-OPEN-TIMEOUT: "), "{answer}");
}

#[tokio::test]
async fn the_answer_survives_a_client_that_keeps_talking() {
    let rig = Rig::start(ConnectConfig::default(), |_| std::future::ready(Err(OpenError::UnknownCluster))).await;
    for _ in 0..20 {
        let mut request = REQUEST.to_vec();
        request.extend([b'x'; 40_000]);
        assert!(rig.exchange(&request).await.starts_with("HTTP/1.1 404 "));
    }
}

#[tokio::test]
async fn clients_above_the_limit_are_told_so() {
    let mut config = ConnectConfig::default();
    config.max_connections = 1;
    let rig = Rig::start(config, |_| std::future::pending()).await;
    let _first = rig.connect().await;
    while rig.gateway.connections() < 1 {
        tokio::task::yield_now().await;
    }
    let answer = rig.exchange(REQUEST).await;
    assert!(answer.starts_with("HTTP/1.1 503 MCT-CONNECT-BUSY: "), "{answer}");
    assert!(answer.contains("\r\nRetry-After: 1\r\n") && rig.requests.lock().is_empty());
}

/// A client of another address than all the others here.
async fn connect_from_elsewhere(rig: &Rig) -> TcpStream {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.bind("127.0.0.2:0".parse().expect("an address")).expect("all of 127.0.0.0/8 is this machine");
    socket.connect(rig.address).await.expect("the gateway listens")
}

#[tokio::test]
async fn t40_one_address_leaves_places_for_others() {
    let mut config = ConnectConfig::default();
    config.max_connections = 8;
    let rig = Rig::start(config, |_| std::future::ready(Err(OpenError::UnknownCluster))).await;
    let mut greedy = Vec::new();
    for count in 1..=6 {
        greedy.push(rig.connect().await);
        while rig.gateway.connections() < count {
            tokio::task::yield_now().await;
        }
    }
    for _ in 0..10 {
        // Not told why, it holds no place for a moment either.
        let mut refused = rig.connect().await;
        assert_eq!(timeout(PATIENCE, refused.read(&mut [0])).await.expect("closed").unwrap_or(0), 0);
        assert_eq!(rig.gateway.connections(), 6);
    }
    for _ in 0..2 {
        let mut other = connect_from_elsewhere(&rig).await;
        other.write_all(REQUEST).await.expect("sent");
        assert!(read_all(&mut other).await.starts_with("HTTP/1.1 404 "), "the other is served");
    }
    greedy.pop();
    while rig.gateway.connections() > 5 {
        tokio::task::yield_now().await;
    }
    assert!(rig.exchange(REQUEST).await.starts_with("HTTP/1.1 404 "), "who goes makes room for the next");
}
