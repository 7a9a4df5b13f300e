//! Finds the kube-apiserver and the endpoints of services, from what Kubernetes itself says and keeps saying.

use crate::{
    ClusterAccess, DnsLocator, KubeError, Resolve, ServiceName, ServiceTls, SystemResolver,
    dns::{not_ours, refuse_api_server},
    follow::Follower,
    object::{EndpointSlice, Service},
    scope::{Knowledge, Scope},
    select::{ChosenEndpoints, choose_endpoints, choose_port},
};
use mctunnel_core::{Locate, LocateError, Located, ServiceTarget, Target, target::Label};
use std::{collections::BTreeMap, net::SocketAddr, sync::Arc};
use tokio::{sync::watch, task::JoinSet};

/// How services are found.
#[derive(Debug, Clone)]
pub struct LocatorConfig {
    /// What is watched.
    pub namespaces: Namespaces,
    /// The zone the agent runs in, as in the label `topology.kubernetes.io/zone` of its node.
    pub zone: Option<String>,
    /// The cluster's DNS domain, for what may not be watched; without one, the resolver's search domains are tried, which takes
    /// `allow_external_names`.
    pub cluster_domain: Option<String>,
    /// Whether services of type `ExternalName` may lead out of the cluster.
    pub allow_external_names: bool,
    /// Whom to expect behind services that speak TLS.
    pub tls: ServiceTls,
}

impl Default for LocatorConfig {
    fn default() -> Self {
        Self {
            namespaces: Namespaces::All,
            zone: None,
            cluster_domain: Some("cluster.local".to_owned()),
            allow_external_names: false,
            tls: ServiceTls::default(),
        }
    }
}

/// Which namespaces are watched. Services of others are found by DNS.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Namespaces {
    /// All of them; needs a `ClusterRole`.
    #[default]
    All,
    /// These; a `Role` in each is enough.
    Only(Vec<Label>),
}

/// Locates with what Kubernetes says. Dropping it ends the watching.
///
/// The agent needs the verbs `list` and `watch` on `services` and on `endpointslices.discovery.k8s.io`. Where it lacks them,
/// services are found by DNS, and the right is asked for again every minute.
#[derive(Debug)]
pub struct KubeLocator {
    scopes: Scopes,
    dns: DnsLocator,
    allow_external_names: bool,
    changes: watch::Sender<u64>,
    _followers: JoinSet<()>,
}

impl KubeLocator {
    /// Begins to watch. Must be called inside a tokio runtime.
    pub fn start(access: &ClusterAccess, config: LocatorConfig) -> Result<Self, KubeError> {
        Self::start_with_resolver(access, config, Arc::new(SystemResolver))
    }

    /// As [`KubeLocator::start`], with another resolver than the system's.
    pub fn start_with_resolver(
        access: &ClusterAccess,
        config: LocatorConfig,
        resolver: Arc<dyn Resolve>,
    ) -> Result<Self, KubeError> {
        let client = access.client()?;
        let changes = watch::Sender::new(0);
        let zone: Option<Arc<str>> = config.zone.map(Into::into);
        let mut followers = JoinSet::new();
        let mut begin = |namespace: Option<Label>| {
            let label = namespace.as_ref().map_or_else(|| "all namespaces".to_owned(), ToString::to_string);
            let scope = Arc::new(Scope::new(label, zone.clone(), changes.clone()));
            let follower =
                || Follower { client: client.clone(), namespace: namespace.clone(), scope: Arc::clone(&scope) };
            followers.spawn(follower().follow::<Service>());
            followers.spawn(follower().follow::<EndpointSlice>());
            scope
        };
        let scopes = match config.namespaces {
            Namespaces::All => Scopes::All(begin(None)),
            Namespaces::Only(namespaces) => {
                let namespaces: std::collections::BTreeSet<Label> = namespaces.into_iter().collect();
                Scopes::Only(
                    namespaces.into_iter().map(|namespace| (namespace.clone(), begin(Some(namespace)))).collect(),
                )
            }
        };
        let server = Some(access.api_server().clone());
        let allow_external_names = config.allow_external_names;
        let dns = DnsLocator::with_resolver(config.cluster_domain, config.tls, server, resolver)
            .allow_external_names(allow_external_names);
        Ok(Self { scopes, dns, allow_external_names, changes, _followers: followers })
    }

