//! What the guard lets through.

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
}

impl GuardConfig {
    /// No request can have more header lines, whatever `max_headers` says.
    pub const MOST_HEADERS: usize = 256;
}

impl Default for GuardConfig {
    fn default() -> Self {
        Self { max_head_bytes: 64 * 1024, max_headers: 100, routing_headers: Vec::new() }
    }
}
