//! Extension point: what the hub does with the streams that clusters open. Each goes to the adapter of its `x-mctunnel-proto`; one
//! that has none is refused, and the refusal is reported and recorded.

use crate::{
    Hub, codes,
    entry::Entry,
    refusals::{Line, Refusals},
};
use mctunnel_core::{
    Audit, ClusterName, ErrorCode, Happening, Protocol, observe::SharedObserver, routing, target::Label,
};
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
    protocol: Option<Protocol>,
    service: Option<Label>,
    source: Option<IpAddr>,
    observer: SharedObserver,
    audit: Arc<dyn Audit>,
    refusals: Arc<Refusals>,
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

    /// It is not served; the agent is told the code and the reason, and the hub's audit log has a record of it. An agent that is refused
    /// all the time is told late.
    pub fn refuse(self, wire: RefuseCode, stable: ErrorCode, reason: &str) {
        let (audit, asked) = (Arc::clone(&self.audit), self.asked());
        self.deny(Denial { wire, stable, asked, why: reason.to_owned(), told: reason.to_owned(), audit });
    }

    /// As [`FromCluster::refuse`], with a record that says more than the agent is told.
    pub(crate) fn deny(self, denial: Denial) {
        let refusals = Arc::clone(&self.refusals);
        refusals.in_turn(move |line| {
            let Denial { wire, stable, asked, why, told, audit } = denial;
            if let Line::Written { left_out } = line
                && let Ok(entry) = Entry::of_stream(&*audit, &self.cluster, self.source)
            {
                let why = match left_out {
                    0 => why,
                    _ => format!("{why}; {left_out} refused before it have no record: they were too many"),
                };
                entry.denied(asked, stable, &why);
            }
            self.refuse_at_once(wire, stable, &told);
        });
    }

    /// As [`FromCluster::refuse`], at once and without a record: for who has written one, or cannot, and not for what is the agent's fault.
    pub(crate) fn refuse_at_once(self, wire: RefuseCode, stable: ErrorCode, reason: &str) {
        let (code, service) = (stable.code, self.asked());
        self.incoming.refuse(wire, &format!("{code}: {reason}"));
        let (cluster, reason) = (self.cluster, reason.to_owned());
        self.observer.observe(&Happening::HubServiceRefused { cluster, service, code, reason });
    }

    /// What it is for, as far as it says.
    fn asked(&self) -> String {
        match (&self.service, &self.protocol) {
            (Some(service), _) => service.to_string(),
            (None, Some(protocol)) => protocol.to_string(),
            (None, None) => "a stream".to_owned(),
        }
    }
}

/// Why a stream is refused.
pub(crate) struct Denial {
    pub(crate) wire: RefuseCode,
    pub(crate) stable: ErrorCode,
    /// What it was for, and why not, for the record.
    pub(crate) asked: String,
    pub(crate) why: String,
    /// What the agent may know of it.
    pub(crate) told: String,
    pub(crate) audit: Arc<dyn Audit>,
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
    /// Nothing here waits: what one program in the cluster does, those of other services and protocols do not feel.
    pub(crate) async fn serve_offers(&self, opener: &Opener<'_>, mut offers: Offers) {
        let refusals = Arc::new(Refusals::new(self.inner.tasks.clone()));
        while let Some(incoming) = offers.next().await {
            self.serve_offer(opener, incoming, &refusals);
        }
    }

    fn serve_offer(&self, opener: &Opener<'_>, incoming: Incoming, refusals: &Arc<Refusals>) {
        let routed = routing::read_at_hub(incoming.headers(), opener.cluster);
        let (protocol, service) =
            routed.as_ref().map_or((None, None), |(p, service)| (Some(p.clone()), service.clone()));
        let opened = FromCluster {
            incoming,
            cluster: opener.cluster.clone(),
            protocol,
            service,
            source: opener.source,
            observer: Arc::clone(&self.inner.observer),
            audit: Arc::clone(&self.inner.audit),
            refusals: Arc::clone(refusals),
            since: Instant::now(),
        };
        let protocol = match routed {
            Ok((protocol, _)) => protocol,
            Err(bad) => return opened.refuse(RefuseCode::BadRequest, codes::SERVICE_BAD_REQUEST, &bad.to_string()),
        };
        let Some(adapter) = self.inner.adapters.get(&protocol) else {
            let reason = format!("this hub offers clusters nothing by the protocol {protocol}");
            return opened.refuse(RefuseCode::NotAllowed, codes::SERVICE_NOT_ALLOWED, &reason);
        };
        let Some(place) = self.inner.places.take(opener.cluster, opener.generation, &protocol) else {
            let reason = "the cluster has as many streams of this kind towards the hub as it may";
            return opened.refuse(RefuseCode::TooManyStreams, codes::SERVICE_TOO_MANY, reason);
        };
        let serving = Arc::clone(adapter).serve(opened);
        self.inner.tasks.spawn(async move {
            serving.await;
            drop(place);
        });
    }
}

/// Whose streams they are.
pub(crate) struct Opener<'a> {
    pub(crate) cluster: &'a ClusterName,
    pub(crate) generation: u64,
    pub(crate) source: Option<IpAddr>,
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
