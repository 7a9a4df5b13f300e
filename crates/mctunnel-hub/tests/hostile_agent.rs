//! An agent with a valid certificate that means harm: the hub's memory stays, the tunnel ends with a reason, others go on.
//! In a program of its own, because it measures the memory of the whole process.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking, in its helpers too")]

#[path = "admission/fake_agent.rs"]
#[expect(dead_code, reason = "shared with the tests of admission")]
#[cfg(test)]
mod fake_agent;
#[path = "admission/stage.rs"]
#[expect(dead_code, reason = "shared with the tests of admission")]
#[cfg(test)]
mod stage;

use bytes::{Bytes, BytesMut};
use fake_agent::{FakeAgent, Shown};
use mctunnel_core::Happening;
use mctunnel_identity::JoinBundle;
use mctunnel_mux::{Frame, Header, Open};
use stage::{LIMIT, Stage};
use std::{future::poll_fn, time::Duration};
use tokio::time::timeout;

/// What a hostile agent sends, again and again, without reading.
struct Attack {
    name: &'static str,
    /// The bytes of each turn.
    turn: fn(u64) -> Bytes,
    turns: u64,
    /// Why the hub ends the tunnel.
    reasons: &'static [&'static str],
    /// The most the process may grow meanwhile, in MiB.
    limit: u64,
}

/// What a hostile agent may cost, in MiB.
const LITTLE: u64 = 32;

const UNREAD: &str = "the peer does not read the answers it provokes";
const UNANSWERED: &str = "streams end faster than the peer answers pings";
const SILENT: &str = "the peer did not answer in time";

const ATTACKS: &[Attack] = &[
    Attack { name: "a million opens", turn: opens, turns: 1_000, reasons: &[UNREAD, UNANSWERED], limit: LITTLE },
    Attack {
        name: "opens with much metadata",
        turn: fat_opens,
        turns: 400,
        reasons: &[UNREAD, UNANSWERED, SILENT],
        limit: LITTLE,
    },
    Attack {
        name: "empty frames",
        turn: empty_frames,
        turns: 100,
        reasons: &["the peer sent too many empty frames"],
        limit: LITTLE,
    },
    Attack { name: "pings", turn: pings, turns: 100, reasons: &["the peer sent too many pings"], limit: LITTLE },
    Attack {
        name: "a huge message",
        turn: huge_message,
        turns: 256,
        reasons: &["a message is larger than any frame may be"],
        limit: LITTLE,
    },
    Attack {
        name: "unasked bytes",
        turn: unasked_bytes,
        turns: 256,
        reasons: &["more bytes were sent on a stream than were granted"],
        limit: LITTLE,
    },
];

fn opens(turn: u64) -> Bytes {
    encoded((0..1_000).map(|i| Frame::Open((turn * 2_000 + i * 2 + 1).into(), 1 << 20, Open::default())))
}

fn fat_opens(turn: u64) -> Bytes {
    let header = Header { name: "x".repeat(500), value: Bytes::from(vec![7; 7_000]) };
    let open = Open { headers: vec![header.clone(), header], ..Open::default() };
    encoded((0..10).map(|i| Frame::Open((turn * 20 + i * 2 + 1).into(), 1 << 20, open.clone())))
}

fn empty_frames(turn: u64) -> Bytes {
    let empty = Frame::Data { stream: 1.into(), fin: false, payload: Bytes::new() };
    let open = Frame::Open(1.into(), 1024, Open::default());
    encoded((turn == 0).then_some(open).into_iter().chain(std::iter::repeat_n(empty, 1_000)))
}

fn pings(_: u64) -> Bytes {
    encoded((0..1_000).map(Frame::Ping))
}

fn huge_message(turn: u64) -> Bytes {
    let prefix: &[u8] = if turn == 0 { &[0, 0xff, 0xff, 0xff, 0xff] } else { &[] };
    [prefix, &[0x5a; 64 * 1024]].concat().into()
}

fn unasked_bytes(turn: u64) -> Bytes {
    let data = Frame::Data { stream: 1.into(), fin: false, payload: Bytes::from(vec![1; 60_000]) };
    let open = Frame::Open(1.into(), 1024, Open::default());
    encoded((turn == 0).then_some(open).into_iter().chain([data]))
}

fn encoded(frames: impl IntoIterator<Item = Frame>) -> Bytes {
    let mut bytes = BytesMut::new();
    frames.into_iter().for_each(|frame| frame.encode(&mut bytes));
    bytes.freeze()
}

/// Resident memory of this process in KiB.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// Sends no more than the hub takes, so that what waits is not on our side; false when the hub has ended the call.
async fn push(agent: &mut FakeAgent, mut bytes: Bytes) -> bool {
    while !bytes.is_empty() {
        agent.send.reserve_capacity(bytes.len());
        let room = timeout(LIMIT, poll_fn(|cx| agent.send.poll_capacity(cx))).await.expect("the hub takes or ends");
        let Some(Ok(room)) = room else { return false };
        let part = bytes.split_to(room.min(bytes.len()));
        if agent.send.send_data(part, false).is_err() {
            return false;
        }
    }
    true
}

/// Runs one attack to its end; gives the most memory seen meanwhile.
async fn run(stage: &Stage, bundle: &JoinBundle, attack: &Attack) -> u64 {
    let (mut agent, welcome) = FakeAgent::register(stage, Shown::honest(bundle), "hostile").await;
    let mut most = 0;
    let mut turn = 0;
    while turn < attack.turns && push(&mut agent, (attack.turn)(turn)).await {
        most = most.max(resident());
        turn += 1;
    }
    let generation = welcome.generation;
    let is_down = |h: &Happening| matches!(h, Happening::TunnelDown { cluster, generation: g, .. } if *cluster == bundle.cluster && *g == generation);
    let down = stage.seen.wait(attack.name, is_down).await;
    let Happening::TunnelDown { reason, .. } = down else { unreachable!("it was waited for") };
    assert!(attack.reasons.iter().any(|known| reason.contains(known)), "{}: {reason}", attack.name);
    drop(agent);
    most.max(resident())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn t22_a_hostile_agent_costs_little_memory_and_nobody_else() {
    // Whoever is silent is found soon, but the honest one has to answer on a busy machine, too.
    let (interval, patience) = (Duration::from_secs(1), Duration::from_secs(5));
    let mut stage =
        Stage::with(|config| (config.tunnel.ping_interval, config.tunnel.ping_timeout) = (interval, patience)).await;
    stage.honest_agent("honest").await;
    let bundles: Vec<_> = (0..ATTACKS.len()).map(|i| stage.join_bundle(&format!("hostile-{i}"))).collect();
    // What is allocated once, at the first use, is no growth.
    for _ in 0..20 {
        stage.exchange("honest").await.unwrap();
    }
    FakeAgent::register(&stage, Shown::honest(&bundles[0]), "hostile").await.0.hang_up().await;
    let before = resident();

    for (attack, bundle) in ATTACKS.iter().zip(&bundles) {
        let mut attacking = Box::pin(run(&stage, bundle, attack));
        let mut exchanges = 0;
        let most = loop {
            tokio::select! {
                most = &mut attacking => break most,
                exchanged = stage.exchange("honest") => exchanged.unwrap(),
            }
            exchanges += 1;
        };
        let growth = most.saturating_sub(before);
        assert!(growth <= attack.limit * 1024, "{}: {growth} KiB more", attack.name);
        assert!(exchanges > 100, "{}: only {exchanges} exchanges of another cluster meanwhile", attack.name);
    }
    assert_eq!(stage.registered(), ["honest"]);
    stage.exchange("honest").await.unwrap();
}
