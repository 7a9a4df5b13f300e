//! A hub with a good certificate that means harm: the agent's memory stays, and nothing in it panics.
//! In a program of its own, because it measures the memory of the whole process.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking, in its helpers too")]

#[path = "bad_hub/by_hand.rs"]
#[cfg(test)]
mod by_hand;
#[path = "bad_hub/fake_hub.rs"]
#[cfg(test)]
mod fake_hub;

use by_hand::{Hub, encoded};
use bytes::Bytes;
use fake_hub::FakeHub;
use mctunnel_agent::{
    Agent, Config,
    allow::AllowList,
    dial::{Resolve, Resolving},
};
use mctunnel_core::{ClusterName, Destination, Endpoint, Happening, Observe, Protocol, routing};
use mctunnel_mux::{Frame, Header, Open, OpenUser, ResetCode, User};
use mctunnel_tunnel::Link;
use parking_lot::Mutex;
use std::{
    future::poll_fn,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Poll, ready},
    time::Duration,
};
use tokio::{sync::Notify, task::JoinSet, time::timeout};

const LIMIT: Duration = Duration::from_secs(30);

/// What a hostile hub may cost, in KiB.
const LITTLE: u64 = 32 * 1024;

/// What a hostile hub sends, again and again, without reading.
struct Attack {
    name: &'static str,
    /// The frames of each turn.
    turn: fn(u64) -> Vec<Frame>,
    turns: u64,
    /// Why the agent ends the tunnel.
    reasons: &'static [&'static str],
}

const UNREAD: &str = "the peer does not read the answers it provokes";
const UNANSWERED: &str = "streams end faster than the peer answers pings";
const SILENT: &str = "the peer did not answer in time";

const ATTACKS: &[Attack] = &[
    Attack { name: "many opens", turn: opens, turns: 100, reasons: &[UNREAD, UNANSWERED, SILENT] },
    Attack { name: "opens with large headers", turn: fat_opens, turns: 600, reasons: &[UNREAD, UNANSWERED, SILENT] },
    Attack { name: "opens with many headers", turn: many_headers, turns: 600, reasons: &[UNREAD, UNANSWERED, SILENT] },
    Attack { name: "opens for large users", turn: large_users, turns: 600, reasons: &[UNREAD, UNANSWERED, SILENT] },
    Attack { name: "opens taken back", turn: taken_back, turns: 40, reasons: &[UNREAD, UNANSWERED, SILENT] },
];

fn opens(turn: u64) -> Vec<Frame> {
    (0..1_000).map(|i| open(turn * 1_000 + i, Vec::new())).collect()
}

fn fat_opens(turn: u64) -> Vec<Frame> {
    let fat = || vec![Header { name: "x".repeat(500), value: Bytes::from(vec![7; 15_000]) }];
    (0..10).map(|i| open(turn * 10 + i, fat())).collect()
}

fn many_headers(turn: u64) -> Vec<Frame> {
    let many = || (0..58).map(|n| Header::text(&format!("x-{n}"), "y")).collect();
    (0..10).map(|i| open(turn * 10 + i, many())).collect()
}

fn large_users(turn: u64) -> Vec<Frame> {
    let user = User { name: "u".into(), groups: vec!["g".into(); 600], ..User::default() };
    (0..10).map(|i| open_for(turn * 10 + i, Vec::new(), Some(&user))).collect()
}

fn taken_back(turn: u64) -> Vec<Frame> {
    let both = |n| [open(n, Vec::new()), Frame::Reset { stream: id(n).into(), code: ResetCode::Cancelled }];
    (0..500).flat_map(|i| both(turn * 500 + i)).collect()
}

fn id(number: u64) -> u64 {
    number * 2 + 2
}

