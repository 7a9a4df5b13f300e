//! Extension point: how a protocol comes in at the hub. And the gateway that runs one: its listener, its connections, their end.

use crate::{accept, connections::Connections};
use std::{fmt, net::SocketAddr, sync::Arc};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

/// The hub's side of a protocol: turns what a client says into streams to targets. Its twin at the agent is `ProxyAdapter`.
///
/// An adapter opens streams through the port [`Open`](mctunnel_core::Open), with the protocol's own name in
/// [`OpenRequest::protocol`](mctunnel_core::OpenRequest), so that the agent finds the twin.
///
/// Obligations: 1. whatever the client sends is untrusted: authenticate, route and authorise each request before a stream is
/// opened for it; 2. every stream is reported to the observer as opened and ended, or as refused; 3. when `client.stopping` is
/// cancelled, what is under way may finish, but nothing new begins; 4. dropping the future ends the connection at once.
pub trait HubAdapter: Send + Sync + 'static {
    /// Serves one client from its first byte to its last.
    fn serve(self: Arc<Self>, client: Client) -> impl Future<Output = ()> + Send;

    /// How many clients there may be; each further one is turned away.
    fn max_clients(&self) -> usize {
        65_536
    }

    /// Tells a client that there are too many. Without an answer of its own, the client is just closed.
    fn turn_away(self: Arc<Self>, client: Client) -> impl Future<Output = ()> + Send {
        drop(client);
        std::future::ready(())
    }
}

/// A client that was accepted.
#[derive(Debug)]
pub struct Client {
    /// Its connection.
    pub socket: TcpStream,
    /// Where it comes from.
    pub peer: SocketAddr,
    /// Cancelled when the gateway stops.
    pub stopping: CancellationToken,
}

/// Runs an adapter on a listener. Dropping it cuts the connections that are left.
pub struct Gateway<A: HubAdapter> {
    adapter: Arc<A>,
    connections: Connections,
}

impl<A: HubAdapter> Gateway<A> {
    /// A gateway for this protocol.
    #[must_use]
    pub fn new(adapter: A) -> Self {
        Self { adapter: Arc::new(adapter), connections: Connections::default() }
    }

    /// Accepts clients until `shutdown` is cancelled.
    ///
    /// Clients whose connection the system has accepted by then are still served; after that the listener is closed and this
    /// returns. Connections go on: see [`drained`](Self::drained) and [`cut`](Self::cut). No accept error ends it.
    pub async fn serve(&self, listener: TcpListener, shutdown: CancellationToken) {
        accept::accept_clients(&self.adapter, &self.connections, listener, &shutdown).await;
    }

    /// Resolves when no connection is left.
    pub async fn drained(&self) {
        self.connections.ended().await;
    }

    /// Cuts the connections that are left, whatever they are doing. Each is reported as ended with an error.
    pub fn cut(&self) {
        self.connections.cut();
    }

    /// How many connections there are, those included that have not yet asked for anything.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.connections.count()
    }
}

impl<A: HubAdapter> Drop for Gateway<A> {
    fn drop(&mut self) {
        self.cut();
    }
}

impl<A: HubAdapter + fmt::Debug> fmt::Debug for Gateway<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gateway").field("adapter", &self.adapter).field("connections", &self.connections()).finish()
    }
}
