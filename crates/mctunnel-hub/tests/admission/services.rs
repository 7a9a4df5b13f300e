//! Services of the hub for clusters: who reaches which, what they are told otherwise, and what is written down of it.

use crate::{
    fake_agent::{FakeAgent, Shown},
    stage::{LIMIT, Recorder, Records, Stage, cluster},
};
use mctunnel_agent::Agent;
use mctunnel_core::{
    Endpoint, Happening, OpenError, Priority, Protocol, clusters::Labels, routing::headers_to_hub, target::Label,
};
use mctunnel_hub::{HubService, HubServices, ServiceTable};
use mctunnel_mux::{Frame, Header, Open, RefuseCode};
use std::{collections::BTreeMap, net::SocketAddr, sync::Arc};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::mpsc,
    time::timeout,
};
use tokio_util::sync::CancellationToken;

/// Something at the hub's side that counts who comes, and sends back what it gets.
struct Target {
    address: SocketAddr,
    came: mpsc::Receiver<()>,
}

impl Target {
    async fn start(stage: &mut Stage) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (tell, came) = mpsc::channel(64);
        stage.run(async move {
            while let Ok((mut socket, _)) = listener.accept().await {
                tell.send(()).await.unwrap();
                let (mut reader, mut writer) = socket.split();
                let _ = tokio::io::copy(&mut reader, &mut writer).await;
                let _ = writer.shutdown().await;
            }
        });
        Self { address, came }
    }

    fn service(&self, clusters: &[&str], labels: &[(&str, &str)]) -> HubService {
        HubService {
            endpoint: Endpoint::parse(&self.address.to_string()).unwrap(),
            clusters: clusters.iter().map(|name| cluster(name)).collect(),
            labels: labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect::<Labels>(),
            every_cluster: false,
        }
    }
}

fn name(text: &str) -> Label {
    Label::parse(text).unwrap()
}

/// A hub that offers nothing yet, its services, and what they recorded.
async fn stage() -> (Stage, Arc<HubServices>, Records) {
    let records = Records::default();
    let mut made = None;
    let stage = Stage::offering(|clusters| {
        let services = Arc::new(HubServices::new(ServiceTable::new(), clusters).audit(Arc::new(records.clone())));
        made = Some(Arc::clone(&services));
        services
    });
    let stage = stage.await;
    (stage, made.unwrap(), records)
}

/// Exposes a service at an agent; gives where.
async fn expose(stage: &mut Stage, agent: &Agent, service: &str) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (agent, service) = (agent.clone(), name(service));
    stage.run(async move { agent.expose(service, listener, CancellationToken::new()).await });
    address
}

async fn refusal(agent: &Agent, service: &str) -> OpenError {
    let (service, protocol) = (name(service), Protocol::tcp());
    agent.open_at_hub(&protocol, Some(&service), Priority::Normal, LIMIT).await.expect_err("it is refused")
}

#[tokio::test]
async fn a_cluster_reaches_the_service_it_was_given_byte_for_byte() {
    let (mut stage, services, records) = stage().await;
    let mut target = Target::start(&mut stage).await;
    services.replace(BTreeMap::from([(name("hub-apiserver"), target.service(&["c1"], &[]))]));
    let agent = stage.honest_agent("c1").await;
    let address = expose(&mut stage, &agent, "hub-apiserver").await;

    let sent: Vec<u8> = (0..1_u32 << 18).flat_map(|i| i.wrapping_mul(2_654_435_761).to_be_bytes()).collect();
    let socket = TcpStream::connect(address).await.unwrap();
    let (mut reader, mut writer) = socket.into_split();
    let mut back = Vec::new();
    let writing = async {
        writer.write_all(&sent).await.unwrap();
        writer.shutdown().await.unwrap();
    };
    let (_, read) = timeout(LIMIT, async { tokio::join!(writing, reader.read_to_end(&mut back)) }).await.unwrap();
    read.unwrap();
    assert!(back == sent, "{} of {} bytes came back as they were", back.len(), sent.len());
    assert!(target.came.try_recv().is_ok());

    let ended = stage.seen.wait("its end", |h| matches!(h, Happening::StreamEnded { .. })).await;
    let Happening::StreamEnded { bytes_up, bytes_down, error, .. } = ended else { unreachable!("it was waited for") };
    assert_eq!((bytes_up, bytes_down, error), (1 << 20, 1 << 20, None));
    let record = records.all().pop().expect("a record");
    assert_eq!(record, "cluster:c1 allowed service hub-apiserver, by name: ended cleanly");
}

