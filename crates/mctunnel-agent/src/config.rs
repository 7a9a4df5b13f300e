//! The knobs of an agent.

use std::time::Duration;

/// How an agent behaves. Each field says its unit, its default and what it costs.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Config {
    /// From the TCP connection to WELCOME; default 10 s.
    pub handshake_timeout: Duration,
    /// For a target to accept a connection, its name's resolution included; default 5 s.
    pub dial_timeout: Duration,
    /// Windows, memory and budgets of the tunnel.
    pub tunnel: mctunnel_tunnel::Config,
    /// The congestion control of the tunnel's TCP connection, for what this end sends; default cubic where
    /// this process may use it.
    pub congestion_control: mctunnel_tunnel::CongestionControl,
}

impl Default for Config {
    fn default() -> Self {
        let mut tunnel = mctunnel_tunnel::Config::default();
        // Clients of the hub who come and go must not be able to end the tunnel they share.
        tunnel.budgets.resets_per_second = u32::MAX;
        Self {
            handshake_timeout: Duration::from_secs(10),
            dial_timeout: crate::dial::DIAL_TIMEOUT,
            tunnel,
            congestion_control: mctunnel_tunnel::CongestionControl::default(),
        }
    }
}
