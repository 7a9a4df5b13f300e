//! What a condition can ask about: the variables, their types, and their values for one request. All of them are always there; what a
//! request does not have is an empty text, list or map.

use super::subset::Type;
use crate::circumstance::facts::Facts;
use cel::{
    common::{
        types::{CelInt, CelList, CelMap, CelMapKey, CelString},
        value::{CowVal, Val},
    },
    context::VariableResolver,
};
use mctunnel_core::{Action, KubeRequest, ResourceRequest, ServicePort, Target, bad_target};
use std::borrow::Cow;

/// Every variable, as `docs/security/policy.md` lists them.
pub(super) const VARIABLES: &[(&str, Type)] = &[
    ("user.name", Type::Text),
    ("user.groups", Type::Texts),
    ("user.uid", Type::Text),
    ("user.extra", Type::Lists),
    ("user.provider", Type::Text),
    ("cluster.name", Type::Text),
    ("cluster.labels", Type::Labels),
    ("request.kind", Type::Text),
    ("request.verb", Type::Text),
    ("request.apiGroup", Type::Text),
    ("request.resource", Type::Text),
    ("request.subresource", Type::Text),
    ("request.namespace", Type::Text),
    ("request.name", Type::Text),
    ("request.method", Type::Text),
    ("request.path", Type::Text),
    ("target.kind", Type::Text),
    ("target.namespace", Type::Text),
    ("target.service", Type::Text),
    ("target.host", Type::Text),
    ("target.port", Type::Text),
    ("protocol", Type::Text),
    ("source.ip", Type::Text),
    ("time.weekday", Type::Number),
    ("time.hour", Type::Number),
    ("time.minute", Type::Number),
];

/// What all variables about the time begin with.
pub(super) const TIME: &str = "time.";

/// The values of the variables for one request, made when they are asked for.
#[derive(Debug)]
pub(super) struct Variables<'a>(pub(super) &'a Facts<'a>);

impl VariableResolver for Variables<'_> {
    fn resolve<'b>(&'b self, variable: &str) -> Option<CowVal<'b, 'b>> {
        let (area, field) = variable.split_once('.').unwrap_or((variable, ""));
        match area {
            "user" => self.user(field),
            "cluster" => self.cluster(field),
            "request" if field == "path" => Some(CowVal::owned(CelString::from(self.path()))),
            "request" => self.request(field).map(text),
            "target" => self.target(field),
            "protocol" if field.is_empty() => Some(text(self.0.access.protocol.as_str())),
            "source" if field == "ip" => {
                let source = self.0.source().map(|ip| ip.to_canonical().to_string());
                Some(CowVal::owned(CelString::from(source.unwrap_or_default())))
            }
            "time" => self.time(field),
            _ => None,
        }
    }
}

