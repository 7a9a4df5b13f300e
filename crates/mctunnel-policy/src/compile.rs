//! From the text of a policy to the policy. Goes on after a mistake, so that all of them are told at once.

use crate::{
    circumstance::{CircumstanceText, Circumstances},
    condition::Conditions,
    error::Problem,
    file::{BindingText, DenyText, PolicyText, RuleText, line_of},
    policy::{Binding, ClusterLabels, Deny, Grant, Index, Role, Rules, entries},
    quota::rules::QuotaRules,
    rule::{Rule, read::read},
    subject::Subject,
};
use mctunnel_core::ClusterName;
use serde_saphyr::Spanned;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// Compiles a policy; the error has every mistake.
pub(crate) fn compile(text: &PolicyText, known: &ClusterLabels) -> Result<Rules, Vec<Problem>> {
    let mut mistakes = Mistakes::default();
    check_sections(text, &mut mistakes);
    let labels = labels(text, known, &mut mistakes);
    let conditions = conditions(text);
    let roles = roles(text, &labels, &mut mistakes);
    let bindings = bindings(text, &roles, &conditions, &mut mistakes);
    let deny = deny(text, &labels, &conditions, &mut mistakes);
    let quotas = QuotaRules::read(text.quotas.as_deref().unwrap_or_default(), &mut mistakes);
    if !mistakes.0.is_empty() {
        return Err(mistakes.0);
    }
    let circumstances =
        || bindings.iter().map(|own| &own.circumstances).chain(deny.iter().map(|own| &own.circumstances));
    let mut dates: Vec<u64> = circumstances().flat_map(|own| own.not_before.into_iter().chain(own.not_after)).collect();
    dates.sort_unstable();
    let depends_on_the_hour = circumstances().any(Circumstances::depend_on_the_hour);
    let (grants, denials) = (grants(&bindings), denials(&deny));
    Ok(Rules { roles, bindings, deny, grants, denials, labels, quotas: Arc::new(quotas), depends_on_the_hour, dates })
}

/// The mistakes that were found.
#[derive(Debug, Default)]
pub(crate) struct Mistakes(Vec<Problem>);

impl Mistakes {
    pub(crate) fn add(&mut self, line: Option<u64>, place: impl Into<String>, message: impl Into<String>) {
        self.0.push(Problem { line, place: place.into(), message: message.into() });
    }

    /// Notes what went wrong with a part, if anything did.
    fn take<T>(&mut self, line: Option<u64>, place: &str, read: Result<T, Vec<String>>) -> Option<T> {
        read.map_err(|messages| messages.into_iter().for_each(|message| self.add(line, place, message))).ok()
    }
}

/// What must be there is there, also when it is empty: half a file is not a policy.
fn check_sections(text: &PolicyText, mistakes: &mut Mistakes) {
    match text.version {
        Some(1) => {}
        Some(other) => mistakes.add(None, "", format!("version {other} is not known; this is version 1")),
        None => mistakes.add(None, "", "version is missing: write version: 1"),
    }
    if text.roles.is_none() {
        mistakes.add(None, "", "roles is missing: write roles: {} if there are none");
    }
    for (key, is_missing) in [("bindings", text.bindings.is_none()), ("deny", text.deny.is_none())] {
        if is_missing {
            mistakes.add(None, "", format!("{key} is missing: write {key}: [] if there are none"));
        }
    }
}

fn labels(text: &PolicyText, known: &ClusterLabels, mistakes: &mut Mistakes) -> ClusterLabels {
    let mut labels = known.clone();
    for (name, own) in text.clusters.iter().flatten() {
        match ClusterName::parse(name) {
            Ok(cluster) => labels.entry(cluster).or_default().extend(own.0.clone()),
            Err(error) => mistakes.add(None, "clusters", format!("{name:?}: {error}")),
        }
    }
    labels
}

fn conditions(text: &PolicyText) -> Conditions {
    let of_bindings = text.bindings.iter().flatten().filter_map(|binding| binding.value.when.as_deref());
    let of_deny = text.deny.iter().flatten().filter_map(|deny| deny.value.when.as_deref());
    Conditions::compile(of_bindings.chain(of_deny))
}

fn roles(text: &PolicyText, labels: &ClusterLabels, mistakes: &mut Mistakes) -> Vec<Role> {
    let mut roles = Vec::new();
    for (name, role) in text.roles.iter().flatten() {
        let place = format!("role {name}");
        if let Err(message) = is_name(name) {
            mistakes.add(line_of(role), &place, message);
        }
        let rules = rules(role.value.rules.as_deref(), &place, line_of(role), labels, mistakes);
        roles.push(Role { name: name.as_str().into(), rules });
    }
    roles
}

fn rules(
    list: Option<&[Spanned<RuleText>]>,
    place: &str,
    line: Option<u64>,
    labels: &ClusterLabels,
    mistakes: &mut Mistakes,
) -> Vec<Rule> {
    let Some(list) = list.filter(|list| !list.is_empty()) else {
        mistakes.add(line, place, "it has no rules");
        return Vec::new();
    };
    let numbered = (1..).zip(list);
    let read = numbered.filter_map(|(number, rule)| {
        mistakes.take(line_of(rule), &format!("{place}, rule {number}"), read(&rule.value, labels))
    });
    read.collect()
}

