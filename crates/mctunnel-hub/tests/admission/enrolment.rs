//! Agents without a certificate: they get one for a token, and get nowhere else.

use crate::{
    fake_agent::{Caller, Manner, PATH, Shown, framed},
    stage::{LIMIT, Recorder, Stage, cluster},
};
use bytes::Bytes;
use mctunnel_core::{Clusters, Happening};
use mctunnel_hub::Hub;
use mctunnel_identity::{
    AgentKey, HubAuthority, JoinToken, JoinTokens,
    enrolment::wire::{self, ENROL_PATH, IssuedCertificate, RENEW_PATH},
};
use rustls::version::TLS13;
use std::{sync::Arc, time::Duration};
use tokio::{
    net::{TcpListener, TcpStream},
    task::JoinSet,
    time::{Instant, timeout},
};

const ENROL: &[&str] = &["mctunnel-enrol"];

/// A peer without a certificate that wants to enrol.
async fn stranger(stage: &Stage) -> Caller {
    Caller::over(Manner { shown: None, alpn: ENROL, version: &TLS13 }.connect(stage).await.unwrap()).await
}

fn request(token: &JoinToken, csr: Vec<u8>) -> Bytes {
    let proof = wire::JoinTokenProof { id: token.id.as_bytes().to_vec(), secret: token.secret.expose().to_vec() };
    let evidence = Some(wire::Evidence::JoinToken(proof));
    framed(&wire::encode(&wire::EnrolRequest { csr, lifetime_seconds: 0, evidence }))
}

fn honest(token: &JoinToken) -> Bytes {
    request(token, AgentKey::generate().unwrap().request(None).unwrap())
}

#[tokio::test]
async fn an_agent_enrols_connects_and_starts_again_without_its_token() {
    let mut stage = Stage::new().await;
    let home = tempfile::tempdir().unwrap();
    let token = stage.token("c1", 1);

    let enrolled = stage.enrol(&token, home.path()).await.unwrap();

    assert_eq!(enrolled.bundle.cluster, cluster("c1"));
    let serial = enrolled.bundle.certificate().unwrap().serial;
    assert!(stage.clusters.admits(&cluster("c1"), &serial).await);
    let told = stage.seen.wait("the enrolment", |h| matches!(h, Happening::AgentEnrolled { .. })).await;
    let expected = format!("join token {}", token.id);
    assert!(
        matches!(&told, Happening::AgentEnrolled { cluster, serial: s, evidence, .. }
            if cluster.as_str() == "c1" && *s == serial && *evidence == expected),
        "{told:?}"
    );

    let agent = stage.run_enrolled(home.path(), Arc::new(Recorder::default()));
    stage.tunnel_up("c1", 1).await;
    stage.exchange("c1").await.unwrap();
    agent.stop();
    stage.seen.wait("its end", |h| matches!(h, Happening::TunnelDown { .. })).await;
    stage.tokens.revoke(token.id).unwrap();
    stage.run_enrolled(home.path(), Arc::new(Recorder::default()));
    stage.tunnel_up("c1", 2).await;
    stage.exchange("c1").await.unwrap();
}

#[tokio::test]
async fn t21_without_a_certificate_nothing_but_enrol_is_served() {
    let mut stage = Stage::new().await;
    stage.honest_agent("c2").await;
    let token = stage.token("c1", 1);
    for path in
        [PATH, RENEW_PATH, "/", "/mctunnel.enrol.v1.EnrolService/Other", "/mctunnel.enrol.v1.EnrolService/Enrol/"]
    {
        let (status, message) = stranger(&stage).await.unary(path, honest(&token)).await;
        assert_eq!(status, "12", "{path}: {message:?}");
        assert!(!message.windows(6).any(|w| w == b"Tunnel"), "what else there is, is not its business: {message:?}");
    }
    // Nor with a certificate, on such a connection.
    let shown = Some(Shown::honest(&stage.join_bundle("c1")));
    let tls = Manner { shown, alpn: ENROL, version: &TLS13 }.connect(&stage).await.unwrap();
    let (status, _) = Caller::over(tls).await.unary(PATH, Bytes::new()).await;
    assert_eq!(status, "12");
    // Who asks for both protocols is a stranger, too.
    for alpn in [&["h2", "mctunnel-enrol"], &["mctunnel-enrol", "h2"]] {
        let tls = Manner { shown: None, alpn, version: &TLS13 }.connect(&stage).await.unwrap();
        assert_eq!(tls.get_ref().1.alpn_protocol(), Some(&b"mctunnel-enrol"[..]));
        let (status, _) = Caller::over(tls).await.unary(PATH, Bytes::new()).await;
        assert_eq!(status, "12");
    }
    assert_eq!(stage.registered(), ["c2"]);
    assert_eq!(stage.seen.count(|h| matches!(h, Happening::AgentEnrolled { .. })), 0);
    stage.exchange("c2").await.unwrap();
}

