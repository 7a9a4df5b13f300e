//! Certificates are renewed under a tunnel that stays, and what was revoked is out: live, at once, and after a restart.

use crate::{
    fake_agent::{Caller, FakeAgent, Manner, Shown, framed, tunnel_call},
    stage::{Recorder, Stage, cluster},
};
use bytes::Bytes;
use mctunnel_core::{Clusters, Happening, OpenError};
use mctunnel_identity::{
    AgentKey, AgentStore, Clock, HubAuthority, JoinTokens, SharedClock,
    enrolment::{
        AGENT_CERTIFICATE_LIFETIME,
        wire::{self, IssuedCertificate, RENEW_PATH},
    },
};
use rustls::version::TLS13;
use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};
use tokio::time::Instant;

fn renewal(csr: Vec<u8>) -> Bytes {
    framed(&wire::encode(&wire::RenewRequest { csr, lifetime_seconds: 0 }))
}

fn honest() -> Bytes {
    renewal(AgentKey::generate().unwrap().request(None).unwrap())
}

fn is_down(happening: &Happening) -> bool {
    matches!(happening, Happening::TunnelDown { .. })
}

fn is_renewed(happening: &Happening) -> bool {
    matches!(happening, Happening::CertificateRenewed { .. })
}

#[tokio::test]
async fn a_tunnel_outlives_the_certificate_it_began_with() {
    let mut stage = Stage::with_lifetime(Duration::from_secs(4)).await;
    let home = tempfile::tempdir().unwrap();
    let enrolled = stage.enrol(&stage.token("c1", 1), home.path()).await.unwrap();
    let first = enrolled.bundle.certificate().unwrap();
    let seen = Arc::new(Recorder::default());
    stage.run_enrolled(home.path(), seen.clone());
    stage.tunnel_up("c1", 1).await;
    let begin = Instant::now();

    // Twice the life of a certificate, and some more.
    stage.seen.wait_for(4, is_renewed).await;

    assert!(begin.elapsed() > Duration::from_secs(6), "{:?}", begin.elapsed());
    assert_eq!((stage.seen.count(is_down), seen.count(is_down)), (0, 0));
    stage.exchange("c1").await.unwrap();
    assert_eq!(stage.hub.tunnels()[0].generation, 1);
    seen.wait_for(4, is_renewed).await;
    let kept = AgentStore::new(home.path()).load().unwrap().unwrap();
    let now = kept.bundle.certificate().unwrap();
    assert_ne!((&kept.bundle.key_pem, &now.serial), (&enrolled.bundle.key_pem, &first.serial));
    assert_eq!(now.cluster, first.cluster);
    assert!(!stage.clusters.admits(&cluster("c1"), &first.serial).await, "the first has ended and is forgotten");
}

#[tokio::test]
async fn an_agent_that_does_not_renew_is_cut_when_its_certificate_ends() {
    let stage = Stage::with_lifetime(Duration::from_secs(2)).await;
    let home = tempfile::tempdir().unwrap();
    let enrolled = stage.enrol(&stage.token("c1", 1), home.path()).await.unwrap();
    let (_agent, _) = FakeAgent::register(&stage, Shown::enrolled(&enrolled), "one").await;
    let down = stage.seen.wait("the end", is_down).await;
    assert!(matches!(&down, Happening::TunnelDown { reason, .. } if reason.contains("has expired")), "{down:?}");
    let bytes = Manner::usual(Shown::enrolled(&enrolled)).application_bytes(&stage).await;
    assert_eq!(bytes, 0, "nor does it get in again");
}

