//! Extension point: what the hub does with the streams that clusters open. Each goes to the adapter of its `x-mctunnel-proto`; one
//! that has none is refused, and the refusal is reported.

use crate::{Hub, codes};
use mctunnel_core::{ClusterName, ErrorCode, Happening, Protocol, observe::SharedObserver, routing, target::Label};
use mctunnel_tunnel::{Incoming, Offers, RefuseCode, Stream};
use std::{fmt, net::IpAddr, pin::Pin, sync::Arc};
use tokio::time::Instant;

/// The hub's side of a protocol whose streams clusters open. Its twin in the other direction is the agent's `ProxyAdapter`.
///
/// Obligations: 1. the agent is not trusted: a cluster gets what it was given by its name, which is its certificate's, and nothing
/// else; 2. refuse with the reason, or join, exactly once; 3. whatever it keeps for a cluster is bounded.
pub trait ClusterAdapter: Send + Sync + 'static {
    /// The value of `x-mctunnel-proto` it serves.
    fn protocol(&self) -> Protocol;

    /// Serves one stream from its opening to its end.
    fn serve(self: Arc<Self>, opened: FromCluster) -> impl Future<Output = ()> + Send;
}

/// A stream that a cluster opened, not yet answered. Dropping it refuses it.
#[derive(Debug)]
pub struct FromCluster {
    incoming: Incoming,
    cluster: ClusterName,
    service: Option<Label>,
    source: Option<IpAddr>,
    observer: SharedObserver,
    since: Instant,
}

impl FromCluster {
    /// The cluster, by the certificate of its agent.
    #[must_use]
    pub fn cluster(&self) -> &ClusterName {
        &self.cluster
    }

    /// The service it asks for, if it names one.
    #[must_use]
    pub fn service(&self) -> Option<&Label> {
        self.service.as_ref()
    }

    /// Where the agent connects from.
    #[must_use]
    pub fn source(&self) -> Option<IpAddr> {
        self.source
    }

    /// Resolves when the agent takes the stream back, so that a dial under way can be stopped.
    pub async fn taken_back(&self) {
        self.incoming.taken_back().await;
    }

    /// It is served: the stream carries bytes from now on. `None` when it is gone meanwhile. `target` is for logs.
    #[must_use]
    pub fn join(self, target: &str) -> Option<(Stream, Served)> {
        let Self { incoming, cluster, observer, since, .. } = self;
        let stream = incoming.join().ok()?;
        let took = since.elapsed();
        observer.observe(&Happening::StreamOpened { cluster: cluster.clone(), target: target.to_owned(), took });
        Some((stream, Served { cluster, observer, since, ended: false }))
    }

    /// It is not served; the agent is told the code and the reason.
    pub fn refuse(self, wire: RefuseCode, stable: ErrorCode, reason: &str) {
        let asked = self.service.as_ref().map_or_else(|| "a stream".to_owned(), ToString::to_string);
        refuse(self.incoming, &self.observer, self.cluster, asked, wire, stable, reason);
    }
}

/// A stream that was reported as opened and is reported as ended when this is dropped, however it ended.
#[derive(Debug)]
pub struct Served {
    cluster: ClusterName,
    observer: SharedObserver,
    since: Instant,
    ended: bool,
}

impl Served {
    /// Reports how it ended: bytes from the cluster, bytes to it, and what broke, if something did.
    pub fn ended(mut self, bytes_up: u64, bytes_down: u64, error: Option<String>) {
        self.report(bytes_up, bytes_down, error);
    }

    fn report(&mut self, bytes_up: u64, bytes_down: u64, error: Option<String>) {
        if !std::mem::replace(&mut self.ended, true) {
            let (cluster, lasted) = (self.cluster.clone(), self.since.elapsed());
            self.observer.observe(&Happening::StreamEnded { cluster, bytes_up, bytes_down, lasted, error });
        }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.report(0, 0, Some("the hub cut the stream".to_owned()));
    }
}

impl Hub {
    /// Takes the streams that a cluster opens, each in a task of its own. A task ends with its stream, and the stream with the tunnel.
    pub(crate) async fn serve_offers(&self, cluster: &ClusterName, source: Option<IpAddr>, mut offers: Offers) {
        while let Some(incoming) = offers.next().await {
            self.serve_offer(cluster, source, incoming);
        }
    }

    fn serve_offer(&self, cluster: &ClusterName, source: Option<IpAddr>, incoming: Incoming) {
        let observer = Arc::clone(&self.inner.observer);
        let (protocol, service) = match routing::read_at_hub(incoming.headers(), cluster) {
            Ok(routed) => routed,
            Err(bad) => {
                let (asked, reason) = ("a stream".to_owned(), bad.to_string());
                let (wire, stable) = (RefuseCode::BadRequest, codes::SERVICE_BAD_REQUEST);
                return refuse(incoming, &observer, cluster.clone(), asked, wire, stable, &reason);
            }
        };
        let Some(adapter) = self.inner.adapters.get(&protocol) else {
            let reason = format!("this hub offers clusters nothing by the protocol {protocol}");
            let (wire, stable) = (RefuseCode::NotAllowed, codes::SERVICE_NOT_ALLOWED);
            return refuse(incoming, &observer, cluster.clone(), protocol.to_string(), wire, stable, &reason);
        };
        let cluster = cluster.clone();
        let opened = FromCluster { incoming, cluster, service, source, observer, since: Instant::now() };
        self.inner.tasks.spawn(Arc::clone(adapter).serve(opened));
    }
}

fn refuse(
    incoming: Incoming,
    observer: &SharedObserver,
    cluster: ClusterName,
    service: String,
    wire: RefuseCode,
    stable: ErrorCode,
    reason: &str,
) {
    let code = stable.code;
    incoming.refuse(wire, &format!("{code}: {reason}"));
    observer.observe(&Happening::HubServiceRefused { cluster, service, code, reason: reason.to_owned() });
}

// === DynClusterAdapter ===

/// A stream being served.
pub type ServingCluster = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The object-safe twin of [`ClusterAdapter`].
pub trait DynClusterAdapter: Send + Sync + 'static {
    /// See [`ClusterAdapter::protocol`].
    fn protocol(&self) -> Protocol;
    /// See [`ClusterAdapter::serve`].
    fn serve(self: Arc<Self>, opened: FromCluster) -> ServingCluster;
}

impl<T: ClusterAdapter> DynClusterAdapter for T {
    fn protocol(&self) -> Protocol {
        ClusterAdapter::protocol(self)
    }
    fn serve(self: Arc<Self>, opened: FromCluster) -> ServingCluster {
        Box::pin(ClusterAdapter::serve(self, opened))
    }
}

impl fmt::Debug for dyn DynClusterAdapter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ClusterAdapter({})", self.protocol())
    }
}
