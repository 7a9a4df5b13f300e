//! The HTTP adapter: `https://hub:8080/<cluster>/<path>`, and gRPC by metadata. HTTP/1.1 and HTTP/2, with TLS unless told otherwise.
//!
//! ```text
//! http/serve.rs     a connection: TLS, which HTTP, how it ends
//! http/guard.rs     what of HTTP/1.1 reaches the server at all
//! http/service.rs   a request: 1 authenticate  2 route  3 authorise  4 open  5 pass bodies both ways
//! http/own_pages.rs requests for the gateway itself, below `/-/`, in place of steps 2 to 5
//! http/page.rs      what such a request is answered with: at once, or piece by piece
//! http/exchange.rs  steps 4 and 5
//! http/own_paths.rs what of the one origin that all targets share is whose
//! http/cookies.rs   cookies stay there
//! http/h2_idle.rs   when a client of HTTP/2 has nothing under way
//! http/upgrade.rs   step 5 for WebSocket and SPDY: plain bytes
//! http/forward.rs   steps 4 and 5 alone, for programs with a server and a routing rule of their own
//! ```

mod answer;
mod body;
mod browser;
mod config;
mod cookies;
mod credential;
mod cuttable;
mod exchange;
mod fields;
mod forward;
mod grpc;
mod guard;
mod h2_idle;
mod h2_tasks;
mod own_pages;
mod own_paths;
mod page;
mod redirect;
mod route;
mod serve;
mod service;
mod trailers;
mod upgrade;
mod whole_body;

pub use body::ForwardedBody;
pub use config::HttpConfig;
pub use forward::{ForwardError, HttpForward, Onward};
pub use guard::{BadBody, BadHead, GuardConfig, Guarded, RefusedHead, SharedGuard, check_h2, check_trailers};
pub use mctunnel_core::{BadTarget, KubeRequest, ResourceRequest, Verb};
pub use mctunnel_http::ExchangeError;
pub use own_pages::{Answering, Asking, NoPage, OwnPages, Viewer};
pub use page::{Page, PageEnded, PageWriter};
pub use route::{Routed, route};

use crate::{Checkpoint, Client, HubAdapter, SharedTls};
use mctunnel_core::{Audit, Authorize, DynAuthenticate, Open, observe::SharedObserver};
use rustls::ServerConfig;
use std::{collections::BTreeSet, fmt, sync::Arc};

/// Serves HTTP clients and opens a stream for each request.
pub struct HttpAdapter<O: Open> {
    forward: HttpForward<O>,
    guard: SharedGuard,
    tls: Option<SharedTls>,
    checkpoint: Checkpoint,
    own_pages: Option<own_pages::Served>,
    /// The names under which browsers without a token are served, beside addresses and `localhost`; any if there is no such list.
    hosts: Option<BTreeSet<String>>,
}

impl<O: Open> HttpAdapter<O> {
    /// An adapter that opens its streams with `opener`, speaks plain HTTP and passes credentials through to the targets.
    #[must_use]
    pub fn new(opener: O, config: HttpConfig, observer: SharedObserver) -> Self {
        let routing_headers = grpc::METADATA.iter().map(|name| (*name).to_owned()).collect();
        let guard = GuardConfig { routing_headers, ..GuardConfig::default() };
        let forward = HttpForward::new(opener, config, observer);
        let checkpoint = Checkpoint::default();
        Self { forward, guard: guard.into(), tls: None, checkpoint, own_pages: None, hosts: None }
    }

    /// Speaks TLS. The configuration decides on certificates and should offer `h2` and `http/1.1` by ALPN.
    #[must_use]
    #[expect(clippy::needless_pass_by_value, reason = "the adapter keeps it")]
    pub fn tls(mut self, config: Arc<ServerConfig>) -> Self {
        self.tls = Some(SharedTls::new(&config, None));
        self
    }

    /// Serves browsers that come in as nobody, and show no token, only under these names, under addresses and `localhost`: a web page
    /// could otherwise reach what nobody needs a name for, by a name of its own that leads here (DNS rebinding).
    #[must_use]
    pub fn hosts(mut self, names: impl IntoIterator<Item = String>) -> Self {
        self.hosts = Some(names.into_iter().map(|name| name.to_ascii_lowercase()).collect());
        self
    }

    /// Its TLS, if it has any, to be changed while it serves.
    #[must_use]
    pub fn shared_tls(&self) -> Option<SharedTls> {
        self.tls.clone()
    }

    /// Takes these headers, and those that begin like these, as what a front proxy says about its own clients.
    #[must_use]
    pub fn forwarded(self, headers: Vec<String>, prefixes: Vec<String>) -> Self {
        self.guard.set_forwarded(headers, prefixes);
        self
    }

    /// Has requests below `/-/`, which is no cluster's name, answered here.
    #[must_use]
    pub fn own_pages(mut self, pages: Arc<dyn OwnPages>) -> Self {
        self.own_pages = Some(own_pages::Served::new(pages));
        self
    }

    /// What its connections are held to, to be changed while it serves.
    #[must_use]
    pub fn guard(&self) -> SharedGuard {
        self.guard.clone()
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