#[tokio::test]
async fn t17_a_service_that_is_not_there_and_one_for_others_get_the_same_no_and_nothing_is_dialled() {
    let (mut stage, services, records) = stage().await;
    let mut target = Target::start(&mut stage).await;
    services.replace(BTreeMap::from([
        (name("theirs"), target.service(&["c2"], &[])),
        (name("nobodys"), target.service(&[], &[])),
    ]));
    let agent = stage.honest_agent("c1").await;
    let mut told = Vec::new();
    for service in ["theirs", "nobodys", "missing"] {
        let error = refusal(&agent, service).await;
        let OpenError::NotAllowed(message) = &error else { panic!("{error:?}") };
        told.push(message.replace(service, "X"));
        stage
            .seen
            .wait("the refusal at the hub", |h| {
                matches!(h, Happening::HubServiceRefused { cluster, service: s, code: "MCT-SERVICE-NOT-ALLOWED", .. }
                    if cluster.as_str() == "c1" && s == service)
            })
            .await;
    }
    assert_eq!(told, ["MCT-SERVICE-NOT-ALLOWED: this hub offers c1 no service X"; 3]);
    assert!(target.came.try_recv().is_err(), "nothing was dialled");
    let why = "MCT-SERVICE-NOT-ALLOWED: the service is not for this cluster";
    assert_eq!(
        records.all(),
        [
            format!("cluster:c1 denied service theirs: the service is not for this cluster: {why}"),
            format!("cluster:c1 denied service nobodys: the service is not for this cluster: {why}"),
            "cluster:c1 denied service missing: there is no such service: \
             MCT-SERVICE-NOT-ALLOWED: there is no such service"
                .to_owned(),
        ]
    );
}

#[tokio::test]
async fn a_client_of_a_refused_service_gets_a_reset_and_the_agent_says_why() {
    let (mut stage, ..) = stage().await;
    let seen = Arc::new(Recorder::default());
    let agent = Agent::builder(&stage.join_bundle("c1")).observer(seen.clone()).build().unwrap();
    let running = agent.clone();
    stage.run(async move { running.run().await });
    let address = expose(&mut stage, &agent, "hub-apiserver").await;
    let mut socket = TcpStream::connect(address).await.unwrap();
    let end = timeout(LIMIT, socket.read_u8()).await.unwrap().expect_err("no byte");
    assert_eq!(end.kind(), std::io::ErrorKind::ConnectionReset, "never a clean end");
    let refused = seen.wait("the refusal", |h| matches!(h, Happening::HubServiceRefused { .. })).await;
    let Happening::HubServiceRefused { service, code, reason, .. } = refused else { unreachable!("it was waited for") };
    assert_eq!((service.as_str(), code), ("hub-apiserver", "MCT-OPEN-NOT-ALLOWED"));
    assert!(reason.starts_with("MCT-SERVICE-NOT-ALLOWED: "), "{reason}");
}

#[tokio::test]
async fn a_label_opens_a_service_to_the_clusters_that_have_it() {
    let (mut stage, services, _) = stage().await;
    let target = Target::start(&mut stage).await;
    services.replace(BTreeMap::from([(name("otlp"), target.service(&[], &[("env", "prod"), ("tier", "1")]))]));
    for (cluster, labels, opens) in [
        ("both", &[("env", "prod"), ("tier", "1"), ("more", "x")][..], true),
        ("one", &[("env", "prod")], false),
        ("other", &[("env", "prod"), ("tier", "2")], false),
        ("none", &[], false),
    ] {
        let agent = stage.honest_agent(cluster).await;
        stage.label(cluster, labels);
        let opened = agent.open_at_hub(&Protocol::tcp(), Some(&name("otlp")), Priority::Normal, LIMIT).await;
        assert_eq!(opened.is_ok(), opens, "{cluster}: {opened:?}");
    }
}

#[tokio::test]
async fn t32_a_stream_is_cut_when_its_service_is_taken_away() {
    let (mut stage, services, records) = stage().await;
    let target = Target::start(&mut stage).await;
    let table = |clusters: &[&str]| BTreeMap::from([(name("hub-apiserver"), target.service(clusters, &[]))]);
    services.replace(table(&["c1", "c2"]));
    let (one, two) = (stage.honest_agent("c1").await, stage.honest_agent("c2").await);
    let service = name("hub-apiserver");
    let open = async |agent: &Agent| {
        let mut stream =
            agent.open_at_hub(&Protocol::tcp(), Some(&service), Priority::Normal, LIMIT).await.expect("it is allowed");
        // The target serves one after the other, so the first is asked alone.
        stream.write_all(b"x").await.unwrap();
        stream
    };
    let mut first = open(&one).await;
    assert_eq!(timeout(LIMIT, first.read_u8()).await.unwrap().unwrap(), b'x');
    let mut second = open(&two).await;
    services.replace(table(&["c2"]));
    let end = timeout(LIMIT, first.read_u8()).await.unwrap().expect_err("it was cut");
    assert_eq!(end.kind(), std::io::ErrorKind::ConnectionReset);
    assert!(records.all().iter().any(|record| record.contains("no longer for this cluster")), "{:?}", records.all());
    // The other cluster's goes on: the target comes to it once the first has gone.
    assert_eq!(timeout(LIMIT, second.read_u8()).await.unwrap().unwrap(), b'x');
}

