//! What a request may be besides what it says, and what it does not say of what it is about. An allow rule needs certainty and a deny
//! rule does not, so each doubt has one place: here.

use crate::kubernetes;
use mctunnel_core::{Access, Action, KubeRequest, Protocol, ResourceRequest, ServicePort, Target, Verb};

/// The other name of a protocol that is carried by the same requests: which of the two it is, a field of the request says.
pub(crate) fn twin(protocol: &Protocol) -> Option<&'static str> {
    match protocol.as_str() {
        "http" => Some("grpc"),
        "grpc" => Some("http"),
        _ => None,
    }
}

/// What is done where an upgrade that was asked for is not taken.
pub(crate) fn without_upgrade(action: &Action) -> Option<Action> {
    let Action::Kube(KubeRequest::Resource(request)) = action else { return None };
    let verb = request.plain_verb?;
    Some(Action::Kube(KubeRequest::Resource(ResourceRequest { verb, plain_verb: None, ..request.clone() })))
}

/// Whether a request that names no namespace may be about what is in many.
pub(crate) fn spans_namespaces(request: &ResourceRequest) -> bool {
    // Only what is about many can be about many namespaces: a single object in one is not found without it.
    let is_about_many = matches!(request.verb, Verb::List | Verb::Watch | Verb::DeleteCollection)
        // No request is so; a question whether some of them may be read is.
        || request.verb == Verb::Get && request.name.is_none();
    is_about_many && !kubernetes::is_cluster_wide(&request.api_group, &request.resource)
}

/// Whether a request does not tell the value of a variable of conditions, though what it is about has one.
pub(crate) fn is_untold(access: &Access<'_>, variable: &str) -> bool {
    let target = &access.destination.target;
    if variable == "target.port" {
        return matches!(target, Target::Service(service) if service.port == ServicePort::Only);
    }
    match (access.action, target) {
        (Action::Kube(KubeRequest::Resource(request)), _) => match variable {
            "request.namespace" => request.namespace.is_none() && spans_namespaces(request),
            // It is about many, or the name is in a body that nobody here reads.
            "request.name" => request.name.is_none(),
            _ => false,
        },
        (Action::Kube(KubeRequest::NonResource { .. }) | Action::Http { .. }, _) => false,
        // Plain bytes may be any request to the same target.
        (Action::Bytes, Target::KubeApi) => matches!(
            variable,
            "request.verb"
                | "request.apiGroup"
                | "request.resource"
                | "request.subresource"
                | "request.namespace"
                | "request.name"
                | "request.path"
        ),
        (Action::Bytes, Target::Service(_) | Target::Endpoint(_)) => {
            matches!(variable, "request.method" | "request.path")
        }
    }
}
