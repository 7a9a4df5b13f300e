//! Ports: who a client is, and what it may do. Both are asked for every request, before anything is opened for it.

use crate::{Destination, Secret};
use std::{fmt, net::SocketAddr, pin::Pin, sync::Arc};

/// What a client showed. Nothing of it is believed yet.
#[derive(Debug, Default)]
pub struct Evidence {
    /// The value of `Authorization`, if there was exactly one.
    pub authorization: Option<Secret>,
    /// Where the connection comes from.
    pub peer: Option<SocketAddr>,
}

/// Who a client is, after verification.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Identity {
    /// Nobody in particular: the gateway was told not to ask. What the client carries is between it and the target.
    Anonymous,
    /// A user.
    User {
        /// The name, with the provider's prefix.
        name: Arc<str>,
        /// Its groups.
        groups: Vec<Arc<str>>,
        /// Who vouches for it.
        provider: &'static str,
    },
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Anonymous => f.write_str("anonymous"),
            Self::User { name, .. } => f.write_str(name),
        }
    }
}

/// A client's identity could not be established.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unauthenticated {
    /// It showed nothing, or nothing valid.
    #[error("{0}")]
    Rejected(String),
    /// Who could tell is not there. Never to be read as "anonymous".
    #[error("{0}")]
    Unavailable(String),
}

/// Establishes who a client is.
///
/// Obligations: 1. an error is never an identity; 2. it takes every request anew, however many came on the same connection.
pub trait Authenticate: Send + Sync + 'static {
    /// Verifies the evidence.
    fn authenticate(&self, evidence: &Evidence) -> impl Future<Output = Result<Identity, Unauthenticated>> + Send;
}

/// A request, as policy sees it: the same typed destination that is opened afterwards.
#[derive(Debug)]
pub struct Access<'a> {
    /// Who.
    pub identity: &'a Identity,
    /// Where to.
    pub destination: &'a Destination,
    /// The HTTP method; empty for plain bytes.
    pub method: &'a str,
    /// Path and query as the target will see them; empty for plain bytes.
    pub path: &'a str,
}

/// What policy says. Undecided is denied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// It may.
    Allowed,
    /// It may not, and which rule says so.
    Denied(String),
}

/// Decides what a client may do. It cannot fail: what it cannot decide it denies.
pub trait Authorize: Send + Sync + 'static {
    /// Decides.
    fn authorize(&self, access: &Access<'_>) -> Decision;
}

// === Defaults ===

/// Asks nobody who they are, and leaves every decision to the agent's allow-list and to the target's own authentication.
#[derive(Debug, Clone, Copy, Default)]
pub struct PassThrough;

impl Authenticate for PassThrough {
    async fn authenticate(&self, _: &Evidence) -> Result<Identity, Unauthenticated> {
        Ok(Identity::Anonymous)
    }
}

impl Authorize for PassThrough {
    fn authorize(&self, _: &Access<'_>) -> Decision {
        Decision::Allowed
    }
}

// === DynAuthenticate ===

/// An answer under way.
pub type Authenticating<'a> = Pin<Box<dyn Future<Output = Result<Identity, Unauthenticated>> + Send + 'a>>;

/// The object-safe twin of [`Authenticate`].
pub trait DynAuthenticate: Send + Sync + 'static {
    /// See [`Authenticate::authenticate`].
    fn authenticate<'a>(&'a self, evidence: &'a Evidence) -> Authenticating<'a>;
}

impl<T: Authenticate> DynAuthenticate for T {
    fn authenticate<'a>(&'a self, evidence: &'a Evidence) -> Authenticating<'a> {
        Box::pin(Authenticate::authenticate(self, evidence))
    }
}

impl fmt::Debug for dyn DynAuthenticate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Authenticate")
    }
}

impl fmt::Debug for dyn Authorize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Authorize")
    }
}
