//! Dials a target: checks it against the allow-list, resolves it once, and connects to exactly the addresses that were checked.
//!
//! It does not retry, does not pool and follows no redirects.

pub(crate) mod race;
mod resolve;
#[cfg(test)]
mod tests;

pub use resolve::{Resolve, Resolving, SystemResolver};

use crate::allow::{AllowList, Verdict};
use mctunnel_core::{Endpoint, Host};
use mctunnel_mux::RefuseCode;
use race::{Attempt, connect, race};
use std::{io, net::SocketAddr, time::Duration};
use tokio::{
    net::TcpStream,
    time::{Instant, timeout_at},
};

/// How long a dial may take in all, unless the caller says otherwise.
pub const DIAL_TIMEOUT: Duration = Duration::from_secs(5);

/// Connects to the target, within `timeout` from now, looking its name up included.
///
/// Steps 6 and 7 of a request's path: authorise again, then resolve and dial a pinned address.
pub async fn dial(
    target: &Endpoint,
    allow: &AllowList,
    timeout: Duration,
    resolver: &dyn Resolve,
) -> Result<TcpStream, DialRefusal> {
    let deadline = Instant::now() + timeout;
    // 6 authorise again
    if allow.check_target(target) == Verdict::Denied {
        return Err(DialRefusal::not_allowed(format!("{target} is not on the agent's allow-list")));
    }
    let resolved = match timeout_at(deadline, addresses_of(target, resolver)).await {
        Ok(resolved) => resolved?,
        Err(_) => {
            return Err(DialRefusal::timeout(format!("the name of {target} was not resolved within {timeout:?}")));
        }
    };
    let checked: Vec<SocketAddr> =
        resolved.iter().copied().filter(|address| allow.check_address(target, address.ip())).collect();
    let Some((first, rest)) = checked.split_first() else {
        let shown = resolved.iter().map(|address| address.ip().to_string()).collect::<Vec<_>>().join(", ");
        let message = format!("{target} resolves to {shown}, which the agent's allow-list does not open");
        return Err(DialRefusal::not_allowed(message));
    };
    // 7 dial what was checked, and nothing else
    match race(*first, rest, deadline, connect).await {
        Ok(stream) => {
            mctunnel_core::keepalive::prepare(&stream);
            Ok(stream)
        }
        Err(attempt) => Err(DialRefusal::from_attempt(target, &attempt, timeout)),
    }
}

/// Connects to one of the addresses of a target that was located by somebody who is trusted with it.
pub(crate) async fn dial_located(
    name: &str,
    addresses: &[SocketAddr],
    deadline: Instant,
    timeout: Duration,
) -> Result<TcpStream, DialRefusal> {
    let unreachable = |message| DialRefusal { code: RefuseCode::TargetUnreachable, message };
    let Some((first, rest)) = addresses.split_first() else {
        return Err(unreachable(format!("{name} has no addresses")));
    };
    match race(*first, rest, deadline, connect).await {
        Ok(stream) => {
            mctunnel_core::keepalive::prepare(&stream);
            Ok(stream)
        }
        Err(attempt) => {
            let endpoint = Endpoint { host: Host::Ip(attempt.address.ip()), port: attempt.address.port() };
            Err(DialRefusal::from_attempt(&endpoint, &attempt, timeout))
        }
    }
}

/// What the target resolves to, asked once.
async fn addresses_of(target: &Endpoint, resolver: &dyn Resolve) -> Result<Vec<SocketAddr>, DialRefusal> {
    let name = match &target.host {
        Host::Ip(ip) => return Ok(vec![SocketAddr::new(*ip, target.port)]),
        Host::Name(name) => name,
    };
    let unreachable = |reason: String| DialRefusal {
        code: RefuseCode::TargetUnreachable,
        message: format!("the name of {target} does not resolve in the cluster: {reason}"),
    };
    let mut addresses = Vec::new();
    for ip in resolver.resolve(name).await.map_err(|error| unreachable(error.to_string()))? {
        let address = SocketAddr::new(ip.to_canonical(), target.port);
        if !addresses.contains(&address) {
            addresses.push(address);
        }
    }
    if addresses.is_empty() {
        return Err(unreachable("it has no addresses".to_owned()));
    }
    Ok(addresses)
}

// === DialRefusal ===

/// A target was not dialled, or did not answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct DialRefusal {
    /// What the hub is told.
    pub code: RefuseCode,
    /// What the client reads; names the target, and the address where there is one.
    pub message: String,
}

impl DialRefusal {
    fn not_allowed(message: String) -> Self {
        Self { code: RefuseCode::NotAllowed, message }
    }

    fn timeout(message: String) -> Self {
        Self { code: RefuseCode::TargetTimeout, message }
    }

    fn from_attempt(target: &Endpoint, attempt: &Attempt, timeout: Duration) -> Self {
        let place = match &target.host {
            Host::Ip(_) => target.to_string(),
            Host::Name(_) => format!("{target} at {}", attempt.address.ip()),
        };
        let Some(error) = &attempt.error else {
            return Self::timeout(format!("{place} did not answer within {timeout:?}"));
        };
        let (code, message) = if error.kind() == io::ErrorKind::ConnectionRefused {
            (RefuseCode::TargetRefused, format!("{place} refused the connection"))
        } else if error.kind() == io::ErrorKind::TimedOut {
            (RefuseCode::TargetTimeout, format!("{place} did not answer"))
        } else if matches!(error.raw_os_error(), Some(ENFILE | EMFILE)) {
            (RefuseCode::TooManyStreams, format!("the agent has no file descriptor left to dial {place}"))
        } else {
            (RefuseCode::TargetUnreachable, format!("{place} cannot be reached: {error}"))
        };
        Self { code, message }
    }
}

/// Too many open files in the system.
const ENFILE: i32 = 23;
/// Too many open files in this process.
const EMFILE: i32 = 24;