#[tokio::test]
async fn renew_needs_a_certificate_that_counts() {
    let stage = Stage::new().await;
    let home = tempfile::tempdir().unwrap();
    let enrolled = stage.enrol(&stage.token("c1", 1), home.path()).await.unwrap();
    let shown = || Shown::enrolled(&enrolled);

    let (status, answer) = Caller::new(&stage, shown()).await.unary(RENEW_PATH, honest()).await;
    assert_eq!(status, "0");
    let issued: IssuedCertificate = wire::decode(&answer).unwrap();
    assert_eq!(issued.authorities.len(), 1);

    // For another cluster.
    stage.token("c2", 1);
    let other = AgentKey::generate().unwrap().request(Some(&cluster("c2"))).unwrap();
    let (status, message) = Caller::new(&stage, shown()).await.unary(RENEW_PATH, renewal(other)).await;
    assert_eq!(status, "7");
    assert!(message.starts_with(b"MCT-ENROL-RENEW-CLUSTER"), "{message:?}");
    assert_eq!(stage.clusters.list().unwrap()[1].serials, [""; 0]);
    let told = stage.seen.wait("the refusal", |h| matches!(h, Happening::EnrolRefused { .. })).await;
    assert!(matches!(&told, Happening::EnrolRefused { cluster: Some(c), .. } if c.as_str() == "c1"), "{told:?}");

    // Each is written down, with the certificate that was shown.
    let by = format!("certificate {}", enrolled.bundle.certificate().unwrap().serial);
    let records = stage.records.all();
    assert_eq!(records[1], format!("cluster:c1 allowed {by}: ended cleanly"));
    assert!(records[2].starts_with(&format!("cluster:c1 denied {by}: MCT-ENROL-RENEW-CLUSTER: ")), "{records:?}");

    // Without any, it is not even TLS.
    let none = Manner { shown: None, alpn: &["h2"], version: &TLS13 }.application_bytes(&stage).await;
    assert_eq!(none, 0);

    // Revoked.
    stage.clusters.revoke(&cluster("c1")).unwrap();
    let (status, message) = Caller::new(&stage, shown()).await.unary(RENEW_PATH, honest()).await;
    assert_eq!(status, "7");
    assert!(message.starts_with(b"MCT-ADMIT-REVOKED"), "{message:?}");
    assert_eq!(stage.clusters.list().unwrap()[0].serials, [""; 0]);
}

#[tokio::test]
async fn t23_an_enrolled_certificate_is_of_its_cluster_and_no_other() {
    let mut stage = Stage::new().await;
    stage.honest_agent("c2").await;
    let home = tempfile::tempdir().unwrap();
    let enrolled = stage.enrol(&stage.token("c1", 1), home.path()).await.unwrap();
    let claim =
        crate::fake_agent::call_with(crate::fake_agent::PATH, "application/grpc", &[("x-mctunnel-cluster", "c2")]);
    let (status, message) = Caller::new(&stage, Shown::enrolled(&enrolled)).await.refusal(claim).await;
    assert_eq!((status.as_str(), message.contains("MCT-ADMIT-NAME")), ("7", true), "{message}");
    let (_agent, welcome) = FakeAgent::register(&stage, Shown::enrolled(&enrolled), "c2").await;
    assert_eq!(welcome.tunnel, "c1/1");
    stage.exchange("c2").await.unwrap();
    assert_eq!(stage.registered(), ["c1", "c2"]);
}

#[tokio::test]
async fn a_revoked_agent_is_out_within_five_seconds_and_stays_out() {
    let mut stage = Stage::new().await;
    stage.honest_agent("c2").await;
    let home = tempfile::tempdir().unwrap();
    let enrolled = stage.enrol(&stage.token("c1", 5), home.path()).await.unwrap();
    let open_token = stage.token("c1", 5);
    let seen = Arc::new(Recorder::default());
    let agent = stage.run_enrolled(home.path(), seen.clone());
    stage.tunnel_up("c1", 1).await;
    stage.exchange("c1").await.unwrap();

    let begin = Instant::now();
    stage.clusters.revoke(&cluster("c1")).unwrap();

    let down = stage.seen.wait("the end of the tunnel", is_down).await;
    assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
    assert!(
        matches!(&down, Happening::TunnelDown { cluster, reason, .. }
            if cluster.as_str() == "c1" && reason.contains("revoked")),
        "{down:?}"
    );
    assert!(matches!(stage.exchange("c1").await, Err(OpenError::NoTunnel { .. })));
    assert_eq!(stage.seen.refusal().await.0, "MCT-ADMIT-REVOKED", "it comes again");
    stage.exchange("c2").await.unwrap();

    // The hub is started again: the agent is out, with its certificate, and with a token from before.
    agent.stop();
    let mut stage = stage.restart().await;
    let (status, _) = Caller::new(&stage, Shown::enrolled(&enrolled)).await.refusal(tunnel_call()).await;
    assert_eq!(status, "7");
    let again = tempfile::tempdir().unwrap();
    let moved = mctunnel_identity::JoinToken { hub: stage.address.to_string(), ..open_token };
    let refused = stage.enrol(&moved, again.path()).await.unwrap_err();
    assert!(refused.to_string().contains("MCT-ENROL-CLUSTER-REVOKED"), "{refused}");

    // A new token lets it in again.
    stage.enrol(&stage.token("c1", 1), home.path()).await.unwrap();
    stage.run_enrolled(home.path(), seen);
    stage.tunnel_up("c1", 1).await;
    stage.exchange("c1").await.unwrap();
}

