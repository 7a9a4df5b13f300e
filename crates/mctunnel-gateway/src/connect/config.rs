//! The limits of the CONNECT gateway.

use std::time::Duration;

/// How the gateway treats its clients. Begin with [`ConnectConfig::default`] and change what differs.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConnectConfig {
    /// The longest from accepting a client to the end of its request's head. Default 10 s. Stops clients that never finish.
    pub head_timeout: Duration,
    /// The longest to wait for the target's answer once a tunnel is there. Default 8 s.
    pub open_timeout: Duration,
    /// How long to wait for a cluster that has no tunnel right now. Default 0: the client gets 503 at once.
    pub wait_for_tunnel: Duration,
    /// The longest head of a request, in bytes. Default 16 KiB. It is also the most memory a client holds before its stream is open.
    pub max_head_bytes: usize,
    /// How many connections there may be. Default 65,536. Clients above it get 503.
    pub max_connections: usize,
    /// The end of destinations that name their cluster, as in `db.default.svc.cluster-a.mctunnel:5432`. Default `.mctunnel`; it
    /// begins with a dot and is lower case. Empty turns that form off.
    pub cluster_suffix: String,
}

impl Default for ConnectConfig {
    fn default() -> Self {
        Self {
            head_timeout: Duration::from_secs(10),
            open_timeout: Duration::from_secs(8),
            wait_for_tunnel: Duration::ZERO,
            max_head_bytes: 16 * 1024,
            max_connections: 65_536,
            cluster_suffix: ".mctunnel".to_owned(),
        }
    }
}
