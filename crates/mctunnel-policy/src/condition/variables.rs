//! What a condition can ask about: the variables, their types, and their values for one request. What a request does not have is an
//! empty text, list or map. What it has and does not tell, because it is about more than one thing or nobody sees what it says, is no
//! value at all: the condition fails unless its answer is the same whatever the value is, as in `false && request.name == 'a'`.

use super::subset::Type;
use crate::{circumstance::facts::Facts, doubt::is_untold};
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

/// What clients choose a name of, as far as it is HTTP.
pub(super) const PROTOCOL: &str = "protocol";

/// Whether `has()` may ask for a variable: a request may have it or not.
pub(super) fn may_be_absent(variable: &str) -> bool {
    variable.starts_with("request.") || variable.starts_with("target.")
}

/// The values of the variables for one request, made when they are asked for.
#[derive(Debug)]
pub(super) struct Variables<'a>(pub(super) &'a Facts<'a>);

impl VariableResolver for Variables<'_> {
    fn resolve<'b>(&'b self, variable: &str) -> Option<CowVal<'b, 'b>> {
        let (area, field) = variable.split_once('.').unwrap_or((variable, ""));
        if is_untold(self.0.access, variable) {
            return None;
        }
        match area {
            "user" => self.user(field),
            "cluster" => self.cluster(field),
            // What `has()` looks into.
            "request" | "target" if field.is_empty() => Some(self.named(area)),
            "request" => self.request(field).map(own_text),
            "target" => self.target(field).map(own_text),
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
                let extra = user.into_iter().flat_map(|user| user.extra.iter().chain(&user.facts));
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

    /// Those variables of an area that the request names, by the last part of their names.
    fn named<'b>(&'b self, area: &str) -> CowVal<'b, 'b> {
        let fields = VARIABLES.iter().filter_map(|(variable, _)| variable.strip_prefix(area)?.strip_prefix('.'));
        let values = fields.filter_map(|field| {
            let value = if area == "request" { self.request(field)? } else { self.target(field)? };
            Some((field, value))
        });
        let named = values.filter(|(_, value)| !value.is_empty());
        let entries = named.map(|(field, value)| (word(field), Box::new(CelString::from(value)) as Box<dyn Val + 'b>));
        CowVal::owned(CelMap::from(entries.collect::<Entries<'b>>()))
    }

    fn request(&self, field: &str) -> Option<Cow<'_, str>> {
        if field == "path" {
            return Some(self.path());
        }
        self.part_of_request(field).map(Cow::Borrowed)
    }

    fn part_of_request(&self, field: &str) -> Option<&str> {
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

    fn target(&self, field: &str) -> Option<Cow<'_, str>> {
        let target = &self.0.access.destination.target;
        let text = match (target, field) {
            (Target::KubeApi, "kind") => "kube-apiserver",
            (Target::Service(_), "kind") => "service",
            (Target::Endpoint(_), "kind") => "endpoint",
            (Target::Service(service), "namespace") => service.namespace.as_str(),
            (Target::Service(service), "service") => service.name.as_str(),
            (Target::Service(service), "port") => match &service.port {
                ServicePort::Only => "",
                ServicePort::Number(number) => return Some(Cow::Owned(number.to_string())),
                ServicePort::Name(name) => name.as_str(),
            },
            (Target::Endpoint(endpoint), "host") => return Some(Cow::Owned(endpoint.host.to_string())),
            (Target::Endpoint(endpoint), "port") => return Some(Cow::Owned(endpoint.port.to_string())),
            (_, "namespace" | "service" | "host" | "port") => "",
            _ => return None,
        };
        Some(Cow::Borrowed(text))
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

fn own_text<'b>(value: Cow<'b, str>) -> CowVal<'b, 'b> {
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
