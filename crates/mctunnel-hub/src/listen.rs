//! Accepting connections of agents: never stops for an error, admits a herd at its own pace, sheds the rest before TLS.

use crate::{Hub, codes};
use mctunnel_core::Happening;
use std::{io, net::SocketAddr, time::Duration};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

/// After an accept error, such as no file descriptors left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

impl Hub {
    /// Takes tunnels on this listener until `stop` is cancelled or the hub drains. Meanwhile the hub's CA and its certificate are kept
    /// as the files say.
    pub async fn serve_tunnels(&self, listener: TcpListener, stop: CancellationToken) {
        tokio::select! {
            () = self.accept_all(&listener) => {}
            () = self.keep_authority_current() => {}
            () = stop.cancelled() => {}
            () = self.inner.stopping.cancelled() => {}
        }
    }

    async fn accept_all(&self, listener: &TcpListener) {
        loop {
            match listener.accept().await {
                Ok((socket, peer)) => self.take(socket, peer),
                Err(error) => pause_after(&error).await,
            }
        }
    }

    fn take(&self, socket: TcpStream, peer: SocketAddr) {
        let visit = match self.inner.sources.enter(peer.ip()) {
            Ok(visit) => visit,
            Err(why) => return self.shed(peer, why),
        };
        let hub = self.clone();
        self.inner.tasks.spawn(async move { hub.serve_connection(socket, peer.to_string(), visit).await });
    }

    /// Closes the connection before TLS: an answer would cost what there is no room for.
    fn shed(&self, peer: SocketAddr, reason: &str) {
        let (peer, reason) = (peer.to_string(), reason.to_owned());
        self.inner.observe(&Happening::PeerRefused { peer, code: codes::OVERLOAD.code, reason });
    }
}

async fn pause_after(error: &io::Error) {
    tracing::warn!(%error, "A connection could not be accepted.");
    tokio::time::sleep(ACCEPT_PAUSE).await;
}
