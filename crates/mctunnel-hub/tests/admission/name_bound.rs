//! A certificate for c1 can never register as c2, and c2 does not notice the attempt.

use crate::{
    fake_agent::{Caller, FakeAgent, Manner, PATH, Shown, call_with, tunnel_call, uri},
    stage::{Stage, cluster},
};
use bytes::{BufMut, BytesMut};
use mctunnel_core::{Happening, OpenError};
use mctunnel_mux::{Frame, Hello};
use rcgen::{DistinguishedName, DnType, SanType};

/// A hub with a live tunnel of c2, and the certificate of c1.
async fn beside_c2() -> (Stage, Shown) {
    let mut stage = Stage::new().await;
    stage.honest_agent("c2").await;
    stage.exchange("c2").await.unwrap();
    let shown = Shown::honest(&stage.join_bundle("c1"));
    (stage, shown)
}

/// c2 has the tunnel it had, and it works; c1 has one or not.
async fn c2_is_untouched(stage: &Stage, registered: &[&str]) {
    stage.exchange("c2").await.unwrap();
    assert_eq!(stage.registered(), registered);
    assert_eq!(stage.seen.count(|h| matches!(h, Happening::TunnelReplaced { .. })), 0);
    let c2 = stage.hub.tunnels().into_iter().find(|t| t.cluster == cluster("c2")).unwrap();
    assert_eq!(c2.generation, 1);
}

#[tokio::test]
async fn t23_cluster_name_bound_to_the_certificate_not_to_metadata() {
    let (stage, shown) = beside_c2().await;
    let claim = "x-mctunnel-cluster";
    let mut shown = Some(shown);
    for metadata in [
        &[(claim, "c2")] as &[_],
        &[(claim, "c1"), (claim, "c2")],
        &[(claim, "c1"), (claim, "c1")],
        &[(claim, "C1")],
        &[(claim, "c1 ")],
        &[(claim, "*")],
        &[(claim, "")],
    ] {
        let this = shown.take().unwrap_or_else(|| Shown::honest(&stage.join_bundle("c1")));
        let mut caller = Caller::new(&stage, this).await;
        let (status, message) = caller.refusal(call_with(PATH, "application/grpc", metadata)).await;
        assert_eq!(status, "7", "{metadata:?}: {message}");
        assert!(message.contains("MCT-ADMIT-NAME") && !message.contains("c2"), "{metadata:?}: {message}");
        assert_eq!(stage.seen.refusal().await.0, "MCT-ADMIT-NAME");
    }
    c2_is_untouched(&stage, &["c2"]).await;

    let honest = Shown::honest(&stage.join_bundle("c1"));
    let (_, response) =
        Caller::new(&stage, honest).await.call(call_with(PATH, "application/grpc", &[(claim, "c1")])).await;
    assert!(response.headers().get("grpc-status").is_none(), "the table is refused for its claims alone");
}

#[tokio::test]
async fn t23_cluster_name_bound_to_the_certificate_not_to_hello() {
    let (stage, shown) = beside_c2().await;
    let mut agent = Caller::new(&stage, shown).await.tunnel().await;
    // A HELLO with "c2" in its texts and in two fields that do not exist.
    let hello =
        Hello { instance: "c2".into(), software: "c2".into(), capabilities: vec!["c2".into()], ..Hello::default() };
    let mut bytes = BytesMut::new();
    Frame::Hello(hello).encode(&mut bytes);
    let mut body = bytes.split_off(7);
    for field in [6_u8, 15] {
        body.put_slice(&[field << 3 | 2, 2, b'c', b'2']);
    }
    let inner = u8::try_from(body.len()).unwrap();
    assert!(inner < 128, "its length is one byte");
    let mut message = BytesMut::new();
    message.put_slice(&[0, 0, 0, 0, inner + 2, 9 << 3 | 2, inner]);
    message.put_slice(&body);

    agent.send_raw(message.freeze());

    let Some(Frame::Welcome(welcome)) = agent.next().await else { panic!("it is c1's right to register as c1") };
    assert_eq!(welcome.tunnel, "c1/1");
    assert!(agent.is_alive().await);
    c2_is_untouched(&stage, &["c1", "c2"]).await;
}

#[tokio::test]
async fn t23_cluster_name_bound_to_the_uri_whatever_the_subject_says() {
    let (stage, _) = beside_c2().await;
    let shown = Shown::forged(&stage, |params| {
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, "c2");
    });

    let (_agent, welcome) = FakeAgent::register(&stage, shown, "one").await;

    assert_eq!(welcome.tunnel, "c1/1");
    c2_is_untouched(&stage, &["c1", "c2"]).await;
}

#[tokio::test]
async fn t23_cluster_name_bound_to_one_name_in_one_spelling() {
    let (stage, _) = beside_c2().await;
    let c1 = "spiffe://mctunnel/cluster/c1";
    let c2 = "spiffe://mctunnel/cluster/c2";
    let dns = |text: &str| SanType::DnsName(text.try_into().unwrap());
    for names in [
        vec![],
        vec![uri(c1), uri(c2)],
        vec![uri(c2), uri(c1)],
        vec![uri(c1), dns("c2")],
        vec![dns("c2")],
        vec![dns("*")],
        vec![uri("spiffe://mctunnel/cluster/*")],
        vec![uri("spiffe://mctunnel/cluster/C2")],
        vec![uri("SPIFFE://MCTUNNEL/CLUSTER/C2")],
        vec![uri("spiffe://mctunnel/cluster/c1/../c2")],
    ] {
        let text = format!("{names:?}");
        let shown = Shown::forged(&stage, |params| {
            params.distinguished_name = DistinguishedName::new();
            params.distinguished_name.push(DnType::CommonName, "c2");
            params.subject_alt_names = names;
        });
        let bytes = Manner::usual(shown).application_bytes(&stage).await;
        assert_eq!(bytes, 0, "{text}");
        let (code, reason) = stage.seen.refusal().await;
        assert!(code.starts_with("MCT-"), "{text}: {code} {reason}");
    }
    c2_is_untouched(&stage, &["c2"]).await;
}

#[tokio::test]
async fn t23_a_certificate_the_hub_did_not_list_is_nobody() {
    let (stage, first) = beside_c2().await;
    // Replaced by a later one.
    let second = Shown::honest(&stage.join_bundle("c1"));
    let (status, message) = Caller::new(&stage, first).await.refusal(tunnel_call()).await;
    assert_eq!(status, "7");
    assert!(message.contains("MCT-ADMIT-REVOKED"), "{message}");

    let (mut agent, _) = FakeAgent::register(&stage, second, "one").await;
    assert!(agent.is_alive().await, "the later one is the right one");

    // Removed.
    let third = Shown::honest(&stage.join_bundle("c1"));
    stage.clusters.remove(&cluster("c1")).unwrap();
    let (status, message) = Caller::new(&stage, third).await.refusal(tunnel_call()).await;
    assert_eq!((status.as_str(), message.contains("MCT-ADMIT-REVOKED")), ("7", true), "{message}");

    // Signed by the hub's CA for c3, and never listed.
    let stolen = Shown::forged(&stage, |params| params.subject_alt_names = vec![uri("spiffe://mctunnel/cluster/c3")]);
    stage.clusters.add(&cluster("c3"), "00", true).unwrap();
    let (status, _) = Caller::new(&stage, stolen).await.refusal(tunnel_call()).await;
    assert_eq!(status, "7");
    assert!(matches!(stage.exchange("c3").await, Err(OpenError::NoTunnel { .. })));
    stage.exchange("c2").await.unwrap();
}
