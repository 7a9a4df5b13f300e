//! Port: looking a name up. The system's resolver is the one implementation outside tests, so names mean what they mean in the cluster.

use std::{fmt, io, net::IpAddr, pin::Pin};

/// Looks names up.
///
/// Obligations: 1. it answers in the order in which the addresses should be tried; 2. it is cancel safe; 3. it need not end by
/// itself: callers put a limit on it.
pub trait Resolve: Send + Sync + 'static {
    /// The addresses of a DNS name.
    fn resolve<'a>(&'a self, name: &'a str) -> Resolving<'a>;
}

/// The answer to come.
pub type Resolving<'a> = Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send + 'a>>;

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
}
