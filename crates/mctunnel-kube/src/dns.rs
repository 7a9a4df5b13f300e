//! Finds services by their DNS names, for agents that may not ask Kubernetes. It knows no ports and no readiness: a port is a
//! number, and what DNS gives is taken to be ready. An `ExternalName` it knows by its standing for another name.

use crate::{
    ApiServer, Resolve, ServiceName, ServiceTls, SystemResolver, address,
    api_server::LookedUp,
    resolve::{look_up, look_up_own},
};
use mctunnel_core::{ExpectedPeer, Locate, LocateError, Located, ServicePort, ServiceTarget, Target};
use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

/// Locates by DNS alone.
#[derive(Debug)]
pub struct DnsLocator {
    domain: Option<String>,
    tls: ServiceTls,
    api: Option<LookedUp>,
    resolver: Arc<dyn Resolve>,
    allow_external_names: bool,
}

impl DnsLocator {
    /// Services are `name.namespace.svc.DOMAIN`, or without a domain `name.namespace.svc` as the resolver completes it. The
    /// kube-apiserver is found only if its address is given.
    #[must_use]
    pub fn new(domain: Option<String>, tls: ServiceTls, api_server: Option<ApiServer>) -> Self {
        Self::with_resolver(domain, tls, api_server, Arc::new(SystemResolver))
    }

    /// As [`DnsLocator::new`], with another resolver than the system's.
    #[must_use]
    pub fn with_resolver(
        domain: Option<String>,
        tls: ServiceTls,
        api_server: Option<ApiServer>,
        resolver: Arc<dyn Resolve>,
    ) -> Self {
        let api = api_server.map(|server| LookedUp::new(server, Arc::clone(&resolver)));
        Self { domain: domain.filter(|domain| !domain.is_empty()), tls, api, resolver, allow_external_names: false }
    }

    /// Whether services of type `ExternalName` may lead out of the cluster. Without it the addresses of a service's own name
    /// count and no others, so that without a domain, or with a resolver that cannot tell, there are none.
    #[must_use]
    pub fn allow_external_names(mut self, allowed: bool) -> Self {
        self.allow_external_names = allowed;
        self
    }

    /// The kube-apiserver.
    pub(crate) async fn locate_api(&self) -> Result<Located, LocateError> {
        match &self.api {
            Some(api) => api.locate().await,
            None => Err(LocateError::NotFound("the agent was not told where its kube-apiserver is".to_owned())),
        }
    }

    /// The addresses at which the kube-apiserver is known to be.
    pub(crate) async fn api_addresses(&self) -> Vec<SocketAddr> {
        match &self.api {
            Some(api) => api.last_addresses().await,
            None => Vec::new(),
        }
    }

    /// A service by its DNS name.
    pub(crate) async fn locate_service(&self, target: &ServiceTarget) -> Result<Located, LocateError> {
        let service = ServiceName::from(target);
        refuse_api_server(&service)?;
        let ServicePort::Number(port) = target.port else {
            let message =
                format!("service {service} is found by DNS, which knows no ports; ask for the port by its number");
            return Err(LocateError::NotFound(message));
        };
        let host = service.dns();
        let name = match &self.domain {
            // The dot at the end keeps the resolver from trying its search domains.
            Some(domain) => format!("{host}.{domain}."),
            None => host.clone(),
        };
        let tls = self.expect(target, &service, host.clone())?;
        let found = if self.allow_external_names {
            look_up(&*self.resolver, &name).await?
        } else {
            look_up_own(&*self.resolver, &name).await?.ok_or_else(|| {
                let reason = "may stand for another name, in the cluster or outside, which is not allowed";
                LocateError::Forbidden(format!("service {service} was found by DNS and {reason}"))
            })?
        };
        self.located(&service, found, port, &host, tls).await
    }

    /// A service at another name, which is also how it is to be called.
    pub(crate) async fn locate_external(
        &self,
        target: &ServiceTarget,
        service: &ServiceName,
        name: &str,
        port: u16,
    ) -> Result<Located, LocateError> {
        let called = name.trim_end_matches('.');
        let tls = self.expect(target, service, called.to_owned())?;
        let found = look_up(&*self.resolver, name).await?;
        self.located(service, found, port, called, tls).await
    }

    /// What was found, without what must not be reached.
    async fn located(
        &self,
        service: &ServiceName,
        found: Vec<IpAddr>,
        port: u16,
        called: &str,
        tls: Option<ExpectedPeer>,
    ) -> Result<Located, LocateError> {
        let found = found.into_iter().map(|ip| SocketAddr::new(ip, port)).collect();
        let (addresses, refused) = address::sift(found, &self.api_addresses().await);
        if addresses.is_empty() {
            let message = format!("service {service} must not be reached through a tunnel: {}", refused.join(", "));
            return Err(LocateError::Forbidden(message));
        }
        Ok(Located { addresses, preferred: 0, authority: format!("{called}:{port}"), tls, pinned: false })
    }

    /// Whom to expect behind a service.
    pub(crate) fn expect(
        &self,
        target: &ServiceTarget,
        service: &ServiceName,
        called: String,
    ) -> Result<Option<ExpectedPeer>, LocateError> {
        let cluster = self.api.as_ref().and_then(|api| api.server.authority());
        self.tls.expect(target.scheme, service, called, cluster).map_err(|_| {
            LocateError::Forbidden(format!(
                "nobody is known who may have signed the certificate of service {service}; give the agent a CA bundle for it"
            ))
        })
    }
}

impl Locate for DnsLocator {
    async fn locate(&self, target: &Target) -> Result<Located, LocateError> {
        match target {
            Target::KubeApi => self.locate_api().await,
            Target::Service(service) => self.locate_service(service).await,
            Target::Endpoint(endpoint) => Err(not_ours(endpoint)),
        }
    }
}

/// Hosts and ports are dialled as they are, under rules of their own.
pub(crate) fn not_ours(endpoint: &mctunnel_core::Endpoint) -> LocateError {
    LocateError::NotFound(format!("{endpoint} is neither a service nor the kube-apiserver"))
}

/// The kube-apiserver is reached by its own path only, where requests to it are authorised.
pub(crate) fn refuse_api_server(service: &ServiceName) -> Result<(), LocateError> {
    if service.is_api_server() {
        let message = format!("service {service} is the kube-apiserver: use the path /<cluster>/api... of the gateway");
        return Err(LocateError::Forbidden(message));
    }
    Ok(())
}
