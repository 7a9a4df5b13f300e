//! The CONNECT adapter. One client's path is in `connect/client.rs`.

mod answer;
mod client;
mod config;
mod head;
mod refusal;
mod request;

pub use config::ConnectConfig;
pub use refusal::Refusal;

use crate::{
    Checkpoint, Client, HubAdapter,
    tls::{SharedTls, TlsClient, accept_tls, client_certificate},
};
use mctunnel_core::{Evidence, Open, observe::SharedObserver};
use rustls::ServerConfig;
use std::{fmt, net::SocketAddr, sync::Arc, time::Duration};
use tokio::net::TcpStream;

/// Serves HTTP CONNECT and opens a stream for each request.
pub struct ConnectAdapter<O: Open> {
    opener: O,
    config: ConnectConfig,
    observer: SharedObserver,
    checkpoint: Checkpoint,
    tls: Option<SharedTls>,
}

impl<O: Open> ConnectAdapter<O> {
    /// An adapter that opens its streams with `opener` and speaks plain HTTP.
    #[must_use]
    pub fn new(opener: O, config: ConnectConfig, observer: SharedObserver) -> Self {
        Self { opener, config, observer, checkpoint: Checkpoint::default(), tls: None }
    }

    /// Has every client pass this checkpoint.
    #[must_use]
    pub fn checkpoint(mut self, checkpoint: Checkpoint) -> Self {
        self.checkpoint = checkpoint;
        self
    }

    /// Speaks TLS. The configuration decides on certificates; by ALPN nothing but `http/1.1` is offered, whatever it says.
    #[must_use]
    pub fn tls(mut self, config: &Arc<ServerConfig>) -> Self {
        self.tls = Some(SharedTls::new(config, Some(b"http/1.1")));
        self
    }

    /// Its TLS, if it has any, to be changed while it serves.
    #[must_use]
    pub fn shared_tls(&self) -> Option<SharedTls> {
        self.tls.clone()
    }
}

impl<O: Open> HubAdapter for ConnectAdapter<O> {
    async fn serve(self: Arc<Self>, client: Client) {
        let Client { socket, peer, .. } = client;
        let Some(tls) = &self.tls else {
            return client::serve_client(self, socket, Evidence { peer: Some(peer), ..Evidence::default() }).await;
        };
        // Boxed: what the handshake needs is given back before the splice, which may last for days.
        let accepted = Box::pin(shake_hands(tls, socket, peer, self.config.head_timeout)).await;
        if let Some((socket, shown)) = accepted {
            client::serve_client(self, socket, shown).await;
        }
    }

    fn max_clients(&self) -> usize {
        self.config.max_connections
    }

    async fn turn_away(self: Arc<Self>, mut client: Client) {
        if self.tls.is_some() {
            // A handshake would cost what there is no room for.
            return;
        }
        let refusal = Refusal::TooManyConnections { limit: self.config.max_connections };
        client::observe_refusal(&self, &refusal);
        Box::pin(answer::refuse(&mut client.socket, &answer::for_refusal(&refusal))).await;
    }
}

/// Makes TLS with a client; gives what it has shown of itself.
async fn shake_hands(
    tls: &SharedTls,
    socket: TcpStream,
    peer: SocketAddr,
    limit: Duration,
) -> Option<(TlsClient, Evidence)> {
    let stream = accept_tls(tls, socket, peer, limit).await?;
    let certificate = client_certificate(&stream);
    Some((TlsClient::new(stream), Evidence { certificate, peer: Some(peer), ..Evidence::default() }))
}

impl<O: Open> fmt::Debug for ConnectAdapter<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectAdapter").field("config", &self.config).finish_non_exhaustive()
    }
}
