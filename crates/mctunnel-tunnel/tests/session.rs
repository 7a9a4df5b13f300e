//! A tunnel in one process: over a plain pipe and over gRPC, the same behaviour.
#![expect(clippy::unwrap_used, reason = "in a test program a broken expectation is the result")]

use bytes::Bytes;
use mctunnel_core::ByteStream;
use mctunnel_tunnel::{
    ByteLink, CloseCode, Config, Drain, DrainReason, EndedBy, Header, Hello, Link, LinkEnd, Offers, Open, OpenFailed,
    RefuseCode, Session, Stream, Transmit, Welcome, grpc,
};
use std::{
    future::poll_fn,
    io::ErrorKind,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, DuplexStream},
    task::JoinSet,
};

/// Two ends of a tunnel whose drivers run in the background.
struct Tunnel {
    hub: Session,
    hub_offers: Offers,
    agent: Session,
    agent_offers: Offers,
    drivers: JoinSet<mctunnel_tunnel::Ending>,
}

async fn greet<A: Link + Unpin, H: Link + Unpin>(agent_link: A, hub_link: H) -> Tunnel {
    let (agent, agent_driver) = Session::agent(agent_link, Config::default(), Hello::default());
    let (hub, hub_driver) = Session::hub(hub_link, Config::default());
    let mut drivers = JoinSet::new();
    drivers.spawn(agent_driver);
    drivers.spawn(hub_driver);
    hub.hello().await.unwrap();
    let (hub, hub_offers) = hub.welcome(Welcome { generation: 7, ..Welcome::default() });
    let (agent, agent_offers, welcome) = agent.welcomed().await.unwrap();
    assert_eq!(welcome.generation, 7);
    Tunnel { hub, hub_offers, agent, agent_offers, drivers }
}

async fn over_pipe() -> Tunnel {
    let (a, b) = tokio::io::duplex(64 * 1024);
    greet(ByteLink::new(a), ByteLink::new(b)).await
}

async fn grpc_links() -> (grpc::ClientLink<DuplexStream>, grpc::ServerLink<DuplexStream>) {
    let (a, b) = tokio::io::duplex(64 * 1024);
    // The request is written by the driver, so the client link is made first and driven by hand until the server has the call.
    let server = async { grpc::Accepting::handshake(b).await.unwrap().call().await.unwrap().accept().unwrap() };
    let (mut client, server) = {
        let mut client = grpc::connect(a, "mctunnel-hub", "test").await.unwrap();
        tokio::pin!(server);
        let server = poll_fn(|cx| {
            let _ = client.poll_flush(cx);
            server.as_mut().poll(cx)
        })
        .await;
        (client, server)
    };
    let _ = poll_fn(|cx| client.poll_flush(cx)).await;
    (client, server)
}

async fn over_grpc() -> Tunnel {
    let (client, server) = grpc_links().await;
    greet(client, server).await
}

fn echo_request() -> Open {
    Open { headers: vec![Header::text("x-mctunnel-proto", "tcp")], ..Open::default() }
}

async fn pair(opener: &Session, acceptor: &mut Offers) -> (Stream, Stream) {
    let opening = opener.open(echo_request(), Bytes::new());
    let joining = async { acceptor.next().await.unwrap().join().unwrap() };
    let (opened, joined) = tokio::join!(opening, joining);
    (opened.unwrap(), joined)
}

