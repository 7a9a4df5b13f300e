//! A policy that decides: bindings by user and by group, deny rules first. Immutable, so that a decision rests on one state of it.

#[cfg(test)]
mod tests;

use crate::{
    circumstance::{Circumstances, facts::Facts, seconds},
    compile,
    doubt::without_upgrade,
    error::PolicyError,
    file::PolicyText,
    names::Names,
    quota::rules::QuotaRules,
    rule::{Rule, Sense, asked::What},
    subject::Subject,
};
use mctunnel_core::{Access, Authorize, ClusterName, Decision, Identity};
use std::{collections::BTreeMap, fmt, sync::Arc, time::SystemTime};

/// The labels of clusters, by which rules can choose them.
pub type ClusterLabels = BTreeMap<ClusterName, BTreeMap<String, String>>;

/// Why something is denied that no rule is about.
pub(crate) const NO_RULE: &str = "no rule allows it";

/// Roles, bindings and deny rules, read and ready. Cheap to clone.
#[derive(Clone)]
pub struct Policy {
    pub(crate) rules: Arc<Rules>,
}

impl Policy {
    /// Reads a policy. An error has every mistake that was found.
    pub fn parse(text: &str) -> Result<Self, PolicyError> {
        Self::parse_with(text, &ClusterLabels::new())
    }

    /// Reads a policy, with labels of clusters that are known from elsewhere. Of two values for one label the policy's own counts.
    pub fn parse_with(text: &str, labels: &ClusterLabels) -> Result<Self, PolicyError> {
        let text = PolicyText::parse(text).map_err(PolicyError::Syntax)?;
        let rules = compile::compile(&text, labels).map_err(PolicyError::Invalid)?;
        Ok(Self { rules: Arc::new(rules) })
    }

    /// The policy that allows nothing.
    #[must_use]
    pub fn deny_all() -> Self {
        Self { rules: Arc::default() }
    }

    /// Decides a request that comes at a given time.
    #[must_use]
    pub fn decide(&self, access: &Access<'_>, now: SystemTime) -> Decision {
        self.rules.decide(access, seconds(now))
    }

    /// Decides whether some of what a request for many is about could be allowed, as if it came at a given time. A rule for one
    /// namespace is enough, and only what is certainly denied as a whole is denied.
    #[must_use]
    pub fn decide_some(&self, access: &Access<'_>, now: SystemTime) -> Decision {
        self.rules.decide_in(access, seconds(now), Sense::Certainly, Sense::Possibly)
    }

    /// How many roles there are, how many bindings and how many deny rules.
    #[must_use]
    pub fn size(&self) -> (usize, usize, usize) {
        (self.rules.roles.len(), self.rules.bindings.len(), self.rules.deny.len())
    }

    /// The providers that are named somewhere in it.
    #[must_use]
    pub fn providers(&self) -> Vec<&str> {
        let subjects = self.rules.bindings.iter().map(|binding| &binding.subject);
        let subjects = subjects.chain(self.rules.deny.iter().map(|deny| &deny.subject));
        let mut names: Vec<&str> =
            subjects.flat_map(|subject| subject.providers.listed().iter().map(|name| &**name)).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// A number that changes whenever time alone may have changed a decision; below 2^40.
    pub(crate) fn age(&self, now: SystemTime) -> u64 {
        let now = seconds(now);
        let minutes = if self.rules.depends_on_the_hour { now / 60 } else { 0 };
        let passed = self.rules.dates.partition_point(|date| *date <= now);
        (minutes + u64::try_from(passed).unwrap_or_default()) & ((1 << 40) - 1)
    }
}

impl Authorize for Policy {
    fn authorize(&self, access: &Access<'_>) -> Decision {
        self.decide(access, SystemTime::now())
    }

    fn authorize_some(&self, access: &Access<'_>) -> Decision {
        self.decide_some(access, SystemTime::now())
    }

    fn generation(&self) -> u64 {
        self.age(SystemTime::now())
    }
}

impl fmt::Debug for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (roles, bindings, deny) = self.size();
        write!(f, "Policy({roles} roles, {bindings} bindings, {deny} deny rules)")
    }
}

