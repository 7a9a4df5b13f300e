//! Whom a binding, a deny rule or a quota is about. Names are only compared: `system:masters` is a name like any other here.

use crate::{
    file::List,
    names::{Names, is_word},
};
use mctunnel_core::{Identity, User};

/// Some users, by name or by group, of some providers.
#[derive(Debug, Clone)]
pub(crate) struct Subject {
    /// Users by name; none if the list was not given.
    pub(crate) users: Option<Names>,
    /// Groups, each by its exact name.
    pub(crate) groups: Vec<Box<str>>,
    /// Who has to vouch for the user.
    pub(crate) providers: Names,
    /// Whether clients without an identity are meant as well.
    pub(crate) anonymous: bool,
}

impl Subject {
    /// Reads the lists; notes every mistake.
    pub(crate) fn read(
        users: Option<&List>,
        groups: Option<&List>,
        providers: Option<&List>,
        anonymous: bool,
    ) -> Result<Self, Vec<String>> {
        let mut mistakes = Vec::new();
        let mut noted = |read: Result<Names, String>, key: &str| {
            read.map_err(|mistake| mistakes.push(format!("{key}: {mistake}"))).ok()
        };
        let names = users.and_then(|list| noted(Names::parse(&list.0, is_word), "users"));
        let group_names = groups.and_then(|list| {
            let read = Names::parse(&list.0, is_word).and_then(|names| match names {
                Names::Any => Err("there is no wildcard for groups: write users: [\"*\"] for everybody".to_owned()),
                Names::Only(_) => Ok(names),
            });
            noted(read, "groups")
        });
        let has_users = users.is_some() || groups.is_some();
        let providers = match providers {
            Some(list) if has_users => noted(Names::parse(&list.0, is_word), "providers"),
            Some(_) => {
                mistakes.push("providers has no place where no users or groups are named".to_owned());
                None
            }
            None if has_users => {
                mistakes.push(
                    "providers is missing: write providers: [\"*\"] if it does not matter who vouches".to_owned(),
                );
                None
            }
            None => Some(Names::Any),
        };
        if !has_users && !anonymous {
            mistakes.push("who? give users, groups or both; users: [\"*\"] is every user".to_owned());
        }
        match providers {
            Some(providers) if mistakes.is_empty() => Ok(Self {
                users: names,
                groups: group_names.map(|names| names.listed().to_vec()).unwrap_or_default(),
                providers,
                anonymous,
            }),
            _ => Err(mistakes),
        }
    }

    /// Whether every user is meant.
    pub(crate) fn is_everybody(&self) -> bool {
        self.users == Some(Names::Any)
    }

    /// Whether the user is named, by itself or by a group; who vouches for it is another question.
    pub(crate) fn names(&self, user: &User) -> bool {
        self.users.as_ref().is_some_and(|users| users.covers(&user.name))
            || self.groups.iter().any(|own| user.groups.iter().any(|group| **group == **own))
    }

    /// Whether a deny rule or a quota is about the client. Everybody has those without an identity too.
    pub(crate) fn has(&self, identity: &Identity) -> bool {
        match identity.user() {
            Some(user) => self.providers.covers(&user.provider) && self.names(user),
            None => self.anonymous || self.is_everybody(),
        }
    }

    /// Whether it has all that the other one has.
    pub(crate) fn includes(&self, other: &Self) -> bool {
        let users = match (&self.users, &other.users) {
            (Some(own), Some(theirs)) => own.includes(theirs),
            (_, None) => true,
            (None, Some(_)) => false,
        };
        let groups = self.is_everybody() || other.groups.iter().all(|group| self.groups.contains(group));
        users && groups && self.providers.includes(&other.providers) && (self.anonymous || !other.anonymous)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(items: &[&str]) -> Option<List> {
        (!items.is_empty()).then(|| List(items.iter().map(|item| (*item).to_owned()).collect()))
    }

    /// Users, groups and providers, each left out if it is empty.
    fn subject(users: &[&str], groups: &[&str], providers: &[&str], anonymous: bool) -> Subject {
        let (users, groups, providers) = (list(users), list(groups), list(providers));
        Subject::read(users.as_ref(), groups.as_ref(), providers.as_ref(), anonymous).unwrap()
    }

    #[test]
    fn a_subject_has_those_it_names_and_no_others() {
        let user = |name: &str, groups: &[&str]| {
            let groups = groups.iter().map(|group| (*group).into()).collect();
            Identity::from(User { groups, ..User::new(name, "corp") })
        };
        for (subject, alice, bob_of_ops, carol_of_devs_and_ops, nobody) in [
            (subject(&["alice"], &[], &["*"], false), true, false, false, false),
            (subject(&["alice", "bob"], &[], &["corp"], false), true, true, false, false),
            (subject(&[], &["devs"], &["*"], false), false, false, true, false),
            (subject(&[], &["qa", "ops"], &["*"], false), false, true, true, false),
            (subject(&["alice"], &["devs"], &["*"], true), true, false, true, true),
            (subject(&["alice"], &["ops"], &["keys"], false), false, false, false, false),
            (subject(&["*"], &[], &["*"], false), true, true, true, true),
            (subject(&["*"], &[], &["keys"], false), false, false, false, true),
            (subject(&[], &[], &[], true), false, false, false, true),
        ] {
            assert_eq!(subject.has(&user("alice", &[])), alice, "{subject:?}");
            assert_eq!(subject.has(&user("bob", &["ops"])), bob_of_ops, "{subject:?}");
            assert_eq!(subject.has(&user("carol", &["devs", "ops"])), carol_of_devs_and_ops, "{subject:?}");
            assert_eq!(subject.has(&Identity::Anonymous), nobody, "{subject:?}");
        }
    }

    #[test]
    fn a_wider_subject_includes_a_narrower() {
        let alice = || subject(&["alice"], &[], &["*"], false);
        let devs = || subject(&[], &["devs"], &["*"], false);
        let everybody = || subject(&["*"], &[], &["*"], false);
        for (wide, narrow, expected) in [
            (alice(), alice(), true),
            (devs(), devs(), true),
            (everybody(), alice(), true),
            (everybody(), devs(), true),
            (alice(), everybody(), false),
            (devs(), everybody(), false),
            (alice(), devs(), false),
            (devs(), alice(), false),
            (subject(&["alice", "bob"], &["devs"], &["*"], false), alice(), true),
            (subject(&["alice", "bob"], &["devs"], &["*"], false), devs(), true),
            (alice(), subject(&["alice"], &["devs"], &["*"], false), false),
            (devs(), subject(&["alice"], &["devs"], &["*"], false), false),
            (devs(), subject(&[], &["devs", "ops"], &["*"], false), false),
            (alice(), subject(&["alice"], &[], &["corp"], false), true),
            (subject(&["alice"], &[], &["corp"], false), alice(), false),
            (subject(&["alice"], &[], &["corp"], false), subject(&["alice"], &[], &["keys"], false), false),
            (subject(&["alice"], &[], &["*"], true), alice(), true),
            (alice(), subject(&["alice"], &[], &["*"], true), false),
        ] {
            assert_eq!(wide.includes(&narrow), expected, "{wide:?} {narrow:?}");
        }
    }
}