async fn exchange_half_close_and_cut(mut tunnel: Tunnel) {
    for from_hub in [true, false] {
        let (opener, acceptor) =
            if from_hub { (&tunnel.hub, &mut tunnel.agent_offers) } else { (&tunnel.agent, &mut tunnel.hub_offers) };
        let (mut a, mut b) = pair(opener, acceptor).await;
        let request: Vec<u8> = (0..3_000_000_u32).flat_map(u32::to_le_bytes).collect();
        let (sent, received) = tokio::join!(
            async {
                a.write_all(&request).await.unwrap();
                a.shutdown().await.unwrap();
            },
            async {
                let mut all = Vec::new();
                b.read_to_end(&mut all).await.unwrap();
                all
            }
        );
        let () = sent;
        assert!(received == request, "every byte in order, then the end");
        b.write_all(b"answer after the half-close").await.unwrap();
        b.shutdown().await.unwrap();
        let mut answer = String::new();
        a.read_to_string(&mut answer).await.unwrap();
        assert_eq!(answer, "answer after the half-close");
        drop((a, b));

        let (mut a, mut b) = pair(opener, acceptor).await;
        a.write_all(b"unfinished").await.unwrap();
        drop(a);
        let mut all = Vec::new();
        let error = b.read_to_end(&mut all).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionReset, "a dropped stream is a cut, not an end");
    }
    tunnel.hub.idle().await;
    tunnel.agent.idle().await;
}

#[tokio::test]
async fn bytes_half_close_and_cut_both_ways_over_a_pipe() {
    exchange_half_close_and_cut(over_pipe().await).await;
}

#[tokio::test]
async fn bytes_half_close_and_cut_both_ways_over_grpc() {
    exchange_half_close_and_cut(over_grpc().await).await;
}

#[tokio::test]
async fn a_refusal_carries_its_reason_and_a_dropped_offer_is_refused() {
    let mut tunnel = over_grpc().await;
    for (refuse, expected) in [(true, RefuseCode::TargetRefused), (false, RefuseCode::Internal)] {
        let opening = tunnel.hub.open(echo_request(), Bytes::new());
        let answering = async {
            let offer = tunnel.agent_offers.next().await.unwrap();
            assert_eq!(offer.header("x-mctunnel-proto"), Some("tcp"));
            if refuse {
                offer.refuse(RefuseCode::TargetRefused, "nobody listens");
            }
        };
        let (opened, ()) = tokio::join!(opening, answering);
        let Err(OpenFailed::Refused { code, message }) = opened else { panic!("{opened:?}") };
        assert_eq!(code, expected);
        assert!(!refuse || message == "nobody listens");
    }
}

#[tokio::test]
async fn first_bytes_travel_with_the_open_and_the_rest_follows() {
    let mut tunnel = over_pipe().await;
    let first = Bytes::from(vec![9; 300_000]);
    let opening = tunnel.hub.open(echo_request(), first.clone());
    let answering = async {
        let offer = tunnel.agent_offers.next().await.unwrap();
        let mut stream = offer.join().unwrap();
        let mut got = vec![0; first.len()];
        stream.read_exact(&mut got).await.unwrap();
        got
    };
    let opened = async {
        let mut stream = opening.await.unwrap();
        stream.flush().await.unwrap();
        stream
    };
    let (_stream, got) = tokio::join!(opened, answering);
    assert!(got == first);
}

#[tokio::test]
async fn an_open_that_is_dropped_is_taken_back() {
    let mut tunnel = over_pipe().await;
    let opening = tunnel.hub.open(echo_request(), Bytes::new());
    let offer = tunnel.agent_offers.next().await.unwrap();
    drop(opening);
    offer.taken_back().await;
    assert!(offer.join().is_err());
    tunnel.agent.idle().await;
}

#[tokio::test]
async fn a_lost_link_is_an_error_for_readers_writers_and_openers() {
    let mut tunnel = over_grpc().await;
    let (mut a, mut b) = pair(&tunnel.hub, &mut tunnel.agent_offers).await;
    let pending = tunnel.hub.open(echo_request(), Bytes::new());
    b.write_all(b"partial").await.unwrap();
    let mut seven = [0; 7];
    a.read_exact(&mut seven).await.unwrap();
    tunnel.drivers.abort_all();
    assert!(a.read_u8().await.is_err(), "never a clean end");
    assert!(b.write_all(&[0; 1 << 20]).await.is_err());
    assert!(matches!(pending.await, Err(OpenFailed::Lost(_))));
    assert!(tunnel.hub.open(echo_request(), Bytes::new()).await.is_err());
    assert!(tunnel.agent_offers.next().await.is_none());
}

