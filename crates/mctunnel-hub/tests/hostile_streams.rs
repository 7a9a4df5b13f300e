//! An agent with a valid certificate that opens streams towards the hub and keeps them: their number and their memory are bounded, the
//! rest is refused with a code, and others go on. In a program of its own, because it measures the memory of the whole process.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking, in its helpers too")]

#[path = "admission/fake_agent.rs"]
#[expect(dead_code, reason = "shared with the tests of admission")]
#[cfg(test)]
mod fake_agent;
#[path = "admission/stage.rs"]
#[expect(dead_code, reason = "shared with the tests of admission")]
#[cfg(test)]
mod stage;

use bytes::{BufMut as _, Bytes, BytesMut};
use fake_agent::{FakeAgent, Shown};
use mctunnel_core::{Happening, Protocol, routing::headers_to_hub};
use mctunnel_hub::{ClusterAdapter, FromCluster};
use mctunnel_mux::{Frame, Open, StreamId};
use mctunnel_report::{Receiver, Retention, Store};
use stage::{Stage, cluster};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// What a hostile agent may cost, in KiB.
const LITTLE: u64 = 32 * 1024;
/// Takes reports, as a hub does.
struct Reports(Receiver);

impl ClusterAdapter for Reports {
    fn protocol(&self) -> Protocol {
        Protocol::report()
    }

    async fn serve(self: Arc<Self>, opened: FromCluster) {
        let cluster = opened.cluster().clone();
        let Some((stream, served)) = opened.join("reports") else { return };
        let received = self.0.serve(&cluster, stream).await;
        served.ended(0, 0, received.err().map(|error| error.to_string()));
    }
}

/// The first word of a lane, and then the beginning of the largest batch.
fn unfinished(kind: &str) -> Bytes {
    let len = |text: &[u8]| u8::try_from(text.len()).unwrap();
    let hello = [&[0x0a, 16][..], &[7; 16], &[0x12, len(kind.as_bytes())], kind.as_bytes()].concat();
    let mut bytes = BytesMut::new();
    bytes.put_u8(len(&hello));
    bytes.put_slice(&hello);
    bytes.put_slice(&[0x80, 0x80, 0x40]);
    bytes.put_bytes(1, 30_000);
    bytes.freeze()
}

/// Resident memory of this process in KiB.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// Opens a stream with these bytes right behind; says whether the hub joined it.
async fn open(agent: &mut FakeAgent, name: &str, id: usize, first: Bytes) -> bool {
    let id = StreamId::from(u64::try_from(id).unwrap() * 2 + 1);
    let headers = headers_to_hub(&Protocol::report(), &cluster(name), None);
    agent.send(&Frame::Open(id, 1 << 16, Open { headers, ..Open::default() }));
    if !first.is_empty() {
        agent.send(&Frame::Data { stream: id, fin: false, payload: first });
    }
    loop {
        match agent.next().await {
            Some(Frame::Joined { stream, .. }) if stream == id => return true,
            Some(Frame::Refused { stream, .. }) if stream == id => return false,
            Some(_) => {}
            None => panic!("the tunnel of {name} ended"),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn t22_streams_that_a_hostile_agent_keeps_open_are_few_and_cost_little() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path(), Retention::default()).unwrap();
    let reports = Arc::new(Reports(Receiver::new(store, CancellationToken::new())));
    let mut stage = Stage::adapting(|_| {}, reports).await;
    stage.honest_agent("honest").await;
    // Who opens them, how many, and what it says on each.
    type Attack = (&'static str, usize, fn(usize) -> Bytes);
    let attacks: [Attack; 3] = [
        ("says-nothing", 1_000, |_| Bytes::new()),
        ("a-kind-each", 4_000, |id| unfinished(&format!("k{id}"))),
        ("one-kind", 4_000, |_| unfinished("status")),
    ];
    let bundles = attacks.map(|(name, ..)| stage.join_bundle(name));
    for bundle in &bundles {
        FakeAgent::register(&stage, Shown::honest(bundle), "first").await.0.hang_up().await;
    }
    stage.exchange("honest").await.unwrap();
    let before = resident();

    for ((name, count, says), bundle) in attacks.into_iter().zip(&bundles) {
        let (mut agent, _) = FakeAgent::register(&stage, Shown::honest(bundle), "hostile").await;
        let mut joined = 0;
        for id in 0..count {
            joined += usize::from(open(&mut agent, name, id, says(id)).await);
        }
        let growth = resident().saturating_sub(before);
        assert!(growth <= LITTLE, "{name}: {growth} KiB more");
        if name == "says-nothing" {
            assert_eq!(joined, 256, "{name}");
            let is_it = |h: &Happening| matches!(h, Happening::HubServiceRefused { code: "MCT-SERVICE-TOO-MANY", .. });
            assert_eq!(stage.seen.count(is_it), count - joined);
        }
        agent.send(&Frame::Ping(77));
        // A refusal ends no tunnel: behind all that was said of the streams there is an answer.
        while agent.next().await.unwrap_or_else(|| panic!("the tunnel of {name} ended")) != Frame::Pong(77) {}
        stage.exchange("honest").await.unwrap();
    }
}