    /// Counts what changed, for those who keep connections to endpoints that may be gone.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    async fn locate_service(&self, target: &ServiceTarget) -> Result<Located, LocateError> {
        let service = ServiceName::from(target);
        refuse_api_server(&service)?;
        let Some(scope) = self.scopes.of(&service.namespace) else {
            return self.dns.locate_service(target).await;
        };
        match scope.settled().await {
            Knowledge::Known => {}
            Knowledge::Denied => return self.dns.locate_service(target).await,
            Knowledge::Waiting(reason) => {
                let message = format!("the endpoints of service {service} are not known: {reason}");
                return Err(LocateError::Unavailable(message));
            }
        }
        let api_server = self.api_addresses().await;
        match self.find(scope, &service, target, &api_server)? {
            Found::Endpoints { chosen: ChosenEndpoints { addresses, preferred }, port } => Ok(Located {
                addresses,
                preferred,
                authority: format!("{}:{port}", service.dns()),
                tls: self.dns.expect(target, &service, service.dns())?,
                pinned: false,
            }),
            Found::External { name, port } => self.dns.locate_external(target, &service, &name, port).await,
        }
    }

    /// What the view has for a service. Not async: the view is locked meanwhile.
    fn find(
        &self,
        scope: &Scope,
        service: &ServiceName,
        target: &ServiceTarget,
        api_server: &[SocketAddr],
    ) -> Result<Found, LocateError> {
        scope.read(|view| {
            let known =
                view.service(service).ok_or_else(|| LocateError::NotFound(format!("there is no service {service}")))?;
            if let Some(name) = &known.external_name {
                if !self.allow_external_names {
                    let message =
                        format!("service {service} stands for {name} outside the cluster, which is not allowed");
                    return Err(LocateError::Forbidden(message));
                }
                let port = choose_port(service, known, &target.port)?.number;
                return Ok(Found::External { name: Arc::clone(name), port });
            }
            let port = choose_port(service, known, &target.port)?;
            let chosen = choose_endpoints(service, port, &view.slices(service), api_server, rand::random())?;
            Ok(Found::Endpoints { chosen, port: port.number })
        })
    }

    /// The addresses of the kube-apiserver: where we reach it, and where it says it is.
    async fn api_addresses(&self) -> Vec<SocketAddr> {
        let mut addresses = self.dns.api_addresses().await;
        if let Ok(service) = ServiceName::parse("default/kubernetes")
            && let Some(scope) = self.scopes.of(&service.namespace)
        {
            addresses.extend(scope.read(|view| view.all_addresses(&service)));
        }
        addresses
    }
}

impl Locate for KubeLocator {
    async fn locate(&self, target: &Target) -> Result<Located, LocateError> {
        match target {
            Target::KubeApi => self.dns.locate_api().await,
            Target::Service(service) => self.locate_service(service).await,
            Target::Endpoint(endpoint) => Err(not_ours(endpoint)),
        }
    }
}

/// What a service stands for.
enum Found {
    Endpoints { chosen: ChosenEndpoints, port: u16 },
    External { name: Arc<str>, port: u16 },
}

/// What is watched.
#[derive(Debug)]
enum Scopes {
    All(Arc<Scope>),
    Only(BTreeMap<Label, Arc<Scope>>),
}

impl Scopes {
    fn of(&self, namespace: &Label) -> Option<&Scope> {
        match self {
            Self::All(scope) => Some(scope),
            Self::Only(scopes) => scopes.get(namespace).map(|scope| &**scope),
        }
    }
}