impl Variables<'_> {
    fn user<'b>(&'b self, field: &str) -> Option<CowVal<'b, 'b>> {
        let user = self.0.access.identity.user();
        Some(match field {
            "name" => text(user.map_or("", |user| &user.name)),
            "uid" => text(user.and_then(|user| user.uid.as_deref()).unwrap_or_default()),
            "provider" => text(user.map_or("", |user| &user.provider)),
            "groups" => list(user.map(|user| &user.groups).into_iter().flatten().map(|group| &**group)),
            "extra" => {
                let extra = user.map(|user| &user.extra).into_iter().flatten();
                let entries = extra.map(|(key, values)| (key.as_str(), texts(values.iter().map(String::as_str))));
                CowVal::owned(CelMap::from(
                    entries
                        .map(|(key, values)| (word(key), Box::new(values) as Box<dyn Val + 'b>))
                        .collect::<Entries<'b>>(),
                ))
            }
            _ => return None,
        })
    }

    fn cluster<'b>(&'b self, field: &str) -> Option<CowVal<'b, 'b>> {
        Some(match field {
            "name" => text(self.0.access.destination.cluster.as_str()),
            "labels" => {
                let labels = self.0.labels.into_iter().flatten();
                let entries = labels
                    .map(|(key, value)| (word(key), Box::new(CelString::from(value.as_str())) as Box<dyn Val + 'b>));
                CowVal::owned(CelMap::from(entries.collect::<Entries<'b>>()))
            }
            _ => return None,
        })
    }

    fn request(&self, field: &str) -> Option<&str> {
        let action = self.0.access.action;
        let of_resource = |part: fn(&ResourceRequest) -> &str| match action {
            Action::Kube(KubeRequest::Resource(request)) => part(request),
            Action::Kube(KubeRequest::NonResource { .. }) | Action::Http { .. } | Action::Bytes => "",
        };
        Some(match field {
            "kind" => match action {
                Action::Kube(KubeRequest::Resource(_)) => "resource",
                Action::Kube(KubeRequest::NonResource { .. }) => "path",
                Action::Http { .. } => "http",
                Action::Bytes => "bytes",
            },
            "verb" => match action {
                Action::Kube(request) => request.verb().as_str(),
                Action::Http { .. } | Action::Bytes => "",
            },
            "apiGroup" => of_resource(|request| &request.api_group),
            "resource" => of_resource(|request| &request.resource),
            "subresource" => of_resource(|request| request.subresource.as_deref().unwrap_or_default()),
            "namespace" => of_resource(|request| request.namespace.as_deref().unwrap_or_default()),
            "name" => of_resource(|request| request.name.as_deref().unwrap_or_default()),
            "method" => match action {
                Action::Http { method, .. } => method,
                Action::Kube(_) | Action::Bytes => "",
            },
            _ => return None,
        })
    }

    /// The path of an HTTP request, decoded: in it `/%61dmin` is `/admin`.
    fn path(&self) -> Cow<'_, str> {
        match self.0.access.action {
            Action::Http { path, .. } if path.contains('%') => {
                let decoded = bad_target::decode(path).and_then(|bytes| String::from_utf8(bytes).ok());
                decoded.map_or(Cow::Borrowed(path.as_str()), Cow::Owned)
            }
            Action::Http { path, .. } | Action::Kube(KubeRequest::NonResource { path, .. }) => Cow::Borrowed(path),
            Action::Kube(KubeRequest::Resource(_)) | Action::Bytes => Cow::Borrowed(""),
        }
    }

    fn target<'b>(&'b self, field: &str) -> Option<CowVal<'b, 'b>> {
        let target = &self.0.access.destination.target;
        let (kind, namespace, service, host, port) = match target {
            Target::KubeApi => ("kube-apiserver", "", "", String::new(), String::new()),
            Target::Service(service) => {
                let port = match &service.port {
                    ServicePort::Only => String::new(),
                    ServicePort::Number(number) => number.to_string(),
                    ServicePort::Name(name) => name.to_string(),
                };
                ("service", service.namespace.as_str(), service.name.as_str(), String::new(), port)
            }
            Target::Endpoint(endpoint) => ("endpoint", "", "", endpoint.host.to_string(), endpoint.port.to_string()),
        };
        Some(match field {
            "kind" => text(kind),
            "namespace" => text(namespace),
            "service" => text(service),
            "host" => CowVal::owned(CelString::from(host)),
            "port" => CowVal::owned(CelString::from(port)),
            _ => return None,
        })
    }

    fn time<'b>(&'b self, field: &str) -> Option<CowVal<'b, 'b>> {
        let (weekday, hour, minute) = self.0.clock();
        let number = match field {
            "weekday" => weekday,
            "hour" => hour,
            "minute" => minute,
            _ => return None,
        };
        Some(CowVal::owned(CelInt::from(i64::from(number))))
    }
}

fn text<'b>(value: &'b str) -> CowVal<'b, 'b> {
    CowVal::owned(CelString::from(value))
}

fn list<'b>(values: impl Iterator<Item = &'b str>) -> CowVal<'b, 'b> {
    CowVal::owned(texts(values))
}

fn texts<'b>(values: impl Iterator<Item = &'b str>) -> CelList<'b> {
    CelList::from(values.map(|value| Box::new(CelString::from(value)) as Box<dyn Val + 'b>).collect::<Vec<_>>())
}

fn word(key: &str) -> CelMapKey<'_> {
    CelMapKey::from(key)
}

#[expect(clippy::disallowed_types, reason = "the engine's maps are made from these; they are never iterated over here")]
type Entries<'b> = std::collections::HashMap<CelMapKey<'b>, Box<dyn Val + 'b>>;
