//! TLS from the client to the kube-apiserver, with nobody between who could read it: by SNI and by CONNECT.

use crate::rig::Rig;
use mctunnel::{ConnectAdapter, ConnectConfig, Gateway, HubAuthority, SniAdapter, SniConfig, core::Unobserved};
use std::{net::SocketAddr, sync::Arc, time::Duration};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinSet,
    time::timeout,
};
use tokio_rustls::TlsAcceptor;
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

/// The longest anything here may take; nothing waits for it to pass.
const LIMIT: Duration = Duration::from_secs(20);

/// A server that makes TLS under the name a client of cluster-a would ask for, and sends everything back.
pub(crate) struct TlsEcho {
    pub(crate) address: SocketAddr,
    authority: HubAuthority,
    _serving: AbortOnDropHandle<()>,
}

impl TlsEcho {
    pub(crate) async fn start() -> Self {
        let data = tempfile::tempdir().unwrap();
        let authority = HubAuthority::open_or_create(data.path(), &["cluster-a.hub.test".to_owned()]).unwrap();
        let tls = TlsAcceptor::from(authority.gateway_config().unwrap());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let serving = tokio::task::spawn(async move {
            let mut clients = JoinSet::new();
            while let Ok((socket, _)) = listener.accept().await {
                let tls = tls.clone();
                clients.spawn(async move {
                    let Ok(stream) = tls.accept(socket).await else { return };
                    let (mut read, mut write) = tokio::io::split(stream);
                    let _ = tokio::io::copy(&mut read, &mut write).await;
                    let _ = write.shutdown().await;
                });
            }
        });
        Self { address, authority, _serving: AbortOnDropHandle::new(serving) }
    }
}

/// Makes TLS with the echo and has 1 MiB come back.
pub(crate) async fn talk(echo: &TlsEcho, socket: impl AsyncRead + AsyncWrite + Unpin) {
    let tls = crate::rig::trusting(&echo.authority);
    let name = rustls_pki_types::ServerName::try_from("cluster-a.hub.test").unwrap();
    let stream = tls.connect(name, socket).await.expect("the target's own certificate");
    let (mut read, mut write) = tokio::io::split(stream);
    let sent = vec![7; 1024 * 1024];
    let mut received = vec![0; sent.len()];
    let (wrote, read) = tokio::join!(write.write_all(&sent), read.read_exact(&mut received));
    wrote.unwrap();
    read.unwrap();
    assert!(received == sent);
}

#[tokio::test]
async fn sni_leads_to_the_kube_apiserver_of_the_cluster() {
    let (rig, echo) = (Rig::start().await, TlsEcho::start().await);
    let _agent = rig.agent("cluster-a", echo.address).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let adapter = SniAdapter::new(rig.hub(), SniConfig::new("hub.test"), Arc::new(Unobserved));
    let gateway = Gateway::new(adapter);
    let stop = CancellationToken::new();
    let clients = async {
        talk(&echo, TcpStream::connect(address).await.unwrap()).await;
        // Names that are no cluster here, and clients that do not speak TLS, are closed without a byte.
        for name in ["cluster-a.other.test", "hub.test", "x.cluster-a.hub.test", "cluster-b.hub.test"] {
            let socket = TcpStream::connect(address).await.unwrap();
            let name = rustls_pki_types::ServerName::try_from(name).unwrap();
            assert!(crate::rig::trusting(&echo.authority).connect(name, socket).await.is_err());
        }
        let mut plain = TcpStream::connect(address).await.unwrap();
        plain.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
        let mut nothing = Vec::new();
        let _ = plain.read_to_end(&mut nothing).await;
        assert_eq!(nothing, b"");
        stop.cancel();
    };
    tokio::join!(gateway.serve(listener, stop.clone()), clients);
}

/// A gateway for names below `hub.test`.
struct Sni {
    address: SocketAddr,
    _serving: AbortOnDropHandle<()>,
}

impl Sni {
    async fn start(rig: &Rig) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let gateway = Gateway::new(SniAdapter::new(rig.hub(), SniConfig::new("hub.test"), Arc::new(Unobserved)));
        let serving = async move { gateway.serve(listener, CancellationToken::new()).await };
        Self { address, _serving: AbortOnDropHandle::new(tokio::task::spawn(serving)) }
    }
}

#[tokio::test]
async fn an_agent_lost_under_a_client_of_sni_is_a_reset() {
    let (rig, echo) = (Rig::start().await, TlsEcho::start().await);
    let sni = Sni::start(&rig).await;
    let agent = rig.agent("cluster-a", echo.address).await;
    let name = rustls_pki_types::ServerName::try_from("cluster-a.hub.test").unwrap();
    let socket = TcpStream::connect(sni.address).await.unwrap();
    let mut stream = crate::rig::trusting(&echo.authority).connect(name, socket).await.unwrap();
    stream.write_all(b"there").await.unwrap();
    let mut back = [0; 5];
    stream.read_exact(&mut back).await.unwrap();
    assert_eq!(&back, b"there");
    agent.kill();
    let ended = timeout(LIMIT, stream.read(&mut back)).await.expect("an end").map_err(|error| error.kind());
    assert_eq!(ended, Err(std::io::ErrorKind::ConnectionReset), "the client took it for an end");
}

#[tokio::test]
async fn a_client_of_sni_waits_for_an_agent_that_is_just_reconnecting() {
    let (rig, echo) = (Rig::start().await, TlsEcho::start().await);
    let sni = Sni::start(&rig).await;
    let bundle = rig.bundle("cluster-a");
    rig.run(&bundle, echo.address).await.kill();
    while !rig.hub().tunnels().is_empty() {
        tokio::task::yield_now().await;
    }
    let talking = async { talk(&echo, TcpStream::connect(sni.address).await.unwrap()).await };
    let back = async {
        while rig.hub().pending_opens() == 0 {
            tokio::task::yield_now().await;
        }
        rig.run(&bundle, echo.address).await
    };
    timeout(LIMIT, async { tokio::join!(talking, back) }).await.expect("the agent is back");
}

#[tokio::test]
async fn connect_leads_to_the_kube_apiserver_of_the_cluster() {
    let (rig, echo) = (Rig::start().await, TlsEcho::start().await);
    let _agent = rig.agent("cluster-a", echo.address).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let gateway = Gateway::new(ConnectAdapter::new(rig.hub(), ConnectConfig::default(), Arc::new(Unobserved)));
    let stop = CancellationToken::new();
    let client = async {
        let mut socket = TcpStream::connect(address).await.unwrap();
        socket.write_all(b"CONNECT cluster-a.mctunnel:443 HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
        let mut answer = [0; 19];
        socket.read_exact(&mut answer).await.unwrap();
        assert_eq!(&answer, b"HTTP/1.1 200 OK\r\n\r\n");
        talk(&echo, socket).await;
        stop.cancel();
    };
    tokio::join!(gateway.serve(listener, stop.clone()), client);
}
