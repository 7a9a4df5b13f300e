//! The CONNECT adapter. One client's path is in `connect/client.rs`.

mod answer;
mod client;
mod config;
mod head;
mod refusal;
mod request;

pub use config::ConnectConfig;
pub use refusal::Refusal;

use crate::{Client, HubAdapter};
use mctunnel_core::{Open, observe::SharedObserver};
use std::{fmt, sync::Arc};

/// Serves HTTP CONNECT and opens a stream for each request.
pub struct ConnectAdapter<O: Open> {
    opener: O,
    config: ConnectConfig,
    observer: SharedObserver,
}

impl<O: Open> ConnectAdapter<O> {
    /// An adapter that opens its streams with `opener`.
    #[must_use]
    pub fn new(opener: O, config: ConnectConfig, observer: SharedObserver) -> Self {
        Self { opener, config, observer }
    }
}

impl<O: Open> HubAdapter for ConnectAdapter<O> {
    fn serve(self: Arc<Self>, client: Client) -> impl Future<Output = ()> + Send {
        client::serve_client(self, client.socket)
    }

    fn max_clients(&self) -> usize {
        self.config.max_connections
    }

    async fn turn_away(self: Arc<Self>, mut client: Client) {
        let refusal = Refusal::TooManyConnections { limit: self.config.max_connections };
        client::observe_refusal(&self, &refusal);
        Box::pin(answer::refuse(&mut client.socket, &answer::for_refusal(&refusal))).await;
    }
}

impl<O: Open> fmt::Debug for ConnectAdapter<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectAdapter").field("config", &self.config).finish_non_exhaustive()
    }
}
