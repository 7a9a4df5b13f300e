//! What a stream is joined to inside a cluster. Parsed once, at the edge where it comes in; policy, audit and agent all use this
//! value and never the text it came from.

use crate::{ClusterName, Endpoint, InvalidTarget, endpoint::parse_port};
use std::{fmt, sync::Arc};

/// A target inside a named cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Destination {
    /// Which cluster.
    pub cluster: ClusterName,
    /// What to reach inside it.
    pub target: Target,
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} in {}", self.target, self.cluster)
    }
}

/// What can be reached in a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// A host and a port.
    Endpoint(Endpoint),
    /// The cluster's kube-apiserver, wherever the agent's own configuration says it is.
    KubeApi,
    /// A Kubernetes service; the agent finds its endpoints.
    Service(ServiceTarget),
}

impl From<Endpoint> for Target {
    fn from(endpoint: Endpoint) -> Self {
        Self::Endpoint(endpoint)
    }
}

impl From<ServiceTarget> for Target {
    fn from(service: ServiceTarget) -> Self {
        Self::Service(service)
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Endpoint(endpoint) => endpoint.fmt(f),
            Self::KubeApi => f.write_str("kube-apiserver"),
            Self::Service(service) => service.fmt(f),
        }
    }
}

// === ServiceTarget ===

/// A port of a Kubernetes service, and how to speak to it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ServiceTarget {
    /// With TLS or without.
    pub scheme: Scheme,
    /// The service's namespace.
    pub namespace: Label,
    /// The service's name.
    pub name: Label,
    /// Which of its ports.
    pub port: ServicePort,
}

impl ServiceTarget {
    /// Parses Kubernetes' own spelling, `[http:|https:]name[:port]`, as in `https:helloworld:8080`.
    ///
    /// As in Kubernetes, a scheme needs the second colon (`https:name:`), so that `https:name` is the port `name` of `https`.
    pub fn parse(namespace: &str, spec: &str) -> Result<Self, InvalidTarget> {
        let mut parts = spec.split(':');
        let (scheme, name, port) = match (parts.next(), parts.next(), parts.next(), parts.next()) {
            (Some(name), None, ..) => (Scheme::Http, name, ""),
            (Some(name), Some(port), None, _) => (Scheme::Http, name, port),
            (Some(scheme), Some(name), Some(port), None) => (Scheme::parse(scheme)?, name, port),
            _ => return Err(InvalidTarget::BadService),
        };
        Ok(Self {
            scheme,
            namespace: Label::parse(namespace)?,
            name: Label::parse(name)?,
            port: ServicePort::parse(port)?,
        })
    }
}

impl fmt::Display for ServiceTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}/{}", self.scheme, self.namespace, self.name)?;
        match &self.port {
            ServicePort::Only => Ok(()),
            ServicePort::Number(port) => write!(f, ":{port}"),
            ServicePort::Name(name) => write!(f, ":{name}"),
        }
    }
}

/// How to speak to a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scheme {
    /// Plain.
    Http,
    /// With TLS.
    Https,
}

impl Scheme {
    /// Parses `http`, `https`, or nothing, which is `http`.
    pub fn parse(text: &str) -> Result<Self, InvalidTarget> {
        match text {
            "http" | "" => Ok(Self::Http),
            "https" => Ok(Self::Https),
            _ => Err(InvalidTarget::BadService),
        }
    }

    /// The scheme as it stands in a URL.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }
}

impl fmt::Display for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Which port of a service.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum ServicePort {
    /// Its only one.
    Only,
    /// The one with this number.
    Number(u16),
    /// The one with this name.
    Name(Label),
}

impl ServicePort {
    /// Parses a number without leading zeros, a name, or nothing.
    pub fn parse(text: &str) -> Result<Self, InvalidTarget> {
        match text {
            "" => Ok(Self::Only),
            digits if digits.bytes().all(|b| b.is_ascii_digit()) => parse_port(digits).map(Self::Number),
            name => Label::parse(name).map(Self::Name),
        }
    }
}

/// A DNS label, as Kubernetes names namespaces, services and ports: never normalised, so there is one spelling of each.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Label(Arc<str>);

impl Label {
    /// Parses `[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?`.
    pub fn parse(text: &str) -> Result<Self, InvalidTarget> {
        // The same letters as a cluster's name, for the same reasons.
        ClusterName::parse(text).map_err(|_| InvalidTarget::BadService)?;
        Ok(Self(text.into()))
    }

    /// The label as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn services_are_spelt_as_in_kubernetes() {
        for (spec, shown) in [
            ("helloworld", "http://default/helloworld"),
            ("helloworld:8080", "http://default/helloworld:8080"),
            ("helloworld:web", "http://default/helloworld:web"),
            ("helloworld:http2", "http://default/helloworld:http2"),
            ("helloworld:8080-tcp", "http://default/helloworld:8080-tcp"),
            ("https:helloworld:8080", "https://default/helloworld:8080"),
            ("https:helloworld:", "https://default/helloworld"),
            ("http:helloworld:web", "http://default/helloworld:web"),
            (":helloworld:web", "http://default/helloworld:web"),
            ("https:helloworld", "http://default/https:helloworld"),
        ] {
            assert_eq!(ServiceTarget::parse("default", spec).map(|s| s.to_string()).as_deref(), Ok(shown), "{spec}");
        }
    }

    #[test]
    fn another_spelling_of_a_service_is_refused() {
        for spec in [
            "",
            ":",
            "::",
            "HTTPS:a:1",
            "ftp:a:1",
            "a:0",
            "a:080",
            "a:65536",
            "A",
            "a.b",
            "a/b",
            "a:b:c",
            "https:a:b:c",
            "a:é",
        ] {
            assert!(ServiceTarget::parse("default", spec).is_err(), "{spec}");
        }
        for namespace in ["", "..", "Default", "a.b", "kube_system"] {
            assert!(ServiceTarget::parse(namespace, "a").is_err(), "{namespace}");
        }
    }
}
