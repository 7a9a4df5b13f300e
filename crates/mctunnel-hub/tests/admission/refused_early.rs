//! Peers that are turned away before a single frame of ours, and calls of anything but Tunnel.

use crate::{
    fake_agent::{Caller, FakeAgent, Manner, PATH, Shown, call_with, days_from_now, tunnel_call},
    stage::{LIMIT, Stage},
};
use mctunnel_core::Happening;
use rcgen::{BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose};
use rustls::version::{TLS12, TLS13};
use std::time::Duration;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

/// A CA that is not the hub's, under the hub's name or its own.
fn other_authority(name: &str) -> Issuer<'static, KeyPair> {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(rcgen::DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    Issuer::new(params, KeyPair::generate().unwrap())
}

#[tokio::test]
async fn t21_without_a_valid_certificate_there_is_no_frame() {
    let stage = Stage::new().await;
    let expired = Shown::forged(&stage, |params| {
        params.not_before = days_from_now(-30);
        params.not_after = days_from_now(-1);
    });
    let future = Shown::forged(&stage, |params| params.not_before = days_from_now(1));
    let server = Shown::forged(&stage, |params| params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth]);
    let strange = Shown::signed(&other_authority("another CA"), |_| {});
    let honest = || Some(Shown::honest(&stage.join_bundle("c1")));
    let table = [
        ("no certificate", None, &["h2"] as &[_], &TLS13),
        ("an expired certificate", Some(expired), &["h2"], &TLS13),
        ("a certificate of tomorrow", Some(future), &["h2"], &TLS13),
        ("a certificate for servers", Some(server), &["h2"], &TLS13),
        ("a certificate of another CA", Some(strange), &["h2"], &TLS13),
        ("no ALPN", honest(), &[], &TLS13),
        ("another protocol", honest(), &["http/1.1"], &TLS13),
        ("TLS 1.2", honest(), &["h2"], &TLS12),
    ];
    for (what, shown, alpn, version) in table {
        let bytes = Manner { shown, alpn, version }.application_bytes(&stage).await;
        assert_eq!(bytes, 0, "{what}");
        assert_eq!(stage.seen.refusal().await.0, "MCT-ADMIT-TLS", "{what}");
    }
    assert_eq!(stage.registered(), [""; 0]);
    let usual = Manner::usual(honest().unwrap()).connect(&stage).await.unwrap();
    let (_, connection) = usual.get_ref();
    assert_eq!(connection.alpn_protocol(), Some(&b"h2"[..]), "the table is refused for what it says alone");
}

#[tokio::test]
async fn t21_who_does_not_speak_tls_is_hung_up_on() {
    let stage = Stage::new().await;
    let mut socket = TcpStream::connect(stage.address).await.unwrap();
    socket.write_all(b"GET / HTTP/1.1\r\nhost: hub\r\n\r\n").await.unwrap();
    let mut answer = Vec::new();
    let _ = timeout(LIMIT, socket.read_to_end(&mut answer)).await.expect("the hub hangs up");
    assert!(answer.len() <= 7, "an alert at most: {answer:?}");
    assert_eq!(stage.seen.refusal().await.0, "MCT-ADMIT-TLS");
}

#[tokio::test]
async fn who_connects_and_says_nothing_is_hung_up_on_in_time() {
    let stage = Stage::with(|config| config.handshake_timeout = Duration::from_millis(300)).await;
    let begin = tokio::time::Instant::now();

    // Before TLS, before HTTP/2, before the call, before HELLO.
    let mut socket = TcpStream::connect(stage.address).await.unwrap();
    let mut tls = Manner::usual(Shown::honest(&stage.join_bundle("c1"))).connect(&stage).await.unwrap();
    let _caller = Caller::new(&stage, Shown::honest(&stage.join_bundle("c2"))).await;
    let mut agent = Caller::new(&stage, Shown::honest(&stage.join_bundle("c3"))).await.tunnel().await;

    let mut answer = Vec::new();
    let _ = timeout(LIMIT, socket.read_to_end(&mut answer)).await.expect("the hub hangs up");
    assert_eq!(answer, b"");
    let _ = timeout(LIMIT, tls.read_to_end(&mut answer)).await.expect("the hub hangs up");
    assert_eq!(agent.next().await, None);
    for _ in 0..4 {
        assert_eq!(stage.seen.refusal().await.0, "MCT-ADMIT-TIMEOUT");
    }
    assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
}

#[tokio::test]
async fn what_is_not_the_call_is_unimplemented() {
    let stage = Stage::new().await;
    let mut caller = Caller::new(&stage, Shown::honest(&stage.join_bundle("c1"))).await;
    let get = http::Request::get(format!("https://mctunnel-hub{PATH}")).header("content-type", "application/grpc");
    for request in [
        call_with("/", "application/grpc", &[]),
        call_with("/mctunnel.tunnel.v1.TunnelService/Other", "application/grpc", &[]),
        call_with("/mctunnel.tunnel.v2.TunnelService/Tunnel", "application/grpc", &[]),
        call_with(&format!("{PATH}/"), "application/grpc", &[]),
        call_with(PATH, "application/json", &[]),
        call_with(PATH, "", &[]),
        get.body(()).unwrap(),
    ] {
        let text = format!("{request:?}");
        assert_eq!(caller.refusal(request).await.0, "12", "{text}");
    }
    // The connection is not spoilt by it.
    let agent = caller.tunnel().await;
    assert_eq!(stage.seen.count(|h| matches!(h, Happening::PeerRefused { .. })), 0);
    drop(agent);
}

#[tokio::test]
async fn a_second_call_on_the_connection_is_refused_and_the_first_goes_on() {
    let stage = Stage::new().await;
    let (mut agent, _) = FakeAgent::register(&stage, Shown::honest(&stage.join_bundle("c1")), "one").await;
    for _ in 0..20 {
        let (status, message) = agent.caller.refusal(tunnel_call()).await;
        assert_eq!((status.as_str(), message.as_str()), ("8", "this connection already carries a tunnel"));
    }
    assert!(agent.is_alive().await);
    assert_eq!(stage.hub.tunnels().len(), 1);
    assert_eq!(stage.hub.tunnels()[0].generation, 1);
}
