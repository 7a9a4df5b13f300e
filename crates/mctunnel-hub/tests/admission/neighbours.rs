//! What one program in a cluster does with streams towards the hub, the reports and the other programs of that cluster do not feel.

use crate::{
    fake_agent::{FakeAgent, Shown},
    stage::{Records, Stage, cluster},
};
use mctunnel_core::{
    Endpoint, Protocol,
    clusters::{Labels, SharedClusters},
    routing::headers_to_hub,
    target::Label,
};
use mctunnel_hub::{
    ClusterAdapter, FromCluster, HubService, HubServices, ServiceTable, cluster_adapter::DynClusterAdapter,
};
use mctunnel_mux::{Frame, Open, RefuseCode, StreamId};
use std::{net::SocketAddr, sync::Arc, time::Duration};
use tokio::{net::TcpListener, time::Instant};

/// Keeps every stream of a protocol, joined or without an answer.
struct Keeps {
    protocol: Protocol,
    joins: bool,
}

impl Keeps {
    fn adapter(protocol: Protocol, joins: bool) -> Arc<dyn DynClusterAdapter> {
        Arc::new(Self { protocol, joins })
    }
}

impl ClusterAdapter for Keeps {
    fn protocol(&self) -> Protocol {
        self.protocol.clone()
    }

    async fn serve(self: Arc<Self>, opened: FromCluster) {
        if self.joins {
            let _joined = opened.join("nothing").unwrap();
            std::future::pending().await
        } else {
            opened.taken_back().await;
        }
    }
}

/// A program that opens streams in the agent of c1, one id after the other.
struct Opener {
    agent: FakeAgent,
    next: u64,
}

impl Opener {
    async fn new(stage: &Stage) -> Self {
        let (agent, _) = FakeAgent::register(stage, Shown::honest(&stage.join_bundle("c1")), "one").await;
        Self { agent, next: 1 }
    }

    fn open(&mut self, protocol: &Protocol, service: Option<&str>) -> StreamId {
        let service = service.map(|name| Label::parse(name).unwrap());
        let headers = headers_to_hub(protocol, &cluster("c1"), service.as_ref());
        let id = StreamId::from(self.next);
        self.next += 2;
        self.agent.send(&Frame::Open(id, 1 << 16, Open { headers, ..Open::default() }));
        id
    }

    /// The next answer: which stream, and why it was refused if it was.
    async fn answer(&mut self) -> (StreamId, Option<RefuseCode>) {
        loop {
            let frame = self.agent.next().await.expect("the tunnel lives");
            if let Frame::Joined { stream, .. } = frame {
                return (stream, None);
            }
            if let Frame::Refused { stream, code, .. } = frame {
                return (stream, Some(code));
            }
        }
    }
}

/// Services by name and address, all for c1 but those that begin with "their".
fn services(
    table: &[(&str, SocketAddr)],
    records: &Records,
) -> impl FnOnce(SharedClusters) -> Vec<Arc<dyn DynClusterAdapter>> {
    let service = |(name, address): &(&str, SocketAddr)| {
        let clusters = vec![cluster(if name.starts_with("their") { "c2" } else { "c1" })];
        let endpoint = Endpoint::parse(&address.to_string()).unwrap();
        let service = HubService { endpoint, clusters, labels: Labels::new(), every_cluster: false };
        (Label::parse(name).unwrap(), service)
    };
    let table: ServiceTable = table.iter().map(service).collect();
    let records = records.clone();
    move |clusters| {
        let services = HubServices::new(table, clusters).audit(Arc::new(records));
        vec![Arc::new(services), Keeps::adapter(Protocol::report(), true)]
    }
}

/// Fewer opens than the hub takes before it has looked at any.
const BATCH: usize = 200;

