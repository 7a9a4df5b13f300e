//! Exactly one tunnel of a cluster is the active one: the newest. The others are told why, and finish what they carry.

use crate::{
    fake_agent::{Caller, FakeAgent, Shown},
    stage::{LIMIT, Stage},
};
use mctunnel_core::{Happening, Open, OpenError};
use mctunnel_hub::Hub;
use mctunnel_identity::JoinBundle;
use mctunnel_mux::{CloseCode, Drain, DrainReason, Frame, Hello, StreamId};
use mctunnel_tunnel::Stream;
use std::time::Duration;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    time::timeout,
};

async fn register(stage: &Stage, bundle: &JoinBundle, instance: &str) -> (FakeAgent, u64) {
    let (agent, welcome) = FakeAgent::register(stage, Shown::honest(bundle), instance).await;
    (agent, welcome.generation)
}

/// Opens a stream to c1, which that agent must be asked for.
async fn open_on(hub: &Hub, stage: &Stage, agent: &mut FakeAgent) -> (Stream, StreamId) {
    let (stream, id) = tokio::join!(timeout(LIMIT, hub.open(stage.request("c1"))), agent.join_next());
    (stream.unwrap().unwrap(), id)
}

fn replacements(stage: &Stage, duels: bool) -> usize {
    stage.seen.count(|h| matches!(h, Happening::TunnelReplaced { duel, .. } if *duel == duels))
}

#[tokio::test]
async fn the_newest_wins_and_the_old_one_finishes_its_streams() {
    let stage = Stage::new().await;
    let bundle = stage.join_bundle("c1");
    let (mut old, first) = register(&stage, &bundle, "one").await;
    let (mut stream, id) = open_on(&stage.hub, &stage, &mut old).await;
    stream.write_all(b"before").await.unwrap();
    assert!(matches!(old.next().await, Some(Frame::Data { payload, .. }) if payload == "before"));

    let (mut new, second) = register(&stage, &bundle, "two").await;

    assert!(second > first);
    let Some(Frame::Drain(drain)) = old.next().await else { panic!("the old one is told") };
    assert_eq!(drain.reason, DrainReason::Replaced);
    assert_eq!(drain.reconnect_after_ms, 30_000);
    assert!(
        drain.message.contains(&format!("a newer tunnel of c1 took over (generation {second})")),
        "{}",
        drain.message
    );
    let replaced = stage.seen.wait("the takeover", |h| matches!(h, Happening::TunnelReplaced { .. })).await;
    let expected = (first, second, false);
    assert!(matches!(replaced, Happening::TunnelReplaced { old_generation, new_generation, duel, .. }
            if (old_generation, new_generation, duel) == expected));

    let (_stream, _) = open_on(&stage.hub, &stage, &mut new).await;
    assert_eq!(stage.hub.tunnels().iter().map(|t| t.generation).collect::<Vec<_>>(), [second]);

    // The stream of the old tunnel goes on, both ways, to its end.
    stream.write_all(b"after").await.unwrap();
    stream.shutdown().await.unwrap();
    let mut got = Vec::new();
    while let Some(Frame::Data { fin, payload, .. }) = old.next().await {
        got.extend_from_slice(&payload);
        if fin {
            break;
        }
    }
    assert_eq!(got, b"after");
    old.send(&Frame::Data { stream: id, fin: true, payload: "answer".into() });
    let mut answer = String::new();
    timeout(LIMIT, stream.read_to_string(&mut answer)).await.unwrap().unwrap();
    assert_eq!(answer, "answer");
    drop(stream);
    let mut last = old.next().await;
    while matches!(last, Some(Frame::Window { .. })) {
        last = old.next().await;
    }
    assert!(matches!(&last, Some(Frame::Close { code: CloseCode::Done, .. })), "{last:?}");
    assert!(new.is_alive().await);
}

#[tokio::test]
async fn the_grace_of_a_replaced_tunnel_ends() {
    let stage = Stage::with(|config| config.replaced_grace = Duration::from_millis(50)).await;
    let bundle = stage.join_bundle("c1");
    let (mut old, _) = register(&stage, &bundle, "one").await;
    let (mut stream, _) = open_on(&stage.hub, &stage, &mut old).await;
    let (_new, _) = register(&stage, &bundle, "two").await;
    assert!(matches!(old.next().await, Some(Frame::Drain(_))));
    assert!(matches!(old.next().await, Some(Frame::Close { .. })));
    let cut = timeout(LIMIT, stream.read_u8()).await.unwrap();
    assert!(cut.is_err(), "a cut is an error, never a clean end");
}

