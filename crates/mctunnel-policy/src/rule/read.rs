//! From the text of a rule to the rule. Each kind needs all of its keys and takes no others: what is left out is not a wildcard, and
//! what does not belong there would be silently without effect.

use super::{Deeds, Rule, path::Paths, resource::Resources, target::Targets};
use crate::{
    file::{List, RuleText},
    names::{Names, is_word},
    policy::ClusterLabels,
    verbs::{PATH_VERBS, RESOURCE_VERBS, Verbs},
};
use mctunnel_core::{ClusterName, Protocol, target::Label};

/// Reads a rule; gives every mistake it has.
pub(crate) fn read(text: &RuleText, labels: &ClusterLabels) -> Result<Rule, Vec<String>> {
    let mut mistakes = Vec::new();
    let clusters = clusters(text, labels).map_err(|mistake| mistakes.push(mistake)).ok();
    let deeds = deeds(text, &mut mistakes);
    match (clusters, deeds) {
        (Some(clusters), Some(deeds)) if mistakes.is_empty() => Ok(Rule { clusters, deeds }),
        _ => Err(mistakes),
    }
}

// === Where ===

fn clusters(text: &RuleText, labels: &ClusterLabels) -> Result<Names, String> {
    match (&text.clusters, &text.cluster_labels) {
        (Some(list), None) => {
            let is_cluster =
                |name: &str| ClusterName::parse(name).map(drop).map_err(|error| format!("{name:?}: {error}"));
            Names::parse(&list.0, is_cluster).map_err(|mistake| format!("clusters: {mistake}"))
        }
        (None, Some(wanted)) if wanted.is_empty() => {
            Err("clusterLabels is empty, which is not a wildcard: write clusters: [\"*\"] for all".to_owned())
        }
        (None, Some(wanted)) => {
            let fitting =
                labels.iter().filter(|(_, own)| wanted.iter().all(|(key, value)| own.get(key) == Some(value)));
            // The map's order is the set's order.
            Ok(Names::Only(fitting.map(|(name, _)| name.as_str().into()).collect()))
        }
        (Some(_), Some(_)) => Err("give clusters or clusterLabels, not both".to_owned()),
        (None, None) => Err("which clusters? give clusters: [\"*\"] for all, names, or clusterLabels".to_owned()),
    }
}

// === What ===

fn deeds(text: &RuleText, mistakes: &mut Vec<String>) -> Option<Deeds> {
    let has_http = text.services.is_some() || text.endpoints.is_some();
    let kinds = [text.resources.is_some(), text.non_resource_paths.is_some(), has_http, text.bytes.is_some()];
    if kinds.iter().filter(|is_there| **is_there).count() != 1 {
        mistakes.push(
            "a rule has exactly one of resources, nonResourcePaths, services (or endpoints, or both), bytes".to_owned(),
        );
        return None;
    }
    let mut keys = Keys { text, mistakes };
    match kinds {
        [true, ..] => keys.resources(),
        [_, true, ..] => keys.paths(),
        [_, _, true, _] => keys.http(),
        _ => keys.bytes(),
    }
}

/// The keys of a rule, taken one by one; what is wrong is noted.
struct Keys<'a> {
    text: &'a RuleText,
    mistakes: &'a mut Vec<String>,
}

