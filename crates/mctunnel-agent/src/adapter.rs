//! Extension point: how a protocol is served in the cluster. The agent hands each stream to the adapter of its `x-mctunnel-proto`.

use mctunnel_core::{ClusterName, Happening, Protocol, Target, observe::SharedObserver};
use mctunnel_tunnel::{Header, Incoming, RefuseCode, Stream, User};
use std::{fmt, pin::Pin, sync::Arc};
use tokio::time::Instant;

/// The agent's side of a protocol: joins streams to targets. Its twin at the hub is `HubAdapter`.
///
/// Obligations: 1. the hub is not trusted: authorise every stream by rules of your own before anything is dialled; 2. dial the
/// address that was checked, and no other; 3. refuse with the reason, or join, exactly once; 4. a target that breaks is a stream
/// that is cut, never one that ends cleanly; 5. rules that change count for streams that are open: cut what they no longer allow.
pub trait ProxyAdapter: Send + Sync + 'static {
    /// The value of `x-mctunnel-proto` it serves.
    fn protocol(&self) -> Protocol;

    /// Serves one stream from its opening to its end.
    fn serve(self: Arc<Self>, offered: Offered) -> impl Future<Output = ()> + Send;
}

/// A stream the hub opened, not yet answered. Dropping it refuses it.
#[derive(Debug)]
pub struct Offered {
    pub(crate) incoming: Incoming,
    pub(crate) target: Target,
    pub(crate) cluster: ClusterName,
    pub(crate) observer: SharedObserver,
    pub(crate) since: Instant,
}

impl Offered {
    /// What it is to be joined to, parsed once.
    #[must_use]
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// All routing metadata, for headers of the protocol's own.
    #[must_use]
    pub fn headers(&self) -> &[Header] {
        self.incoming.headers()
    }

    /// Whom it is for, as the hub verified; `None` when the hub asked nobody who they are.
    #[must_use]
    pub fn user(&self) -> Option<&User> {
        self.incoming.user()
    }

    /// Resolves when the hub takes the stream back, so that a dial under way can be stopped.
    pub async fn taken_back(&self) {
        self.incoming.taken_back().await;
    }

    /// The target accepted: the stream carries bytes from now on. `None` when it is gone meanwhile.
    #[must_use]
    pub fn join(self) -> Option<(Stream, Joined)> {
        let Self { incoming, target, cluster, observer, since } = self;
        let stream = incoming.join().ok()?;
        let took = since.elapsed();
        observer.observe(&Happening::StreamOpened { cluster: cluster.clone(), target: target.to_string(), took });
        Some((stream, Joined { cluster, observer, since, ended: false }))
    }

    /// The stream is not opened; the client is told why.
    pub fn refuse(self, code: RefuseCode, reason: &str) {
        self.incoming.refuse(code, reason);
        let code = mctunnel_core::OpenError::from_refusal(code, String::new()).code().code;
        self.observer.observe(&Happening::StreamRefused {
            cluster: Some(self.cluster),
            target: self.target.to_string(),
            code,
            reason: reason.to_owned(),
        });
    }
}

/// A stream that was reported as opened and is reported as ended when this is dropped, however it ended.
#[derive(Debug)]
pub struct Joined {
    cluster: ClusterName,
    observer: SharedObserver,
    since: Instant,
    ended: bool,
}

impl Joined {
    /// Reports how it ended: bytes towards the target, bytes from it, and what broke, if something did.
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

impl Drop for Joined {
    fn drop(&mut self) {
        self.report(0, 0, Some("the agent cut the stream".to_owned()));
    }
}

// === DynProxyAdapter ===

/// A stream being served.
pub type Serving = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The object-safe twin of [`ProxyAdapter`].
pub trait DynProxyAdapter: Send + Sync + 'static {
    /// See [`ProxyAdapter::protocol`].
    fn protocol(&self) -> Protocol;
    /// See [`ProxyAdapter::serve`].
    fn serve(self: Arc<Self>, offered: Offered) -> Serving;
}

impl<T: ProxyAdapter> DynProxyAdapter for T {
    fn protocol(&self) -> Protocol {
        ProxyAdapter::protocol(self)
    }
    fn serve(self: Arc<Self>, offered: Offered) -> Serving {
        Box::pin(ProxyAdapter::serve(self, offered))
    }
}

impl fmt::Debug for dyn DynProxyAdapter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ProxyAdapter({})", self.protocol())
    }
}
