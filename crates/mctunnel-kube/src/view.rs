//! What is known of the services of a cluster or of a namespace, in as few bytes as it takes. It holds and answers; what is
//! chosen from it is decided in `select.rs`, and filling it is `follow.rs`'s.

use crate::{
    ServiceName,
    object::{self, EndpointSlice, Object, Service},
    scope::{Phase, Phases},
};
use mctunnel_core::target::Label;
use std::{
    collections::BTreeMap,
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

/// The services and slices that were seen.
#[derive(Debug, Default)]
pub(crate) struct View {
    services: BTreeMap<ServiceName, KnownService>,
    slices: BTreeMap<ServiceName, BTreeMap<Arc<str>, KnownSlice>>,
    /// Whose a slice is: its label may change, and a deletion need not show it.
    owners: BTreeMap<SliceName, ServiceName>,
}

/// Namespace and name of a slice.
type SliceName = (Label, Arc<str>);

impl View {
    pub(crate) fn service(&self, name: &ServiceName) -> Option<&KnownService> {
        self.services.get(name)
    }

    pub(crate) fn slices(&self, name: &ServiceName) -> Vec<&KnownSlice> {
        self.slices.get(name).into_iter().flat_map(BTreeMap::values).collect()
    }

    /// Every address of a service at every port, ready or not.
    pub(crate) fn all_addresses(&self, name: &ServiceName) -> Vec<SocketAddr> {
        let mut addresses = Vec::new();
        for slice in self.slices(name) {
            for port in slice.ports.iter().filter_map(|port| port.number) {
                addresses.extend(slice.endpoints.iter().map(|endpoint| SocketAddr::new(endpoint.ip, port)));
            }
        }
        addresses
    }

    fn forget_slice(&mut self, slice: &SliceName) {
        let Some(owner) = self.owners.remove(slice) else { return };
        if let Some(slices) = self.slices.get_mut(&owner) {
            slices.remove(&slice.1);
            if slices.is_empty() {
                self.slices.remove(&owner);
            }
        }
    }
}

/// A service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KnownService {
    /// The name that it stands for, when it is of type `ExternalName`.
    pub(crate) external_name: Option<Arc<str>>,
    /// Its TCP ports.
    pub(crate) ports: Arc<[KnownPort]>,
}

/// A TCP port of a service or of a slice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KnownPort {
    /// Empty for the only port, if it has no name.
    pub(crate) name: Arc<str>,
    /// Always there in a service; absent in a slice that stands for all ports.
    pub(crate) number: Option<u16>,
}

/// Some endpoints of a service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KnownSlice {
    /// The endpoints' own TCP ports.
    pub(crate) ports: Arc<[KnownPort]>,
    /// Those whose address could be read.
    pub(crate) endpoints: Arc<[KnownEndpoint]>,
}

/// An endpoint, in no more than 20 bytes: large clusters have a hundred thousand of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct KnownEndpoint {
    pub(crate) ip: IpAddr,
    pub(crate) state: EndpointState,
    /// Whether it is meant for the agent's zone.
    pub(crate) is_near: bool,
}

/// Whether an endpoint can be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EndpointState {
    /// It takes new connections.
    Ready,
    /// It is about to go, but still serves.
    Draining,
    /// It does not serve.
    Down,
}

// === Keep ===

/// A kind of object of which a [`View`] keeps what it needs.
pub(crate) trait Keep: Object {
    /// Takes an object that was added or changed. Objects with names that cannot be asked for are left out.
    fn keep(self, view: &mut View, zone: Option<&str>);
    /// Forgets an object.
    fn forget(&self, view: &mut View);
    /// Forgets all objects of this kind.
    fn forget_all(view: &mut View);
    /// How much is known of this kind.
    fn phase(phases: &mut Phases) -> &mut Phase;
}

impl Keep for Service {
    fn keep(self, view: &mut View, _: Option<&str>) {
        if let Some(name) = name_of(&self.metadata.namespace, &self.metadata.name) {
            view.services.insert(name, known_service(self));
        }
    }

    fn forget(&self, view: &mut View) {
        if let Some(name) = name_of(&self.metadata.namespace, &self.metadata.name) {
            view.services.remove(&name);
        }
    }

    fn forget_all(view: &mut View) {
        view.services.clear();
    }

    fn phase(phases: &mut Phases) -> &mut Phase {
        &mut phases.services
    }
}

impl Keep for EndpointSlice {
    fn keep(self, view: &mut View, zone: Option<&str>) {
        let Some(slice) = slice_name(&self) else { return };
        view.forget_slice(&slice);
        let service = self.metadata.service_name.as_deref();
        if let Some(owner) = service.and_then(|name| name_of(&self.metadata.namespace, name)) {
            view.slices.entry(owner.clone()).or_default().insert(Arc::clone(&slice.1), known_slice(&self, zone));
            view.owners.insert(slice, owner);
        }
    }

