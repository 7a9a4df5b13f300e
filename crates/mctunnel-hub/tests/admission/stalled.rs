//! Peers that begin a handshake and stall, or connect in masses: they wait at their own cost, and others get in meanwhile (T40).

use crate::{
    fake_agent::{FakeAgent, Manner, Shown},
    stage::{LIMIT, Stage, cluster},
};
use mctunnel_core::{Happening, Protocol, routing::headers_to_hub};
use mctunnel_hub::{ClusterAdapter, FromCluster};
use mctunnel_identity::HUB_SERVER_NAME;
use mctunnel_mux::{Frame, Open};
use rustls::ClientConnection;
use rustls_pki_types::ServerName;
use std::{net::IpAddr, sync::Arc, time::Duration};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpSocket, TcpStream},
    time::{Instant, timeout},
};

const HERE: [u8; 4] = [127, 0, 0, 1];
const ELSEWHERE: [u8; 4] = [127, 0, 0, 9];

async fn connect_from(source: [u8; 4], stage: &Stage) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind((IpAddr::from(source), 0).into()).unwrap();
    socket.connect(stage.address).await.unwrap()
}

/// Sends the first message of TLS and nothing more.
async fn begin_and_stall(stage: &Stage) -> TcpStream {
    let mut socket = connect_from(HERE, stage).await;
    let config = Manner::usual(Shown::honest(&stage.join_bundle("c9"))).config(stage);
    let mut tls = ClientConnection::new(Arc::new(config), ServerName::try_from(HUB_SERVER_NAME).unwrap()).unwrap();
    let mut hello = Vec::new();
    tls.write_tls(&mut hello).unwrap();
    socket.write_all(&hello).await.unwrap();
    socket
}

/// Whether a peer from another address gets through TLS.
async fn gets_in(stage: &Stage) -> bool {
    let socket = connect_from(ELSEWHERE, stage).await;
    let tls = Manner::usual(Shown::honest(&stage.join_bundle("c1"))).connect_over(stage, socket).await;
    tls.is_ok()
}

#[tokio::test]
async fn t40_handshakes_that_stall_keep_nobody_else_out_and_end() {
    let stage = Stage::with(|config| config.concurrent_handshakes = 4).await;
    let mut stalled = Vec::new();
    for _ in 0..8 {
        stalled.push(begin_and_stall(&stage).await);
    }
    // The hub has answered one of them: it holds a turn.
    let mut first = [0; 1];
    timeout(LIMIT, stalled[0].read_exact(&mut first)).await.unwrap().unwrap();
    let begin = Instant::now();
    assert!(gets_in(&stage).await);
    let hung_up = stage.seen.count(|h| matches!(h, Happening::PeerRefused { .. }));
    assert_eq!(hung_up, 0, "it did not wait for their end, but got in after {:?}", begin.elapsed());
    // Nor may they keep their turn for long.
    let is_late = |h: &Happening| matches!(h, Happening::PeerRefused { code: "MCT-ADMIT-TIMEOUT", reason, .. } if reason.contains("the TLS handshake took longer than"));
    stage.seen.wait("the end of a stalled handshake", is_late).await;
    assert!(begin.elapsed() < Duration::from_secs(8), "{:?}", begin.elapsed());
}

#[tokio::test]
async fn t40_one_address_cannot_take_every_place_in_the_queue() {
    let stage = Stage::with(|config| config.waiting_handshakes = 8).await;
    let mut silent = Vec::new();
    for _ in 0..6 {
        silent.push(connect_from(HERE, &stage).await);
    }
    for _ in 0..2 {
        let (code, reason) = stage.seen.refusal().await;
        assert_eq!(code, "MCT-HUB-OVERLOAD");
        assert!(reason.contains("from this address"), "{reason}");
    }
    assert!(gets_in(&stage).await);
}

/// Joins every stream and keeps it.
struct Keeps;

impl ClusterAdapter for Keeps {
    fn protocol(&self) -> Protocol {
        Protocol::tcp()
    }

    async fn serve(self: Arc<Self>, opened: FromCluster) {
        let _joined = opened.join("nothing").unwrap();
        std::future::pending().await
    }
}

#[tokio::test]
async fn t40_streams_that_clusters_have_open_take_no_place_in_the_queue() {
    let stage = Stage::adapting(|config| config.waiting_handshakes = 8, Arc::new(Keeps)).await;
    let (mut agent, _) = FakeAgent::register(&stage, Shown::honest(&stage.join_bundle("c2")), "one").await;
    for id in 0..20 {
        let headers = headers_to_hub(&Protocol::tcp(), &cluster("c2"), None);
        agent.send(&Frame::Open((id * 2 + 1).into(), 1 << 16, Open { headers, ..Open::default() }));
        let answer = agent.next().await;
        assert!(matches!(answer, Some(Frame::Joined { .. })), "{answer:?}");
    }
    assert!(gets_in(&stage).await);
    assert_eq!(stage.seen.count(|h| matches!(h, Happening::PeerRefused { .. })), 0);
}