#[tokio::test]
async fn opens_of_a_service_that_does_not_answer_hold_no_reports_up() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let nobody = listener.local_addr().unwrap();
    drop(listener);
    let records = Records::default();
    let stage = Stage::adapting_with(|_| {}, services(&[("gone", nobody)], &records)).await;
    let mut opener = Opener::new(&stage).await;
    let begin = Instant::now();
    for batch in 0..10 {
        for _ in 0..BATCH {
            opener.open(&Protocol::tcp(), Some("gone"));
        }
        let report = opener.open(&Protocol::report(), None);
        for _ in 0..=BATCH {
            let (id, refused) = opener.answer().await;
            let expected = (id != report).then_some(RefuseCode::TargetRefused);
            assert_eq!(refused, expected, "batch {batch}");
        }
    }
    // 2,000 refusals, which are not the agent's fault. At the pace of those that are, they would take 20 s.
    assert!(begin.elapsed() < Duration::from_secs(10), "{:?}", begin.elapsed());
    assert_eq!(records.all().len(), 2_000, "each of them is written down");
}

#[tokio::test]
async fn t22_streams_of_one_protocol_take_no_place_of_another() {
    for joins in [true, false] {
        let adapters = [Keeps::adapter(Protocol::tcp(), joins), Keeps::adapter(Protocol::report(), true)];
        let stage = Stage::adapting_with(|_| {}, |_| adapters.into()).await;
        let mut opener = Opener::new(&stage).await;
        let (mut joined, mut refused) = (0, 0);
        for _ in 0..300 {
            opener.open(&Protocol::tcp(), None);
        }
        for _ in 0..if joins { 300 } else { 44 } {
            match opener.answer().await.1 {
                None => joined += 1,
                Some(code) => {
                    assert_eq!(code, RefuseCode::TooManyStreams);
                    refused += 1;
                }
            }
        }
        assert_eq!((joined, refused), (if joins { 256 } else { 0 }, 44));
        let report = opener.open(&Protocol::report(), None);
        assert_eq!(opener.answer().await, (report, None), "a report gets in; the others were joined: {joins}");
    }
}

#[tokio::test]
async fn t22_who_is_refused_all_the_time_fills_no_audit_log_and_holds_nobody_up() {
    const FLOOD: usize = 2_000;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let records = Records::default();
    let stage = Stage::adapting_with(|_| {}, services(&[("their", address), ("our", address)], &records)).await;
    let mut opener = Opener::new(&stage).await;
    let begin = Instant::now();
    let (mut refused, mut joined) = (0, 0);
    for batch in 0..FLOOD / BATCH {
        for _ in 0..BATCH {
            opener.open(&Protocol::tcp(), Some("their"));
        }
        let (our, report) = (opener.open(&Protocol::tcp(), Some("our")), opener.open(&Protocol::report(), None));
        while joined < (batch + 1) * 2 {
            match opener.answer().await {
                (_, Some(code)) => {
                    assert_eq!(code, RefuseCode::NotAllowed);
                    refused += 1;
                }
                (id, None) => {
                    assert!([our, report].contains(&id), "{id:?}");
                    joined += 1;
                }
            }
        }
    }
    let others_waited = begin.elapsed();
    while refused < FLOOD {
        assert_eq!(opener.answer().await.1, Some(RefuseCode::NotAllowed));
        refused += 1;
    }
    assert!(others_waited < Duration::from_secs(10), "at the pace of the refusals it were 20 s: {others_waited:?}");

    let lines = records.all();
    let denied: Vec<_> = lines.iter().filter(|line| line.contains(" denied service their: ")).collect();
    let most = 1_000 + 64 + 50 * (begin.elapsed().as_secs() + 1);
    assert!(denied.len() as u64 <= most, "{} lines, at most {most}", denied.len());
    let left_out = |line: &&String| -> usize {
        let count = line.split_once("; ").and_then(|(_, rest)| rest.split_once(" refused before it"));
        count.map_or(0, |(count, _)| count.parse().unwrap())
    };
    let left_out: usize = denied.iter().map(left_out).sum();
    assert_eq!(denied.len() + left_out, FLOOD, "lines say how many have none");
}
