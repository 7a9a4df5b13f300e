//! Port: which clusters the hub knows, and which certificate serials it issued them.

use crate::ClusterName;
use std::{collections::BTreeMap, pin::Pin, sync::Arc};

/// The hub's list of clusters.
///
/// Obligations: 1. it is asked on every registration and on every open that finds no tunnel, so it answers quickly;
/// 2. an entry added by another process shows up without a restart; 3. an error is reported as `false`, never as `true`;
/// 4. whoever can tell an error from a no says so in [`Clusters::stands`] and [`Clusters::stands_own`]: a tunnel that is up outlives
/// the one for a while, and not the other.
pub trait Clusters: Send + Sync + 'static {
    /// Whether the cluster was added to this hub.
    fn is_known(&self, cluster: &ClusterName) -> impl Future<Output = bool> + Send;

    /// Whether an agent with this certificate serial (lower-case hex) may be that cluster.
    fn admits(&self, cluster: &ClusterName, serial: &str) -> impl Future<Output = bool> + Send;

    /// Whether an agent of that cluster may come with a certificate of the operator's own CA. Unless somebody said so, none may.
    fn admits_own(&self, _cluster: &ClusterName) -> impl Future<Output = bool> + Send {
        std::future::ready(false)
    }

    /// As [`Clusters::admits`], and whether a no is one.
    fn stands(&self, cluster: &ClusterName, serial: &str) -> impl Future<Output = Standing> + Send {
        async move { self.admits(cluster, serial).await.into() }
    }

    /// As [`Clusters::admits_own`], and whether a no is one.
    fn stands_own(&self, cluster: &ClusterName) -> impl Future<Output = Standing> + Send {
        async move { self.admits_own(cluster).await.into() }
    }

    /// The certificate that this one was renewed to, the one that ends last if there are several, as long as it is admitted.
    fn successor(&self, _cluster: &ClusterName, _serial: &str) -> impl Future<Output = Option<Renewed>> + Send {
        std::future::ready(None)
    }

    /// The labels of the cluster, by which it may be given things. None, unless somebody gave it some.
    fn labels(&self, _cluster: &ClusterName) -> impl Future<Output = Labels> + Send {
        std::future::ready(Labels::new())
    }
}

/// What the list says of an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// It may be that cluster.
    Admitted,
    /// It may not.
    Refused,
    /// The list cannot say: what it has about the cluster could not be read. For our own log, why. Nobody is let in by that, but
    /// nothing was taken back either.
    Unknown(String),
}

impl From<bool> for Standing {
    fn from(is_admitted: bool) -> Self {
        if is_admitted { Self::Admitted } else { Self::Refused }
    }
}

/// What a cluster is called beside its name: `env: prod`.
pub type Labels = BTreeMap<String, String>;

/// A certificate that took the place of another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Renewed {
    /// Its serial, lower-case hex.
    pub serial: String,
    /// When it ends, in seconds since 1970.
    pub not_after_unix: i64,
}

type Answer<'a, T = bool> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The object-safe twin of [`Clusters`].
pub trait DynClusters: Send + Sync + 'static {
    /// See [`Clusters::is_known`].
    fn is_known<'a>(&'a self, cluster: &'a ClusterName) -> Answer<'a>;
    /// See [`Clusters::admits`].
    fn admits<'a>(&'a self, cluster: &'a ClusterName, serial: &'a str) -> Answer<'a>;
    /// See [`Clusters::admits_own`].
    fn admits_own<'a>(&'a self, cluster: &'a ClusterName) -> Answer<'a>;
    /// See [`Clusters::stands`].
    fn stands<'a>(&'a self, cluster: &'a ClusterName, serial: &'a str) -> Answer<'a, Standing>;
    /// See [`Clusters::stands_own`].
    fn stands_own<'a>(&'a self, cluster: &'a ClusterName) -> Answer<'a, Standing>;
    /// See [`Clusters::successor`].
    fn successor<'a>(&'a self, cluster: &'a ClusterName, serial: &'a str) -> Answer<'a, Option<Renewed>>;
    /// See [`Clusters::labels`].
    fn labels<'a>(&'a self, cluster: &'a ClusterName) -> Answer<'a, Labels>;
}

impl<T: Clusters> DynClusters for T {
    fn is_known<'a>(&'a self, cluster: &'a ClusterName) -> Answer<'a> {
        Box::pin(Clusters::is_known(self, cluster))
    }
    fn admits<'a>(&'a self, cluster: &'a ClusterName, serial: &'a str) -> Answer<'a> {
        Box::pin(Clusters::admits(self, cluster, serial))
    }
    fn admits_own<'a>(&'a self, cluster: &'a ClusterName) -> Answer<'a> {
        Box::pin(Clusters::admits_own(self, cluster))
    }
    fn stands<'a>(&'a self, cluster: &'a ClusterName, serial: &'a str) -> Answer<'a, Standing> {
        Box::pin(Clusters::stands(self, cluster, serial))
    }
    fn stands_own<'a>(&'a self, cluster: &'a ClusterName) -> Answer<'a, Standing> {
        Box::pin(Clusters::stands_own(self, cluster))
    }
    fn successor<'a>(&'a self, cluster: &'a ClusterName, serial: &'a str) -> Answer<'a, Option<Renewed>> {
        Box::pin(Clusters::successor(self, cluster, serial))
    }
    fn labels<'a>(&'a self, cluster: &'a ClusterName) -> Answer<'a, Labels> {
        Box::pin(Clusters::labels(self, cluster))
    }
}

impl std::fmt::Debug for dyn DynClusters {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Clusters")
    }
}

/// A shared list of clusters.
pub type SharedClusters = Arc<dyn DynClusters>;