// === Rules ===

/// What a policy is made of. References between its parts are positions in its lists.
#[derive(Debug, Default)]
pub(crate) struct Rules {
    pub(crate) roles: Vec<Role>,
    pub(crate) bindings: Vec<Binding>,
    pub(crate) deny: Vec<Deny>,
    /// Which bindings to look at for whom.
    pub(crate) grants: Index<Vec<Grant>>,
    /// Which deny rules to look at for whom.
    pub(crate) denials: Index<Vec<usize>>,
    pub(crate) labels: ClusterLabels,
    pub(crate) quotas: Arc<QuotaRules>,
    /// Whether the passing of a minute can change a decision.
    pub(crate) depends_on_the_hour: bool,
    /// When bindings begin and end, in seconds since 1970, sorted.
    pub(crate) dates: Vec<u64>,
}

/// What may be done.
#[derive(Debug)]
pub(crate) struct Role {
    pub(crate) name: Arc<str>,
    pub(crate) rules: Vec<Rule>,
}

/// Who may do it.
#[derive(Debug)]
pub(crate) struct Binding {
    pub(crate) name: Arc<str>,
    pub(crate) role: usize,
    pub(crate) subject: Subject,
    pub(crate) circumstances: Circumstances,
}

/// Who may not do what.
#[derive(Debug)]
pub(crate) struct Deny {
    pub(crate) name: Arc<str>,
    pub(crate) subject: Subject,
    pub(crate) circumstances: Circumstances,
    pub(crate) rules: Vec<Rule>,
}

/// A role and the bindings that give it to somebody, in the order of the file.
#[derive(Debug)]
pub(crate) struct Grant {
    pub(crate) role: usize,
    pub(crate) bindings: Vec<usize>,
}

/// Something by user, by group, for everybody, and for those without an identity.
#[derive(Debug, Default)]
pub(crate) struct Index<T> {
    pub(crate) users: ByName<T>,
    pub(crate) groups: ByName<T>,
    pub(crate) everybody: T,
    pub(crate) anonymous: T,
}

/// Asked for each group of each request, where a tree of thousands of names costs more than all else of a decision, and the hash that
/// withstands chosen names costs as much as what is then compared. The names in it are the operator's own.
#[expect(
    clippy::disallowed_types,
    reason = "only looked up: decisions go by positions in the file, never by its order"
)]
pub(crate) type ByName<T> = std::collections::HashMap<Box<str>, T, foldhash::fast::RandomState>;

impl<T> Index<T> {
    /// What there is for a client.
    fn of<'a>(&'a self, identity: &'a Identity) -> impl Iterator<Item = &'a T> {
        let user = identity.user();
        let groups = user.map(|user| user.groups.as_slice()).unwrap_or_default();
        let anonymous = user.is_none().then_some(&self.anonymous);
        let everybody = user.is_some().then_some(&self.everybody);
        let named = user.and_then(|user| self.users.get(&*user.name));
        named
            .into_iter()
            .chain(groups.iter().filter_map(|group| self.groups.get(&**group)))
            .chain(everybody)
            .chain(anonymous)
    }
}

impl Rules {
    fn decide(&self, access: &Access<'_>, seconds: u64) -> Decision {
        self.decide_in(access, seconds, Sense::Possibly, Sense::Certainly)
    }

    /// Decides with deny rules and allow rules asked in these senses. What asks for an upgrade is decided as what it is with it and as
    /// what it is without, and has to be allowed as both.
    fn decide_in(&self, access: &Access<'_>, seconds: u64, denies: Sense, allows: Sense) -> Decision {
        let decision = self.decide_as_it_is(access, seconds, denies, allows);
        match without_upgrade(access.action) {
            Some(action) if decision.is_allowed() => {
                let plain = self.decide_as_it_is(&Access { action: &action, ..*access }, seconds, denies, allows);
                if plain.is_allowed() { decision } else { plain }
            }
            Some(_) | None => decision,
        }
    }

