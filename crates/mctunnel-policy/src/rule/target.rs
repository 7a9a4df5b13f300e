//! Services, endpoints and the kube-apiserver as targets of a rule. Each part is exact or a `*` of its own, and none is left out:
//! `monitoring/prometheus:9090`, `monitoring/*:*`, `db.team-a.svc:5432`, `*:443`, `kube-apiserver`.

#[cfg(test)]
mod tests;

use super::Sense;
use mctunnel_core::{Endpoint, Host, ServicePort, ServiceTarget, Target, endpoint::parse_port, target::Label};

/// What the kube-apiserver is called among targets of plain bytes.
pub(crate) const KUBE_APISERVER: &str = "kube-apiserver";

/// A list of targets.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Targets {
    services: Vec<ServicePattern>,
    endpoints: Vec<EndpointPattern>,
    kube_apiserver: bool,
}

impl Targets {
    /// Reads `services` and `endpoints` of a rule for HTTP.
    pub(crate) fn for_http(services: &[String], endpoints: &[String]) -> Result<Self, String> {
        let services = services.iter().map(|text| ServicePattern::parse(text)).collect::<Result<_, _>>()?;
        let endpoints = endpoints.iter().map(|text| EndpointPattern::parse(text)).collect::<Result<_, _>>()?;
        Ok(Self { services, endpoints, kube_apiserver: false })
    }

    /// Reads the list of a rule for plain bytes.
    pub(crate) fn for_bytes(list: &[String]) -> Result<Self, String> {
        let mut targets = Self::default();
        for text in list {
            match text.as_str() {
                KUBE_APISERVER => targets.kube_apiserver = true,
                text if text.contains('/') => targets.services.push(ServicePattern::parse(text)?),
                text => targets.endpoints.push(EndpointPattern::parse(text)?),
            }
        }
        Ok(targets)
    }

    /// Whether the target is one of them. No wildcard is the kube-apiserver.
    pub(crate) fn cover(&self, target: &Target, sense: Sense) -> bool {
        match target {
            Target::KubeApi => self.kube_apiserver,
            Target::Service(service) => self.services.iter().any(|own| own.covers(service, sense)),
            Target::Endpoint(endpoint) => self.endpoints.iter().any(|own| own.covers(endpoint)),
        }
    }

    /// Whether it has all that the other one has.
    pub(crate) fn includes(&self, other: &Self) -> bool {
        let services = other.services.iter().all(|theirs| self.services.iter().any(|own| own.includes(theirs)));
        let endpoints = other.endpoints.iter().all(|theirs| self.endpoints.iter().any(|own| own.includes(theirs)));
        services && endpoints && (self.kube_apiserver || !other.kube_apiserver)
    }
}

// === ServicePattern ===

#[derive(Debug, Clone, PartialEq, Eq)]
struct ServicePattern {
    namespace: Part<Label>,
    name: Part<Label>,
    port: Part<ServicePort>,
}

impl ServicePattern {
    fn parse(text: &str) -> Result<Self, String> {
        let bad = || {
            format!(
                "{text:?} is not a service: write namespace/name:port, each part a name in lower case or a single *, the port a \
                 number or a name"
            )
        };
        let (namespace, rest) = text.split_once('/').ok_or_else(bad)?;
        let (name, port) = rest.split_once(':').ok_or_else(bad)?;
        let label = |text: &str| Label::parse(text).ok();
        let port = Part::parse(port, |text| match ServicePort::parse(text).ok()? {
            ServicePort::Only => None,
            // Port names have a letter in Kubernetes; `80-90` was meant as something that there is not.
            ServicePort::Name(name) if !name.as_str().bytes().any(|byte| byte.is_ascii_lowercase()) => None,
            port @ (ServicePort::Number(_) | ServicePort::Name(_)) => Some(port),
        });
        let (namespace, name) = (Part::parse(namespace, label), Part::parse(name, label));
        Ok(Self { namespace: namespace.ok_or_else(bad)?, name: name.ok_or_else(bad)?, port: port.ok_or_else(bad)? })
    }

    fn covers(&self, service: &ServiceTarget, sense: Sense) -> bool {
        let port = match (&self.port, &service.port) {
            (Part::Any, _) => true,
            (Part::One(own), asked) if own == asked => true,
            // The same port may be asked for by its name, by its number, or by not naming it.
            (Part::One(ServicePort::Number(_)), ServicePort::Number(_))
            | (Part::One(ServicePort::Name(_)), ServicePort::Name(_)) => false,
            (Part::One(_), _) => sense == Sense::Possibly,
        };
        port && self.namespace.covers(&service.namespace) && self.name.covers(&service.name)
    }

    fn includes(&self, other: &Self) -> bool {
        self.namespace.includes(&other.namespace) && self.name.includes(&other.name) && self.port.includes(&other.port)
    }
}

// === EndpointPattern ===

#[derive(Debug, Clone, PartialEq, Eq)]
struct EndpointPattern {
    host: Part<Host>,
    port: Part<u16>,
}

impl EndpointPattern {
    fn parse(text: &str) -> Result<Self, String> {
        let bad = || {
            format!(
                "{text:?} is not an endpoint: write host:port, each part exact or a single *, as in db.team-a.svc:5432"
            )
        };
        let (host, port) = text.rsplit_once(':').ok_or_else(bad)?;
        let host = Part::parse(host, |text| Host::parse(text).ok()).ok_or_else(bad)?;
        let port = Part::parse(port, |text| parse_port(text).ok()).ok_or_else(bad)?;
        Ok(Self { host, port })
    }

    fn covers(&self, endpoint: &Endpoint) -> bool {
        self.port.covers(&endpoint.port) && self.host.covers(&endpoint.host)
    }

    fn includes(&self, other: &Self) -> bool {
        self.host.includes(&other.host) && self.port.includes(&other.port)
    }
}

// === Part ===

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part<T> {
    Any,
    One(T),
}

impl<T: PartialEq> Part<T> {
    fn parse(text: &str, read: impl FnOnce(&str) -> Option<T>) -> Option<Self> {
        if text == "*" { Some(Self::Any) } else { read(text).map(Self::One) }
    }

    fn covers(&self, value: &T) -> bool {
        match self {
            Self::Any => true,
            Self::One(own) => own == value,
        }
    }

    fn includes(&self, other: &Self) -> bool {
        *self == Self::Any || self == other
    }
}
