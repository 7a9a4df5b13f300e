//! Extension point: what the hub does with the streams that clusters open. Each goes to the adapter of its `x-mctunnel-proto`; one
//! that has none is refused, and the refusal is reported and recorded.

use crate::{Hub, codes, entry::Entry};
use mctunnel_core::{
    Audit, ClusterName, ErrorCode, Happening, Protocol, observe::SharedObserver, routing, target::Label,
};
use mctunnel_tunnel::{Incoming, Offers, RefuseCode, Stream};
use std::{
    fmt,
    net::IpAddr,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};
use tokio::time::{Instant, sleep_until};

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
    refusals: Arc<AtomicU32>,
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

    /// It is not served; the agent is told the code and the reason, and the hub's audit log has a record of it.
    pub fn refuse(self, wire: RefuseCode, stable: ErrorCode, reason: &str) {
        if let Ok(entry) = Entry::of_stream(&*self.audit, &self.cluster, self.source) {
            entry.denied(self.asked(), stable, reason);
        }
        self.refuse_recorded(wire, stable, reason);
    }

    /// As [`FromCluster::refuse`], for who has recorded it, or cannot.
    pub(crate) fn refuse_recorded(self, wire: RefuseCode, stable: ErrorCode, reason: &str) {
        let (code, service) = (stable.code, self.asked());
        self.refusals.fetch_add(1, Ordering::Relaxed);
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
    /// An agent that is refused all the time is made to wait: what it opens meanwhile the tunnel's own budget holds back.
    pub(crate) async fn serve_offers(&self, opener: &Opener<'_>, mut offers: Offers) {
        let refusals = Arc::new(AtomicU32::new(0));
        let mut patience = Patience::new();
        while let Some(incoming) = offers.next().await {
            self.serve_offer(opener, incoming, &refusals);
            patience.after(refusals.swap(0, Ordering::Relaxed)).await;
        }
    }

    fn serve_offer(&self, opener: &Opener<'_>, incoming: Incoming, refusals: &Arc<AtomicU32>) {
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
        let Some(place) = self.inner.places.take(opener.cluster, opener.generation) else {
            let reason = "the cluster has as many streams towards the hub as it may";
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

/// Refusals that cost an agent nothing, and how many a second it may have then: each is a line in the audit log, which others need.
const REFUSALS_AT_ONCE: u32 = 1_000;
const REFUSALS_PER_SECOND: u32 = 50;

/// How long an agent that is refused has to wait.
struct Patience {
    /// When all that was refused is forgotten.
    due: Instant,
}

impl Patience {
    fn new() -> Self {
        Self { due: Instant::now() }
    }

    async fn after(&mut self, refusals: u32) {
        if refusals == 0 {
            return;
        }
        let each = Duration::from_secs(1) / REFUSALS_PER_SECOND;
        self.due = self.due.max(Instant::now()) + each * refusals;
        if let Some(until) = self.due.checked_sub(each * REFUSALS_AT_ONCE) {
            sleep_until(until).await;
        }
    }
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