#[tokio::test]
async fn a_close_tells_the_other_side_why() {
    let mut tunnel = over_grpc().await;
    tunnel.agent.close(CloseCode::Done, "good night");
    let ending = tunnel.hub.ended().await;
    assert_eq!((ending.by, ending.code), (EndedBy::Peer, Some(CloseCode::Done)));
    assert_eq!(&*ending.message, "good night");
    while tunnel.drivers.join_next().await.is_some() {}
}

#[tokio::test]
async fn a_drain_stops_new_streams_but_not_old_ones() {
    let mut tunnel = over_grpc().await;
    let (mut a, mut b) = pair(&tunnel.hub, &mut tunnel.agent_offers).await;
    tunnel.agent.drain(Drain { reason: DrainReason::Stopping, message: "soon".into(), reconnect_after_ms: 5 });
    let notice = tunnel.hub.drained_by_peer().await;
    assert_eq!((notice.message.as_str(), notice.reconnect_after_ms), ("soon", 5));
    assert!(!tunnel.hub.is_usable());
    assert!(tunnel.hub.open(echo_request(), Bytes::new()).await.is_err());
    a.write_all(b"still here").await.unwrap();
    a.shutdown().await.unwrap();
    let mut text = String::new();
    b.read_to_string(&mut text).await.unwrap();
    assert_eq!(text, "still here");
    b.shutdown().await.unwrap();
    drop((a, b));
    tunnel.agent.idle().await;
}

