//! A rule, read and ready: which requests it covers. Pure.
//!
//! A rule is asked in one of two senses. *Certainly* is for allowing: the request is what the rule names, whatever the target makes of
//! it. *Possibly* is for denying: the request may be what the rule names, or have it among other things.

pub(crate) mod asked;
mod cover;
pub(crate) mod path;
pub(crate) mod read;
pub(crate) mod resource;
pub(crate) mod target;

use crate::{
    doubt::{spans_namespaces, twin},
    names::Names,
    verbs::Verbs,
};
use asked::What;
use mctunnel_core::{Protocol, ResourceRequest, Target, Verb};
use path::Paths;
use resource::Resources;
use target::Targets;

/// How sure a match has to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sense {
    /// For allowing.
    Certainly,
    /// For denying.
    Possibly,
}

/// What may, or may not, be done in some clusters.
#[derive(Debug, Clone)]
pub(crate) struct Rule {
    /// Which clusters, by name; labels were looked up when the file was read.
    pub(crate) clusters: Names,
    pub(crate) deeds: Deeds,
}

/// The four kinds of rules.
#[derive(Debug, Clone)]
pub(crate) enum Deeds {
    /// Requests about objects of a kube-apiserver.
    Resources { verbs: Verbs, api_groups: Names, resources: Resources, namespaces: Names, names: Names },
    /// Other requests to a kube-apiserver.
    Paths { verbs: Verbs, paths: Paths },
    /// HTTP requests to services and endpoints.
    Http { targets: Targets, methods: Names, paths: Paths, protocols: Names },
    /// Plain bytes, of which nobody sees what they say.
    Bytes { targets: Targets, protocols: Names },
}

impl Rule {
    /// Whether the rule covers the request.
    pub(crate) fn covers(&self, what: &What<'_>, cluster: &str, protocol: &Protocol, sense: Sense) -> bool {
        // The kind is the quickest to tell apart. Clusters come last: most rules are about all of them, or about many.
        self.deeds.are_of_kind(what, sense) && self.deeds.cover(what, protocol, sense) && self.clusters.covers(cluster)
    }
}

impl Deeds {
    fn are_of_kind(&self, what: &What<'_>, sense: Sense) -> bool {
        match (self, what) {
            (Self::Resources { verbs, .. }, What::Resource(request)) => verbs.covers(request.verb),
            (Self::Paths { verbs, .. }, What::Path { verb, .. }) => verbs.covers(*verb),
            (Self::Http { .. }, What::Http { .. }) | (Self::Bytes { .. }, What::Bytes(_)) => true,
            // Plain bytes may be any request to the same target.
            (Self::Resources { .. } | Self::Paths { .. } | Self::Http { .. }, What::Bytes(_)) => {
                sense == Sense::Possibly
            }
            (
                Self::Resources { .. } | Self::Paths { .. } | Self::Http { .. } | Self::Bytes { .. },
                What::Resource(_) | What::Path { .. } | What::Http { .. },
            ) => false,
        }
    }

    fn cover(&self, what: &What<'_>, protocol: &Protocol, sense: Sense) -> bool {
        match (self, what) {
            (Self::Resources { api_groups, resources, namespaces, names, .. }, What::Resource(request)) => {
                // The namespace first: it is what tells the rules of tenants apart.
                covers_namespace(namespaces, request, sense)
                    && resources.covers(&request.resource, request.subresource.as_deref())
                    && api_groups.covers(&request.api_group)
                    && covers_name(names, request, sense)
            }
            (Self::Paths { paths, .. }, What::Path { path, .. }) => paths.covers(path, sense),
            (Self::Http { targets, methods, paths, protocols }, What::Http { target, method, path, decoded }) => {
                let path = match sense {
                    Sense::Certainly => paths.covers(path, sense) && paths.covers(decoded, sense),
                    Sense::Possibly => paths.covers(path, sense) || paths.covers(decoded, sense),
                };
                path && methods.covers(method)
                    && covers_protocol(protocols, protocol, sense)
                    && targets.cover(target, sense)
            }
            (Self::Bytes { targets, protocols }, What::Bytes(target)) => {
                protocols.covers(protocol.as_str()) && targets.cover(target, sense)
            }
            (Self::Http { targets, .. }, What::Bytes(target)) => targets.cover(target, sense),
            (Self::Resources { .. } | Self::Paths { .. }, What::Bytes(target)) => matches!(target, Target::KubeApi),
            (
                Self::Resources { .. } | Self::Paths { .. } | Self::Http { .. } | Self::Bytes { .. },
                What::Resource(_) | What::Path { .. } | What::Http { .. },
            ) => false,
        }
    }
}

/// A request without a namespace is across all of them, or about something that lives in none.
fn covers_namespace(namespaces: &Names, request: &ResourceRequest, sense: Sense) -> bool {
    match &request.namespace {
        Some(namespace) => namespaces.covers(namespace),
        None if *namespaces == Names::Any => true,
        None => sense == Sense::Possibly && spans_namespaces(request),
    }
}

/// Whether it is HTTP or gRPC a client says in a field that no target has to believe, so to deny the one is to deny the other.
fn covers_protocol(protocols: &Names, protocol: &Protocol, sense: Sense) -> bool {
    protocols.covers(protocol.as_str())
        || sense == Sense::Possibly && twin(protocol).is_some_and(|other| protocols.covers(other))
}

/// A request without a name is about many, or has the name in a body that nobody here reads.
fn covers_name(names: &Names, request: &ResourceRequest, sense: Sense) -> bool {
    match &request.name {
        Some(name) if names.covers(name) => true,
        // What is reached through a kube-apiserver may have its scheme and port in its name: `https:web:8443`.
        Some(name) => {
            sense == Sense::Possibly && request.verb == Verb::Connect && name.split(':').any(|part| names.covers(part))
        }
        None => *names == Names::Any || sense == Sense::Possibly,
    }
}
