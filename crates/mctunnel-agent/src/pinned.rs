//! Targets that the operator names address by address, before anybody else is asked. For clusters without Kubernetes, for tests,
//! and for services that Kubernetes does not know.

use mctunnel_core::{
    ExpectedPeer, Host, Locate, LocateError, Located, Roots, Scheme, ServicePort, ServiceTarget, Target,
    endpoint::parse_port, locate::SharedLocator, target::Label,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    net::SocketAddr,
};

/// Targets with fixed addresses; for all others it asks the next locator, if there is one.
#[derive(Debug, Default)]
pub struct PinnedTargets {
    kube_api: Option<Located>,
    services: BTreeMap<(Label, Label, ServicePort), SocketAddr>,
    roots: Option<Roots>,
    roots_of: BTreeMap<(Label, Label), Roots>,
    unchecked: BTreeSet<(Label, Label)>,
    next: Option<SharedLocator>,
}

impl PinnedTargets {
    /// Nothing pinned yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Asks this one for everything else.
    #[must_use]
    pub fn or_else(mut self, next: SharedLocator) -> Self {
        self.next = Some(next);
        self
    }

    /// Believes these roots when a pinned service is spoken to in TLS. Without them such a service is refused.
    #[must_use]
    pub fn roots(mut self, roots: Roots) -> Self {
        self.roots = Some(roots);
        self
    }

    /// Believes these roots and no others for this one service.
    #[must_use]
    pub fn roots_of(mut self, namespace: &Label, name: &Label, roots: Roots) -> Self {
        self.roots_of.insert((namespace.clone(), name.clone()), roots);
        self
    }

    /// Believes whoever answers for these pinned services, each `namespace/name`.
    pub fn insecure<S: AsRef<str>>(mut self, services: impl IntoIterator<Item = S>) -> Result<Self, InvalidPin> {
        for service in services {
            let service = service.as_ref();
            let invalid = || InvalidPin { pin: service.to_owned(), form: "default/helloworld" };
            let (namespace, name) = service.split_once('/').ok_or_else(invalid)?;
            let labels = (Label::parse(namespace), Label::parse(name));
            let (Ok(namespace), Ok(name)) = labels else { return Err(invalid()) };
            self.unchecked.insert((namespace, name));
        }
        Ok(self)
    }

    /// Pins the kube-apiserver to `http://ADDRESS:PORT` or `https://ADDRESS:PORT`.
    pub fn pin_kube_api(mut self, url: &str, roots: Option<Roots>) -> Result<Self, InvalidPin> {
        let invalid = || InvalidPin { pin: url.to_owned(), form: "http://10.0.0.1:8080 or https://10.0.0.1:6443" };
        let (scheme, rest) = url.split_once("://").ok_or_else(invalid)?;
        let scheme = Scheme::parse(scheme).map_err(|_| invalid())?;
        let address = parse_address(rest.strip_suffix('/').unwrap_or(rest)).ok_or_else(invalid)?;
        let tls = match (scheme, roots) {
            (Scheme::Http, _) => None,
            (Scheme::Https, Some(roots)) => Some(ExpectedPeer { name: address.ip().to_string(), roots }),
            (Scheme::Https, None) => return Err(invalid()),
        };
        self.kube_api =
            Some(Located { addresses: vec![address], preferred: 0, authority: address.to_string(), tls, pinned: true });
        Ok(self)
    }

    /// Pins a service: `namespace/name[:port]=ADDRESS:PORT`.
    pub fn pin_service(mut self, pin: &str) -> Result<Self, InvalidPin> {
        let invalid = || InvalidPin { pin: pin.to_owned(), form: "default/helloworld:8080=127.0.0.1:9000" };
        let (service, address) = pin.split_once('=').ok_or_else(invalid)?;
        let (namespace, rest) = service.split_once('/').ok_or_else(invalid)?;
        let service = ServiceTarget::parse(namespace, rest).map_err(|_| invalid())?;
        let address = parse_address(address).ok_or_else(invalid)?;
        self.services.insert((service.namespace, service.name, service.port), address);
        Ok(self)
    }

