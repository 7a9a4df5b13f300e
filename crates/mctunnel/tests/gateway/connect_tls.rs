//! CONNECT to a proxy that is spoken to in TLS: the same answers, the same bytes and the same ends as without.

use crate::{
    end_to_end::{TlsEcho, talk},
    rig::{Rig, trusting},
};
use mctunnel::{
    ClusterName, ConnectAdapter, ConnectConfig, Gateway, Hub, HubAuthority,
    core::{Authenticate, Evidence, Identity, Unauthenticated, Unobserved, User},
    gateway::Checkpoint,
};
use rustls::{
    ClientConfig, ClientConnection,
    sign::{CertifiedKey, SingleCertAndKey},
};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};
use std::{io, net::SocketAddr, sync::Arc, time::Duration};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    time::timeout,
};
use tokio_rustls::{TlsConnector, client::TlsStream};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

/// The longest anything here may take; nothing waits for it to pass.
const LIMIT: Duration = Duration::from_secs(20);

const CONNECT: &[u8] = b"CONNECT cluster-a.mctunnel:443 HTTP/1.1\r\nHost: x\r\n\r\n";

/// A listener for CONNECT over TLS.
struct Proxy {
    address: SocketAddr,
    authority: HubAuthority,
    _serving: AbortOnDropHandle<()>,
}

impl Proxy {
    async fn start(rig: &Rig) -> Self {
        Self::start_with(rig, |authority, adapter| adapter.tls(&authority.gateway_config().unwrap())).await
    }

    async fn start_with(
        rig: &Rig,
        change: impl FnOnce(&HubAuthority, ConnectAdapter<Hub>) -> ConnectAdapter<Hub>,
    ) -> Self {
        let data = tempfile::tempdir().unwrap();
        let authority = HubAuthority::open_or_create(data.path(), &[]).unwrap();
        let adapter = ConnectAdapter::new(rig.hub(), ConnectConfig::default(), Arc::new(Unobserved));
        let gateway = Gateway::new(change(&authority, adapter));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let serving = async move { gateway.serve(listener, CancellationToken::new()).await };
        Self { address, authority, _serving: AbortOnDropHandle::new(tokio::task::spawn(serving)) }
    }

    /// A client that offers these protocols by ALPN.
    async fn client(&self, alpn: &[&str]) -> io::Result<TlsStream<TcpStream>> {
        let socket = TcpStream::connect(self.address).await.unwrap();
        let name = rustls_pki_types::ServerName::try_from("localhost").unwrap();
        let alpn = alpn.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
        trusting(&self.authority).with_alpn(alpn).connect(name, socket).await
    }

    /// A client that has its answer, and the other end of what it was given.
    async fn established(&self, target: &TcpListener) -> (TlsStream<TcpStream>, TcpStream) {
        let mut client = self.client(&[]).await.unwrap();
        client.write_all(CONNECT).await.unwrap();
        let mut answer = [0; 19];
        timeout(LIMIT, client.read_exact(&mut answer)).await.expect("an answer").unwrap();
        assert_eq!(&answer, b"HTTP/1.1 200 OK\r\n\r\n");
        (client, target.accept().await.unwrap().0)
    }
}

#[tokio::test]
async fn tls_with_the_target_goes_through_tls_with_the_proxy() {
    let (rig, echo) = (Rig::start().await, TlsEcho::start().await);
    let _agent = rig.agent("cluster-a", echo.address).await;
    let proxy = Proxy::start(&rig).await;
    // As clients offer it, and a client that would like HTTP/2 better.
    for alpn in [&[][..], &["http/1.1"], &["h2", "http/1.1"]] {
        let mut client = proxy.client(alpn).await.unwrap();
        let spoken = client.get_ref().1.alpn_protocol().map(<[u8]>::to_vec);
        assert_eq!(spoken, (!alpn.is_empty()).then(|| b"http/1.1".to_vec()));
        client.write_all(CONNECT).await.unwrap();
        let mut answer = [0; 19];
        client.read_exact(&mut answer).await.unwrap();
        assert_eq!(&answer, b"HTTP/1.1 200 OK\r\n\r\n");
        timeout(LIMIT, talk(&echo, client)).await.expect("an end");
    }
}

