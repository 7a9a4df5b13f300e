//! The agent as its owner holds it.

use crate::{
    Config,
    adapter::DynProxyAdapter,
    allow::AllowList,
    dial::{Resolve, SystemResolver},
    enrol::Enroller,
    hub_address::{HubAddress, InvalidHubAddress},
    proxy::ProxySettings,
    renew::Renewal,
    tcp::TcpAdapter,
};
use mctunnel_core::{ClusterName, Happening, Protocol, Unobserved, locate::SharedLocator, observe::SharedObserver};
use mctunnel_identity::{
    AgentStore, EnrolledAgent, IdentityError, JoinBundle, OwnCertificate, SharedClock, SystemClock,
};
use mctunnel_tunnel::Session;
use parking_lot::{Mutex, RwLock};
use rustls_pki_types::ServerName;
use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::{Duration, SystemTime},
};
use tokio::{sync::Notify, time::Instant};
use tokio_rustls::TlsConnector;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// An agent. Cheap to clone; all clones are the same agent.
#[derive(Debug, Clone)]
pub struct Agent {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) config: Config,
    pub(crate) cluster: ClusterName,
    pub(crate) instance: String,
    pub(crate) hub: HubAddress,
    pub(crate) server_name: ServerName<'static>,
    /// What the next connection shows and trusts.
    pub(crate) tls: RwLock<TlsConnector>,
    /// When the certificate of that ends, in seconds since 1970.
    pub(crate) not_after_unix: AtomicI64,
    /// Where the next certificate comes from, if one does.
    pub(crate) renewal: Option<Renewal>,
    /// Told when the certificate was refused, by an agent that can get another.
    pub(crate) refused: Notify,
    pub(crate) clock: SharedClock,
    pub(crate) proxy: ProxySettings,
    pub(crate) resolver: Arc<dyn Resolve>,
    pub(crate) adapters: BTreeMap<Protocol, Arc<dyn DynProxyAdapter>>,
    pub(crate) observer: SharedObserver,
    /// Why there was no tunnel, the last time there was none.
    pub(crate) last_error: Mutex<Option<LastError>>,
    pub(crate) tasks: TaskTracker,
    /// The tunnels that are up: one, or two while the hub has us move.
    pub(crate) tunnels: Mutex<Vec<LiveTunnel>>,
    /// Told when one comes up.
    pub(crate) tunnels_changed: Notify,
    /// No new tunnels.
    pub(crate) stopping: CancellationToken,
    /// No tunnels at all.
    pub(crate) stopped: CancellationToken,
}

/// Why an agent had no tunnel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastError {
    /// What went wrong.
    pub reason: String,
    /// When.
    pub at: SystemTime,
}

#[derive(Debug, Clone)]
pub(crate) struct LiveTunnel {
    pub(crate) generation: u64,
    pub(crate) session: Session,
    pub(crate) since: Instant,
}

impl std::fmt::Debug for Inner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inner").field("cluster", &self.cluster).field("hub", &self.hub).finish_non_exhaustive()
    }
}

/// The agent's connection to its hub, for people and metrics.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct AgentStatus {
    /// The generation the hub gave the tunnel.
    pub generation: u64,
    /// How long the tunnel has been up.
    pub up: Duration,
    /// Streams open on it.
    pub streams: usize,
    /// Bytes of streams, in both directions, since it is up.
    pub moved: u64,
    /// Round-trip time, once measured.
    pub rtt: Option<Duration>,
}

impl Agent {
    /// Begins an agent with what the hub gave it.
    pub fn builder(bundle: &JoinBundle) -> Builder<'_> {
        Builder {
            bundle,
            hub: None,
            server_name: None,
            proxy: ProxySettings::default(),
            allow: AllowList::default(),
            resolver: Arc::new(SystemResolver),
            adapters: Vec::new(),
            kube_api: None,
            observer: Arc::new(Unobserved),
            config: Config::default(),
            renewal: None,
        }
    }

    /// Which cluster this agent stands for.
    #[must_use]
    pub fn cluster(&self) -> &ClusterName {
        &self.inner.cluster
    }

    /// Shows this bundle's certificate and trusts its CA from the next connection on. What is up stays up.
    pub(crate) fn show(&self, bundle: &JoinBundle) -> Result<(), IdentityError> {
        let connector = TlsConnector::from(bundle.client_config_at(&self.inner.clock)?);
        let not_after_unix = bundle.certificate()?.not_after_unix;
        *self.inner.tls.write() = connector;
        self.inner.not_after_unix.store(not_after_unix, Ordering::Relaxed);
        Ok(())
    }

    /// When the certificate ends that the next connection shows, in seconds since 1970.
    #[must_use]
    pub fn certificate_not_after_unix(&self) -> i64 {
        self.inner.not_after_unix.load(Ordering::Relaxed)
    }

    /// The tunnel that is up, if one is.
    #[must_use]
    pub fn status(&self) -> Option<AgentStatus> {
        let tunnels = self.inner.tunnels.lock();
        let live = tunnels.iter().filter(|t| t.session.ending().is_none());
        let newest = live.max_by_key(|t| t.generation)?;
        Some(AgentStatus {
            generation: newest.generation,
            up: newest.since.elapsed(),
            streams: tunnels.iter().map(|t| t.session.streams()).sum(),
            moved: newest.session.moved(),
            rtt: newest.session.rtt(),
        })
    }

    /// Why there was no tunnel, the last time there was none; `None` if there always was one.
    #[must_use]
    pub fn last_error(&self) -> Option<LastError> {
        self.inner.last_error.lock().clone()
    }
}

impl Inner {
    pub(crate) fn observe(&self, happening: &Happening) {
        if let Happening::Reconnecting { reason, .. } = happening {
            *self.last_error.lock() = Some(LastError { reason: reason.clone(), at: SystemTime::now() });
        }
        self.observer.observe(happening);
    }
}

