//! Port: which clusters the hub knows, and which certificate serials it issued them.

use crate::ClusterName;
use std::{pin::Pin, sync::Arc};

/// The hub's list of clusters.
///
/// Obligations: 1. it is asked on every registration and on every open that finds no tunnel, so it answers quickly;
/// 2. an entry added by another process shows up without a restart; 3. an error is reported as `false`, never as `true`.
pub trait Clusters: Send + Sync + 'static {
    /// Whether the cluster was added to this hub.
    fn is_known(&self, cluster: &ClusterName) -> impl Future<Output = bool> + Send;

    /// Whether an agent with this certificate serial (lower-case hex) may be that cluster.
    fn admits(&self, cluster: &ClusterName, serial: &str) -> impl Future<Output = bool> + Send;
}

type Answer<'a> = Pin<Box<dyn Future<Output = bool> + Send + 'a>>;

/// The object-safe twin of [`Clusters`].
pub trait DynClusters: Send + Sync + 'static {
    /// See [`Clusters::is_known`].
    fn is_known<'a>(&'a self, cluster: &'a ClusterName) -> Answer<'a>;
    /// See [`Clusters::admits`].
    fn admits<'a>(&'a self, cluster: &'a ClusterName, serial: &'a str) -> Answer<'a>;
}

impl<T: Clusters> DynClusters for T {
    fn is_known<'a>(&'a self, cluster: &'a ClusterName) -> Answer<'a> {
        Box::pin(Clusters::is_known(self, cluster))
    }
    fn admits<'a>(&'a self, cluster: &'a ClusterName, serial: &'a str) -> Answer<'a> {
        Box::pin(Clusters::admits(self, cluster, serial))
    }
}

impl std::fmt::Debug for dyn DynClusters {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Clusters")
    }
}

/// A shared list of clusters.
pub type SharedClusters = Arc<dyn DynClusters>;
