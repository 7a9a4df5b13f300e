//! The limits of the HTTP gateway.

use std::time::Duration;

/// How the gateway treats its clients. Begin with [`HttpConfig::default`] and change what differs.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct HttpConfig {
    /// The longest a client may take for its TLS handshake, and again for the head of a request once it began one. Default 10 s.
    pub head_timeout: Duration,
    /// How long a connection is kept for the client's next request. Default 2 minutes: longer than clients keep theirs, so that none
    /// writes into a connection that is just being closed. One of HTTP/2 is told before.
    pub idle_timeout: Duration,
    /// The longest to wait until the agent has taken a request. Default 8 s. The answer itself may take as long as it likes.
    pub open_timeout: Duration,
    /// How long to wait for a cluster whose agent is just reconnecting. Default 5 s.
    pub wait_for_tunnel: Duration,
    /// How many connections there may be. Default 65,536.
    pub max_connections: usize,
    /// How many requests one HTTP/2 connection may have under way. Default 256. Of their bodies no more than 32 MiB are held, in
    /// equal shares of 16 to 256 KiB: fewer requests have larger windows, and upload faster over long distances.
    pub max_requests_per_connection: u32,
    /// Whether answers tell the time of each hop in `server-timing`. Default no.
    pub server_timing: bool,
}

impl Default for HttpConfig {
    fn default() -> Self {
        Self {
            head_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(120),
            open_timeout: Duration::from_secs(8),
            wait_for_tunnel: Duration::from_secs(5),
            max_connections: 65_536,
            max_requests_per_connection: 256,
            server_timing: false,
        }
    }
}
