//! What a request means to a kube-apiserver: verb, resource, namespace and name, by Kubernetes' own rules (its `RequestInfo`).
//! Used to decide and to record, never to rewrite: what is sent is the target as it came.
//!
//! One rule is ours: what joins the client to a process or a network is the verb `connect`, and what issues a credential is
//! `create`, whatever the method. A `GET` that becomes a websocket is not a look at something. Which subresources of others do so
//! nobody here knows, so whoever asks for an upgrade is taken at its word: it takes `connect` besides what its method takes.

mod query;
#[cfg(test)]
mod tests;

use crate::bad_target::{BadTarget, decode, split};
use query::Query;
use std::fmt;

/// A request as a kube-apiserver understands it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KubeRequest {
    /// It is about objects of the API.
    Resource(ResourceRequest),
    /// It is about anything else: discovery, health, version.
    NonResource {
        /// The path, decoded.
        path: String,
        /// The method.
        verb: Verb,
    },
}

/// A request about objects of the API.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceRequest {
    /// What is done.
    pub verb: Verb,
    /// What is done if the upgrade that was asked for is not taken, where the verb is `connect` for its sake alone. It needs permission
    /// as well: an `Upgrade` that the target does not mind must not hide what the method does.
    pub plain_verb: Option<Verb>,
    /// The API group; empty for the core group.
    pub api_group: String,
    /// The version, as in `v1`.
    pub api_version: String,
    /// The resource, as in `pods`.
    pub resource: String,
    /// As in `log`.
    pub subresource: Option<String>,
    /// None for what has none, and for a request across all namespaces.
    pub namespace: Option<String>,
    /// None for a request about many.
    pub name: Option<String>,
}

/// What is done. The first nine are done to resources, the others to paths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verb {
    /// Read one; also `GET` of a path.
    Get,
    /// Read many.
    List,
    /// Follow changes.
    Watch,
    /// Make one.
    Create,
    /// Replace one.
    Update,
    /// Change one; also `PATCH` of a path.
    Patch,
    /// Delete one; also `DELETE` of a path.
    Delete,
    /// Delete many.
    DeleteCollection,
    /// Reach a process or a network through one.
    Connect,
    /// `HEAD` of a path.
    Head,
    /// `POST` to a path.
    Post,
    /// `PUT` to a path.
    Put,
    /// `OPTIONS` of a path.
    Options,
    /// A method that means nothing here; to be denied.
    Unknown,
}

impl Verb {
    /// The verb as policies and audit records spell it; empty for [`Verb::Unknown`].
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Delete => "delete",
            Self::DeleteCollection => "deletecollection",
            Self::Connect => "connect",
            Self::Head => "head",
            Self::Post => "post",
            Self::Put => "put",
            Self::Options => "options",
            Self::Unknown => "",
        }
    }

    fn of_path(method: &str) -> Self {
        match method {
            "GET" => Self::Get,
            "HEAD" => Self::Head,
            "POST" => Self::Post,
            "PUT" => Self::Put,
            "PATCH" => Self::Patch,
            "DELETE" => Self::Delete,
            "OPTIONS" => Self::Options,
            _ => Self::Unknown,
        }
    }

    fn of_resource(method: &str) -> Self {
        match method {
            "GET" | "HEAD" => Self::Get,
            "POST" => Self::Create,
            "PUT" => Self::Update,
            "PATCH" => Self::Patch,
            "DELETE" => Self::Delete,
            _ => Self::Unknown,
        }
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl KubeRequest {
    /// Reads a method and a target as it is sent to the kube-apiserver, of a request that asks for no upgrade.
    pub fn parse(method: &str, path_and_query: &str) -> Result<Self, BadTarget> {
        let (path, query) = split(path_and_query)?;
        let path = String::from_utf8(decode(path).ok_or(BadTarget::PercentCode)?).map_err(|_| BadTarget::NotUtf8)?;
        let resource = resource(method, &path, &Query(query.strip_prefix('?').unwrap_or_default()));
        Ok(match resource {
            Some(resource) => Self::Resource(resource),
            None => Self::NonResource { verb: Verb::of_path(method), path },
        })
    }

    /// Reads a method and a target of a request that asks for an upgrade: to a websocket, to SPDY.
    pub fn parse_upgrade(method: &str, path_and_query: &str) -> Result<Self, BadTarget> {
        Ok(match Self::parse(method, path_and_query)? {
            Self::Resource(request) => Self::Resource(request.upgraded()),
            path @ Self::NonResource { .. } => path,
        })
    }

    /// What is done.
    #[must_use]
    pub fn verb(&self) -> Verb {
        match self {
            Self::Resource(request) => request.verb,
            Self::NonResource { verb, .. } => *verb,
        }
    }
}

impl fmt::Display for KubeRequest {
    /// As `kubectl auth can-i` would ask it: `get pods/log in kube-system`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NonResource { path, verb } => write!(f, "{verb} {path}"),
            Self::Resource(request) => {
                write!(f, "{} {}", request.verb, request.resource)?;
                if !request.api_group.is_empty() {
                    write!(f, ".{}", request.api_group)?;
                }
                if let Some(subresource) = &request.subresource {
                    write!(f, "/{subresource}")?;
                }
                if let Some(name) = &request.name {
                    write!(f, " {name}")?;
                }
                request.namespace.as_ref().map_or(Ok(()), |namespace| write!(f, " in {namespace}"))
            }
        }
    }
}

