//! A hub with a good certificate that behaves badly: it sends the agent away for ever, or stops reading in mid-stream. The agent comes
//! back, says at once that it is not connected, and does not wait for goodbyes that nobody hears.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking, in its helpers too")]

#[path = "bad_hub/fake_hub.rs"]
#[cfg(test)]
mod fake_hub;

use bytes::Bytes;
use fake_hub::{FakeHub, HubLink};
use mctunnel_agent::{Agent, Config, allow::AllowList};
use mctunnel_core::{Destination, Endpoint, Happening, Observe, Protocol, routing};
use mctunnel_tunnel::{Drain, DrainReason, Driver, Offers, Open, Session, Stream, Welcome};
use parking_lot::Mutex;
use std::{net::SocketAddr, pin::Pin, sync::Arc, time::Duration};
use tokio::{
    io::AsyncWriteExt,
    net::TcpListener,
    sync::Notify,
    task::JoinSet,
    time::{Instant, timeout},
};

const LIMIT: Duration = Duration::from_secs(15);

type HubDriver = Pin<Box<Driver<HubLink>>>;

/// Takes the agent in.
async fn take_in(hub: &FakeHub) -> (Session, Offers, HubDriver) {
    let (greeting, driver) = Session::hub(hub.call().await, mctunnel_tunnel::Config::default());
    let mut driver = Box::pin(driver);
    tokio::select! {
        hello = greeting.hello() => drop(hello.unwrap()),
        ending = &mut driver => panic!("{ending}"),
    }
    let welcome = Welcome { tunnel: "c1/1".to_owned(), generation: 1, ..Welcome::default() };
    let (session, offers) = greeting.welcome(welcome);
    (session, offers, driver)
}

/// What the agent reported.
#[derive(Default)]
struct Seen {
    happenings: Mutex<Vec<Happening>>,
    changed: Notify,
}

impl Observe for Seen {
    fn observe(&self, happening: &Happening) {
        self.happenings.lock().push(happening.clone());
        self.changed.notify_waiters();
    }
}

impl Seen {
    fn find(&self, is_it: impl Fn(&Happening) -> bool) -> Option<Happening> {
        self.happenings.lock().iter().find(|h| is_it(h)).cloned()
    }

    async fn wait(&self, is_it: impl Fn(&Happening) -> bool) -> Happening {
        let found = timeout(LIMIT, async {
            loop {
                let changed = self.changed.notified();
                match self.find(&is_it) {
                    Some(happening) => return happening,
                    None => changed.await,
                }
            }
        });
        found.await.unwrap_or_else(|_| panic!("it was not reported, but {:?}", self.happenings.lock()))
    }
}

fn is_down(happening: &Happening) -> bool {
    matches!(happening, Happening::TunnelDown { .. })
}

fn is_reconnecting(happening: &Happening) -> bool {
    matches!(happening, Happening::Reconnecting { .. })
}

/// Sends as much as is taken, to everybody.
async fn endless() -> (SocketAddr, JoinSet<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let mut connections = JoinSet::new();
        while let Ok((mut socket, _)) = listener.accept().await {
            connections.spawn(async move { while socket.write_all(&[7; 64 * 1024]).await.is_ok() {} });
        }
    });
    (address, tasks)
}

/// An agent with a tunnel to a hub that has opened streams, taken a while of what they send, and then no longer reads.
struct Deafened {
    hub: FakeHub,
    agent: Agent,
    seen: Arc<Seen>,
    running: JoinSet<()>,
    _kept: (Session, Offers, HubDriver, Vec<Stream>, JoinSet<()>),
}

async fn deafened(change: impl FnOnce(&mut Config)) -> Deafened {
    let (target, sender) = endless().await;
    let hub = FakeHub::new();
    let seen = Arc::new(Seen::default());
    let mut config = Config::default();
    change(&mut config);
    let allow = AllowList::parse([format!("tcp://{target}")]).unwrap();
    let agent = Agent::builder(&hub.bundle()).allow(allow).observer(seen.clone()).config(config).build().unwrap();
    let mut running = JoinSet::new();
    let run = agent.clone();
    running.spawn(async move { run.run().await });
    let (session, offers, mut driver) = timeout(LIMIT, take_in(&hub)).await.unwrap();
    let destination =
        Destination { cluster: agent.cluster().clone(), target: Endpoint::parse(&target.to_string()).unwrap().into() };
    let mut streams = Vec::new();
    for _ in 0..32 {
        let headers = routing::headers_for(&Protocol::tcp(), &destination);
        let opening = session.open(Open { headers, ..Open::default() }, Bytes::new());
        tokio::select! {
            opened = opening => streams.push(opened.unwrap()),
            ending = &mut driver => panic!("{ending}"),
        }
    }
    assert!(agent.status().is_some());
    Deafened { hub, agent, seen, running, _kept: (session, offers, driver, streams, sender) }
}

#[tokio::test]
async fn a_hub_cannot_send_an_agent_away_for_good() {
    let hub = FakeHub::new();
    let seen = Arc::new(Seen::default());
    let agent = Agent::builder(&hub.bundle()).observer(seen.clone()).build().unwrap();
    let mut running = JoinSet::new();
    let run = agent.clone();
    running.spawn(async move { run.run().await });
    let (session, _offers, driver) = timeout(LIMIT, take_in(&hub)).await.unwrap();
    session.drain(Drain { reason: DrainReason::Stopping, message: "go".to_owned(), reconnect_after_ms: u64::MAX });
    let told = tokio::select! {
        told = seen.wait(is_reconnecting) => told,
        ending = driver => panic!("{ending}"),
    };
    let Happening::Reconnecting { retry_in, .. } = told else { unreachable!("it was waited for") };
    // Five minutes, and up to a quarter more, so that they do not all come at once.
    let (least, most) = (Duration::from_secs(300), Duration::from_secs(375));
    assert!((least..=most).contains(&retry_in), "{retry_in:?}");
    agent.stop();
}

#[tokio::test]
async fn an_agent_that_stops_does_not_wait_for_a_hub_that_does_not_read() {
    let mut deafened = deafened(|_| {}).await;
    let begin = Instant::now();
    deafened.agent.stop();
    timeout(LIMIT, deafened.running.join_next()).await.expect("it returns");
    let took = begin.elapsed();
    assert!(took < Duration::from_millis(3500), "{took:?}");
    assert!(deafened.seen.find(is_down).is_some(), "the tunnel ended before the agent did");
    drop(deafened.hub);
}

#[tokio::test]
async fn an_agent_whose_tunnel_ended_is_not_ready_while_it_says_goodbye() {
    let deafened = deafened(|config| {
        config.tunnel.ping_interval = Duration::from_millis(200);
        config.tunnel.ping_timeout = Duration::from_millis(500);
    })
    .await;
    let told = deafened.seen.wait(is_reconnecting).await;
    let begin = Instant::now();
    assert!(deafened.seen.find(is_down).is_none(), "nobody takes the goodbye: {told:?}");
    assert!(deafened.agent.status().is_none(), "and nobody would take a request");
    deafened.seen.wait(is_down).await;
    assert!(begin.elapsed() < Duration::from_millis(3500), "{:?}", begin.elapsed());
    deafened.agent.stop();
}