#[tokio::test]
async fn a_request_that_comes_with_the_handshake_is_read() {
    let rig = Rig::start().await;
    let proxy = Proxy::start(&rig).await;
    let mut socket = TcpStream::connect(proxy.address).await.unwrap();
    let mut config = ClientConfig::clone(trusting(&proxy.authority).config());
    config.alpn_protocols.clear();
    let config = Arc::new(config);
    let mut tls = ClientConnection::new(config, rustls_pki_types::ServerName::try_from("localhost").unwrap()).unwrap();
    let mut flight = Vec::new();
    while tls.is_handshaking() {
        tls.write_tls(&mut flight).unwrap();
        socket.write_all(&std::mem::take(&mut flight)).await.unwrap();
        let mut read = vec![0; 16 * 1024];
        let count = timeout(LIMIT, socket.read(&mut read)).await.expect("the proxy's flight").unwrap();
        tls.read_tls(&mut &read[..count]).unwrap();
        tls.process_new_packets().unwrap();
    }
    // The end of the handshake and the request in one piece.
    io::Write::write_all(&mut tls.writer(), b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    while tls.wants_write() {
        tls.write_tls(&mut flight).unwrap();
    }
    socket.write_all(&flight).await.unwrap();
    let mut answer = Vec::new();
    timeout(LIMIT, socket.read_to_end(&mut answer)).await.expect("an answer").unwrap();
    let mut rest = &answer[..];
    while !rest.is_empty() {
        tls.read_tls(&mut rest).unwrap();
        tls.process_new_packets().unwrap();
    }
    let mut answer = String::new();
    io::Read::read_to_string(&mut tls.reader(), &mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 405"), "{answer}");
}

#[tokio::test]
async fn whoever_does_not_speak_tls_gets_nothing() {
    let rig = Rig::start().await;
    let proxy = Proxy::start(&rig).await;
    let mut plain = TcpStream::connect(proxy.address).await.unwrap();
    plain.write_all(CONNECT).await.unwrap();
    let mut answer = Vec::new();
    let _ = timeout(LIMIT, plain.read_to_end(&mut answer)).await.expect("an end");
    assert!(!answer.windows(4).any(|part| part == b"HTTP"), "{answer:?}");
    assert!(proxy.client(&["h2"]).await.is_err(), "HTTP/2 is not spoken here");
}

#[tokio::test]
async fn refusals_are_read_through_tls() {
    let rig = Rig::start().await;
    let proxy = Proxy::start(&rig).await;
    for (request, status) in [
        ("CONNECT cluster-b.mctunnel:443 HTTP/1.1\r\n\r\n", "404 MCT-OPEN-UNKNOWN-CLUSTER"),
        ("GET / HTTP/1.1\r\nHost: x\r\n\r\n", "405 MCT-CONNECT-METHOD"),
    ] {
        let mut client = proxy.client(&[]).await.unwrap();
        client.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        timeout(LIMIT, client.read_to_string(&mut answer)).await.expect("an end").unwrap();
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{answer}");
    }
}

/// Knows whoever has a certificate.
struct Holders;

impl Authenticate for Holders {
    async fn authenticate(&self, evidence: &Evidence) -> Result<Identity, Unauthenticated> {
        match &evidence.certificate {
            Some(certificate) if !certificate.chain.is_empty() => Ok(User::new("holder", "test").into()),
            _ => Err(Unauthenticated::Rejected("no certificate".to_owned())),
        }
    }
}

#[tokio::test]
async fn a_certificate_of_the_client_is_evidence() {
    let rig = Rig::start().await;
    let proxy = Proxy::start_with(&rig, |authority, adapter| {
        let ca = CertificateDer::from_pem_slice(authority.ca_pem().as_bytes()).unwrap();
        let adapter = adapter.checkpoint(Checkpoint::default().with_authenticate(Arc::new(Holders)));
        adapter.tls(&authority.gateway_config_for(vec![ca]).unwrap())
    })
    .await;
    let issued = proxy.authority.issue_agent(&ClusterName::parse("holder").unwrap(), Duration::from_secs(60)).unwrap();
    let chain = vec![CertificateDer::from_pem_slice(issued.certificate_pem.as_bytes()).unwrap()];
    let key = PrivateKeyDer::from_pem_slice(issued.key_pem.expose().as_bytes()).unwrap();
    let mut holder = ClientConfig::clone(trusting(&proxy.authority).config());
    holder.alpn_protocols.clear();
    let certified = CertifiedKey::from_der(chain, key, holder.crypto_provider()).unwrap();
    holder.client_auth_cert_resolver = Arc::new(SingleCertAndKey::from(certified));
    for (client, status) in
        [(TlsConnector::from(Arc::new(holder)), "404 MCT-OPEN-UNKNOWN-CLUSTER"), (trusting(&proxy.authority), "407 ")]
    {
        let socket = TcpStream::connect(proxy.address).await.unwrap();
        let name = rustls_pki_types::ServerName::try_from("localhost").unwrap();
        let mut client = client.with_alpn(Vec::new()).connect(name, socket).await.unwrap();
        client.write_all(b"CONNECT cluster-b.mctunnel:443 HTTP/1.1\r\n\r\n").await.unwrap();
        let mut answer = String::new();
        timeout(LIMIT, client.read_to_string(&mut answer)).await.expect("an end").unwrap();
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{answer}");
    }
}

#[tokio::test]
async fn each_side_ends_alone() {
    let rig = Rig::start().await;
    let target = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let _agent = rig.agent("cluster-a", target.local_addr().unwrap()).await;
    let proxy = Proxy::start(&rig).await;
    for client_first in [true, false] {
        let (mut client, mut served) = proxy.established(&target).await;
        let (mut at_client, mut at_target) = (Vec::new(), Vec::new());
        let from_client = async |client: &mut TlsStream<TcpStream>| {
            client.write_all(b"from the client").await.unwrap();
            client.shutdown().await.unwrap();
        };
        let from_target = async |served: &mut TcpStream| {
            served.write_all(b"from the target").await.unwrap();
            served.shutdown().await.unwrap();
        };
        if client_first {
            from_client(&mut client).await;
            timeout(LIMIT, served.read_to_end(&mut at_target)).await.expect("an end").unwrap();
            from_target(&mut served).await;
            timeout(LIMIT, client.read_to_end(&mut at_client)).await.expect("an end").unwrap();
        } else {
            from_target(&mut served).await;
            timeout(LIMIT, client.read_to_end(&mut at_client)).await.expect("an end").unwrap();
            from_client(&mut client).await;
            timeout(LIMIT, served.read_to_end(&mut at_target)).await.expect("an end").unwrap();
        }
        assert_eq!((&*at_client, &*at_target), (&b"from the target"[..], &b"from the client"[..]));
    }
}

#[tokio::test]
async fn a_cut_is_an_error_at_the_other_end() {
    let rig = Rig::start().await;
    let target = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let agent = rig.agent("cluster-a", target.local_addr().unwrap()).await;
    let proxy = Proxy::start(&rig).await;
    // A client that is gone without a word of goodbye in TLS: what it sent may be half of it.
    let (client, mut served) = proxy.established(&target).await;
    drop(client);
    let error = timeout(LIMIT, served.read_u8()).await.expect("an end").unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::ConnectionReset, "the target took it for a clean end");
    // An agent that is lost.
    let (mut client, _served) = proxy.established(&target).await;
    agent.kill();
    let error = timeout(LIMIT, client.read_u8()).await.expect("an end").unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::ConnectionReset, "the client took it for a clean end");
}

#[tokio::test]
async fn a_hundred_megabytes_pass_both_ways_at_once() {
    let rig = Rig::start().await;
    let target = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let _agent = rig.agent("cluster-a", target.local_addr().unwrap()).await;
    let proxy = Proxy::start(&rig).await;
    let (client, mut served) = proxy.established(&target).await;
    let echo = async {
        let (mut read, mut write) = served.split();
        tokio::io::copy(&mut read, &mut write).await.unwrap();
        write.shutdown().await.unwrap();
    };
    let (mut read, mut write) = tokio::io::split(client);
    let block: Vec<u8> = (0..=u8::MAX).cycle().take(1_000_003).collect();
    let send = async {
        for _ in 0..100 {
            write.write_all(&block).await.unwrap();
        }
        write.shutdown().await.unwrap();
    };
    let receive = async {
        let mut received = vec![0; block.len()];
        for _ in 0..100 {
            read.read_exact(&mut received).await.unwrap();
            assert!(received == block);
        }
        assert_eq!(read.read(&mut received).await.unwrap(), 0);
    };
    timeout(LIMIT * 3, async { tokio::join!(echo, send, receive) }).await.expect("an end");
}
