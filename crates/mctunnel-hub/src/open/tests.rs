//! Which tunnel a stream is opened on when the first one ends, and how long one is waited for. The tunnels are pipes, the clock jumps.

use super::*;
use crate::registry::Activated;
use bytes::Bytes;
use mctunnel_core::{ClusterName, Clusters, Target};
use mctunnel_identity::HubAuthority;
use mctunnel_tunnel::{ByteLink, Config, Driver, Hello, Offers, Welcome};
use std::{pin::pin, sync::Arc};
use tempfile::TempDir;
use tokio::{
    io::DuplexStream,
    sync::Notify,
    task::{JoinSet, yield_now},
    time::{advance, timeout},
};

struct All;

impl Clusters for All {
    fn is_known(&self, _: &ClusterName) -> impl Future<Output = bool> + Send {
        std::future::ready(true)
    }

    fn admits(&self, _: &ClusterName, _: &str) -> impl Future<Output = bool> + Send {
        std::future::ready(true)
    }
}

/// A hub that nobody has to dial.
struct Stage {
    hub: Hub,
    cluster: ClusterName,
    agents: JoinSet<()>,
    frozen: Arc<Notify>,
    _data: TempDir,
}

/// The hub's end of a tunnel: moves only while it is polled.
struct Tunnel {
    generation: u64,
    driver: Driver<ByteLink<DuplexStream>>,
    offers: Offers,
}

impl Stage {
    fn new() -> Self {
        let data = tempfile::tempdir().unwrap();
        let authority = HubAuthority::open_or_create(data.path(), &[]).unwrap();
        let hub = Hub::builder(&authority, Arc::new(All)).build().unwrap();
        Self {
            hub,
            cluster: ClusterName::parse("c1").unwrap(),
            agents: JoinSet::new(),
            frozen: Arc::default(),
            _data: data,
        }
    }

    /// Makes a tunnel the active one of the cluster.
    async fn connect(&mut self) -> Tunnel {
        let (near, far) = tokio::io::duplex(64 * 1024);
        let (agent, agent_driver) = Session::agent(ByteLink::new(far), Config::default(), Hello::default());
        let (greeting, mut driver) = Session::hub(ByteLink::new(near), Config::default());
        let frozen = Arc::clone(&self.frozen);
        self.agents.spawn(async move {
            let mut driver = pin!(agent_driver);
            tokio::select! {
                _ = &mut driver => {}
                () = frozen.notified() => std::future::pending().await,
            }
        });
        let hello = tokio::select! {
            hello = greeting.hello() => hello,
            ending = &mut driver => panic!("{ending}"),
        };
        hello.unwrap();
        let (session, _) = greeting.welcome(Welcome::default());
        let offers = tokio::select! {
            welcomed = agent.welcomed() => welcomed.unwrap().1,
            ending = &mut driver => panic!("{ending}"),
        };
        let registry = &self.hub.inner.registry;
        let leave = registry.ask(&self.cluster, "one").unwrap();
        let activated = registry.activate(&self.cluster, &leave, "one", "pipe", &session);
        assert!(!matches!(activated, Activated::Outdated));
        Tunnel { generation: leave.generation, driver, offers }
    }

    fn disconnect(&self, tunnel: Tunnel) {
        let Tunnel { generation, driver, .. } = tunnel;
        drop(driver);
        self.hub.inner.registry.deactivate(&self.cluster, generation);
    }

    fn request(&self, wait: Duration) -> OpenRequest {
        let mut request = OpenRequest::new(Destination { cluster: self.cluster.clone(), target: Target::KubeApi });
        request.wait_for_tunnel = wait;
        request.first_bytes = Bytes::from_static(b"first");
        request
    }

    /// Begins to open; what is asked stays queued until the tunnel is driven.
    async fn begin(&self) -> JoinSet<Result<Stream, OpenError>> {
        let (hub, request, mut opening) = (self.hub.clone(), self.request(WAIT), JoinSet::new());
        opening.spawn(async move { hub.open(request).await });
        for _ in 0..10 {
            yield_now().await;
        }
        opening
    }
}

const WAIT: Duration = Duration::from_secs(5);

#[tokio::test(start_paused = true)]
async fn an_open_that_was_never_sent_is_sent_on_the_next_tunnel() {
    let mut stage = Stage::new();
    let old = stage.connect().await;
    let mut opening = stage.begin().await;
    stage.disconnect(old);
    let Tunnel { driver, mut offers, .. } = stage.connect().await;
    let mut driving = JoinSet::new();
    driving.spawn(driver);
    let joined = timeout(WAIT, offers.next()).await.expect("it is asked again").unwrap().join().unwrap();
    opening.join_next().await.unwrap().unwrap().unwrap();
    drop(joined);
}

