//! Routes a request: from its target to the destination, once and strictly. Pure; who may go there is not decided here.

use mctunnel_core::{BadTarget, ClusterName, Destination, ServiceTarget, Target, bad_target::split};

#[cfg(test)]
mod tests;

/// Where a request goes, and what it asks for there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Routed {
    /// The cluster, and what to reach in it.
    pub destination: Destination,
    /// Path and query to send to the target, byte for byte as the client sent it, beginning with `/`.
    pub forward: String,
}

/// Routes `/CLUSTER`, `/CLUSTER/PATH` to the cluster's kube-apiserver, and
/// `/CLUSTER/api/v1/namespaces/NAMESPACE/services/SPEC/proxy-service[/PATH]` to the service itself.
///
/// Kubernetes' own `.../services/SPEC/proxy/...` is a path of the kube-apiserver like any other.
///
/// ```
/// let routed = mctunnel_gateway::http::route("/cluster-a/api/v1/pods?limit=5")?;
/// assert_eq!(routed.destination.to_string(), "kube-apiserver in cluster-a");
/// assert_eq!(routed.forward, "/api/v1/pods?limit=5");
/// # Ok::<(), mctunnel_gateway::http::BadTarget>(())
/// ```
pub fn route(path_and_query: &str) -> Result<Routed, BadTarget> {
    let (path, query) = split(path_and_query)?;
    let path = path.strip_prefix('/').ok_or(BadTarget::NotAPath)?;
    let (cluster, rest) = path.split_once('/').unwrap_or((path, ""));
    if cluster.is_empty() {
        return Err(BadTarget::NoCluster);
    }
    let cluster = ClusterName::parse(cluster).map_err(BadTarget::Cluster)?;
    let (target, path) = match service(rest) {
        Some((namespace, spec, path)) => {
            (ServiceTarget::parse(namespace, spec).map_err(BadTarget::Service)?.into(), path)
        }
        None => (Target::KubeApi, rest),
    };
    Ok(Routed { destination: Destination { cluster, target }, forward: ["/", path, query].concat() })
}

/// Namespace, service and path, if `rest` is a path through `proxy-service`.
fn service(rest: &str) -> Option<(&str, &str, &str)> {
    let rest = rest.strip_prefix("api/v1/namespaces/")?;
    let (namespace, rest) = rest.split_once('/')?;
    let (spec, rest) = rest.strip_prefix("services/")?.split_once('/')?;
    let path = rest.strip_prefix("proxy-service")?;
    // `proxy-services` is another word.
    let path = if path.is_empty() { path } else { path.strip_prefix('/')? };
    Some((namespace, spec, path))
}
