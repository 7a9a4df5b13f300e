//! A question that a person asks a policy: may this user do that there? The form of `mctunnel can-i`, of tables of expectations, and of
//! whoever asks over HTTP. It becomes the same [`Access`] as a request does.

use crate::{file::read, kubernetes, nearest::suggestion, rule::target::KUBE_APISERVER, verbs};
use mctunnel_core::{
    Access, Action, Authorize, ClusterName, Decision, Destination, Endpoint, ErrorCode, Identity, KubeRequest,
    Protocol, ResourceRequest, ServiceTarget, Target, User, Verb,
};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, fmt, net::IpAddr, sync::Arc, time::SystemTime};

/// Who wants to do what, and where.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Question {
    /// Who asks.
    pub who: Who,
    /// In which cluster, and in which namespace of it.
    #[serde(rename = "where")]
    pub place: Place,
    /// What is to be done.
    pub what: Deed,
    /// Where the client comes from, and when.
    #[serde(default)]
    pub from: Origin,
}

/// Who asks; without a user it is a client that nobody knows.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Who {
    /// The user's name.
    pub user: Option<String>,
    /// Its groups.
    pub groups: Vec<String>,
    /// What tells it apart from others of its name.
    pub uid: Option<String>,
    /// Further facts.
    pub extra: BTreeMap<String, Vec<String>>,
    /// Who vouches for it; without one only bindings fit that do not mind.
    pub provider: Option<String>,
}

/// Where.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Place {
    /// The cluster's name.
    pub cluster: String,
    /// The namespace; without one it is all of them, or none.
    #[serde(default)]
    pub namespace: Option<String>,
}

/// What is to be done: one of a resource, a path, an HTTP request to a service or an endpoint, plain bytes.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "camelCase")]
pub struct Deed {
    /// The verb, for resources and paths.
    pub verb: Option<String>,
    /// The resource: `pods`, `pods/log`, `deployments.apps`.
    pub resource: Option<String>,
    /// The resource's API group, if it is not behind the resource's name and not Kubernetes' own.
    pub api_group: Option<String>,
    /// The object's name.
    pub name: Option<String>,
    /// A path of the kube-apiserver, or of the service or endpoint.
    pub path: Option<String>,
    /// A service, `namespace/name` or `namespace/name:port`.
    pub service: Option<String>,
    /// An endpoint, `host:port`.
    pub endpoint: Option<String>,
    /// The HTTP method, for services and endpoints.
    pub method: Option<String>,
    /// A target of plain bytes: `kube-apiserver`, a service, or an endpoint.
    pub bytes: Option<String>,
    /// The adapter that serves the stream.
    pub protocol: Option<String>,
}

/// Where the client comes from, and when.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Origin {
    /// The client's address.
    pub source: Option<IpAddr>,
    /// When, as `2026-12-31T18:00:00Z`; now, without it.
    pub time: Option<String>,
}

impl Question {
    /// Reads a question from YAML or JSON.
    pub fn parse(text: &str) -> Result<Self, InvalidQuestion> {
        read(text).map_err(|problem| InvalidQuestion(problem.to_string()))
    }

    /// May a user do something to all objects of a resource?
    #[must_use]
    pub fn resource(user: &str, cluster: &str, verb: &str, resource: &str) -> Self {
        Self {
            who: Who { user: Some(user.to_owned()), ..Who::default() },
            place: Place { cluster: cluster.to_owned(), namespace: None },
            what: Deed { verb: Some(verb.to_owned()), resource: Some(resource.to_owned()), ..Deed::default() },
            from: Origin::default(),
        }
    }

    /// Asks a policy.
    pub fn ask(&self, policy: &crate::Policy) -> Result<Decision, InvalidQuestion> {
        let now = match &self.from.time {
            None => SystemTime::now(),
            Some(text) => humantime::parse_rfc3339(text)
                .map_err(|_| invalid(format!("{text:?} is not a time: write it as 2026-12-31T18:00:00Z")))?,
        };
        self.with_access(|access| policy.decide(access, now))
    }

    /// Puts the question to anything that decides, as of now.
    pub fn put(&self, authorize: &impl Authorize) -> Result<Decision, InvalidQuestion> {
        self.with_access(|access| authorize.authorize(access))
    }

    /// Makes the request that the question is about.
    pub fn with_access<T>(&self, decide: impl FnOnce(&Access<'_>) -> T) -> Result<T, InvalidQuestion> {
        let cluster = ClusterName::parse(&self.place.cluster)
            .map_err(|error| invalid(format!("the cluster {:?}: {error}", self.place.cluster)))?;
        let identity = self.who.identity();
        let (target, action) = self.what.action(self.place.namespace.as_deref())?;
        let protocol = self.what.protocol(&action)?;
        let destination = Destination { cluster, target };
        Ok(decide(&Access {
            identity: &identity,
            destination: &destination,
            action: &action,
            protocol: &protocol,
            source: self.from.source,
        }))
    }
}

/// As a sentence without its verb: `alice: get pods in kube-system, in cluster-prod`.
impl fmt::Display for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = self.with_access(|access| match &access.destination.target {
            Target::KubeApi => format!("{}: {}", access.identity, access.action),
            target @ (Target::Service(_) | Target::Endpoint(_)) => {
                format!("{}: {} {target}", access.identity, access.action)
            }
        });
        let shown = shown.unwrap_or_else(|error| error.to_string());
        write!(f, "{shown}, in {}", self.place.cluster)
    }
}

