//! What every test here needs: objects as Kubernetes writes them, a locator, and questions to it.

use crate::{
    fake_api::{FakeApi, SERVICES, SLICES},
    fake_names::FakeNames,
};
use mctunnel_core::{Locate, LocateError, Located, ServiceTarget, Target};
use mctunnel_kube::{ClusterAccess, KubeLocator, LocatorConfig};
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};
use tokio::time::timeout;

/// A service in `default` with the given spec.
pub(crate) fn service(name: &str, version: &str, spec: &Value) -> Value {
    json!({
        "metadata": {"name": name, "namespace": "default", "resourceVersion": version, "uid": "1", "managedFields": [{}]},
        "spec": spec,
    })
}

/// The service `web` with the port 80.
pub(crate) fn web() -> Value {
    service(
        "web",
        "1",
        &json!({"clusterIP": "10.96.0.7", "ports": [{"port": 80, "targetPort": 8080, "protocol": "TCP"}]}),
    )
}

/// A slice of a service in `default`, with one unnamed port 8080.
pub(crate) fn slice(name: &str, owner: &str, version: &str, addresses: &[&str]) -> Value {
    let endpoints: Vec<_> =
        addresses.iter().map(|address| json!({"addresses": [address], "conditions": {"ready": true}})).collect();
    json!({
        "metadata": {
            "name": name, "namespace": "default", "resourceVersion": version,
            "labels": {"kubernetes.io/service-name": owner, "endpointslice.kubernetes.io/managed-by": "x"},
        },
        "addressType": "IPv4", "endpoints": endpoints, "ports": [{"name": "", "port": 8080, "protocol": "TCP"}],
    })
}

/// A cluster with the service `web`, whose slice `web-1` has the addresses; both lists are at version 10.
pub(crate) async fn cluster_with_web(addresses: &[&str]) -> FakeApi {
    let api = FakeApi::start().await;
    api.list(SERVICES, "10", &[web()]);
    api.list(SLICES, "10", &[slice("web-1", "web", "9", addresses)]);
    api
}

/// The way to the fake.
pub(crate) async fn access(api: &FakeApi) -> ClusterAccess {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("kubeconfig");
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": format!("http://{}", api.address)}}],
        "users": [{"name": "u", "user": {"token": "agent-token"}}],
    });
    std::fs::write(&path, config.to_string()).unwrap();
    ClusterAccess::from_kubeconfig(&path, None).await.unwrap()
}

pub(crate) async fn locator(api: &FakeApi, config: LocatorConfig) -> KubeLocator {
    locator_with_names(api, config, FakeNames::of(&[])).await
}

pub(crate) async fn locator_with_names(api: &FakeApi, config: LocatorConfig, names: Arc<FakeNames>) -> KubeLocator {
    KubeLocator::start_with_resolver(&access(api).await, config, names).unwrap()
}

/// Asks for a service in `default`.
pub(crate) async fn locate(locator: &impl Locate, spec: &str) -> Result<Located, LocateError> {
    let target = Target::Service(ServiceTarget::parse("default", spec).unwrap());
    locator.locate(&target).await
}

/// The addresses of a service in `default`, sorted.
pub(crate) async fn addresses(locator: &impl Locate, spec: &str) -> Result<Vec<String>, LocateError> {
    let mut found: Vec<_> = locate(locator, spec).await?.addresses.iter().map(ToString::to_string).collect();
    found.sort();
    Ok(found)
}

/// Waits until `web` has these addresses.
pub(crate) async fn becomes(locator: &KubeLocator, expected: &[&str]) {
    becomes_at(locator, "web", expected).await;
}

/// Waits until a service has these addresses; asks again whenever the locator says that something changed.
pub(crate) async fn becomes_at(locator: &KubeLocator, spec: &str, expected: &[&str]) {
    let mut changes = locator.changes();
    let wait = async {
        loop {
            changes.mark_unchanged();
            if addresses(locator, spec).await.is_ok_and(|found| found == expected) {
                return;
            }
            changes.changed().await.unwrap();
        }
    };
    if timeout(Duration::from_secs(20), wait).await.is_err() {
        panic!("{spec} is {:?}, not {expected:?}", addresses(locator, spec).await);
    }
}
