//! gRPC by metadata: a client of any service names cluster and target in its call's metadata, and keeps its own method paths.

use super::answer::Refused;
use http::{HeaderMap, header::CONTENT_TYPE};
use mctunnel_core::{ClusterName, Destination, ServiceTarget};

/// What a gRPC client may send of ours.
pub(super) const METADATA: [&str; 5] = [CLUSTER, PROTO, HOST, PORT, SCHEME];

const CLUSTER: &str = "x-mctunnel-cluster";
const PROTO: &str = "x-mctunnel-proto";
const HOST: &str = "x-mctunnel-host";
const PORT: &str = "x-mctunnel-port";
const SCHEME: &str = "x-mctunnel-scheme";

/// Whether the request is a gRPC call, by its content type.
pub(super) fn is_grpc(fields: &HeaderMap) -> bool {
    fields.get(CONTENT_TYPE).is_some_and(|value| value.as_bytes().starts_with(b"application/grpc"))
}

/// Whether the request names its target in metadata, and not in its path.
pub(super) fn is_by_metadata(fields: &HeaderMap) -> bool {
    fields.contains_key(CLUSTER)
}

/// The destination in the metadata.
pub(super) fn route(fields: &HeaderMap) -> Result<Destination, Refused> {
    let cluster = once(fields, CLUSTER)?.and_then(|name| ClusterName::parse(name).ok());
    let cluster = cluster.ok_or(Refused::Metadata("x-mctunnel-cluster is not the name of a cluster"))?;
    if !matches!(once(fields, PROTO)?, None | Some("grpc")) {
        return Err(Refused::Metadata("x-mctunnel-proto must be 'grpc' here"));
    }
    let host = once(fields, HOST)?.unwrap_or_default();
    let (name, namespace) =
        host.split_once('.').ok_or(Refused::Metadata("x-mctunnel-host must be 'name.namespace'"))?;
    let (port, scheme) = (once(fields, PORT)?.unwrap_or_default(), once(fields, SCHEME)?.unwrap_or("http"));
    let target = ServiceTarget::parse(namespace, &format!("{scheme}:{name}:{port}"))
        .map_err(|_| Refused::Metadata("x-mctunnel-host, -port and -scheme do not name a service"))?;
    Ok(Destination { cluster, target: target.into() })
}

fn once<'a>(fields: &'a HeaderMap, name: &str) -> Result<Option<&'a str>, Refused> {
    let mut values = fields.get_all(name).iter();
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(value), None) => {
            value.to_str().map(Some).map_err(|_| Refused::Metadata("routing metadata must be plain text"))
        }
        (Some(_), Some(_)) => Err(Refused::Metadata("routing metadata must stand there once")),
    }
}
