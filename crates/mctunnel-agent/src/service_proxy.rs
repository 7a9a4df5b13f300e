//! The service proxy: serves HTTP and gRPC exchanges, to the cluster's kube-apiserver and to its services.
//!
//! ```text
//! service_proxy/serve.rs    a stream: 6 authorise  7 locate, dial  8 join  9 pass the exchange
//! service_proxy/forward.rs  step 9: the request to the target, its answer back
//! service_proxy/forged.rs   what a request's head may not say
//! service_proxy/bodies.rs   what the two carry
//! service_proxy/listed.rs   when an open stream's service leaves the list
//! service_proxy/pool.rs     connections to targets that are kept for the next exchange
//! service_proxy/load.rs     which address of a target is next
//! service_proxy/settings.rs how many exchanges a target takes on a connection
//! service_proxy/tls.rs      whom to believe at the other end
//! ```

mod bodies;
mod connection;
mod forged;
mod forward;
mod impersonate;
mod listed;
mod load;
mod pool;
mod serve;
mod settings;
mod tls;

use crate::adapter::{Offered, ProxyAdapter};
pub use impersonate::{Impersonate, TokenFile, TokenSource};
use mctunnel_core::{PermitService, Protocol, ServiceTarget, locate::SharedLocator};
use pool::Pool;
use std::{fmt, sync::Arc, time::Duration};

/// Finds targets, keeps connections to them, and decides what may be reached.
///
/// One proxy serves both protocols: [`http`](Self::http) and [`grpc`](Self::grpc) are its adapters.
pub struct ServiceProxy {
    locator: SharedLocator,
    services: Arc<dyn PermitService>,
    kube_api: bool,
    impersonate: Option<Impersonate>,
    config: ServiceProxyConfig,
    pool: Arc<Pool>,
}

/// How the proxy treats its targets.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ServiceProxyConfig {
    /// The longest to locate and dial a target, TLS included. Default 5 s.
    pub dial_timeout: Duration,
    /// How long a connection is kept for the next exchange. Default 20 s; shorter than what servers usually keep theirs.
    pub idle_timeout: Duration,
    /// How many unused connections are kept for one address. Default 64.
    pub max_idle_per_address: usize,
}

impl Default for ServiceProxyConfig {
    fn default() -> Self {
        Self { dial_timeout: Duration::from_secs(5), idle_timeout: Duration::from_secs(20), max_idle_per_address: 64 }
    }
}

impl ServiceProxy {
    /// A proxy that reaches nothing yet: see [`kube_api`](Self::kube_api) and [`services`](Self::services).
    #[must_use]
    pub fn new(locator: SharedLocator, config: ServiceProxyConfig) -> Self {
        let pool = Arc::new(Pool::new(config.clone()));
        Self { locator, services: Arc::new(NoServices), kube_api: false, impersonate: None, config, pool }
    }

    /// Lets streams reach the kube-apiserver. Clients are authenticated there by the credentials they send, unless the agent
    /// [speaks for them](Self::impersonate).
    #[must_use]
    pub fn kube_api(mut self, allowed: bool) -> Self {
        self.kube_api = allowed;
        self
    }

    /// Speaks to the kube-apiserver for the users the hub verified, and refuses streams that name none.
    #[must_use]
    pub fn impersonate(mut self, impersonate: Option<Impersonate>) -> Self {
        self.impersonate = impersonate;
        self
    }

    /// Lets streams reach these services; without it they reach none. A stream that is open is cut when they no longer have its own.
    #[must_use]
    pub fn services(mut self, services: Arc<dyn PermitService>) -> Self {
        self.services = services;
        self
    }

    /// Who knows where the kube-apiserver is, if streams may reach it.
    #[must_use]
    pub fn kube_api_locator(&self) -> Option<SharedLocator> {
        self.kube_api.then(|| Arc::clone(&self.locator))
    }

    /// The adapter for `x-mctunnel-proto: http`.
    #[must_use]
    pub fn http(self: &Arc<Self>) -> Arc<HttpExchanges> {
        Arc::new(HttpExchanges(Arc::clone(self)))
    }

    /// The adapter for `x-mctunnel-proto: grpc`: the same, but the target is spoken to in HTTP/2.
    #[must_use]
    pub fn grpc(self: &Arc<Self>) -> Arc<GrpcCalls> {
        Arc::new(GrpcCalls(Arc::clone(self)))
    }
}

impl fmt::Debug for ServiceProxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServiceProxy").field("kube_api", &self.kube_api).finish_non_exhaustive()
    }
}

struct NoServices;

impl PermitService for NoServices {
    fn permits(&self, _: &ServiceTarget) -> bool {
        false
    }
}

/// Serves HTTP exchanges.
#[derive(Debug)]
pub struct HttpExchanges(Arc<ServiceProxy>);

impl ProxyAdapter for HttpExchanges {
    fn protocol(&self) -> Protocol {
        Protocol::http()
    }

    async fn serve(self: Arc<Self>, offered: Offered) {
        self.0.serve(offered, Speak::Http1).await;
    }
}

/// Serves gRPC calls.
#[derive(Debug)]
pub struct GrpcCalls(Arc<ServiceProxy>);

impl ProxyAdapter for GrpcCalls {
    fn protocol(&self) -> Protocol {
        Protocol::grpc()
    }

    async fn serve(self: Arc<Self>, offered: Offered) {
        self.0.serve(offered, Speak::Http2).await;
    }
}

/// Which HTTP a target is spoken to in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Speak {
    Http1,
    Http2,
}
