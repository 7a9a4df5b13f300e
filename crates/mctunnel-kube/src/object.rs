//! Services and endpoint slices as the kube-apiserver sends them, cut down while they are read to the fields that are needed.
//! Everything else, `managedFields` above all, is skipped by the parser and never held.

use serde::{Deserialize, de::DeserializeOwned};
use std::collections::BTreeMap;

/// A kind of object that can be listed and watched.
pub(crate) trait Object: DeserializeOwned + Clone + Send + 'static {
    /// The kind, as people write it.
    const KIND: &'static str;
    /// The path of the API group.
    const GROUP: &'static str;
    /// The resource, as in URLs.
    const RESOURCE: &'static str;

    /// The object's metadata.
    fn metadata(&self) -> &Metadata;
}

/// A page of a list.
#[derive(Deserialize)]
#[serde(bound = "")]
pub(crate) struct Page<T: Object> {
    #[serde(default)]
    pub(crate) metadata: PageMetadata,
    #[serde(default = "Vec::new", deserialize_with = "null_as_empty")]
    pub(crate) items: Vec<T>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct PageMetadata {
    pub(crate) resource_version: String,
    #[serde(rename = "continue")]
    pub(crate) next: Option<String>,
}

#[derive(Debug, Deserialize, Clone, Default)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Metadata {
    pub(crate) name: String,
    pub(crate) namespace: String,
    pub(crate) resource_version: String,
    #[serde(deserialize_with = "only_service_name", rename = "labels")]
    pub(crate) service_name: Option<String>,
}

// === Service ===

#[derive(Debug, Deserialize, Clone)]
pub(crate) struct Service {
    pub(crate) metadata: Metadata,
    #[serde(default)]
    pub(crate) spec: ServiceSpec,
}

#[derive(Debug, Deserialize, Clone, Default)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ServiceSpec {
    #[serde(rename = "type")]
    pub(crate) kind: Option<String>,
    pub(crate) external_name: Option<String>,
    #[serde(deserialize_with = "null_as_empty")]
    pub(crate) ports: Vec<Port>,
}

/// A port of a service or of a slice.
#[derive(Debug, Deserialize, Clone, Default)]
#[serde(default)]
pub(crate) struct Port {
    pub(crate) name: Option<String>,
    /// Absent in a slice: all ports. Wider than a port, so that one bad object does not stop the reading of all.
    pub(crate) port: Option<i64>,
    pub(crate) protocol: Option<String>,
}

impl Port {
    pub(crate) fn is_tcp(&self) -> bool {
        self.protocol.as_deref().is_none_or(|protocol| protocol == "TCP")
    }
}

impl Object for Service {
    const KIND: &'static str = "services";
    const GROUP: &'static str = "/api/v1";
    const RESOURCE: &'static str = "services";

    fn metadata(&self) -> &Metadata {
        &self.metadata
    }
}

// === EndpointSlice ===

#[derive(Debug, Deserialize, Clone)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EndpointSlice {
    pub(crate) metadata: Metadata,
    #[serde(default, deserialize_with = "null_as_empty")]
    pub(crate) endpoints: Vec<Endpoint>,
    #[serde(default, deserialize_with = "null_as_empty")]
    pub(crate) ports: Vec<Port>,
}

#[derive(Debug, Deserialize, Clone, Default)]
#[serde(default)]
pub(crate) struct Endpoint {
    #[serde(deserialize_with = "null_as_empty")]
    pub(crate) addresses: Vec<String>,
    #[serde(deserialize_with = "null_as_default")]
    pub(crate) conditions: Conditions,
    #[serde(deserialize_with = "null_as_default")]
    pub(crate) hints: Hints,
}

#[derive(Debug, Deserialize, Clone, Default)]
#[serde(default)]
pub(crate) struct Conditions {
    pub(crate) ready: Option<bool>,
    pub(crate) serving: Option<bool>,
    pub(crate) terminating: Option<bool>,
}

#[derive(Debug, Deserialize, Clone, Default)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Hints {
    #[serde(deserialize_with = "null_as_empty")]
    pub(crate) for_zones: Vec<ForZone>,
}

#[derive(Debug, Deserialize, Clone)]
pub(crate) struct ForZone {
    pub(crate) name: String,
}

impl Object for EndpointSlice {
    const KIND: &'static str = "endpoint slices";
    const GROUP: &'static str = "/apis/discovery.k8s.io/v1";
    const RESOURCE: &'static str = "endpointslices";

    fn metadata(&self) -> &Metadata {
        &self.metadata
    }
}

// === how fields are read ===

/// The label that says whose endpoints a slice has.
const SERVICE_NAME: &str = "kubernetes.io/service-name";

pub(crate) fn null_as_empty<'de, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Deserialize<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

pub(crate) fn null_as_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// Of all labels, the one that names the service.
fn only_service_name<'de, D>(deserializer: D) -> Result<Option<String>, D::Error>
where
    D: serde::Deserializer<'de>,
{
    let labels: Option<BTreeMap<String, String>> = Option::deserialize(deserializer)?;
    Ok(labels.and_then(|mut labels| labels.remove(SERVICE_NAME)))
}
