//! The congestion control of tunnels: a name, looked up in the kernel before anything starts.

use super::{ConfigError, effective::Effective};
use mctunnel::tunnel::CongestionControl;

/// What this process may use, by name.
const ALLOWED: &str = "/proc/sys/net/ipv4/tcp_allowed_congestion_control";

pub(super) fn congestion_control(effective: &Effective) -> Result<CongestionControl, ConfigError> {
    let chosen = match effective.required("congestion_control")? {
        "auto" => CongestionControl::Auto,
        "system" => CongestionControl::System,
        name => CongestionControl::Named(name.to_owned()),
    };
    match (&chosen, chosen.check()) {
        (CongestionControl::Named(_), Err(error)) => {
            let problem = format!("the kernel does not let this process use it ({error}); it offers: {}", offered());
            Err(effective.bad_value("congestion_control", problem))
        }
        _ => Ok(chosen),
    }
}

/// Says so if tunnels keep the kernel's choice although nobody asked for it.
pub(crate) fn mention_kept(chosen: &CongestionControl) {
    if let Err(error) = chosen.check() {
        tracing::warn!(
            %error,
            offered = offered(),
            "Tunnels keep the kernel's congestion control, because it does not let this process use cubic. If that is bbr, large \
             transfers make small requests wait now and then: add cubic to net.ipv4.tcp_allowed_congestion_control, or say \
             --congestion-control system to accept it"
        );
    }
}

fn offered() -> String {
    std::fs::read_to_string(ALLOWED).unwrap_or_default().trim().to_owned()
}
