//! Agents with certificates of the operator's own CA: only for clusters that may have such, and never as if the hub had issued them.

use crate::{
    fake_agent::{Caller, FakeAgent, Manner, Shown, framed, tunnel_call, uri},
    stage::{Stage, cluster},
};
use bytes::Bytes;
use mctunnel_core::Happening;
use mctunnel_identity::{
    AgentIdentity, AgentKey, HubAuthority,
    enrolment::{
        AGENT_CERTIFICATE_LIFETIME,
        wire::{self, RENEW_PATH},
    },
};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose, SerialNumber};

/// A CA of the operator's.
fn authority() -> (String, Issuer<'static, KeyPair>) {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, "the operator's CA");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    let key = KeyPair::generate().unwrap();
    let pem = params.self_signed(&key).unwrap().pem();
    (pem, Issuer::new(params, key))
}

#[tokio::test]
async fn t23_the_operators_ca_speaks_for_the_clusters_that_it_was_given() {
    let (ca_pem, own) = authority();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("agent-ca.pem");
    std::fs::write(&file, ca_pem).unwrap();
    let hub = HubAuthority::at(dir.path()).agent_ca(&file).open_or_create().unwrap();
    let mut stage = Stage::start(dir, hub, AGENT_CERTIFICATE_LIFETIME, |_| {}).await;
    stage.honest_agent("c2").await;
    let shown = || Shown::signed(&own, |_| {});

    // Not for a cluster that nobody added, nor for one that the hub issues for.
    let refused = async |shown| {
        let (status, message) = Caller::new(&stage, shown).await.refusal(tunnel_call()).await;
        assert_eq!((status.as_str(), message.contains("MCT-ADMIT-REVOKED")), ("7", true), "{message}");
    };
    refused(shown()).await;
    let c2 = |params: &mut CertificateParams| params.subject_alt_names = vec![uri("spiffe://mctunnel/cluster/c2")];
    refused(Shown::signed(&own, c2)).await;
    // Not even with the serial that the hub issued.
    let serial = stage.clusters.list().unwrap()[0].serials[0].clone();
    let digits: Vec<u8> =
        (0..serial.len() / 2).map(|at| u8::from_str_radix(&serial[2 * at..2 * at + 2], 16).unwrap()).collect();
    let copied = Shown::signed(&own, |params| {
        c2(params);
        params.serial_number = Some(SerialNumber::from_slice(&digits));
    });
    let identity = AgentIdentity::from_certificates(std::slice::from_ref(&copied.certificate)).unwrap();
    assert_eq!(identity.serial, serial, "the serial is the same");
    refused(copied).await;
    stage.exchange("c2").await.unwrap();

    stage.clusters.allow_own_ca(&cluster("c1")).unwrap();
    let (mut agent, welcome) = FakeAgent::register(&stage, shown(), "one").await;
    assert_eq!(welcome.tunnel, "c1/1");

    // The same rule for names as everywhere.
    for names in [vec![], vec![uri("spiffe://mctunnel/cluster/c1"), uri("spiffe://mctunnel/cluster/c2")]] {
        let bytes = Manner::usual(Shown::signed(&own, |params| params.subject_alt_names = names))
            .application_bytes(&stage)
            .await;
        assert_eq!(bytes, 0);
    }

    // It is renewed where it was issued.
    let csr = AgentKey::generate().unwrap().request(None).unwrap();
    let request: Bytes = framed(&wire::encode(&wire::RenewRequest { csr, lifetime_seconds: 0 }));
    let (status, message) = Caller::new(&stage, shown()).await.unary(RENEW_PATH, request).await;
    assert_eq!(status, "7");
    assert!(message.starts_with(b"MCT-ENROL-NOT-OURS"), "{message:?}");

    // Revoked, it is out, with a certificate of tomorrow too.
    assert!(agent.is_alive().await);
    stage.clusters.revoke(&cluster("c1")).unwrap();
    stage.seen.wait("the end", |h| matches!(h, Happening::TunnelDown { .. })).await;
    refused(shown()).await;
}

#[tokio::test]
async fn t32_a_ca_that_is_taken_from_the_hub_takes_its_tunnels_with_it() {
    let ((ca_pem, own), (next_pem, next)) = (authority(), authority());
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("agent-ca.pem");
    std::fs::write(&file, &ca_pem).unwrap();
    let hub = HubAuthority::at(dir.path()).agent_ca(&file).open_or_create().unwrap();
    let mut stage = Stage::start(dir, hub, AGENT_CERTIFICATE_LIFETIME, |_| {}).await;
    stage.honest_agent("c2").await;
    let c3 = |params: &mut CertificateParams| params.subject_alt_names = vec![uri("spiffe://mctunnel/cluster/c3")];
    for name in ["c1", "c3"] {
        stage.clusters.allow_own_ca(&cluster(name)).unwrap();
    }
    let changes = |h: &Happening| matches!(h, Happening::AuthorityChanged { .. });
    let (mut of_old, _) = FakeAgent::register(&stage, Shown::signed(&own, |_| {}), "one").await;
    std::fs::write(&file, format!("{ca_pem}{next_pem}")).unwrap();
    stage.seen.wait_for(1, changes).await;
    let (mut of_next, _) = FakeAgent::register(&stage, Shown::signed(&next, c3), "two").await;
    assert!(of_old.is_alive().await);

    std::fs::write(&file, &next_pem).unwrap();

    let is_down = |h: &Happening| matches!(h, Happening::TunnelDown { .. });
    while stage.seen.count(is_down) == 0 {
        // Both answer what they are asked, or they would be given up; the one as long as it is told nothing else.
        let (_, is_up) = tokio::join!(of_old.is_alive(), of_next.is_alive());
        assert!(is_up);
        // tidy: sleep because the hub looks at its file, and then at its tunnels, when it is time
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    let down = stage.seen.wait("the end", is_down).await;
    assert!(
        matches!(&down, Happening::TunnelDown { cluster, reason, .. }
            if cluster.as_str() == "c1" && reason.contains("--agent-ca")),
        "{down:?}"
    );
    assert!(of_next.is_alive().await);
    stage.exchange("c2").await.unwrap();
    assert_eq!(stage.registered(), ["c2", "c3"]);
}