impl Who {
    fn identity(&self) -> Identity {
        let Some(name) = &self.user else {
            return Identity::Anonymous;
        };
        let mut user = User::new(name.as_str(), self.provider.as_deref().unwrap_or_default());
        user.groups = self.groups.iter().map(|group| Arc::from(group.as_str())).collect();
        user.uid = self.uid.as_deref().map(Arc::from);
        user.extra.clone_from(&self.extra);
        user.into()
    }
}

impl Deed {
    fn action(&self, namespace: Option<&str>) -> Result<(Target, Action), InvalidQuestion> {
        let asked = [self.resource.is_some(), self.service.is_some(), self.endpoint.is_some(), self.bytes.is_some()];
        match (self, asked.iter().filter(|is_there| **is_there).count()) {
            (Self { resource: Some(resource), path: None, method: None, .. }, 1) => {
                Ok((Target::KubeApi, Action::Kube(self.about(resource, namespace)?)))
            }
            (Self { path: Some(path), method: None, .. }, 0) => {
                let verb = self.verb(verbs::PATH_VERBS)?;
                Ok((Target::KubeApi, Action::Kube(KubeRequest::NonResource { path: path.clone(), verb })))
            }
            (Self { service: Some(text), verb: None, .. }, 1) => Ok((service(text)?, self.http())),
            (Self { endpoint: Some(text), verb: None, .. }, 1) => Ok((endpoint(text)?, self.http())),
            (Self { bytes: Some(text), verb: None, path: None, method: None, .. }, 1) => {
                let target = match text.as_str() {
                    KUBE_APISERVER => Target::KubeApi,
                    text if text.contains('/') => service(text)?,
                    text => endpoint(text)?,
                };
                Ok((target, Action::Bytes))
            }
            _ => Err(invalid(
                "ask for one of: a verb and a resource; a verb and a path; a service (or endpoint) with method and path; bytes",
            )),
        }
    }

    fn http(&self) -> Action {
        let or = |text: &Option<String>, otherwise: &str| text.clone().unwrap_or_else(|| otherwise.to_owned());
        Action::Http { method: or(&self.method, "GET"), path: or(&self.path, "/") }
    }

    fn verb(&self, known: &[Verb]) -> Result<Verb, InvalidQuestion> {
        let text = self.verb.as_deref().ok_or_else(|| invalid("the verb is missing"))?;
        known.iter().find(|verb| verb.as_str() == text).copied().ok_or_else(|| {
            invalid(format!("there is no verb {text:?}{}", suggestion(text, known.iter().map(|verb| verb.as_str()))))
        })
    }

    /// The same request as the gateway would see: some subresources have a verb of their own, whatever is asked.
    fn about(&self, text: &str, namespace: Option<&str>) -> Result<KubeRequest, InvalidQuestion> {
        let (resource, subresource) =
            text.split_once('/').map_or((text, None), |(resource, subresource)| (resource, Some(subresource)));
        let (resource, group) = match (resource.split_once('.'), &self.api_group) {
            (Some((resource, group)), None) => (resource, group.to_owned()),
            (None, Some(group)) => (resource, group.clone()),
            (None, None) => (resource, kubernetes::find(resource, None).map_or("", |own| own.group).to_owned()),
            (Some(_), Some(_)) => return Err(invalid("the API group is given twice")),
        };
        let verb = match (self.verb(verbs::RESOURCE_VERBS)?, resource, subresource) {
            (_, _, Some(subresource)) if kubernetes::CONNECTING.contains(&subresource) => Verb::Connect,
            (_, "serviceaccounts", Some("token")) => Verb::Create,
            (verb, ..) => verb,
        };
        Ok(KubeRequest::Resource(ResourceRequest {
            verb,
            plain_verb: None,
            api_group: group,
            api_version: "v1".to_owned(),
            resource: resource.to_owned(),
            subresource: subresource.map(str::to_owned),
            namespace: namespace.map(str::to_owned),
            name: self.name.clone(),
        }))
    }

    fn protocol(&self, action: &Action) -> Result<Protocol, InvalidQuestion> {
        match (&self.protocol, action) {
            (Some(text), _) => Protocol::parse(text).map_err(|_| invalid(format!("{text:?} is not a protocol"))),
            (None, Action::Bytes) => Ok(Protocol::tcp()),
            (None, Action::Kube(_) | Action::Http { .. }) => Ok(Protocol::http()),
        }
    }
}

fn service(text: &str) -> Result<Target, InvalidQuestion> {
    let bad = || invalid(format!("{text:?} is not a service: write namespace/name or namespace/name:port"));
    let (namespace, spec) = text.split_once('/').ok_or_else(bad)?;
    Ok(ServiceTarget::parse(namespace, spec).map_err(|_| bad())?.into())
}

fn endpoint(text: &str) -> Result<Target, InvalidQuestion> {
    Ok(Endpoint::parse(text).map_err(|error| invalid(format!("{text:?}: {error}")))?.into())
}

// === InvalidQuestion ===

/// A question makes no sense.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidQuestion(String);

impl InvalidQuestion {
    /// The stable code and its remedy.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        ErrorCode {
            code: "MCT-POLICY-QUESTION",
            remedy: "ask as in 'mctunnel can-i get pods -n kube-system --cluster cluster-prod --as alice'",
        }
    }
}

fn invalid(message: impl Into<String>) -> InvalidQuestion {
    InvalidQuestion(message.into())
}
