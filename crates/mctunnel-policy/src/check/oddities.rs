//! Rules that can never decide anything, and words that nothing is called by.

use crate::{
    error::Problem,
    file::{PolicyText, line_of},
    kubernetes::{self, CONNECTING},
    names::Names,
    policy::{Binding, Deny, Role, Rules},
    rule::{Deeds, Rule, resource::Resources},
    verbs::Verbs,
};
use mctunnel_core::{ClusterName, Verb};
use std::collections::BTreeMap;

/// The lines of the parts of a policy, by what they are called in findings.
#[derive(Debug, Default)]
pub(super) struct Lines(BTreeMap<String, u64>);

impl Lines {
    pub(super) fn of(text: &PolicyText) -> Self {
        let mut lines = BTreeMap::new();
        let mut note = |place: String, line: Option<u64>| line.map(|line| lines.insert(place, line));
        for (name, role) in text.roles.iter().flatten() {
            note(format!("role {name}"), line_of(role));
            for (number, rule) in (1..).zip(role.value.rules.iter().flatten()) {
                note(format!("role {name}, rule {number}"), line_of(rule));
            }
        }
        for deny in text.deny.iter().flatten() {
            note(format!("deny {}", deny.value.name), line_of(deny));
            for (number, rule) in (1..).zip(deny.value.rules.iter().flatten()) {
                note(format!("deny {}, rule {number}", deny.value.name), line_of(rule));
            }
        }
        for binding in text.bindings.iter().flatten() {
            note(format!("binding {}", binding.value.name), line_of(binding));
        }
        Self(lines)
    }

    fn problem(&self, place: String, message: impl Into<String>) -> Problem {
        Problem { line: self.0.get(&place).copied(), place, message: message.into() }
    }
}

/// Everything odd.
pub(super) fn find(rules: &Rules, lines: &Lines, now: u64) -> Vec<Problem> {
    let mut found = Vec::new();
    for (position, role) in rules.roles.iter().enumerate() {
        if !rules.bindings.iter().any(|binding| binding.role == position) {
            found.push(lines.problem(format!("role {}", role.name), "no binding gives it to anybody"));
        }
        found.extend(of_role(rules, role, lines));
    }
    for deny in &rules.deny {
        found.extend(of_deny(rules, deny, lines));
    }
    for (position, binding) in rules.bindings.iter().enumerate() {
        let earlier = rules.bindings.get(..position).unwrap_or_default();
        let messages = of_binding(binding, earlier, now);
        found.extend(messages.into_iter().map(|message| lines.problem(format!("binding {}", binding.name), message)));
    }
    found
}

/// Providers that nobody is called by.
pub(super) fn unknown_providers(rules: &Rules, lines: &Lines, providers: &[&str]) -> Vec<Problem> {
    let bindings = rules.bindings.iter().map(|own| (format!("binding {}", own.name), &own.subject));
    let deny = rules.deny.iter().map(|own| (format!("deny {}", own.name), &own.subject));
    let mut found = Vec::new();
    for (place, subject) in bindings.chain(deny) {
        for name in subject.providers.listed().iter().filter(|name| !providers.contains(&&***name)) {
            let near = crate::nearest::suggestion(name, providers.iter().copied());
            found.push(lines.problem(place.clone(), format!("there is no provider {name:?}{near}")));
        }
    }
    found
}

fn of_role(rules: &Rules, role: &Role, lines: &Lines) -> Vec<Problem> {
    let mut found = Vec::new();
    for (position, rule) in role.rules.iter().enumerate() {
        let mut messages = words(rules, rule);
        messages.extend(superfluous(&role.rules, position));
        for deny in rules.deny.iter().filter(|deny| is_always(deny)) {
            if deny.rules.iter().any(|denying| denying.includes(rule)) {
                messages.push(format!("it can never allow anything: deny {} has all of it, for everybody", deny.name));
            }
        }
        let place = format!("role {}, rule {}", role.name, position + 1);
        found.extend(messages.into_iter().map(|message| lines.problem(place.clone(), message)));
    }
    found
}

/// Whether a deny rule is for everybody and under all circumstances.
fn is_always(deny: &Deny) -> bool {
    deny.subject.is_everybody() && deny.subject.providers == Names::Any && deny.circumstances.are_none()
}

