//! Port: looking a name up. The system's resolver is the one implementation outside tests, so names mean what they mean in the
//! cluster.

use crate::own_records::{RESOLV_CONF, name_servers, own_addresses};
use mctunnel_core::LocateError;
use std::{fmt, io, net::IpAddr, pin::Pin, time::Duration};
use tokio::time::timeout;

/// How long a look-up may take.
pub(crate) const LOOKUP_TIMEOUT: Duration = Duration::from_secs(5);

/// Looks names up.
///
/// Obligations: 1. it answers in the order in which the addresses should be tried; 2. it is cancel safe; 3. it need not end by
/// itself: callers put a limit on it.
pub trait Resolve: Send + Sync + 'static {
    /// The addresses of a DNS name.
    fn resolve<'a>(&'a self, name: &'a str) -> Resolving<'a>;

    /// The addresses that a DNS name has itself; `None` when it has them through another name, or when that cannot be told.
    fn resolve_own<'a>(&'a self, _name: &'a str) -> ResolvingOwn<'a> {
        Box::pin(async { Ok(None) })
    }
}

/// The answer to come.
pub type Resolving<'a> = Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send + 'a>>;

/// The answer to come about the name itself.
pub type ResolvingOwn<'a> = Pin<Box<dyn Future<Output = io::Result<Option<Vec<IpAddr>>>> + Send + 'a>>;

impl fmt::Debug for dyn Resolve {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Resolve")
    }
}

/// The resolver of the operating system, with its search domains and its host file. It looks up a bounded number of names at once.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemResolver;

impl Resolve for SystemResolver {
    fn resolve<'a>(&'a self, name: &'a str) -> Resolving<'a> {
        Box::pin(mctunnel_core::look_up::look_up(name))
    }

    /// Asks the system's name servers itself, for the system does not tell. Of a name that has to be completed it cannot.
    fn resolve_own<'a>(&'a self, name: &'a str) -> ResolvingOwn<'a> {
        Box::pin(async move {
            if !name.ends_with('.') {
                return Ok(None);
            }
            let servers = name_servers(&tokio::fs::read_to_string(RESOLV_CONF).await?);
            own_addresses(&servers, name).await
        })
    }
}

/// Looks a name up once, within [`LOOKUP_TIMEOUT`]; each address once, and never none.
pub(crate) async fn look_up(resolver: &dyn Resolve, name: &str) -> Result<Vec<IpAddr>, LocateError> {
    let answer = within_limit(name, resolver.resolve(name)).await?;
    each_once(name, answer)
}

/// The same for the addresses a name has itself; `None` as in [`Resolve::resolve_own`].
pub(crate) async fn look_up_own(resolver: &dyn Resolve, name: &str) -> Result<Option<Vec<IpAddr>>, LocateError> {
    let answer = within_limit(name, resolver.resolve_own(name)).await?;
    answer.map(|answer| each_once(name, answer)).transpose()
}

async fn within_limit<T>(name: &str, answer: impl Future<Output = io::Result<T>>) -> Result<T, LocateError> {
    match timeout(LOOKUP_TIMEOUT, answer).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(error)) if is_temporary(&error) => {
            Err(LocateError::Unavailable(format!("the name {name} cannot be looked up: {error}")))
        }
        Ok(Err(error)) => Err(LocateError::NotFound(format!("the name {name} does not resolve: {error}"))),
        Err(_) => Err(LocateError::Unavailable(format!("the name {name} was not resolved within {LOOKUP_TIMEOUT:?}"))),
    }
}

fn each_once(name: &str, answer: Vec<IpAddr>) -> Result<Vec<IpAddr>, LocateError> {
    let mut addresses = Vec::with_capacity(answer.len());
    for ip in answer {
        let ip = ip.to_canonical();
        if !addresses.contains(&ip) {
            addresses.push(ip);
        }
    }
    if addresses.is_empty() {
        Err(LocateError::NotFound(format!("the name {name} has no addresses")))
    } else {
        Ok(addresses)
    }
}

/// Whether the resolver may know better later. The standard library keeps only the text of `EAI_AGAIN`: glibc's, then musl's.
fn is_temporary(error: &io::Error) -> bool {
    let text = error.to_string();
    error.kind() == io::ErrorKind::TimedOut || text.contains("Temporary failure") || text.contains("Try again")
}
