//! The hub as its owner holds it.

use crate::{
    Config,
    registry::{Registry, TunnelStatus},
};
use mctunnel_core::{Happening, Unobserved, clusters::SharedClusters, observe::SharedObserver};
use mctunnel_identity::{HubAuthority, IdentityError};
use std::sync::Arc;
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// A hub. Cheap to clone; all clones are the same hub.
#[derive(Debug, Clone)]
pub struct Hub {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) config: Config,
    pub(crate) tls: TlsAcceptor,
    pub(crate) clusters: SharedClusters,
    pub(crate) observer: SharedObserver,
    pub(crate) registry: Registry,
    pub(crate) handshakes: Semaphore,
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
        Builder { authority, clusters, config: Config::default(), observer: Arc::new(Unobserved) }
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
    config: Config,
    observer: SharedObserver,
}

impl Builder<'_> {
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

    /// Makes the hub. Nothing listens yet.
    pub fn build(self) -> Result<Hub, IdentityError> {
        let inner = Inner {
            tls: TlsAcceptor::from(self.authority.server_config()?),
            clusters: self.clusters,
            observer: self.observer,
            registry: Registry::new(&self.config),
            handshakes: Semaphore::new(self.config.concurrent_handshakes),
            tasks: TaskTracker::new(),
            stopping: CancellationToken::new(),
            stopped: CancellationToken::new(),
            config: self.config,
        };
        Ok(Hub { inner: Arc::new(inner) })
    }
}
