//! Streams from the cluster to the hub: opened on the tunnel that is up, waited for when none is. And local listeners that lead each
//! connection to a service of the hub.

use crate::Agent;
use mctunnel_core::{
    Happening, OpenError, Priority, Protocol,
    routing::headers_to_hub,
    splice::{SpliceError, splice},
    target::Label,
};
use mctunnel_tunnel::{Open, OpenFailed, Session, Stream};
use std::time::Duration;
use tokio::{
    net::{TcpListener, TcpStream},
    task::JoinSet,
    time::{Instant, timeout_at},
};
use tokio_util::sync::CancellationToken;

/// How long a connection waits for a tunnel and for the hub's answer.
const OPEN_TIMEOUT: Duration = Duration::from_secs(8);

/// Connections of one listener at the same time; further ones wait to be accepted.
const MOST_CONNECTIONS: usize = 1024;

/// How long to wait when the system has no file left for another connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

impl Agent {
    /// Opens a stream to the hub; waits for a tunnel, and for the answer, until the time is up.
    pub async fn open_at_hub(
        &self,
        protocol: &Protocol,
        service: Option<&Label>,
        priority: Priority,
        timeout: Duration,
    ) -> Result<Stream, OpenError> {
        let deadline = Instant::now() + timeout;
        let headers = headers_to_hub(protocol, &self.inner.cluster, service);
        loop {
            let Ok(session) = timeout_at(deadline, self.usable_tunnel()).await else {
                return Err(OpenError::NoTunnel { retry_after: Duration::from_secs(1) });
            };
            let opening = session.open(Open { priority, headers: headers.clone(), user: None }, bytes::Bytes::new());
            let Ok(opened) = timeout_at(deadline, opening).await else {
                return Err(OpenError::Timeout(format!("the hub gave no answer within {timeout:?}")));
            };
            return match opened {
                Ok(stream) => Ok(stream),
                // Nothing was sent: the tunnel went away under us. A newer one may be there.
                Err(OpenFailed::NotAsked(_)) if !session.is_usable() => continue,
                Err(OpenFailed::NotAsked(reason)) => Err(OpenError::Busy(reason.to_string())),
                Err(OpenFailed::Refused { code, message }) => Err(OpenError::from_refusal(code, message)),
                Err(OpenFailed::Lost(reason)) => Err(OpenError::TunnelLost(reason)),
            };
        }
    }

    /// The newest tunnel on which streams can be opened, once there is one.
    async fn usable_tunnel(&self) -> Session {
        loop {
            let changed = self.inner.tunnels_changed.notified();
            let found = {
                let tunnels = self.inner.tunnels.lock();
                let usable = tunnels.iter().filter(|tunnel| tunnel.session.is_usable());
                usable.max_by_key(|tunnel| tunnel.generation).map(|tunnel| tunnel.session.clone())
            };
            match found {
                Some(session) => return session,
                None => changed.await,
            }
        }
    }

    /// Leads each connection of the listener to a service of the hub, until `stop`; connections that are open then go on until they
    /// end, or until this future is dropped.
    ///
    /// Whoever reaches the listener reaches the service, as this cluster. The bytes pass as they are, so that TLS and credentials
    /// are the business of the two ends.
    pub async fn expose(&self, service: Label, listener: TcpListener, stop: CancellationToken) {
        let mut connections = JoinSet::new();
        loop {
            tokio::select! {
                accepted = listener.accept(), if connections.len() < MOST_CONNECTIONS => match accepted {
                    Ok((socket, _)) => {
                        let (agent, service) = (self.clone(), service.clone());
                        connections.spawn(async move { agent.lead_to_hub(&service, socket).await });
                    }
                    Err(error) => {
                        tracing::warn!(%service, %error, "A connection to a service of the hub could not be accepted.");
                        tokio::time::sleep(ACCEPT_PAUSE).await;
                    }
                },
                Some(_) = connections.join_next() => {}
                () = stop.cancelled() => break,
            }
        }
        drop(listener);
        while connections.join_next().await.is_some() {}
    }

    async fn lead_to_hub(&self, service: &Label, socket: TcpStream) {
        mctunnel_core::keepalive::prepare(&socket);
        let since = Instant::now();
        let protocol = Protocol::tcp();
        let opening = self.open_at_hub(&protocol, Some(service), Priority::Normal, OPEN_TIMEOUT);
        let stream = match Box::pin(opening).await {
            Ok(stream) => stream,
            Err(error) => {
                // A reset, so that the program at the other end knows that nothing was reached.
                let _ = socket.set_zero_linger();
                return self.inner.observe(&Happening::HubServiceRefused {
                    cluster: self.inner.cluster.clone(),
                    service: service.to_string(),
                    code: error.code().code,
                    reason: error.to_string(),
                });
            }
        };
        let cluster = || self.inner.cluster.clone();
        let target = format!("hub service {service}");
        self.inner.observe(&Happening::StreamOpened { cluster: cluster(), target, took: since.elapsed() });
        let spliced = splice(socket, stream).await;
        self.inner.observe(&Happening::StreamEnded {
            cluster: cluster(),
            bytes_up: spliced.bytes_up,
            bytes_down: spliced.bytes_down,
            lasted: since.elapsed(),
            error: spliced.error.as_ref().map(SpliceError::to_string),
        });
    }
}