    fn decide_as_it_is(&self, access: &Access<'_>, seconds: u64, denies: Sense, allows: Sense) -> Decision {
        let what = match What::of(access) {
            Ok(what) => what,
            Err(reason) => return Decision::denied(reason),
        };
        let cluster = &access.destination.cluster;
        let facts = Facts { access, labels: self.labels.get(cluster), seconds };
        if let Some((deny, rule)) = self.first_denial(&what, &facts, denies) {
            return Decision::denied(format!("deny {deny}, rule {}", rule + 1));
        }
        match self.first_grant(&what, &facts, allows) {
            Some((binding, rule)) => {
                let role = self.roles.get(binding.role).map(|role| &*role.name).unwrap_or_default();
                Decision::allowed(format!("role {role}, rule {}, binding {}", rule + 1, binding.name))
            }
            None => Decision::denied(NO_RULE),
        }
    }

    /// The first deny rule, in the order of the file, that is about the request in this sense.
    fn first_denial(&self, what: &What<'_>, facts: &Facts<'_>, sense: Sense) -> Option<(&str, usize)> {
        let identity = facts.access.identity;
        let mut first: Option<(usize, usize)> = None;
        for position in self.denials.of(identity).flatten().copied() {
            if first.is_some_and(|(earlier, _)| earlier <= position) {
                continue;
            }
            let Some(deny) = self.deny.get(position) else { continue };
            if let Some(rule) = first_covering(&deny.rules, what, facts.access, sense)
                && deny.subject.has(identity)
                && deny.circumstances.hold(facts, sense)
            {
                first = Some((position, rule));
            }
        }
        first.and_then(|(position, rule)| Some((&*self.deny.get(position)?.name, rule)))
    }

    /// The first binding, in the order of the file, that allows the request in this sense, and the rule of its role.
    fn first_grant(&self, what: &What<'_>, facts: &Facts<'_>, sense: Sense) -> Option<(&Binding, usize)> {
        let mut first: Option<(usize, usize)> = None;
        for grant in self.grants.of(facts.access.identity).flatten() {
            let is_late = |position: &usize| first.is_some_and(|(earlier, _)| earlier <= *position);
            if grant.bindings.first().is_none_or(is_late) {
                continue;
            }
            let Some(role) = self.roles.get(grant.role) else { continue };
            let Some(rule) = first_covering(&role.rules, what, facts.access, sense) else { continue };
            let earlier = grant.bindings.iter().copied().take_while(|position| !is_late(position));
            let applies = |position: &usize| self.bindings.get(*position).is_some_and(|own| own.applies(facts, sense));
            let found = earlier.into_iter().find(applies);
            if let Some(position) = found {
                first = Some((position, rule));
            }
        }
        first.and_then(|(position, rule)| Some((self.bindings.get(position)?, rule)))
    }
}

impl Binding {
    /// Whether it applies to a client that it was found for.
    fn applies(&self, facts: &Facts<'_>, sense: Sense) -> bool {
        let vouched = match facts.access.identity.user() {
            Some(user) => self.subject.providers.covers(&user.provider),
            None => self.subject.anonymous,
        };
        vouched && self.circumstances.hold(facts, sense)
    }
}

/// The position of the first rule that covers the request.
fn first_covering(rules: &[Rule], what: &What<'_>, access: &Access<'_>, sense: Sense) -> Option<usize> {
    let cluster = access.destination.cluster.as_str();
    rules.iter().position(|rule| rule.covers(what, cluster, access.protocol, sense))
}

/// Where a part belongs in an index.
pub(crate) fn entries<T: Default>(index: &mut Index<T>, subject: &Subject, mut add: impl FnMut(&mut T)) {
    match &subject.users {
        Some(Names::Any) => add(&mut index.everybody),
        Some(Names::Only(names)) => names.iter().for_each(|name| add(index.users.entry(name.clone()).or_default())),
        None => {}
    }
    for group in &subject.groups {
        add(index.groups.entry(group.clone()).or_default());
    }
    if subject.anonymous {
        add(&mut index.anonymous);
    }
}
