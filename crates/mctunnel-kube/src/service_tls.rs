//! Whom to expect behind a service that speaks TLS. Pure: the bundles are given, not read.

use crate::ServiceName;
use mctunnel_core::{ExpectedPeer, Roots, Scheme};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// Who may have signed the certificates of services.
#[derive(Debug, Clone, Default)]
pub struct ServiceTls {
    /// For services without a bundle of their own; the cluster's own authority when there is none.
    pub default_roots: Option<Arc<str>>,
    /// For single services, as PEM.
    pub roots: BTreeMap<ServiceName, Arc<str>>,
    /// Services whose certificates are not checked.
    pub insecure: BTreeSet<ServiceName>,
}

impl ServiceTls {
    /// Whom to expect: nobody in particular of plain services. `fallback` is the cluster's own authority. That nobody can vouch
    /// for a service is an error, never an unchecked connection.
    pub(crate) fn expect(
        &self,
        scheme: Scheme,
        service: &ServiceName,
        name: String,
        fallback: Option<&Arc<str>>,
    ) -> Result<Option<ExpectedPeer>, NoRoots> {
        let roots = match scheme {
            Scheme::Http => return Ok(None),
            Scheme::Https if self.insecure.contains(service) => Roots::Unchecked,
            Scheme::Https => {
                let pem = self.roots.get(service).or(self.default_roots.as_ref()).or(fallback);
                Roots::Pem(pem.cloned().ok_or(NoRoots)?)
            }
        };
        Ok(Some(ExpectedPeer { name, roots }))
    }
}

/// Nobody is known who could have signed the service's certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NoRoots;
