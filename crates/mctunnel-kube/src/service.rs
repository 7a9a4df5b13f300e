//! The name of a service: namespace and name, without port or scheme.

use mctunnel_core::{InvalidTarget, ServiceTarget, target::Label};
use std::fmt;

/// Which service. Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ServiceName {
    /// Its namespace.
    pub namespace: Label,
    /// Its name.
    pub name: Label,
}

impl ServiceName {
    /// Parses `namespace/name`.
    pub fn parse(text: &str) -> Result<Self, InvalidTarget> {
        let (namespace, name) = text.split_once('/').ok_or(InvalidTarget::BadService)?;
        Ok(Self { namespace: Label::parse(namespace)?, name: Label::parse(name)? })
    }

    /// `name.namespace.svc`.
    #[must_use]
    pub fn dns(&self) -> String {
        format!("{}.{}.svc", self.name, self.namespace)
    }

    /// Whether this is the service through which pods reach their kube-apiserver.
    #[must_use]
    pub fn is_api_server(&self) -> bool {
        self.namespace.as_str() == "default" && self.name.as_str() == "kubernetes"
    }
}

impl From<&ServiceTarget> for ServiceName {
    fn from(target: &ServiceTarget) -> Self {
        Self { namespace: target.namespace.clone(), name: target.name.clone() }
    }
}

impl fmt::Display for ServiceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}