/// Stands until it is set.
#[derive(Debug)]
struct StandingClock(AtomicI64);

impl Clock for StandingClock {
    fn unix_now(&self) -> i64 {
        self.0.load(Ordering::SeqCst)
    }
}

#[tokio::test]
async fn t47_a_running_hub_renews_its_own_certificate_and_follows_a_new_ca() {
    let dir = tempfile::tempdir().unwrap();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let clock = Arc::new(StandingClock(AtomicI64::new(i64::try_from(now).unwrap())));
    let shared: SharedClock = clock.clone();
    let authority = HubAuthority::at(dir.path()).clock(shared).open_or_create().unwrap();
    let stage = Stage::start(dir, authority, AGENT_CERTIFICATE_LIFETIME, |_| {}).await;
    let (mut agent, _) = FakeAgent::register(&stage, Shown::honest(&stage.join_bundle("c1")), "one").await;
    let shown = async || {
        let usual = Manner { shown: None, alpn: &["mctunnel-enrol"], version: &TLS13 };
        usual.connect(&stage).await.map(|tls| tls.get_ref().1.peer_certificates().unwrap()[0].clone().into_owned())
    };
    let first = shown().await.unwrap();
    let changes = |h: &Happening| matches!(h, Happening::AuthorityChanged { .. });

    // 20 days before its end. For the client in this test the old one is still good, and the new one is, too.
    clock.0.fetch_add(345 * 24 * 60 * 60, Ordering::SeqCst);
    stage.seen.wait_for(1, changes).await;
    clock.0.fetch_sub(345 * 24 * 60 * 60, Ordering::SeqCst);
    let path = stage.dir.path().join("pki/server.pem");
    let written = std::fs::read_to_string(&path).unwrap();
    let written = rustls_pki_types::pem::PemObject::from_pem_slice(written.as_bytes()).unwrap();
    let kept: rustls_pki_types::CertificateDer<'static> = written;
    assert_ne!(kept, first);
    assert!(agent.is_alive().await);

    // Another process changes the CA; here it counts within five seconds.
    let begin = Instant::now();
    let cli = HubAuthority::open_or_create(stage.dir.path(), &[]).unwrap();
    cli.rotate().unwrap();
    stage.seen.wait_for(2, changes).await;
    assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
    assert_eq!(stage.authority.authorities().len(), 2);
    let begin = Instant::now();
    cli.retire().unwrap();
    stage.seen.wait_for(3, changes).await;
    assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
    assert_eq!(stage.authority.pin(), cli.pin());
    assert!(agent.is_alive().await, "who is in stays in");
    std::fs::write(&path, "garbage").unwrap();
    let kept = stage.seen.wait("the complaint", |h| matches!(h, Happening::AuthorityKept { .. })).await;
    assert!(matches!(kept, Happening::AuthorityKept { code: "MCT-IDENTITY-PKI-UNUSABLE", .. }), "{kept:?}");
    assert!(stage.tokens.list().unwrap().is_empty());
}
