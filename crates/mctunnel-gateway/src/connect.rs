//! The CONNECT gateway: a listener, its clients, and how both end. One client's path is in `connect/client.rs`.

mod accept;
mod answer;
mod client;
mod config;
mod connections;
mod head;
mod open_stream;
mod refusal;
mod request;

pub use config::ConnectConfig;
pub use refusal::Refusal;

use connections::Connections;
use mctunnel_core::{Open, observe::SharedObserver};
use std::{fmt, sync::Arc};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// Serves HTTP CONNECT and opens a stream for each request. Dropping it cuts the connections that are left.
pub struct ConnectGateway<O: Open> {
    shared: Arc<Shared<O>>,
}

/// What every connection needs.
struct Shared<O> {
    opener: O,
    config: ConnectConfig,
    observer: SharedObserver,
    connections: Connections,
}

impl<O: Open> ConnectGateway<O> {
    /// A gateway that opens its streams with `opener`.
    #[must_use]
    pub fn new(opener: O, config: ConnectConfig, observer: SharedObserver) -> Self {
        let connections = Connections::default();
        Self { shared: Arc::new(Shared { opener, config, observer, connections }) }
    }

    /// Accepts clients until `shutdown` is cancelled.
    ///
    /// Clients whose connection the system has accepted by then are still served; after that the listener is closed and this
    /// returns. Connections go on: see [`drained`](Self::drained) and [`cut`](Self::cut). No accept error ends it.
    pub async fn serve(&self, listener: TcpListener, shutdown: CancellationToken) {
        accept::accept_clients(&self.shared, listener, &shutdown).await;
    }

    /// Resolves when no connection is left.
    pub async fn drained(&self) {
        self.shared.connections.ended().await;
    }

    /// Cuts the connections that are left, whatever they are doing. Each is reported as ended with an error.
    pub fn cut(&self) {
        self.shared.connections.cut();
    }

    /// How many connections there are, those included that have not yet asked for anything.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.shared.connections.count()
    }
}

impl<O: Open> Drop for ConnectGateway<O> {
    fn drop(&mut self) {
        self.cut();
    }
}

impl<O: Open> fmt::Debug for ConnectGateway<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectGateway")
            .field("config", &self.shared.config)
            .field("connections", &self.connections())
            .finish_non_exhaustive()
    }
}
