//! One attempt to reach the hub: dial (through a proxy if there is one), TLS, the call, HELLO, WELCOME.

use crate::{
    Agent,
    dial::Resolve,
    enrol::USER_AGENT,
    hub_address::{ConnectError, HubAddress},
    proxy::{ProxySettings, connect_through},
};
use mctunnel_tunnel::{
    Driver, Hello, LinkEnd, Offers, ReadAhead, Session, Welcome,
    grpc::{self, ClientLink},
};
use std::pin::Pin;
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

pub(crate) type Io = TlsStream<ReadAhead<TcpStream>>;
pub(crate) type TunnelDriver = Pin<Box<Driver<ClientLink<Io>>>>;

/// A tunnel the hub took in.
pub(crate) struct Connected {
    pub(crate) session: Session,
    pub(crate) offers: Offers,
    pub(crate) welcome: Welcome,
    pub(crate) driver: TunnelDriver,
    pub(crate) peer: String,
}

/// An attempt that did not end in a tunnel.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AttemptFailed {
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error("TLS with the hub at {hub}: {error}")]
    Tls { hub: String, error: std::io::Error },
    #[error("{0}")]
    Call(String),
    #[error("no tunnel within {0:?}")]
    Timeout(std::time::Duration),
}

impl Agent {
    pub(crate) async fn attempt(&self) -> Result<Connected, AttemptFailed> {
        let socket = reach(&self.inner.hub, &self.inner.proxy, &*self.inner.resolver).await?;
        let limit = self.inner.config.handshake_timeout;
        let greeting = tokio::time::timeout(limit, self.greet(socket));
        greeting.await.map_err(|_| AttemptFailed::Timeout(limit))?
    }

    async fn greet(&self, socket: TcpStream) -> Result<Connected, AttemptFailed> {
        let tls_failed = |error| AttemptFailed::Tls { hub: self.inner.hub.to_string(), error };
        mctunnel_tunnel::tune(&socket, &self.inner.config.congestion_control).map_err(tls_failed)?;
        let peer = socket.peer_addr().map_or_else(|_| self.inner.hub.to_string(), |a| a.to_string());
        let name = self.inner.server_name.clone();
        let authority = name.to_str().into_owned();
        let connector = self.inner.tls.read().clone();
        let io = connector.connect(name, ReadAhead::new(socket)).await.map_err(tls_failed)?;
        let link = grpc::connect(io, &authority, USER_AGENT).await.map_err(call_failed)?;
        let hello =
            Hello { instance: self.inner.instance.clone(), software: USER_AGENT.to_owned(), ..Hello::default() };
        let (greeting, driver) = Session::agent(link, self.inner.config.tunnel.clone(), hello);
        let mut driver = Box::pin(driver);
        let welcomed = tokio::select! {
            welcomed = greeting.welcomed() => welcomed,
            ending = &mut driver => Err(ending),
        };
        let (session, offers, welcome) = welcomed.map_err(|ending| AttemptFailed::Call(ending.to_string()))?;
        Ok(Connected { session, offers, welcome, driver, peer })
    }
}

/// A TCP connection to the hub, through the proxy if it needs one.
pub(crate) async fn reach(
    hub: &HubAddress,
    proxy: &ProxySettings,
    resolver: &dyn Resolve,
) -> Result<TcpStream, ConnectError> {
    match proxy.proxy_for(hub) {
        Some(proxy) => connect_through(proxy, hub, resolver).await,
        None => hub.connect(resolver).await,
    }
}

fn call_failed(end: LinkEnd) -> AttemptFailed {
    let (LinkEnd::Closed(reason) | LinkEnd::Broken(reason)) = end;
    AttemptFailed::Call(reason)
}