    fn service(&self, service: &ServiceTarget) -> Option<Result<Located, LocateError>> {
        let key = |port: ServicePort| (service.namespace.clone(), service.name.clone(), port);
        let pinned =
            self.services.get(&key(service.port.clone())).or_else(|| self.services.get(&key(ServicePort::Only)));
        let address = *pinned?;
        let name = format!("{}.{}.svc", service.name, service.namespace);
        let port = match &service.port {
            ServicePort::Number(port) => *port,
            ServicePort::Only | ServicePort::Name(_) => address.port(),
        };
        let own = (service.namespace.clone(), service.name.clone());
        let unchecked = self.unchecked.contains(&own);
        let tls = match (service.scheme, self.roots_of.get(&own).or(self.roots.as_ref())) {
            (Scheme::Http, _) => None,
            (Scheme::Https, _) if unchecked => Some(ExpectedPeer { name: name.clone(), roots: Roots::Unchecked }),
            (Scheme::Https, Some(roots)) => Some(ExpectedPeer { name: name.clone(), roots: roots.clone() }),
            (Scheme::Https, None) => {
                let reason = format!(
                    "{service} speaks TLS, and the agent was not told whose certificates to believe: '--service-ca', or '--insecure-service'"
                );
                return Some(Err(LocateError::Forbidden(reason)));
            }
        };
        Some(Ok(Located {
            addresses: vec![address],
            preferred: 0,
            authority: format!("{name}:{port}"),
            tls,
            pinned: true,
        }))
    }
}

impl Locate for PinnedTargets {
    async fn locate(&self, target: &Target) -> Result<Located, LocateError> {
        let pinned = match target {
            Target::KubeApi => self.kube_api.clone().map(Ok),
            Target::Service(service) => self.service(service),
            Target::Endpoint(_) => None,
        };
        match (pinned, &self.next) {
            (Some(located), _) => located,
            (None, Some(next)) => next.locate(target).await,
            (None, None) => Err(LocateError::NotFound(format!("this agent does not know where {target} is"))),
        }
    }
}

fn parse_address(text: &str) -> Option<SocketAddr> {
    let (host, port) = text.rsplit_once(':')?;
    match Host::parse(host).ok()? {
        Host::Ip(ip) => Some(SocketAddr::new(ip, parse_port(port).ok()?)),
        Host::Name(_) => None,
    }
}

/// A pinned target cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidPin {
    pin: String,
    form: &'static str,
}

impl InvalidPin {
    /// The stable code and its remedy.
    #[must_use]
    pub fn code(&self) -> mctunnel_core::ErrorCode {
        mctunnel_core::ErrorCode {
            code: "MCT-AGENT-BAD-PIN",
            remedy: "write it as the message says, with an IP address and a port",
        }
    }
}

impl fmt::Display for InvalidPin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} does not pin a target to an address; write it like {}", self.pin, self.form)
    }
}

impl std::error::Error for InvalidPin {}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_service_is_checked_by_its_own_roots_before_those_of_all() {
        let (all, own) = (Roots::Pem("all".into()), Roots::Pem("own".into()));
        let (namespace, web) = (Label::parse("default").unwrap(), Label::parse("web").unwrap());
        let pinned = PinnedTargets::new().roots(all.clone()).roots_of(&namespace, &web, own.clone());
        let pins = ["default/web=10.0.0.1:443", "default/api=10.0.0.2:443"];
        let pinned = pins.into_iter().fold(pinned, |pinned, pin| pinned.pin_service(pin).unwrap());
        for (name, roots) in [("https:web:443", own), ("https:api:443", all)] {
            let target = Target::Service(ServiceTarget::parse("default", name).unwrap());
            let located = pinned.locate(&target).await.unwrap();
            assert_eq!(located.tls.map(|peer| peer.roots), Some(roots), "{name}");
        }
    }
}
