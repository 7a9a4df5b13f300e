//! The hub as its owner holds it.

use crate::{
    Config,
    cluster_adapter::DynClusterAdapter,
    open_users::OpenUsers,
    places::Places,
    refusals::MOST_LATE,
    registry::{Registry, TunnelStatus},
    sources::Sources,
};
use mctunnel_core::{
    Audit, Happening, Protocol, Unaudited, Unobserved, clusters::SharedClusters, observe::SharedObserver,
};
use mctunnel_identity::{Enrolment, HubAuthority, IdentityError};
use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};
use tokio::sync::Semaphore;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// A hub. Cheap to clone; all clones are the same hub.
#[derive(Debug, Clone)]
pub struct Hub {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) config: Config,
    pub(crate) authority: HubAuthority,
    /// Gives agents their certificates, if this hub does.
    pub(crate) enrolment: Option<Arc<Enrolment>>,
    pub(crate) clusters: SharedClusters,
    /// Who serves the streams that clusters open.
    pub(crate) adapters: BTreeMap<Protocol, Arc<dyn DynClusterAdapter>>,
    pub(crate) observer: SharedObserver,
    pub(crate) audit: Arc<dyn Audit>,
    pub(crate) registry: Registry,
    pub(crate) sources: Sources,
    /// Streams that clusters have open.
    pub(crate) places: Places,
    pub(crate) enrolments: Semaphore,
    /// Opens that have no answer yet.
    pub(crate) pending: AtomicUsize,
    /// Users as opens carry them.
    pub(crate) open_users: OpenUsers,
    pub(crate) tasks: TaskTracker,
    /// No new tunnels.
    pub(crate) stopping: CancellationToken,
    /// No tunnels at all.
    pub(crate) stopped: CancellationToken,
}

impl std::fmt::Debug for Inner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inner").field("config", &self.config).finish_non_exhaustive()
    }
}

impl Hub {
    /// Begins a hub with its certificates and its list of clusters.
    pub fn builder(authority: &HubAuthority, clusters: SharedClusters) -> Builder<'_> {
        Builder {
            authority,
            clusters,
            enrolment: None,
            adapters: BTreeMap::new(),
            config: Config::default(),
            observer: Arc::new(Unobserved),
            audit: Arc::new(Unaudited),
        }
    }

    /// Cancelled once the hub begins to drain; give it to whatever should stop accepting then.
    #[must_use]
    pub fn stopping(&self) -> CancellationToken {
        self.inner.stopping.clone()
    }

    /// The tunnels that are up, one for each connected cluster.
    #[must_use]
    pub fn tunnels(&self) -> Vec<TunnelStatus> {
        self.inner.registry.tunnels()
    }

    /// How many opens have no answer yet, those that wait for a tunnel included.
    #[must_use]
    pub fn pending_opens(&self) -> usize {
        self.inner.pending.load(Ordering::Relaxed)
    }
}

impl Inner {
    pub(crate) fn observe(&self, happening: &Happening) {
        self.observer.observe(happening);
    }
}

/// Makes a [`Hub`].
#[derive(Debug)]
#[must_use = "a builder does nothing until build() is called"]
pub struct Builder<'a> {
    authority: &'a HubAuthority,
    clusters: SharedClusters,
    enrolment: Option<Enrolment>,
    adapters: BTreeMap<Protocol, Arc<dyn DynClusterAdapter>>,
    config: Config,
    observer: SharedObserver,
    audit: Arc<dyn Audit>,
}

impl Builder<'_> {
    /// Lets agents enrol and renew their certificates. Without it, only agents that were given a certificate get in.
    pub fn enrolment(mut self, enrolment: Enrolment) -> Self {
        self.enrolment = Some(enrolment);
        self
    }

    /// Serves the streams of a protocol that clusters open. Without any, every one of them is refused.
    pub fn cluster_adapter(mut self, adapter: Arc<dyn DynClusterAdapter>) -> Self {
        self.adapters.insert(adapter.protocol(), adapter);
        self
    }

    /// Changes the knobs.
    pub fn config(mut self, config: Config) -> Self {
        self.config = config;
        self
    }

    /// Reports what happens to this observer.
    pub fn observer(mut self, observer: SharedObserver) -> Self {
        self.observer = observer;
        self
    }

    /// Records there every certificate that is asked for, and every refusal of a stream that a cluster opens. What cannot be recorded
    /// is not issued.
    pub fn audit(mut self, audit: Arc<dyn Audit>) -> Self {
        self.audit = audit;
        self
    }

    /// Makes the hub. Nothing listens yet.
    pub fn build(mut self) -> Result<Hub, IdentityError> {
        // Streams that have a place, but no answer yet, keep those of no other protocol out.
        let placed = self.config.streams_from_cluster.saturating_mul(self.adapters.len());
        let late = usize::try_from(MOST_LATE).unwrap_or(usize::MAX);
        let half_open = &mut self.config.tunnel.budgets.half_open;
        *half_open = half_open.saturating_add(placed).saturating_add(late);
        let inner = Inner {
            authority: self.authority.clone(),
            enrolment: self.enrolment.map(Arc::new),
            clusters: self.clusters,
            adapters: self.adapters,
            observer: self.observer,
            audit: self.audit,
            registry: Registry::new(&self.config),
            sources: Sources::new(self.config.waiting_handshakes, self.config.concurrent_handshakes),
            places: Places::new(self.config.streams_from_cluster),
            enrolments: Semaphore::new(self.config.concurrent_enrolments),
            pending: AtomicUsize::new(0),
            open_users: OpenUsers::default(),
            tasks: TaskTracker::new(),
            stopping: CancellationToken::new(),
            stopped: CancellationToken::new(),
            config: self.config,
        };
        Ok(Hub { inner: Arc::new(inner) })
    }
}
