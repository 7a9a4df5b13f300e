//! The CONNECT adapter. One client's path is in `connect/client.rs`.

mod answer;
mod client;
mod config;
mod head;
mod refusal;
mod request;

pub use config::ConnectConfig;
pub use refusal::Refusal;

use crate::{Checkpoint, Client, HubAdapter};
use mctunnel_core::{Open, observe::SharedObserver};
use std::{fmt, sync::Arc};

/// Serves HTTP CONNECT and opens a stream for each request.
pub struct ConnectAdapter<O: Open> {
    opener: O,
    config: ConnectConfig,
    observer: SharedObserver,
    checkpoint: Checkpoint,
}

impl<O: Open> ConnectAdapter<O> {
    /// An adapter that opens its streams with `opener`.
    #[must_use]
    pub fn new(opener: O, config: ConnectConfig, observer: SharedObserver) -> Self {
        Self { opener, config, observer, checkpoint: Checkpoint::default() }
    }

    /// Has every client pass this checkpoint.
    #[must_use]
    pub fn checkpoint(mut self, checkpoint: Checkpoint) -> Self {
        self.checkpoint = checkpoint;
        self
    }
}

impl<O: Open> HubAdapter for ConnectAdapter<O> {
    fn serve(self: Arc<Self>, client: Client) -> impl Future<Output = ()> + Send {
        client::serve_client(self, client.socket, client.peer)
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
