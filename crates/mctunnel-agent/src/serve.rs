//! Steps 6 to 9 of a request's path: authorise again, resolve and dial a pinned address, join, splice.

use crate::{Agent, dial::dial};
use mctunnel_core::{
    Endpoint, Happening, Protocol, Target, routing,
    splice::{Spliced, splice},
};
use mctunnel_tunnel::{Incoming, Offers, RefuseCode};
use tokio::{net::TcpStream, time::Instant};

impl Agent {
    /// Takes the streams the hub opens, each in a task of its own.
    pub(crate) async fn serve(&self, mut offers: Offers) {
        while let Some(incoming) = offers.next().await {
            let agent = self.clone();
            self.inner.tasks.spawn(async move { agent.serve_stream(incoming).await });
        }
    }

    async fn serve_stream(&self, incoming: Incoming) {
        let since = Instant::now();
        // Boxed, so that an idle stream does not keep the room the dial needed.
        let Some((socket, incoming)) = Box::pin(self.reach(incoming)).await else { return };
        // 8 join
        let spliced = match incoming.join() {
            // 9 splice
            Ok(stream) => splice(socket, stream).await,
            Err(lost) => Spliced::never(std::io::Error::other(lost)),
        };
        self.inner.observe(&Happening::StreamEnded {
            cluster: self.inner.cluster.clone(),
            bytes_up: spliced.bytes_down,
            bytes_down: spliced.bytes_up,
            lasted: since.elapsed(),
            error: spliced.error.map(|error| error.to_string()),
        });
    }

    /// Finds and dials the target; a stream that is not for us is refused, with the reason to the client and to our log.
    async fn reach(&self, incoming: Incoming) -> Option<(TcpStream, Incoming)> {
        let since = Instant::now();
        let cluster = &self.inner.cluster;
        let target = match target_of(&incoming, cluster.as_str()) {
            Ok(target) => target,
            Err(reason) => {
                self.refuse(incoming, "?".to_owned(), RefuseCode::BadRequest, &reason);
                return None;
            }
        };
        // 6 authorise, 7 resolve and dial; given up when the client goes away.
        let dialled = tokio::select! {
            dialled = dial(&target, &self.inner.allow, self.inner.config.dial_timeout, &*self.inner.resolver) => dialled,
            () = incoming.taken_back() => return None,
        };
        match dialled {
            Ok(socket) => {
                let opened = Happening::StreamOpened {
                    cluster: cluster.clone(),
                    target: target.to_string(),
                    took: since.elapsed(),
                };
                self.inner.observe(&opened);
                Some((socket, incoming))
            }
            Err(refusal) => {
                self.refuse(incoming, target.to_string(), refusal.code, &refusal.message);
                None
            }
        }
    }

    fn refuse(&self, incoming: Incoming, target: String, code: RefuseCode, reason: &str) {
        incoming.refuse(code, reason);
        let code = mctunnel_core::OpenError::from_refusal(code, String::new()).code().code;
        let cluster = Some(self.inner.cluster.clone());
        self.inner.observe(&Happening::StreamRefused { cluster, target, code, reason: reason.to_owned() });
    }
}

/// The target, parsed from the routing metadata.
fn target_of(incoming: &Incoming, cluster: &str) -> Result<Endpoint, String> {
    let (protocol, target) = routing::read(incoming.headers(), cluster).map_err(|bad| bad.to_string())?;
    match target {
        Target::Endpoint(endpoint) if protocol == Protocol::tcp() => Ok(endpoint),
        Target::Endpoint(_) | Target::KubeApi | Target::Service(_) => {
            Err(format!("this agent does not serve the protocol {protocol} for {target}"))
        }
    }
}