#[tokio::test]
async fn t21_a_hub_that_enrols_nobody_refuses_strangers_in_tls() {
    let dir = tempfile::tempdir().unwrap();
    let authority = HubAuthority::open_or_create(dir.path(), &[]).unwrap();
    let mut stage = Stage::new().await;
    let clusters = Arc::new(stage.clusters.clone());
    let hub = Hub::builder(&authority, clusters).observer(stage.seen.clone()).build().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    (stage.address, stage.authority) = (listener.local_addr().unwrap(), authority);
    let mut serving = JoinSet::new();
    serving.spawn(async move { hub.serve_tunnels(listener, hub.stopping()).await });
    let refused = Manner { shown: None, alpn: ENROL, version: &TLS13 }.connect(&stage).await;
    assert!(refused.is_err());
    assert_eq!(stage.seen.refusal().await.0, "MCT-ADMIT-TLS");
    let shown = Shown::honest(&stage.join_bundle("c1"));
    let (status, _) = Caller::new(&stage, shown).await.unary(RENEW_PATH, Bytes::new()).await;
    assert_eq!(status, "12", "nor does it renew");
}

#[tokio::test]
async fn the_second_use_of_a_one_use_token_is_refused_and_reported() {
    let stage = Stage::new().await;
    let token = stage.token("c1", 1);
    let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    stage.enrol(&token, first.path()).await.unwrap();

    let refused = stage.enrol(&token, second.path()).await.unwrap_err();

    assert!(!refused.may_pass(), "{refused:?}");
    assert!(refused.to_string().contains("MCT-ENROL-TOKEN-USED"), "{refused}");
    let told = stage.seen.wait("the refusal", |h| matches!(h, Happening::EnrolRefused { .. })).await;
    let Happening::EnrolRefused { code, evidence, cluster, .. } = told else { unreachable!("it was waited for") };
    assert_eq!((code, evidence), ("MCT-ENROL-TOKEN-USED", format!("join token {}", token.id)));
    assert_eq!(cluster, None, "nobody has proven to be one");
    assert!(!second.path().join("identity.json").exists());
    let serials = stage.clusters.list().unwrap()[0].serials.len();
    assert_eq!(serials, 1, "nothing else was issued");
    let (granted, refused) = (stage.records.all().remove(0), stage.records.all().remove(1));
    assert_eq!(granted, format!("cluster:c1 allowed join token {}: ended cleanly", token.id));
    assert!(
        refused.starts_with(&format!("somebody denied join token {}: MCT-ENROL-TOKEN-USED: ", token.id)),
        "{refused}"
    );
    assert_eq!(stage.records.all().len(), 2);
    let c1 = Some("c1".to_owned());
    assert_eq!(stage.records.about(), [c1.clone(), c1], "whose token it is, is in the record");
}

#[tokio::test]
async fn who_has_not_the_secret_of_a_token_does_not_make_a_record_about_its_cluster() {
    let stage = Stage::new().await;
    let token = stage.token("c1", 1);
    let other = stage.token("c2", 1);
    let guessed = JoinToken { secret: other.secret, ..token };
    let home = tempfile::tempdir().unwrap();
    let refused = stage.enrol(&guessed, home.path()).await.unwrap_err();
    assert!(refused.to_string().contains("MCT-ENROL-TOKEN-UNKNOWN"), "{refused}");
    assert_eq!(stage.records.about(), [None]);
}

#[tokio::test]
async fn what_cannot_be_recorded_is_not_issued_and_costs_no_use_of_the_token() {
    let stage = Stage::new().await;
    let token = stage.token("c1", 1);
    let home = tempfile::tempdir().unwrap();
    stage.records.set_full(true);

    let (status, message) = stranger(&stage).await.unary(ENROL_PATH, honest(&token)).await;

    assert_eq!(status, "14", "try again later: {message:?}");
    assert!(message.starts_with(b"MCT-ENROL-UNRECORDED: "), "{message:?}");
    let told = stage.seen.wait("the refusal", |h| matches!(h, Happening::EnrolRefused { .. })).await;
    assert!(matches!(told, Happening::EnrolRefused { code: "MCT-ENROL-UNRECORDED", .. }), "{told:?}");
    assert_eq!(stage.seen.count(|h| matches!(h, Happening::AgentEnrolled { .. })), 0);
    stage.records.set_full(false);
    stage.enrol(&token, home.path()).await.unwrap();
}

#[tokio::test]
async fn a_message_that_is_none_is_recorded_as_well() {
    let stage = Stage::new().await;
    let (status, _) = stranger(&stage).await.unary(ENROL_PATH, framed(&[0xff; 9])).await;
    assert_eq!(status, "3");
    let record = stage.records.all().pop().expect("a record");
    assert!(record.starts_with("somebody denied nothing: MCT-ENROL-"), "{record}");
}