/// For a target that the list allows and that never answers.
fn open_for(number: u64, more: Vec<Header>, user: Option<&User>) -> Frame {
    let target = Endpoint::parse("stalls.example:80").unwrap().into();
    let destination = Destination { cluster: ClusterName::parse("c1").unwrap(), target };
    let mut headers = routing::headers_for(&Protocol::tcp(), &destination);
    headers.extend(more);
    Frame::Open(
        id(number).into(),
        1 << 20,
        Open { headers, user: user.cloned().map(|user| Arc::new(OpenUser::new(user))), ..Open::default() },
    )
}

fn open(number: u64, more: Vec<Header>) -> Frame {
    open_for(number, more, None)
}

/// A name server that is asked and says nothing.
struct Stalls;

impl Resolve for Stalls {
    fn resolve<'a>(&'a self, _: &'a str) -> Resolving<'a> {
        Box::pin(std::future::pending())
    }
}

/// Why the tunnel ended, once it has.
#[derive(Default)]
struct Seen {
    down: Mutex<Option<String>>,
    changed: Notify,
}

impl Observe for Seen {
    fn observe(&self, happening: &Happening) {
        if let Happening::TunnelDown { reason, .. } = happening {
            *self.down.lock() = Some(reason.clone());
            self.changed.notify_waiters();
        }
    }
}

impl Seen {
    async fn down(&self) -> String {
        loop {
            let changed = self.changed.notified();
            let down = self.down.lock().clone();
            if let Some(reason) = down {
                return reason;
            }
            changed.await;
        }
    }
}

/// Resident memory of this process in KiB.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// Runs one attack to its end; gives the most memory seen meanwhile.
async fn run(attack: &Attack) -> u64 {
    let fake = FakeHub::new();
    let seen = Arc::new(Seen::default());
    let mut config = Config::default();
    let second = Duration::from_secs(1);
    (config.tunnel.ping_interval, config.tunnel.ping_timeout) = (second, 2 * second);
    // What is measured is what the opens hold, not how soon they are given up.
    config.dial_timeout = LIMIT;
    let allow = AllowList::parse(["tcp://stalls.example:80"]).unwrap();
    let bundle = fake.bundle();
    let agent = Agent::builder(&bundle).allow(allow).resolver(Arc::new(Stalls)).observer(seen.clone());
    let agent = agent.config(config).build().unwrap();
    let mut running = JoinSet::new();
    let run = agent.clone();
    running.spawn(async move { run.run().await });
    let mut hub = timeout(LIMIT, Hub::take_in(&fake)).await.expect("the agent comes");
    let mut most = resident();
    for turn in 0..attack.turns {
        let pushed = timeout(LIMIT, hub.push(encoded(&(attack.turn)(turn)))).await.expect("the agent takes or ends");
        most = most.max(resident());
        if !pushed {
            break;
        }
    }
    let mut down = Box::pin(timeout(LIMIT, seen.down()));
    // The link moves only while it is polled.
    let link = &mut hub.link;
    let reason = poll_fn(|cx| {
        let _ = link.poll_flush(cx);
        Poll::Ready(ready!(down.as_mut().poll(cx)))
    });
    let reason = reason.await.expect("the agent ends the tunnel");
    assert!(attack.reasons.iter().any(|known| reason.contains(known)), "{}: {reason}", attack.name);
    most = most.max(resident());
    agent.stop();
    drop(hub);
    timeout(LIMIT, running.join_next()).await.expect("it stops");
    most
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn t22_a_hostile_hub_costs_an_agent_little_memory() {
    static PANICS: AtomicUsize = AtomicUsize::new(0);
    let say = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        PANICS.fetch_add(1, Ordering::Relaxed);
        say(panic);
    }));
    // What is allocated once, at the first use, is no growth.
    let warm_up = Attack { name: "nothing", turn: |_| Vec::new(), turns: 0, reasons: &[SILENT] };
    run(&warm_up).await;
    for attack in ATTACKS {
        let before = resident();
        let growth = run(attack).await.saturating_sub(before);
        assert!(growth <= LITTLE, "{}: {growth} KiB more", attack.name);
    }
    assert_eq!(PANICS.load(Ordering::Relaxed), 0, "no task of the agent panicked");
}