#[tokio::test]
async fn the_same_process_coming_back_is_no_duel() {
    let stage = Stage::with(|config| config.takeovers_per_minute = 1).await;
    let bundle = stage.join_bundle("c1");
    let mut agents = Vec::new();
    for generation in 1..=6 {
        let (agent, given) = register(&stage, &bundle, "one").await;
        assert_eq!(given, generation);
        agents.push(agent);
    }
    stage.seen.wait("the last", |h| matches!(h, Happening::TunnelUp { generation: 6, .. })).await;
    assert_eq!((replacements(&stage, false), replacements(&stage, true)), (5, 0));
    // The newest ends; an older one that still lives never comes back into its place.
    agents.pop().unwrap().hang_up().await;
    stage.seen.wait("its end", |h| matches!(h, Happening::TunnelDown { generation: 6, .. })).await;
    assert!(matches!(stage.exchange("c1").await, Err(OpenError::NoTunnel { .. })));
    assert_eq!(register(&stage, &bundle, "one").await.1, 7, "generations only rise");
}

#[tokio::test]
async fn a_duel_is_seen_and_slowed_down() {
    let stage = Stage::with(|config| config.takeovers_per_minute = 2).await;
    let bundle = stage.join_bundle("c1");
    let (_a, _) = register(&stage, &bundle, "a").await;
    let (_b, _) = register(&stage, &bundle, "b").await;
    let (mut last, generation) = register(&stage, &bundle, "a").await;
    stage.seen.wait("the duel", |h| matches!(h, Happening::TunnelReplaced { duel: true, .. })).await;

    let mut rival = Caller::new(&stage, Shown::honest(&bundle)).await.tunnel().await;
    rival.send(&Frame::Hello(Hello { instance: "b".into(), ..Hello::default() }));

    let Some(Frame::Close { code, message }) = rival.next().await else { panic!("the rival must wait") };
    assert_eq!(code, CloseCode::Budget);
    assert!(message.contains("another agent of c1 is connected") && message.ends_with("Retry in 30 s"), "{message}");
    rival.hang_up().await;
    assert_eq!(stage.seen.refusal().await.0, "MCT-ADMIT-DUEL");
    assert!(last.is_alive().await);
    assert_eq!(stage.hub.tunnels()[0].generation, generation, "who was there stays");

    // The one that is there may come back at any time, and the rival once it is gone.
    let (last, _) = register(&stage, &bundle, "a").await;
    let up = stage.hub.tunnels()[0].generation;
    last.hang_up().await;
    stage.seen.wait("its end", |h| matches!(h, Happening::TunnelDown { generation, .. } if *generation == up)).await;
    register(&stage, &bundle, "b").await;
}

#[tokio::test]
async fn no_stream_is_opened_on_a_tunnel_whose_agent_drains() {
    let stage = Stage::new().await;
    let bundle = stage.join_bundle("c1");
    let (mut old, _) = register(&stage, &bundle, "one").await;
    old.send(&Frame::Drain(Drain { reason: DrainReason::Stopping, message: "bye".into(), reconnect_after_ms: 0 }));
    assert!(old.is_alive().await, "the hub has read it");
    assert!(matches!(stage.exchange("c1").await, Err(OpenError::NoTunnel { .. })));

    let mut request = stage.request("c1");
    request.wait_for_tunnel = LIMIT;
    let coming = async {
        let (mut new, _) = register(&stage, &bundle, "two").await;
        new.join_next().await;
        new
    };
    let (stream, _new) = tokio::join!(stage.hub.open(request), coming);
    stream.unwrap();
}

#[tokio::test]
async fn a_cluster_is_unknown_or_not_connected_or_waited_for() {
    let stage = Stage::with(|config| config.retry_after = Duration::from_secs(7)).await;
    assert_eq!(stage.exchange("c1").await.unwrap_err(), OpenError::UnknownCluster);
    let mut request = stage.request("c1");
    request.wait_for_tunnel = LIMIT;
    assert_eq!(stage.hub.open(request.clone()).await.unwrap_err(), OpenError::UnknownCluster, "nobody waits for it");

    let bundle = stage.join_bundle("c1");
    let none = OpenError::NoTunnel { retry_after: Duration::from_secs(7) };
    assert_eq!(stage.exchange("c1").await.unwrap_err(), none);
    let mut short = request.clone();
    short.wait_for_tunnel = Duration::from_millis(20);
    assert_eq!(stage.hub.open(short).await.unwrap_err(), none);

    let coming = async {
        let (mut agent, _) = register(&stage, &bundle, "one").await;
        agent.join_next().await;
        agent
    };
    let (stream, _agent) = tokio::join!(stage.hub.open(request), coming);
    stream.unwrap();
}

#[tokio::test]
async fn a_tunnel_that_is_up_ends_when_its_cluster_is_removed() {
    let stage = Stage::new().await;
    let (mut agent, _) = register(&stage, &stage.join_bundle("c1"), "one").await;
    let mut other = Stage::new().await;
    other.honest_agent("c2").await;
    stage.clusters.remove(&crate::stage::cluster("c1")).unwrap();
    let told = loop {
        match agent.next().await {
            Some(Frame::Close { code, message }) => break (code, message),
            Some(_) => {}
            None => panic!("it is told why"),
        }
    };
    assert_eq!(told.0, CloseCode::Done);
    assert!(told.1.contains("removed"), "{}", told.1);
    stage.seen.wait("the end", |h| matches!(h, Happening::TunnelDown { .. })).await;
    other.exchange("c2").await.unwrap();
}