/// Makes an [`Agent`].
#[derive(Debug)]
#[must_use = "a builder does nothing until build() is called"]
pub struct Builder<'a> {
    bundle: &'a JoinBundle,
    hub: Option<String>,
    server_name: Option<String>,
    proxy: ProxySettings,
    allow: AllowList,
    resolver: Arc<dyn Resolve>,
    adapters: Vec<Arc<dyn DynProxyAdapter>>,
    kube_api: Option<SharedLocator>,
    observer: SharedObserver,
    config: Config,
    renewal: Option<Renewal>,
}

/// The agent cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum InvalidAgent {
    /// The hub's address makes no sense.
    #[error(transparent)]
    HubAddress(#[from] InvalidHubAddress),
    /// The name to expect in the hub's certificate is not a DNS name or address.
    #[error("{0:?} cannot be the name in the hub's certificate: give a DNS name or an IP address")]
    ServerName(String),
    /// The join bundle's certificates cannot be used.
    #[error(transparent)]
    Identity(#[from] IdentityError),
}

impl Builder<'_> {
    /// Dials the hub at `host[:port]` instead of the address in the bundle.
    pub fn hub(mut self, address: impl Into<String>) -> Self {
        self.hub = Some(address.into());
        self
    }

    /// Expects this name in the hub's certificate instead of the one in the bundle.
    pub fn hub_server_name(mut self, name: impl Into<String>) -> Self {
        self.server_name = Some(name.into());
        self
    }

    /// Reaches the hub through a proxy.
    pub fn proxy(mut self, proxy: ProxySettings) -> Self {
        self.proxy = proxy;
        self
    }

    /// Lets streams reach these targets; without it they reach none.
    pub fn allow(mut self, allow: AllowList) -> Self {
        self.allow = allow;
        self
    }

    /// Looks names up with this resolver instead of the system's.
    pub fn resolver(mut self, resolver: Arc<dyn Resolve>) -> Self {
        self.resolver = resolver;
        self
    }

    /// Lets plain streams reach the kube-apiserver, where this one says it is: for clients that make TLS with it end to end.
    pub fn kube_api(mut self, locator: SharedLocator) -> Self {
        self.kube_api = Some(locator);
        self
    }

    /// Serves a protocol with this adapter. The adapter for `tcp` is there already; another one of the same name replaces it.
    pub fn adapter(mut self, adapter: Arc<dyn DynProxyAdapter>) -> Self {
        self.adapters.push(adapter);
        self
    }

    /// Reports what happens to this observer.
    pub fn observer(mut self, observer: SharedObserver) -> Self {
        self.observer = observer;
        self
    }

    /// Changes the knobs.
    pub fn config(mut self, config: Config) -> Self {
        self.config = config;
        self
    }

    /// Renews the certificate by asking the hub, and keeps the new one in the store, for an agent that has enrolled.
    pub fn renewing(mut self, store: AgentStore, agent: EnrolledAgent) -> Self {
        self.renewal = Some(Renewal::Hub { store, agent: Mutex::new(agent), again: None });
        self
    }

    /// As [`Builder::renewing`]. An agent that has no certificate which counts any more, because it was away for too long or its cluster
    /// was revoked, enrols anew with evidence that lasts. Whether it may, the hub decides each time.
    pub fn renewing_or_enrolling(mut self, store: AgentStore, agent: EnrolledAgent, again: Arc<Enroller>) -> Self {
        self.renewal = Some(Renewal::Hub { store, agent: Mutex::new(agent), again: Some(again) });
        self
    }

    /// Follows files that somebody else renews.
    pub fn following(mut self, files: OwnCertificate) -> Self {
        self.renewal = Some(Renewal::Files(files));
        self
    }

    /// Makes the agent. Nothing is dialled yet.
    pub fn build(self) -> Result<Agent, InvalidAgent> {
        let hub = HubAddress::parse(self.hub.as_deref().unwrap_or(&self.bundle.hub))?;
        let name = self.server_name.unwrap_or_else(|| self.bundle.hub_server_name.clone());
        let server_name = ServerName::try_from(name.clone()).map_err(|_| InvalidAgent::ServerName(name))?;
        let tcp = TcpAdapter {
            allow: self.allow,
            resolver: Arc::clone(&self.resolver),
            dial_timeout: self.config.dial_timeout,
            kube_api: self.kube_api,
        };
        let tcp: Arc<dyn DynProxyAdapter> = Arc::new(tcp);
        let adapters = [tcp].into_iter().chain(self.adapters).map(|adapter| (adapter.protocol(), adapter)).collect();
        let clock: SharedClock = match &self.renewal {
            Some(Renewal::Hub { store, .. }) => Arc::clone(store.clock()),
            _ => Arc::new(SystemClock),
        };
        let inner = Inner {
            config: self.config,
            cluster: self.bundle.cluster.clone(),
            instance: format!("{:032x}", rand::random::<u128>()),
            hub,
            server_name,
            tls: RwLock::new(TlsConnector::from(self.bundle.client_config_at(&clock)?)),
            not_after_unix: AtomicI64::new(self.bundle.certificate()?.not_after_unix),
            renewal: self.renewal,
            refused: Notify::new(),
            clock,
            proxy: self.proxy,
            resolver: self.resolver,
            adapters,
            observer: self.observer,
            last_error: Mutex::new(None),
            tasks: TaskTracker::new(),
            tunnels: Mutex::new(Vec::new()),
            tunnels_changed: Notify::new(),
            stopping: CancellationToken::new(),
            stopped: CancellationToken::new(),
        };
        Ok(Agent { inner: Arc::new(inner) })
    }
}