fn bindings(text: &PolicyText, roles: &[Role], conditions: &Conditions, mistakes: &mut Mistakes) -> Vec<Binding> {
    let mut seen = BTreeSet::new();
    let mut bindings = Vec::new();
    for binding in text.bindings.iter().flatten() {
        let BindingText { name, role, users, groups, providers, anonymous, .. } = &binding.value;
        let (line, place) = (line_of(binding), format!("binding {name}"));
        check_name(name, &mut seen, line, &place, mistakes);
        let position = roles.binary_search_by(|own| (*own.name).cmp(role)).ok();
        if position.is_none() {
            let near = crate::nearest::suggestion(role, roles.iter().map(|own| &*own.name));
            mistakes.add(line, &place, format!("there is no role {role:?}{near}"));
        }
        let subject = Subject::read(users.as_ref(), groups.as_ref(), providers.as_ref(), *anonymous);
        let subject = mistakes.take(line, &place, subject);
        let circumstances = Circumstances::read(binding.value.circumstances(), conditions);
        let circumstances = mistakes.take(line, &place, circumstances);
        if let (Some(role), Some(subject), Some(circumstances)) = (position, subject, circumstances) {
            bindings.push(Binding { name: name.as_str().into(), role, subject, circumstances });
        }
    }
    bindings
}

fn deny(text: &PolicyText, labels: &ClusterLabels, conditions: &Conditions, mistakes: &mut Mistakes) -> Vec<Deny> {
    let mut seen = BTreeSet::new();
    let mut list = Vec::new();
    for deny in text.deny.iter().flatten() {
        let DenyText { name, users, groups, providers, .. } = &deny.value;
        let (line, place) = (line_of(deny), format!("deny {name}"));
        check_name(name, &mut seen, line, &place, mistakes);
        let subject = Subject::read(users.as_ref(), groups.as_ref(), providers.as_ref(), false);
        let subject = mistakes.take(line, &place, subject);
        let circumstances = Circumstances::read(deny.value.circumstances(), conditions);
        let circumstances = mistakes.take(line, &place, circumstances);
        let rules = rules(deny.value.rules.as_deref(), &place, line, labels, mistakes);
        if let (Some(subject), Some(circumstances)) = (subject, circumstances) {
            list.push(Deny { name: name.as_str().into(), subject, circumstances, rules });
        }
    }
    list
}

/// Names stand in audit records and in answers to people, so each has one owner and no surprises.
fn check_name<'a>(
    name: &'a str,
    seen: &mut BTreeSet<&'a str>,
    line: Option<u64>,
    place: &str,
    mistakes: &mut Mistakes,
) {
    if let Err(message) = is_name(name) {
        mistakes.add(line, place, message);
    }
    if !seen.insert(name) {
        mistakes.add(line, place, "the name is taken");
    }
}

/// Takes 1 to 63 letters, digits, `-`, `_`, `.` and `:`.
pub(crate) fn is_name(text: &str) -> Result<(), String> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b':');
    if (1..=63).contains(&text.len()) && text.bytes().all(is_plain) {
        Ok(())
    } else {
        Err(format!("{text:?} is not a name: take 1 to 63 letters, digits, '-', '_', '.' and ':'"))
    }
}

// === Index ===

fn grants(bindings: &[Binding]) -> Index<Vec<Grant>> {
    let mut index = Index::<BTreeMap<usize, Vec<usize>>>::default();
    for (position, binding) in bindings.iter().enumerate() {
        entries(&mut index, &binding.subject, |roles| roles.entry(binding.role).or_default().push(position));
    }
    let grants = |roles: BTreeMap<usize, Vec<usize>>| -> Vec<Grant> {
        roles.into_iter().map(|(role, bindings)| Grant { role, bindings }).collect()
    };
    Index {
        users: index.users.into_iter().map(|(name, roles)| (name, grants(roles))).collect(),
        groups: index.groups.into_iter().map(|(name, roles)| (name, grants(roles))).collect(),
        everybody: grants(index.everybody),
        anonymous: grants(index.anonymous),
    }
}

fn denials(deny: &[Deny]) -> Index<Vec<usize>> {
    let mut index = Index::<Vec<usize>>::default();
    for (position, own) in deny.iter().enumerate() {
        entries(&mut index, &own.subject, |list| list.push(position));
        if own.subject.is_everybody() {
            // Everybody has those without an identity too, when it is about denying.
            index.anonymous.push(position);
        }
    }
    index
}

// === Texts ===

impl BindingText {
    pub(crate) fn circumstances(&self) -> CircumstanceText<'_> {
        CircumstanceText {
            when: self.when.as_deref(),
            sources: self.sources.as_ref(),
            window: self.window.as_ref(),
            not_before: self.not_before.as_deref(),
            not_after: self.not_after.as_deref(),
        }
    }
}

impl DenyText {
    pub(crate) fn circumstances(&self) -> CircumstanceText<'_> {
        CircumstanceText {
            when: self.when.as_deref(),
            sources: self.sources.as_ref(),
            window: self.window.as_ref(),
            not_before: self.not_before.as_deref(),
            not_after: self.not_after.as_deref(),
        }
    }
}
