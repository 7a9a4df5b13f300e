//! What the guard lets through.

use parking_lot::RwLock;
use std::sync::Arc;

/// The limits and names that a [`Guarded`](super::Guarded) connection is held to.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct GuardConfig {
    /// The most bytes that a request's head may have.
    pub max_head_bytes: usize,
    /// The most header lines that a request may have; above [`GuardConfig::MOST_HEADERS`] it is that.
    pub max_headers: usize,
    /// The headers beginning with `x-mctunnel-` that clients may send, in lower case.
    pub routing_headers: Vec<String>,
    /// Headers in which a front proxy says who its own client is, in lower case; empty unless there is one. They are evidence,
    /// which counts with the front proxy's certificate only, and never passed on.
    pub forwarded_headers: Vec<String>,
    /// Beginnings of such names.
    pub forwarded_prefixes: Vec<String>,
}

impl GuardConfig {
    /// No request can have more header lines, whatever `max_headers` says.
    pub const MOST_HEADERS: usize = 256;

    /// Whether a front proxy may send this header, in any case. Nobody may send `Impersonate-*`.
    #[must_use]
    pub fn is_forwarded(&self, name: &str) -> bool {
        let name = name.to_ascii_lowercase();
        let is_known = self.forwarded_headers.contains(&name)
            || self.forwarded_prefixes.iter().any(|prefix| !prefix.is_empty() && name.starts_with(prefix.as_str()));
        is_known && !name.starts_with("impersonate")
    }
}

impl Default for GuardConfig {
    fn default() -> Self {
        Self {
            max_head_bytes: 64 * 1024,
            max_headers: 100,
            routing_headers: Vec::new(),
            forwarded_headers: Vec::new(),
            forwarded_prefixes: Vec::new(),
        }
    }
}

// === SharedGuard ===

/// The configuration of guards as it is now. All clones are the same; a change counts from the next request on, on connections that
/// are open already too.
#[derive(Debug, Clone)]
pub struct SharedGuard(Arc<RwLock<Arc<GuardConfig>>>);

impl SharedGuard {
    /// What counts now.
    #[must_use]
    pub fn now(&self) -> Arc<GuardConfig> {
        Arc::clone(&self.0.read())
    }

    /// Takes these headers, and those that begin like these, as what a front proxy says about its own clients.
    pub fn set_forwarded(&self, headers: Vec<String>, prefixes: Vec<String>) {
        let mut config = self.0.write();
        let others = GuardConfig::clone(&config);
        *config = Arc::new(GuardConfig { forwarded_headers: headers, forwarded_prefixes: prefixes, ..others });
    }
}

impl From<GuardConfig> for SharedGuard {
    fn from(config: GuardConfig) -> Self {
        Arc::new(config).into()
    }
}

impl From<Arc<GuardConfig>> for SharedGuard {
    fn from(config: Arc<GuardConfig>) -> Self {
        Self(Arc::new(RwLock::new(config)))
    }
}
