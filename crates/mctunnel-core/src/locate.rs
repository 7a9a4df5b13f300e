//! Port: where in the cluster a target is. The agent asks, somebody who knows the cluster answers: Kubernetes, DNS, or a test.

use crate::{ServiceTarget, Target};
use std::{net::SocketAddr, pin::Pin, sync::Arc, time::Duration};

/// Finds the addresses of a target, and whom to expect there.
///
/// Obligations: 1. addresses are given in the order in which they should be tried; 2. an answer is as fresh as the cluster's own
/// view, a removed endpoint is gone within seconds; 3. it decides nothing: what may be reached is the agent's allow-list.
pub trait Locate: Send + Sync + 'static {
    /// Locates a target.
    fn locate(&self, target: &Target) -> impl Future<Output = Result<Located, LocateError>> + Send;
}

/// Where a target is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Located {
    /// Addresses that are ready to serve, the preferred ones first; never empty.
    pub addresses: Vec<SocketAddr>,
    /// How many of the first ones are preferred: the others are for when these fail. 0 when all are alike.
    pub preferred: usize,
    /// What the target calls itself in HTTP, for requests that come without a name of their own: `name.namespace.svc:port`.
    pub authority: String,
    /// Whom to expect there, for targets that speak TLS.
    pub tls: Option<ExpectedPeer>,
    /// Whether the operator named these very addresses. All others may not be loopback, link-local or a cloud's metadata service.
    pub pinned: bool,
}

/// What a target's certificate must show.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ExpectedPeer {
    /// The name or address it must be valid for.
    pub name: String,
    /// Who may have signed it.
    pub roots: Roots,
}

/// Who may have signed a certificate.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Roots {
    /// These, as PEM.
    Pem(Arc<str>),
    /// Nobody is asked: whoever answers is believed. Only by explicit choice for this one target.
    Unchecked,
}

/// A target cannot be located.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LocateError {
    /// There is no such service, or it has no such port.
    #[error("{0}")]
    NotFound(String),
    /// It exists, but nothing serves it right now.
    #[error("{0}")]
    NoneReady(String),
    /// It exists, but must not be reached through a tunnel.
    #[error("{0}")]
    Forbidden(String),
    /// The one who knows cannot be asked.
    #[error("{0}")]
    Unavailable(String),
}

/// Decides which services streams may reach. Default deny; asked anew for every stream, so a change counts at once. It is asked again
/// while a stream is open, which is cut when the answer is another one by then.
pub trait PermitService: Send + Sync + 'static {
    /// Whether this one may be reached.
    fn permits(&self, service: &ServiceTarget) -> bool;

    /// Resolves when [`permits`](Self::permits) may say something else than it did when this was called; never, if it always says the
    /// same. Every open stream waits for it, so whoever can tell should: by default each stream asks again once a second.
    fn changed(&self) -> Changing<'_> {
        Box::pin(tokio::time::sleep(ASK_AGAIN))
    }
}

/// A change that is waited for.
pub type Changing<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// How often a [`PermitService`] is asked that does not tell of its changes.
const ASK_AGAIN: Duration = Duration::from_secs(1);

impl std::fmt::Debug for dyn PermitService {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PermitService")
    }
}

// === DynLocate ===

/// An answer under way.
pub type Locating<'a> = Pin<Box<dyn Future<Output = Result<Located, LocateError>> + Send + 'a>>;

/// The object-safe twin of [`Locate`].
pub trait DynLocate: Send + Sync + 'static {
    /// See [`Locate::locate`].
    fn locate<'a>(&'a self, target: &'a Target) -> Locating<'a>;
}

impl<T: Locate> DynLocate for T {
    fn locate<'a>(&'a self, target: &'a Target) -> Locating<'a> {
        Box::pin(Locate::locate(self, target))
    }
}

impl std::fmt::Debug for dyn DynLocate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Locate")
    }
}

/// A shared locator.
pub type SharedLocator = Arc<dyn DynLocate>;