/// Reads `/api/VERSION/...` and `/apis/GROUP/VERSION/...`; `None` for any other path.
fn resource(method: &str, path: &str, query: &Query<'_>) -> Option<ResourceRequest> {
    let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
    let (api_group, api_version, parts) = match parts.as_slice() {
        ["api", version, parts @ ..] => ("", *version, parts),
        ["apis", group, version, parts @ ..] => (*group, *version, parts),
        _ => return None,
    };
    let (verb, parts) = match parts {
        [] | ["watch" | "proxy"] => return None,
        // Old forms of Kubernetes, with the verb in front.
        ["watch", parts @ ..] => (Verb::Watch, parts),
        ["proxy", parts @ ..] => (Verb::Connect, parts),
        parts => (Verb::of_resource(method), parts),
    };
    let is_old_proxy = verb == Verb::Connect;
    let (namespace, parts) = match parts {
        ["namespaces", namespace, "status" | "finalize", ..] | ["namespaces", namespace] => (Some(*namespace), parts),
        ["namespaces", namespace, parts @ ..] => (Some(*namespace), parts),
        parts => (None, parts),
    };
    let mut parts = parts.iter().map(|part| (*part).to_owned());
    let request = ResourceRequest {
        verb,
        plain_verb: None,
        api_group: api_group.to_owned(),
        api_version: api_version.to_owned(),
        resource: parts.next()?,
        name: parts.next(),
        // What follows a name in the old form is a path of the one reached.
        subresource: parts.next().filter(|_| !is_old_proxy),
        namespace: namespace.map(str::to_owned),
    };
    Some(request.with_exact_verb(query))
}

impl ResourceRequest {
    /// Tells apart what one method can mean.
    fn with_exact_verb(mut self, query: &Query<'_>) -> Self {
        match (self.resource.as_str(), self.subresource.as_deref()) {
            (_, Some("exec" | "attach" | "portforward" | "proxy")) => self.verb = Verb::Connect,
            ("serviceaccounts", Some("token")) => self.verb = Verb::Create,
            _ if self.name.is_none() && self.verb == Verb::Get => {
                self.verb = if query.watches() { Verb::Watch } else { Verb::List };
                self.name = query.exact_name();
            }
            _ if self.name.is_none() && self.verb == Verb::Delete => self.verb = Verb::DeleteCollection,
            _ => {}
        }
        self
    }

    /// The same request with an upgrade. A watch and a log come over a websocket as they come without one; everything else that does
    /// joins the client to something.
    fn upgraded(self) -> Self {
        match (self.verb, self.subresource.as_deref()) {
            (Verb::Connect | Verb::Unknown, _) | (Verb::Watch, None) | (Verb::Get, Some("log")) => self,
            (plain, _) => Self { verb: Verb::Connect, plain_verb: Some(plain), ..self },
        }
    }
}