fn of_deny(rules: &Rules, deny: &Deny, lines: &Lines) -> Vec<Problem> {
    let mut found = Vec::new();
    for (position, rule) in deny.rules.iter().enumerate() {
        let mut messages = words(rules, rule);
        if let Deeds::Resources { resources, .. } = &rule.deeds {
            messages.extend(half_denied(resources));
        }
        messages.extend(superfluous(&deny.rules, position));
        let place = format!("deny {}, rule {}", deny.name, position + 1);
        found.extend(messages.into_iter().map(|message| lines.problem(place.clone(), message)));
    }
    found
}

/// A rule that an earlier one of the same list makes unreachable.
fn superfluous(rules: &[Rule], position: usize) -> Option<String> {
    let (rule, earlier) = (rules.get(position)?, rules.get(..position)?);
    let by = earlier.iter().position(|earlier| earlier.includes(rule))?;
    Some(format!("it can never decide: rule {} has all of it already", by + 1))
}

/// A deny rule for pods that leaves a way into them.
fn half_denied(resources: &Resources) -> Option<String> {
    let open: Vec<_> = CONNECTING.iter().filter(|way| !resources.covers("pods", Some(way))).copied().collect();
    (resources.covers("pods", None) && !open.is_empty()).then(|| {
        format!(
            "it denies pods, but not pods/{}: a resource never has its subresources; add pods/*",
            open.join(", pods/")
        )
    })
}

fn of_binding(binding: &Binding, earlier: &[Binding], now: u64) -> Vec<String> {
    let mut messages = Vec::new();
    if binding.circumstances.not_after.is_some_and(|end| end <= now) {
        messages.push("it ended: notAfter has passed".to_owned());
    }
    let same = |other: &&Binding| {
        other.role == binding.role && other.circumstances.are_none() && other.subject.includes(&binding.subject)
    };
    if let Some(other) = earlier.iter().find(same) {
        messages.push(format!("it changes nothing: binding {} gives the role to the same users already", other.name));
    }
    messages
}

// === Words ===

/// Clusters, resources and verbs that do not fit together.
fn words(rules: &Rules, rule: &Rule) -> Vec<String> {
    let mut messages = unknown_clusters(rules, rule);
    if let Deeds::Resources { verbs, api_groups, resources, .. } = &rule.deeds {
        for (resource, subresource) in resources.parts() {
            messages.extend(wrong_verb(*verbs, resource, subresource));
            messages.extend(resource.and_then(|resource| unknown_resource(resource, api_groups)));
        }
    }
    messages
}

/// A hub may know more of them.
const NO_SUCH_LABELS: &str =
    "no cluster in this file has these labels: without one that has them by its join token it can never decide";

fn unknown_clusters(rules: &Rules, rule: &Rule) -> Vec<String> {
    match &rule.clusters {
        Names::Only(names) if names.is_empty() => vec![NO_SUCH_LABELS.to_owned()],
        Names::Only(names) if !rules.labels.is_empty() => {
            let is_unknown = |name: &str| ClusterName::parse(name).is_ok_and(|name| !rules.labels.contains_key(&name));
            let unknown = names.iter().filter(|name| is_unknown(name));
            unknown.map(|name| format!("the cluster {name} is not among clusters")).collect()
        }
        Names::Only(_) | Names::Any => Vec::new(),
    }
}

/// Some subresources have one verb, whatever the method, and the habit from Kubernetes is another.
fn wrong_verb(verbs: Verbs, resource: Option<&str>, subresource: Option<&str>) -> Option<String> {
    let (only, shown) = match (resource, subresource?) {
        (_, way) if CONNECTING.contains(&way) => (Verb::Connect, format!("{}/{way}", resource.unwrap_or("*"))),
        (Some("serviceaccounts"), "token") => (Verb::Create, "serviceaccounts/token".to_owned()),
        _ => return None,
    };
    (!verbs.covers(only)).then(|| format!("{shown} is reached by the verb {only} alone, which is not among verbs"))
}

fn unknown_resource(resource: &str, api_groups: &Names) -> Option<String> {
    let Names::Only(groups) = api_groups else { return None };
    if groups.iter().any(|group| kubernetes::find(resource, Some(group)).is_some()) {
        return None;
    }
    if let Some(own) = kubernetes::find(resource, None) {
        return Some(format!("{resource} is in the API group {:?}, which is not among apiGroups", own.group));
    }
    let is_all_known = groups.iter().all(|group| kubernetes::all().any(|own| *own.group == **group));
    let near = crate::nearest::suggestion(resource, kubernetes::all().map(|own| own.resource));
    is_all_known.then(|| format!("Kubernetes has no resource {resource} in these API groups{near}"))
}
