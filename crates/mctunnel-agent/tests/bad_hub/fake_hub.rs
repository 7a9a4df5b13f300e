//! A hub with a good certificate, as far as the call of the agent. What goes on in it is the test's business.

use mctunnel_core::ClusterName;
use mctunnel_identity::{HUB_SERVER_NAME, HubAuthority, JoinBundle};
use mctunnel_tunnel::{
    ReadAhead,
    grpc::{Accepting, ServerLink},
};
use std::time::Duration;
use tempfile::TempDir;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio_rustls::{TlsAcceptor, server::TlsStream};

/// The hub's end of the call.
pub(super) type HubLink = ServerLink<TlsStream<ReadAhead<TcpStream>>>;

/// The hub, which does what the test makes it do.
pub(super) struct FakeHub {
    _dir: TempDir,
    authority: HubAuthority,
    listener: TcpListener,
}

impl FakeHub {
    pub(super) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let authority = HubAuthority::open_or_create(dir.path(), &[]).unwrap();
        // So little room that a hub which does not read stops the agent's writing soon.
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(4096).unwrap();
        socket.bind(([127, 0, 0, 1], 0).into()).unwrap();
        Self { _dir: dir, authority, listener: socket.listen(16).unwrap() }
    }

    pub(super) fn bundle(&self) -> JoinBundle {
        let cluster = ClusterName::parse("c1").unwrap();
        let issued = self.authority.issue_agent(&cluster, Duration::from_secs(3600)).unwrap();
        JoinBundle {
            version: JoinBundle::VERSION,
            cluster,
            hub: self.listener.local_addr().unwrap().to_string(),
            hub_server_name: HUB_SERVER_NAME.to_owned(),
            ca_pem: self.authority.ca_pem().to_owned(),
            certificate_pem: issued.certificate_pem,
            key_pem: issued.key_pem,
        }
    }

    /// The agent's call, which is taken; nobody has greeted.
    pub(super) async fn call(&self) -> HubLink {
        let (socket, _) = self.listener.accept().await.unwrap();
        let tls = TlsAcceptor::from(self.authority.server_config().unwrap());
        let io = tls.accept(ReadAhead::new(socket)).await.unwrap();
        Accepting::handshake(io).await.unwrap().call().await.unwrap().accept().unwrap()
    }
}
