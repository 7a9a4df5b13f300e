//! The knobs of a hub.

use std::time::Duration;

/// How a hub behaves. Each field says its unit, its default and what it costs.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Config {
    /// From the TCP connection to WELCOME; default 10 s. A slower agent is turned away.
    pub handshake_timeout: Duration,
    /// TLS handshakes at the same time; default 128. Further ones wait, so that a herd of agents leaves CPU for live tunnels.
    pub concurrent_handshakes: usize,
    /// Connections that wait for their handshake; default 4,096. Further ones are closed before TLS.
    pub waiting_handshakes: usize,
    /// Certificates that are issued at the same time; default 8. Each waits for the disk; further ones wait for their turn.
    pub concurrent_enrolments: usize,
    /// Streams of each protocol that one tunnel may have open towards the hub; default 256. Further ones are refused. All tunnels of a
    /// cluster, those that are about to end too, have twice as many.
    pub streams_from_cluster: usize,
    /// How long streams of a replaced tunnel may go on; default 30 s.
    pub replaced_grace: Duration,
    /// Takeovers of one cluster within a minute by different agents before newcomers are made to wait; default 3.
    pub takeovers_per_minute: usize,
    /// When a replaced or duelling agent may come back; default 30 s.
    pub duel_wait: Duration,
    /// What a client is told to wait while a cluster has no tunnel; default 2 s.
    pub retry_after: Duration,
    /// How long a cluster whose tunnel ended counts as reconnecting, and after the start of the hub every cluster; default 30 s.
    /// Requests wait for such a cluster; for any other they are told at once that it is away.
    pub reconnecting: Duration,
    /// Windows, memory and budgets of each tunnel. Its `half_open`, default 256, are opens that the hub has not looked at yet: those
    /// that have a place, and refusals that are late, come on top.
    pub tunnel: mctunnel_tunnel::Config,
    /// The congestion control of each tunnel's TCP connection, for what this end sends; default cubic where
    /// this process may use it.
    pub congestion_control: mctunnel_tunnel::CongestionControl,
}

impl Default for Config {
    fn default() -> Self {
        let mut tunnel = mctunnel_tunnel::Config::default();
        // Agents open few streams towards their hub: what waits for us, 16 KiB of metadata each, stays small.
        tunnel.budgets.half_open = 256;
        Self {
            handshake_timeout: Duration::from_secs(10),
            concurrent_handshakes: 128,
            waiting_handshakes: 4096,
            concurrent_enrolments: 8,
            streams_from_cluster: 256,
            replaced_grace: Duration::from_secs(30),
            takeovers_per_minute: 3,
            duel_wait: Duration::from_secs(30),
            retry_after: Duration::from_secs(2),
            reconnecting: Duration::from_secs(30),
            tunnel,
            congestion_control: mctunnel_tunnel::CongestionControl::default(),
        }
    }
}
