//! Where the hub is, and how to get a TCP connection there. It does not know TLS, nor when to try again (that is `backoff.rs`).

use crate::dial::Resolve;
use mctunnel_core::{Endpoint, ErrorCode, Host, InvalidTarget, endpoint::parse_port};
use std::{fmt, io, net::SocketAddr, str::FromStr, time::Duration};
use tokio::{net::TcpStream, time::timeout};

/// The hub's host and port. Names are resolved anew for every connection, so a hub may move.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HubAddress(Endpoint);

impl HubAddress {
    /// The port of a hub unless another is given.
    pub const DEFAULT_PORT: u16 = 8443;

    /// Parses `host`, `host:port`, `[v6]` or `[v6]:port`.
    pub fn parse(text: &str) -> Result<Self, InvalidHubAddress> {
        parse_endpoint(text, Self::DEFAULT_PORT)
            .map(Self)
            .map_err(|problem| InvalidHubAddress { text: text.to_owned(), problem })
    }

    /// Name or address.
    #[must_use]
    pub fn host(&self) -> &Host {
        &self.0.host
    }

    /// Port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.0.port
    }

    /// Connects, trying each address in the resolver's order for at most [`ATTEMPT_TIMEOUT`].
    pub async fn connect(&self, resolver: &dyn Resolve) -> Result<TcpStream, ConnectError> {
        connect_endpoint(&self.0, resolver).await
    }
}

impl fmt::Display for HubAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for HubAddress {
    type Err = InvalidHubAddress;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::parse(text)
    }
}

/// The longest that one address may take to answer.
pub const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(5);

/// Parses `host[:port]`.
pub(crate) fn parse_endpoint(text: &str, default_port: u16) -> Result<Endpoint, InvalidTarget> {
    // Behind a closing bracket a colon begins the port; without brackets, two colons are an IPv6 address that lacks them.
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, parse_port(port)?),
        _ => (text, default_port),
    };
    Ok(Endpoint { host: Host::parse(host)?, port })
}

/// Connects to the first address that answers, one after the other.
pub(crate) async fn connect_endpoint(endpoint: &Endpoint, resolver: &dyn Resolve) -> Result<TcpStream, ConnectError> {
    let unresolved = |source| ConnectError::Unresolved { host: endpoint.host.to_string(), source };
    let addresses = match &endpoint.host {
        Host::Ip(ip) => vec![*ip],
        Host::Name(name) => match timeout(ATTEMPT_TIMEOUT, resolver.resolve(name)).await {
            Ok(found) => found.map_err(unresolved)?,
            Err(_) => return Err(unresolved(io::ErrorKind::TimedOut.into())),
        },
    };
    let mut last = unresolved(io::Error::new(io::ErrorKind::NotFound, "it has no addresses"));
    for ip in addresses {
        let address = SocketAddr::new(ip, endpoint.port);
        let source = match timeout(ATTEMPT_TIMEOUT, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => {
                // Fails only on a socket that is dead already; the handshake finds out.
                let _ = stream.set_nodelay(true);
                return Ok(stream);
            }
            Ok(Err(source)) => source,
            Err(_) => io::ErrorKind::TimedOut.into(),
        };
        last = ConnectError::Unreachable { endpoint: endpoint.to_string(), address, source };
    }
    Err(last)
}

// === Errors ===

/// The text is not a hub address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("hub address {text:?}: {problem}")]
pub struct InvalidHubAddress {
    /// The text as it was given.
    pub text: String,
    /// What is wrong with it.
    pub problem: InvalidTarget,
}

impl InvalidHubAddress {
    /// The stable code and its remedy.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        ErrorCode {
            code: "MCT-AGENT-BAD-HUB-ADDRESS",
            remedy: "write it as HOST:PORT, for example hub.example.com:8443",
        }
    }
}