#[tokio::test(start_paused = true)]
async fn an_open_that_was_sent_is_not_sent_again() {
    let mut stage = Stage::new();
    let mut old = stage.connect().await;
    let mut opening = stage.begin().await;
    let _offer = tokio::select! {
        offer = old.offers.next() => offer.unwrap(),
        ending = &mut old.driver => panic!("{ending}"),
    };
    stage.disconnect(old);
    let new = stage.connect().await;
    let lost = opening.join_next().await.unwrap().unwrap().unwrap_err();
    assert!(matches!(lost, OpenError::TunnelLost(_)), "{lost}");
    drop(new);
}

#[tokio::test(start_paused = true)]
async fn t44_opens_on_a_tunnel_that_falls_silent_have_timed_out_and_are_not_lost() {
    let mut stage = Stage::new();
    let Tunnel { driver, offers, .. } = stage.connect().await;
    let mut driving = JoinSet::new();
    driving.spawn(driver);
    pass(Duration::from_secs(1)).await;
    stage.frozen.notify_waiters();
    // One whose own patience ends before the tunnel is given up, and two that would have waited longer.
    let mut opening = JoinSet::new();
    let begun = Instant::now();
    for name in ["first", "second", "third"] {
        let (hub, request) = (stage.hub.clone(), stage.request(WAIT));
        opening.spawn(async move { (name, hub.open(request).await, begun.elapsed()) });
        pass(Duration::from_secs(3)).await;
    }
    while let Some(opened) = opening.join_next().await {
        let (name, opened, at) = opened.unwrap();
        let error = opened.unwrap_err();
        assert!(matches!(error, OpenError::Timeout(_)), "the {name}, {at:?}: {error}");
        assert!(at <= Duration::from_secs(10), "the {name} took {at:?}");
    }
    drop(offers);
}

#[tokio::test(start_paused = true)]
async fn waiting_for_a_tunnel_takes_nothing_from_the_time_for_the_answer() {
    let mut stage = Stage::new();
    let old = stage.connect().await;
    stage.disconnect(old);
    let (hub, mut request) = (stage.hub.clone(), stage.request(WAIT));
    request.timeout = Duration::from_secs(3);
    let (patience, mut opening) = (request.timeout, JoinSet::new());
    opening.spawn(async move { hub.open(request).await });
    pass(Duration::from_secs(4)).await;
    let back = Instant::now();
    let Tunnel { driver, mut offers, .. } = stage.connect().await;
    let mut driving = JoinSet::new();
    driving.spawn(driver);
    let offer = timeout(WAIT, offers.next()).await.expect("it is asked").unwrap();
    let late = opening.join_next().await.unwrap().unwrap().unwrap_err();
    assert!(matches!(late, OpenError::Timeout(_)), "{late}");
    let waited = back.elapsed();
    assert!(waited >= patience && waited < patience + Duration::from_millis(100), "{waited:?} for the answer");
    drop(offer);
}

/// Lets so much of the paused clock pass, with all that is due meanwhile.
async fn pass(time: Duration) {
    // tidy: sleep because the clock is paused, and the test is about what happens when
    tokio::time::sleep(time).await;
}

#[tokio::test(start_paused = true)]
async fn an_open_is_tried_once_more_and_no_more() {
    let mut stage = Stage::new();
    let first = stage.connect().await;
    let mut opening = stage.begin().await;
    for tunnel in [Some(first), None] {
        let tunnel = match tunnel {
            Some(tunnel) => tunnel,
            None => {
                let second = stage.connect().await;
                for _ in 0..10 {
                    yield_now().await;
                }
                second
            }
        };
        stage.disconnect(tunnel);
    }
    let _third = stage.connect().await;
    let ended = timeout(Duration::from_millis(100), opening.join_next()).await.expect("at once");
    let none = ended.unwrap().unwrap().unwrap_err();
    assert!(matches!(none, OpenError::NoTunnel { .. }), "{none}");
}

#[tokio::test(start_paused = true)]
async fn a_cluster_is_waited_for_only_while_it_may_be_reconnecting() {
    let mut stage = Stage::new();
    let waits = async |stage: &Stage| {
        let begun = Instant::now();
        let none = stage.hub.open(stage.request(WAIT)).await.unwrap_err();
        assert!(matches!(none, OpenError::NoTunnel { .. }), "{none}");
        begun.elapsed() >= WAIT
    };
    assert!(waits(&stage).await, "the hub has just begun: everybody is on the way");
    advance(Duration::from_secs(30)).await;
    assert!(!waits(&stage).await, "it never came");
    let tunnel = stage.connect().await;
    advance(Duration::from_secs(3600)).await;
    stage.disconnect(tunnel);
    assert!(waits(&stage).await, "it has just left");
    advance(Duration::from_secs(20)).await;
    assert!(waits(&stage).await, "it left a moment ago");
    advance(Duration::from_secs(10)).await;
    let begun = Instant::now();
    assert!(!waits(&stage).await, "it is away");
    assert!(begun.elapsed() < Duration::from_millis(100), "{:?}", begun.elapsed());
}