    fn forget(&self, view: &mut View) {
        if let Some(slice) = slice_name(self) {
            view.forget_slice(&slice);
        }
    }

    fn forget_all(view: &mut View) {
        view.slices.clear();
        view.owners.clear();
    }

    fn phase(phases: &mut Phases) -> &mut Phase {
        &mut phases.slices
    }
}

fn slice_name(slice: &EndpointSlice) -> Option<SliceName> {
    Some((Label::parse(&slice.metadata.namespace).ok()?, slice.metadata.name.as_str().into()))
}

fn name_of(namespace: &str, name: &str) -> Option<ServiceName> {
    Some(ServiceName { namespace: Label::parse(namespace).ok()?, name: Label::parse(name).ok()? })
}

fn known_service(service: Service) -> KnownService {
    let spec = service.spec;
    let is_external = spec.kind.as_deref() == Some("ExternalName");
    KnownService {
        external_name: is_external.then(|| spec.external_name.unwrap_or_default().into()),
        ports: known_ports(&spec.ports),
    }
}

fn known_slice(slice: &EndpointSlice, zone: Option<&str>) -> KnownSlice {
    KnownSlice {
        ports: known_ports(&slice.ports),
        endpoints: slice.endpoints.iter().filter_map(|endpoint| known_endpoint(endpoint, zone)).collect(),
    }
}

fn known_ports(ports: &[object::Port]) -> Arc<[KnownPort]> {
    let known = |port: &object::Port| {
        let number = match port.port {
            Some(number) => Some(u16::try_from(number).ok().filter(|number| *number != 0)?),
            None => None,
        };
        Some(KnownPort { name: port.name.as_deref().unwrap_or_default().into(), number })
    };
    ports.iter().filter(|port| port.is_tcp()).filter_map(known).collect()
}

/// The endpoint, unless it is a name: those are the ways of `ExternalName` and nobody else's.
fn known_endpoint(endpoint: &object::Endpoint, zone: Option<&str>) -> Option<KnownEndpoint> {
    // All addresses of an endpoint are the same pod; Kubernetes itself uses the first.
    let ip = endpoint.addresses.first()?.parse::<IpAddr>().ok()?.to_canonical();
    let is_near = zone.is_some_and(|zone| endpoint.hints.for_zones.iter().any(|hint| hint.name == zone));
    Some(KnownEndpoint { ip, state: state_of(&endpoint.conditions), is_near })
}

/// As the API defines what is left out: ready unless said otherwise, serving as it is ready, not terminating.
fn state_of(conditions: &object::Conditions) -> EndpointState {
    let ready = conditions.ready.unwrap_or(true);
    let serving = conditions.serving.unwrap_or(ready);
    match (ready, serving && conditions.terminating.unwrap_or(false)) {
        (true, _) => EndpointState::Ready,
        (false, true) => EndpointState::Draining,
        (false, false) => EndpointState::Down,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn slice(name: &str, owner: Option<&str>) -> EndpointSlice {
        let labels = owner.map(|owner| json!({"kubernetes.io/service-name": owner}));
        serde_json::from_value(json!({
            "metadata": {"name": name, "namespace": "default", "labels": labels},
            "endpoints": [{"addresses": ["10.0.0.1"]}], "ports": [{"port": 80}],
        }))
        .unwrap()
    }

    #[test]
    fn an_endpoint_is_small() {
        assert!(size_of::<KnownEndpoint>() <= 20, "{}", size_of::<KnownEndpoint>());
    }

    #[test]
    fn a_slice_has_one_owner_and_leaves_nothing_behind() {
        let web = ServiceName::parse("default/web").unwrap();
        let mut view = View::default();
        slice("a", Some("web")).keep(&mut view, None);
        slice("b", Some("web")).keep(&mut view, None);
        assert_eq!(view.slices(&web).len(), 2);
        slice("a", Some("db")).keep(&mut view, None);
        assert_eq!(view.slices(&web).len(), 1);
        slice("b", None).keep(&mut view, None);
        assert_eq!(view.slices(&web).len(), 0);
        // A deletion is by name, whatever the label says then.
        slice("a", None).forget(&mut view);
        assert!(view.slices.is_empty() && view.owners.is_empty());
        slice("a", Some("web")).forget(&mut view);
        slice("c", Some("Not A Name")).keep(&mut view, None);
        assert!(view.slices.is_empty() && view.owners.is_empty());
    }
}
