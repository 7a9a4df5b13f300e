//! Where the kube-apiserver is and whom to expect there. Its name is looked up anew, so that a moved one is found.

use crate::{KubeError, Resolve, resolve::look_up};
use mctunnel_core::{Endpoint, ExpectedPeer, Host, LocateError, Located, Roots};
use parking_lot::Mutex;
use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};
use tokio::time::Instant;

/// How long an answer of the resolver is used.
const FRESH: Duration = Duration::from_secs(10);

/// The kube-apiserver of a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiServer {
    /// Its host and port.
    pub endpoint: Endpoint,
    /// Whom to expect there; `None` when it speaks plain HTTP.
    pub tls: Option<ExpectedPeer>,
}

impl ApiServer {
    /// Reads `http[s]://HOST[:PORT]`.
    ///
    /// `server_name` is what the certificate must show instead of the host; `roots` is who may have signed it, and needed for
    /// `https` only.
    pub fn parse(url: &str, server_name: Option<&str>, roots: Option<Roots>) -> Result<Self, KubeError> {
        let bad = |reason: &str| KubeError::BadServerUrl { url: url.to_owned(), reason: reason.to_owned() };
        let uri: http::Uri = url.parse().map_err(|_| bad("it is not a URL"))?;
        let authority = uri.authority().ok_or_else(|| bad("it has no host"))?;
        if authority.as_str().contains('@') {
            return Err(bad("it has a user"));
        }
        if uri.path_and_query().is_some_and(|path| path.as_str() != "/") {
            return Err(bad("it has a path"));
        }
        let (secure, usual) = match uri.scheme_str() {
            Some("https") => (true, 443),
            Some("http") => (false, 80),
            _ => return Err(bad("it is neither https:// nor http://")),
        };
        let host = Host::parse(authority.host()).map_err(|error| bad(&error.to_string()))?;
        let port = match authority.port() {
            Some(port) => {
                mctunnel_core::endpoint::parse_port(port.as_str()).map_err(|error| bad(&error.to_string()))?
            }
            None => usual,
        };
        let name = server_name.map_or_else(|| host.to_string(), str::to_owned);
        let endpoint = Endpoint { host, port };
        if !secure {
            return Ok(Self { endpoint, tls: None });
        }
        let roots = roots.ok_or_else(|| KubeError::NoAuthority { server: endpoint.to_string() })?;
        Ok(Self { endpoint, tls: Some(ExpectedPeer { name, roots }) })
    }

    /// Who signs for the cluster, as PEM.
    pub(crate) fn authority(&self) -> Option<&Arc<str>> {
        match &self.tls.as_ref()?.roots {
            Roots::Pem(pem) => Some(pem),
            Roots::Unchecked => None,
        }
    }
}

// === LookedUp ===

/// The kube-apiserver with its addresses, which are asked for again every 10 s.
#[derive(Debug)]
pub(crate) struct LookedUp {
    pub(crate) server: ApiServer,
    resolver: Arc<dyn Resolve>,
    last: Mutex<Option<Answer>>,
}

/// What the resolver said, and when it was asked.
#[derive(Debug, Clone)]
struct Answer {
    since: Instant,
    /// The last addresses there were.
    addresses: Arc<[IpAddr]>,
    /// Why there are none now.
    problem: Option<LocateError>,
}

impl LookedUp {
    pub(crate) fn new(server: ApiServer, resolver: Arc<dyn Resolve>) -> Self {
        Self { server, resolver, last: Mutex::new(None) }
    }

    pub(crate) async fn locate(&self) -> Result<Located, LocateError> {
        let Answer { addresses, problem, .. } = self.answer().await;
        match problem {
            // That the kube-apiserver's name is gone is never the client's mistake.
            Some(problem) => Err(LocateError::Unavailable(format!("the kube-apiserver is not found: {problem}"))),
            None => Ok(Located {
                addresses: self.with_port(&addresses),
                preferred: 0,
                authority: self.server.endpoint.to_string(),
                tls: self.server.tls.clone(),
                pinned: false,
            }),
        }
    }

    /// Its addresses, the last ones if they cannot be asked for now.
    pub(crate) async fn last_addresses(&self) -> Vec<SocketAddr> {
        self.with_port(&self.answer().await.addresses)
    }

    /// An answer that is not older than 10 s. A failed look-up is an answer too, so that a silent resolver costs one wait in 10 s.
    async fn answer(&self) -> Answer {
        let name = match &self.server.endpoint.host {
            Host::Ip(ip) => return Answer { since: Instant::now(), addresses: [*ip].into(), problem: None },
            Host::Name(name) => name,
        };
        let last = self.last.lock().clone();
        if let Some(last) = last.as_ref().filter(|last| last.since.elapsed() < FRESH) {
            return last.clone();
        }
        let found = look_up(&*self.resolver, name).await;
        let since = Instant::now();
        let answer = match found {
            Ok(addresses) => Answer { since, addresses: addresses.into(), problem: None },
            Err(problem) => {
                let addresses = last.map_or_else(|| [].into(), |last| last.addresses);
                Answer { since, addresses, problem: Some(problem) }
            }
        };
        *self.last.lock() = Some(answer.clone());
        answer
    }

    fn with_port(&self, addresses: &[IpAddr]) -> Vec<SocketAddr> {
        addresses.iter().map(|ip| SocketAddr::new(*ip, self.server.endpoint.port)).collect()
    }
}