impl Keys<'_> {
    fn resources(&mut self) -> Option<Deeds> {
        self.refuse_others(&["namespaces", "apiGroups", "resources", "names", "verbs"]);
        let verbs = self.need("verbs", |list| Verbs::parse(list, RESOURCE_VERBS));
        let api_groups = self.need("apiGroups", |list| Names::parse(list, is_api_group));
        let resources = self.need("resources", Resources::parse);
        let namespaces = self.need("namespaces", |list| Names::parse(list, is_namespace));
        let names = self.need("names", |list| Names::parse(list, is_object_name));
        Some(Deeds::Resources {
            verbs: verbs?,
            api_groups: api_groups?,
            resources: resources?,
            namespaces: namespaces?,
            names: names?,
        })
    }

    fn paths(&mut self) -> Option<Deeds> {
        self.refuse_others(&["nonResourcePaths", "verbs"]);
        let verbs = self.need("verbs", |list| Verbs::parse(list, PATH_VERBS));
        let paths = self.need("nonResourcePaths", Paths::parse);
        Some(Deeds::Paths { verbs: verbs?, paths: paths? })
    }

    fn http(&mut self) -> Option<Deeds> {
        self.refuse_others(&["services", "endpoints", "methods", "paths", "protocols"]);
        let items = |list: &Option<List>| list.as_ref().map(|list| list.0.clone()).unwrap_or_default();
        let (services, endpoints) = (items(&self.text.services), items(&self.text.endpoints));
        let targets = Targets::for_http(&services, &endpoints).map_err(|mistake| self.mistakes.push(mistake)).ok();
        let methods = self.need("methods", |list| Names::parse(list, is_method));
        let paths = self.need("paths", Paths::parse);
        let protocols = self.need("protocols", |list| Names::parse(list, is_protocol));
        Some(Deeds::Http { targets: targets?, methods: methods?, paths: paths?, protocols: protocols? })
    }

    fn bytes(&mut self) -> Option<Deeds> {
        self.refuse_others(&["bytes", "protocols"]);
        let targets = self.need("bytes", Targets::for_bytes);
        let protocols = self.need("protocols", |list| Names::parse(list, is_protocol));
        Some(Deeds::Bytes { targets: targets?, protocols: protocols? })
    }

    /// A list that must be there.
    fn need<T>(&mut self, key: &str, read: impl FnOnce(&[String]) -> Result<T, String>) -> Option<T> {
        let list = lists(self.text).into_iter().find(|(name, _)| *name == key).and_then(|(_, list)| list);
        let read = match list {
            Some(list) => read(&list.0).map_err(|mistake| format!("{key}: {mistake}")),
            None => Err(format!("{key} is missing: a list left out is not a wildcard, write {key}: [\"*\"] for all")),
        };
        read.map_err(|mistake| self.mistakes.push(mistake)).ok()
    }

    /// Notes lists that this kind of rule does not have.
    fn refuse_others(&mut self, own: &[&str]) {
        for (key, list) in lists(self.text) {
            if list.is_some() && !own.contains(&key) {
                self.mistakes.push(format!("{key} has no place in a rule with {}", own.join(", ")));
            }
        }
    }
}

/// The lists of a rule besides its clusters, by their keys.
fn lists(text: &RuleText) -> [(&'static str, Option<&List>); 12] {
    [
        ("namespaces", text.namespaces.as_ref()),
        ("apiGroups", text.api_groups.as_ref()),
        ("resources", text.resources.as_ref()),
        ("names", text.names.as_ref()),
        ("verbs", text.verbs.as_ref()),
        ("nonResourcePaths", text.non_resource_paths.as_ref()),
        ("services", text.services.as_ref()),
        ("endpoints", text.endpoints.as_ref()),
        ("methods", text.methods.as_ref()),
        ("paths", text.paths.as_ref()),
        ("bytes", text.bytes.as_ref()),
        ("protocols", text.protocols.as_ref()),
    ]
}

// === Spelling ===

fn is_api_group(text: &str) -> Result<(), String> {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'.');
    if text.len() <= 253 && text.bytes().all(is_plain) {
        Ok(())
    } else {
        Err(format!(
            "{text:?} is not an API group: write \"\" for the core group, apps, rbac.authorization.k8s.io; no version"
        ))
    }
}

fn is_namespace(text: &str) -> Result<(), String> {
    Label::parse(text).map(drop).map_err(|_| format!("{text:?} is not a namespace's name"))
}

fn is_object_name(text: &str) -> Result<(), String> {
    is_word(text)?;
    if text.contains(['/', '%']) || matches!(text, "." | "..") {
        return Err(format!("{text:?} is not an object's name"));
    }
    Ok(())
}

fn is_method(text: &str) -> Result<(), String> {
    if !text.is_empty() && text.len() <= 32 && text.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'-') {
        Ok(())
    } else {
        Err(format!("{text:?} is not an HTTP method: write it in upper case, as in GET"))
    }
}

fn is_protocol(text: &str) -> Result<(), String> {
    Protocol::parse(text)
        .map(drop)
        .map_err(|_| format!("{text:?} is not a protocol: write tcp, http, grpc or an adapter's"))
}
