//! The HTTP adapter: `https://hub:8080/<cluster>/<path>`, and gRPC by metadata. HTTP/1.1 and HTTP/2, with TLS unless told otherwise.
//!
//! ```text
//! http/serve.rs     a connection: TLS, which HTTP, how it ends
//! http/guard.rs     what of HTTP/1.1 reaches the server at all
//! http/service.rs   a request: 1 authenticate  2 route  3 authorise  4 open  5 pass bodies both ways
//! http/exchange.rs  steps 4 and 5
//! http/upgrade.rs   step 5 for WebSocket and SPDY: plain bytes
//! http/forward.rs   steps 4 and 5 alone, for programs with a server and a routing rule of their own
//! ```

mod answer;
mod body;
mod config;
mod credential;
mod exchange;
mod fields;
mod forward;
mod grpc;
mod guard;
mod h2_tasks;
mod route;
mod serve;
mod service;
mod trailers;
mod upgrade;
mod whole_body;

pub use body::ForwardedBody;
pub use config::HttpConfig;
pub use forward::{ForwardError, HttpForward, Onward};
pub use guard::{BadBody, BadHead, GuardConfig, Guarded, RefusedHead, check_h2, check_trailers};
pub use mctunnel_core::{BadTarget, KubeRequest, ResourceRequest, Verb};
pub use mctunnel_http::ExchangeError;
pub use route::{Routed, route};

use crate::{Checkpoint, Client, HubAdapter};
use mctunnel_core::{Audit, Authorize, DynAuthenticate, Open, observe::SharedObserver};
use rustls::ServerConfig;
use std::{fmt, sync::Arc};
use tokio_rustls::TlsAcceptor;

/// Serves HTTP clients and opens a stream for each request.
pub struct HttpAdapter<O: Open> {
    forward: HttpForward<O>,
    guard: Arc<GuardConfig>,
    tls: Option<TlsAcceptor>,
    checkpoint: Checkpoint,
}

impl<O: Open> HttpAdapter<O> {
    /// An adapter that opens its streams with `opener`, speaks plain HTTP and passes credentials through to the targets.
    #[must_use]
    pub fn new(opener: O, config: HttpConfig, observer: SharedObserver) -> Self {
        let routing_headers = grpc::METADATA.iter().map(|name| (*name).to_owned()).collect();
        let guard = GuardConfig { routing_headers, ..GuardConfig::default() };
        let forward = HttpForward::new(opener, config, observer);
        Self { forward, guard: Arc::new(guard), tls: None, checkpoint: Checkpoint::default() }
    }

    /// Speaks TLS. The configuration decides on certificates and should offer `h2` and `http/1.1` by ALPN.
    #[must_use]
    pub fn tls(mut self, config: Arc<ServerConfig>) -> Self {
        self.tls = Some(TlsAcceptor::from(config));
        self
    }

    /// Takes these headers, and those that begin like these, as what a front proxy says about its own clients.
    #[must_use]
    pub fn forwarded(mut self, headers: Vec<String>, prefixes: Vec<String>) -> Self {
        let guard = GuardConfig::clone(&self.guard);
        self.guard = Arc::new(GuardConfig { forwarded_headers: headers, forwarded_prefixes: prefixes, ..guard });
        self
    }

    /// Has every request pass this checkpoint.
    #[must_use]
    pub fn checkpoint(mut self, checkpoint: Checkpoint) -> Self {
        self.checkpoint = checkpoint;
        self
    }

    /// Asks this one who each client is.
    #[must_use]
    pub fn authenticate(mut self, authenticate: Arc<dyn DynAuthenticate>) -> Self {
        self.checkpoint = self.checkpoint.with_authenticate(authenticate);
        self
    }

    /// Asks this one what each client may do.
    #[must_use]
    pub fn authorize(mut self, authorize: Arc<dyn Authorize>) -> Self {
        self.checkpoint = self.checkpoint.with_authorize(authorize);
        self
    }

    /// Records every request here.
    #[must_use]
    pub fn audit(mut self, audit: Arc<dyn Audit>) -> Self {
        self.checkpoint = self.checkpoint.with_audit(audit);
        self
    }
}

impl<O: Open> HubAdapter for HttpAdapter<O> {
    fn serve(self: Arc<Self>, client: Client) -> impl Future<Output = ()> + Send {
        serve::serve_client(self, client)
    }

    fn max_clients(&self) -> usize {
        self.forward.config.max_connections
    }
}

impl<O: Open> fmt::Debug for HttpAdapter<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpAdapter").field("config", &self.forward.config).finish_non_exhaustive()
    }
}