#[tokio::test]
async fn what_was_moved_before_a_service_was_taken_away_stands_in_the_record() {
    let (mut stage, services, records) = stage().await;
    let target = Target::start(&mut stage).await;
    services.replace(BTreeMap::from([(name("hub-apiserver"), target.service(&["c1"], &[]))]));
    let agent = stage.honest_agent("c1").await;
    let service = name("hub-apiserver");
    let opened = agent.open_at_hub(&Protocol::tcp(), Some(&service), Priority::Normal, LIMIT).await.unwrap();
    let (mut reader, mut writer) = tokio::io::split(opened);
    let sent = vec![7; 1 << 20];
    let mut back = vec![0; sent.len()];
    let both = async { tokio::join!(writer.write_all(&sent), reader.read_exact(&mut back)) };
    let (written, read) = timeout(LIMIT, both).await.unwrap();
    assert_eq!((written.unwrap(), read.unwrap()), ((), 1 << 20));

    services.replace(ServiceTable::new());
    let ended = stage.seen.wait("its end", |h| matches!(h, Happening::StreamEnded { .. })).await;
    let Happening::StreamEnded { bytes_up, bytes_down, error, .. } = ended else { unreachable!("it was waited for") };
    assert_eq!((bytes_up, bytes_down), (1 << 20, 1 << 20), "{error:?}");
    assert_eq!(error.as_deref(), Some("the service is no longer for this cluster"));
    assert_eq!(records.moved(), [(1 << 20, 1 << 20)], "{:?}", records.all());
}

#[tokio::test]
async fn t23_a_stream_to_the_hub_cannot_claim_another_cluster() {
    let (mut stage, services, _) = stage().await;
    let mut target = Target::start(&mut stage).await;
    services.replace(BTreeMap::from([(name("theirs"), target.service(&["c2"], &[]))]));
    let bundle = stage.join_bundle("c1");
    let (mut agent, _) = FakeAgent::register(&stage, Shown::honest(&bundle), "one").await;
    let (own, other) = (cluster("c1"), cluster("c2"));
    let service = name("theirs");
    let claims = headers_to_hub(&Protocol::tcp(), &other, Some(&service));
    let both = [headers_to_hub(&Protocol::tcp(), &own, Some(&service)), claims.clone()].concat();
    let none: Vec<Header> = claims.iter().filter(|h| h.name != "x-mctunnel-cluster").cloned().collect();
    let unserved = headers_to_hub(&Protocol::parse("report").unwrap(), &own, None);
    let unnamed = headers_to_hub(&Protocol::tcp(), &own, None);
    let cases = [
        (claims, RefuseCode::BadRequest),
        (both, RefuseCode::BadRequest),
        (none, RefuseCode::BadRequest),
        (unnamed, RefuseCode::BadRequest),
        (unserved, RefuseCode::NotAllowed),
    ];
    for (id, (headers, expected)) in (0_u64..).zip(cases) {
        let open = Open { priority: Priority::Normal, headers, user: None };
        agent.send(&Frame::Open((id * 2 + 1).into(), 1 << 16, open));
        match agent.next().await {
            Some(Frame::Refused { code, .. }) => assert_eq!(code, expected, "case {id}"),
            other => panic!("case {id}: {other:?}"),
        }
    }
    assert!(target.came.try_recv().is_err(), "nothing was dialled");
    assert!(agent.is_alive().await, "a refusal ends no tunnel");
    // Each of them is written down, with who it was.
    let elsewhere =
        "cluster:c1 denied a stream: MCT-SERVICE-BAD-REQUEST: the stream says that it is of another cluster";
    let twice = "cluster:c1 denied a stream: MCT-SERVICE-BAD-REQUEST: a routing header stands there twice";
    let unnamed = "cluster:c1 denied tcp: MCT-SERVICE-BAD-REQUEST: the stream names no service";
    let unserved =
        "cluster:c1 denied report: MCT-SERVICE-NOT-ALLOWED: this hub offers clusters nothing by the protocol report";
    assert_eq!(stage.records.all(), [elsewhere, twice, elsewhere, unnamed, unserved]);
}

#[tokio::test]
async fn a_hub_without_services_records_whoever_asks_for_one() {
    let mut stage = Stage::new().await;
    let agent = stage.honest_agent("c1").await;
    let error = refusal(&agent, "hub-apiserver").await;
    assert!(matches!(&error, OpenError::NotAllowed(_)), "{error:?}");
    let record = stage.records.all().pop().expect("a record");
    assert!(record.starts_with("cluster:c1 denied hub-apiserver: MCT-SERVICE-NOT-ALLOWED: "), "{record}");
}