#[tokio::test(start_paused = true)]
async fn a_frozen_peer_is_found_within_twelve_seconds() {
    // The hub's driver is not polled any more after the greeting: it is there, but says nothing.
    let (a, b) = tokio::io::duplex(64 * 1024);
    let (agent, agent_driver) = Session::agent(ByteLink::new(a), Config::default(), Hello::default());
    let (hub, hub_driver) = Session::hub(ByteLink::new(b), Config::default());
    let mut drivers = JoinSet::new();
    drivers.spawn(agent_driver);
    let mut hub_driver = Box::pin(hub_driver);
    let greeting = async {
        hub.hello().await.unwrap();
        hub.welcome(Welcome::default())
    };
    let (_hub, _offers) = tokio::select! { done = greeting => done, _ = &mut hub_driver => panic!("ended") };
    let (session, _offers, _) = tokio::select! {
        welcomed = agent.welcomed() => welcomed.unwrap(),
        _ = &mut hub_driver => panic!("ended"),
    };
    let frozen_at = tokio::time::Instant::now();
    let ending = session.ended().await;
    assert_eq!(ending.code, Some(CloseCode::Silent));
    assert!(frozen_at.elapsed() <= Duration::from_secs(12), "{:?}", frozen_at.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_driver_that_moves_to_another_task_is_still_woken() {
    let (a, b) = tokio::io::duplex(64 * 1024);
    let (agent, agent_driver) = Session::agent(ByteLink::new(a), Config::default(), Hello::default());
    let (hub, hub_driver) = Session::hub(ByteLink::new(b), Config::default());
    let (mut agent_driver, mut hub_driver) = (Box::pin(agent_driver), Box::pin(hub_driver));
    let greeting = async {
        hub.hello().await.unwrap();
        let hub = hub.welcome(Welcome::default());
        (hub, agent.welcomed().await.unwrap())
    };
    let ((hub, _hub_offers), (_agent, mut agent_offers, _)) = tokio::select! {
        greeted = greeting => greeted,
        _ = &mut agent_driver => panic!("ended"),
        _ = &mut hub_driver => panic!("ended"),
    };
    let mut drivers = JoinSet::new();
    drivers.spawn(agent_driver);
    drivers.spawn(hub_driver);
    // Everything falls quiet: only a wake-up brings the next frame before the next PING.
    tokio::time::sleep(Duration::from_secs(1)).await; // tidy: sleep because virtual time lets the tunnel fall quiet
    let began = tokio::time::Instant::now();
    let (mut near, mut far) = pair(&hub, &mut agent_offers).await;
    far.write_u8(7).await.unwrap();
    assert_eq!(near.read_u8().await.unwrap(), 7);
    assert!(began.elapsed() < Duration::from_millis(100), "{:?}", began.elapsed());
}

#[tokio::test]
async fn a_stalled_reader_stalls_nobody() {
    let mut tunnel = over_grpc().await;
    let (stalled, mut stalled_far) = pair(&tunnel.hub, &mut tunnel.agent_offers).await;
    let (mut live, mut live_far) = pair(&tunnel.hub, &mut tunnel.agent_offers).await;
    let mut flood = JoinSet::new();
    flood.spawn(async move {
        let chunk = vec![1; 64 * 1024];
        while stalled_far.write_all(&chunk).await.is_ok() {}
    });
    let rounds = 2_000_u32;
    let (sent, ()) = tokio::join!(
        async {
            for i in 0..rounds {
                live_far.write_u32(i).await.unwrap();
            }
            live_far.shutdown().await.unwrap();
            live_far
        },
        async {
            for i in 0..rounds {
                assert_eq!(live.read_u32().await.unwrap(), i);
            }
        }
    );
    drop((sent, stalled));
    assert!(flood.join_next().await.is_some(), "the writer learns that its reader is gone");
}

#[tokio::test]
async fn buffers_pass_whole() {
    let mut tunnel = over_pipe().await;
    let (mut a, mut b) = pair(&tunnel.agent, &mut tunnel.hub_offers).await;
    let mut bytes = Bytes::from(vec![5; 50_000]);
    poll_fn(|cx| a.poll_write_bytes(cx, &mut bytes)).await.unwrap();
    assert!(bytes.is_empty(), "there was room for all of it");
    let got = poll_fn(|cx| b.poll_read_bytes(cx)).await.unwrap().unwrap();
    assert!(got.iter().all(|byte| *byte == 5));
    a.abort();
    let error = loop {
        match poll_fn(|cx| b.poll_read_bytes(cx)).await {
            Ok(Some(_)) => {}
            Ok(None) => panic!("a clean end after an abort"),
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
}

/// Counts what is given to the link.
struct Counted<L>(L, Arc<AtomicUsize>);

impl<L: Link> Link for Counted<L> {
    fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<Result<Bytes, LinkEnd>> {
        self.0.poll_receive(cx)
    }
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), LinkEnd>> {
        self.0.poll_ready(cx)
    }
    fn send(&mut self, transmit: Transmit) -> Result<(), LinkEnd> {
        self.1.fetch_add(1, Ordering::SeqCst);
        self.0.send(transmit)
    }
    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), LinkEnd>> {
        self.0.poll_flush(cx)
    }
    fn poll_close(&mut self, cx: &mut Context<'_>, reason: &str) -> Poll<()> {
        self.0.poll_close(cx, reason)
    }
}

/// One worker, because there a task that was just woken runs before those that wait.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn what_streams_say_at_the_same_time_goes_out_together() {
    const STREAMS: usize = 8;
    let mut outer = JoinSet::new();
    outer.spawn(async {
        let sent = Arc::new(AtomicUsize::new(0));
        let (a, b) = tokio::io::duplex(64 * 1024);
        let mut tunnel = greet(ByteLink::new(a), Counted(ByteLink::new(b), Arc::clone(&sent))).await;
        let (mut near, mut far) = (Vec::new(), Vec::new());
        for _ in 0..STREAMS {
            let (a, b) = pair(&tunnel.hub, &mut tunnel.agent_offers).await;
            near.push(a);
            far.push(b);
        }
        let before = sent.load(Ordering::SeqCst);
        let mut writers = JoinSet::new();
        for mut stream in near {
            writers.spawn(async move {
                stream.write_all(b"!").await.unwrap();
                stream
            });
        }
        for mut stream in far {
            assert_eq!(stream.read_u8().await.unwrap(), b'!');
        }
        let writes = sent.load(Ordering::SeqCst) - before;
        assert!(writes <= STREAMS / 2, "{STREAMS} small writes went out in {writes} pieces");
        writers.join_all().await;
    });
    outer.join_next().await.unwrap().unwrap();
}