/// No TCP connection to the hub came about.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The name has no addresses, or nobody could say.
    #[error("the name {host} does not resolve: {source}")]
    Unresolved {
        /// The name.
        host: String,
        /// What the resolver said.
        source: io::Error,
    },
    /// None of the addresses answered; this is the last of them.
    #[error("{endpoint} cannot be reached at {address}: {source}")]
    Unreachable {
        /// Host and port as configured.
        endpoint: String,
        /// The address tried last.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// The proxy answered, but not with a connection.
    #[error("the proxy {proxy} did not connect to the hub, it answered: {status_line}")]
    ProxyRefused {
        /// Host and port of the proxy.
        proxy: String,
        /// The first line of its answer, made printable.
        status_line: String,
    },
    /// The proxy did not keep to HTTP, hung up or was silent.
    #[error("the proxy {proxy} broke off: {reason}")]
    ProxyBroken {
        /// Host and port of the proxy.
        proxy: String,
        /// What happened.
        reason: String,
    },
}

impl ConnectError {
    /// The stable code and its remedy.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        let (code, remedy) = match self {
            Self::Unresolved { .. } => (
                "MCT-AGENT-HUB-UNRESOLVED",
                "check the hub's (or the proxy's) name and the DNS of the place where the agent runs",
            ),
            Self::Unreachable { .. } => (
                "MCT-AGENT-HUB-UNREACHABLE",
                "check that the hub runs and that a firewall lets the agent connect to it",
            ),
            Self::ProxyRefused { .. } => (
                "MCT-AGENT-PROXY-REFUSED",
                "check HTTPS_PROXY and its user and password, or put the hub's host into NO_PROXY",
            ),
            Self::ProxyBroken { .. } => {
                ("MCT-AGENT-PROXY-BROKEN", "check that HTTPS_PROXY names an HTTP proxy that knows CONNECT")
            }
        };
        ErrorCode { code, remedy }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dial::Resolving;
    use tokio::net::TcpListener;

    #[test]
    fn addresses_have_a_default_port() {
        for (text, shown) in [
            ("hub.example.com", "hub.example.com:8443"),
            ("hub:1", "hub:1"),
            ("10.0.0.1", "10.0.0.1:8443"),
            ("[::1]", "[::1]:8443"),
            ("[fd00::1]:443", "[fd00::1]:443"),
        ] {
            assert_eq!(HubAddress::parse(text).expect(text).to_string(), shown);
        }
        for bad in
            ["", ":", ":1", "hub:", "hub:0", "hub:99999", "::1", "https://hub", "a@b:1", "[::1", "hub/x:1", "1:2:3"]
        {
            let text = HubAddress::parse(bad).expect_err(bad).to_string();
            assert!(text.contains(&format!("{bad:?}")), "{text}");
        }
    }

    struct Two;

    impl Resolve for Two {
        fn resolve<'a>(&'a self, name: &'a str) -> Resolving<'a> {
            let none = name == "nowhere";
            let found = if none { vec![] } else { vec![[127, 0, 0, 3].into(), [127, 0, 0, 1].into()] };
            Box::pin(async move { Ok(found) })
        }
    }

    #[tokio::test]
    async fn all_addresses_are_tried_in_order() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback");
        let address = listener.local_addr().expect("bound");
        let hub = HubAddress::parse(&format!("hub:{}", address.port())).expect("an address");
        let stream = hub.connect(&Two).await.expect("the second address answers");
        assert_eq!(stream.peer_addr().expect("connected"), address);
        assert!(stream.nodelay().expect("an option"));
        drop(listener);
        let error = hub.connect(&Two).await.expect_err("nobody listens");
        assert!(error.to_string().contains("127.0.0.1") && error.code().code == "MCT-AGENT-HUB-UNREACHABLE", "{error}");
        let nowhere = HubAddress::parse("nowhere").expect("an address");
        assert!(matches!(nowhere.connect(&Two).await, Err(ConnectError::Unresolved { .. })));
    }
}