#[tokio::test]
async fn of_two_agents_at_once_one_gets_the_last_use() {
    let stage = Stage::new().await;
    let token = stage.token("c1", 1);
    let homes: Vec<_> = (0..6).map(|_| tempfile::tempdir().unwrap()).collect();
    let tries = homes.iter().map(|home| stage.enrol(&token, home.path()));
    let mut got_in = 0;
    let mut joined: Vec<_> = tries.map(Box::pin).collect();
    for one in &mut joined {
        got_in += usize::from(one.await.is_ok());
    }
    assert_eq!(got_in, 1);
    assert_eq!(stage.clusters.list().unwrap()[0].serials.len(), 1);
}

#[tokio::test]
async fn t25_over_the_wire_nothing_is_issued_for_a_greedy_request() {
    let stage = Stage::new().await;
    let token = stage.token("c1", 1);
    stage.token("c2", 1);
    let key = AgentKey::generate().unwrap();
    let for_another = key.request(Some(&cluster("c2"))).unwrap();
    let (status, message) = stranger(&stage).await.unary(ENROL_PATH, request(&token, for_another)).await;
    assert_eq!(status, "7", "{message:?}");
    assert!(message.starts_with(b"MCT-ENROL-TOKEN-CLUSTER"), "{message:?}");
    let mut params = rcgen::CertificateParams::default();
    params.distinguished_name.push(rcgen::DnType::OrganizationName, "system:masters");
    let greedy = params.serialize_request(&rcgen::KeyPair::generate().unwrap()).unwrap().der().to_vec();
    let (status, message) = stranger(&stage).await.unary(ENROL_PATH, request(&token, greedy)).await;
    assert_eq!(status, "3", "{message:?}");
    assert!(message.starts_with(b"MCT-ENROL-CSR"), "{message:?}");
    assert!(stage.clusters.list().unwrap().iter().all(|record| record.serials.is_empty()), "nothing was issued");

    let (status, answer) = stranger(&stage).await.unary(ENROL_PATH, honest(&token)).await;
    assert_eq!(status, "0");
    let issued: IssuedCertificate = wire::decode(&answer).unwrap();
    assert_eq!((issued.authorities.len(), issued.lifetime_seconds), (1, 24 * 60 * 60));
}

#[tokio::test]
async fn what_is_not_one_message_is_refused() {
    let stage = Stage::new().await;
    let token = stage.token("c1", 1);
    let good = honest(&token);
    let twice: Bytes = [good.clone(), good.clone()].concat().into();
    let with_rest: Bytes = [good.clone(), Bytes::from_static(b"xx")].concat().into();
    for (what, body) in [
        ("nothing", Bytes::new()),
        ("half of it", good.slice(..good.len() / 2)),
        ("two of them", twice),
        ("something behind it", with_rest),
        ("compressed", [Bytes::from_static(&[1]), good.slice(1..)].concat().into()),
        ("too long", framed(&vec![0; 64 * 1024])),
        ("a length that is a lie", Bytes::from_static(b"\0\xff\xff\xff\xffx")),
    ] {
        let (status, _) = stranger(&stage).await.unary(ENROL_PATH, body).await;
        assert_eq!(status, "hung up", "{what}");
        assert_eq!(stage.seen.refusal().await.0, "MCT-ENROL-CALL", "{what}");
    }
    for (what, body) in [("no message", framed(b"\xff\xff\xff")), ("an empty one", framed(b""))] {
        let (status, message) = stranger(&stage).await.unary(ENROL_PATH, body).await;
        assert_eq!(status, "3", "{what}: {message:?}");
    }
    assert_eq!(stage.tokens.list().unwrap()[0].used, 0);
}

#[tokio::test]
async fn strangers_who_say_nothing_are_hung_up_on_in_time() {
    let stage = Stage::with(|config| config.handshake_timeout = Duration::from_millis(300)).await;
    let begin = Instant::now();
    let mut tls = Manner { shown: None, alpn: ENROL, version: &TLS13 }.connect(&stage).await.unwrap();
    let _no_call = stranger(&stage).await;
    let mut answer = Vec::new();
    let _ = timeout(LIMIT, tokio::io::AsyncReadExt::read_to_end(&mut tls, &mut answer)).await.expect("it hangs up");
    for _ in 0..2 {
        assert_eq!(stage.seen.refusal().await.0, "MCT-ADMIT-TIMEOUT");
    }
    assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
}

#[tokio::test]
async fn who_has_not_said_hello_takes_no_turn_from_those_who_have() {
    let mut stage = Stage::with(|config| config.concurrent_handshakes = 1).await;
    let mut silent = Vec::new();
    for _ in 0..16 {
        silent.push(TcpStream::connect(stage.address).await.unwrap());
    }
    let begin = Instant::now();
    stage.honest_agent("c1").await;
    stage.exchange("c1").await.unwrap();
    let hung_up = stage.seen.count(|h| matches!(h, Happening::PeerRefused { .. }));
    assert_eq!(hung_up, 0, "it did not wait for their end, but got in after {:?}", begin.elapsed());
}
