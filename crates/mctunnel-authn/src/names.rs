//! From the names a provider finds in a credential to the names policy, audit and clusters see: mapped, or with a prefix, and never
//! one that somebody else owns.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// Longer names are refused.
const LONGEST: usize = 512;

/// Names that Kubernetes keeps for itself: `system:masters` may do everything.
const SYSTEM: &str = "system:";

/// How the names of a provider are made.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NameRules {
    /// What is put before the name of each user that is not in [`users`](Self::users).
    pub user_prefix: String,
    /// What is put before the name of each group that is not in [`groups`](Self::groups).
    pub group_prefix: String,
    /// Users by what the credential calls them, with what they are called here. The only way to a name with `system:`.
    pub users: BTreeMap<String, String>,
    /// Groups, likewise.
    pub groups: BTreeMap<String, String>,
    /// Prefixes of other providers: a name that begins with one of them would be one of theirs.
    pub reserved: Vec<String>,
}

impl NameRules {
    /// What is wrong with the rules themselves.
    pub(crate) fn problem(&self) -> Option<String> {
        let prefixes = [&self.user_prefix, &self.group_prefix];
        if prefixes.iter().any(|prefix| is_system(prefix)) {
            return Some(format!("a prefix must not begin with '{SYSTEM}'"));
        }
        let targets = self.users.values().chain(self.groups.values());
        prefixes.into_iter().filter(|prefix| !prefix.is_empty()).chain(targets).find_map(|name| {
            plain(name).err().map(|reason| format!("'{}' cannot be a name: {reason}", name.escape_debug()))
        })
    }

    /// Keeps those of the prefixes that a name made by these rules could begin with. They are part of what a provider is: whom it has
    /// let in under names that belong to another one now it must not remember.
    pub(crate) fn reserve(&mut self, prefixes: &BTreeSet<String>) {
        let own = [&self.user_prefix, &self.group_prefix];
        let is_reachable =
            |prefix: &&String| own.iter().any(|own| prefix.len() > own.len() && prefix.starts_with(own.as_str()));
        self.reserved = prefixes.iter().filter(is_reachable).cloned().collect();
    }

    pub(crate) fn user(&self, found: &str) -> Result<Arc<str>, BadName> {
        self.name(found, &self.user_prefix, &self.users)
    }

    pub(crate) fn group(&self, found: &str) -> Result<Arc<str>, BadName> {
        self.name(found, &self.group_prefix, &self.groups)
    }

    fn name(&self, found: &str, prefix: &str, mapped: &BTreeMap<String, String>) -> Result<Arc<str>, BadName> {
        if let Some(name) = mapped.get(found) {
            return Ok(name.as_str().into());
        }
        plain(found)?;
        let name = format!("{prefix}{found}");
        plain(&name)?;
        if is_system(&name) {
            return Err(BadName::System);
        }
        // A prefix that is no longer than ours is part of ours, or is not there.
        let of_another = |other: &String| other.len() > prefix.len() && name.starts_with(other.as_str());
        if self.reserved.iter().any(of_another) {
            return Err(BadName::Reserved);
        }
        Ok(name.into())
    }
}

// === BadName ===

/// A name nobody can have. The message has nothing of the name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BadName {
    #[error("it is empty")]
    Empty,
    #[error("it is longer than {LONGEST} bytes")]
    TooLong,
    #[error("it has control characters, or characters that stand for others")]
    Control,
    #[error("it begins or ends with a space")]
    Spaces,
    #[error("it begins with 'system:', which Kubernetes keeps for itself, and is not mapped")]
    System,
    #[error("it begins with the prefix of another provider")]
    Reserved,
}

/// A name that means the same everywhere: in a header, where spaces around it are dropped, in a log, on a terminal.
fn plain(name: &str) -> Result<(), BadName> {
    if name.is_empty() {
        return Err(BadName::Empty);
    }
    if name.len() > LONGEST {
        return Err(BadName::TooLong);
    }
    if name.chars().any(|c| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}' | '\u{fffd}')) {
        return Err(BadName::Control);
    }
    if name.starts_with(char::is_whitespace) || name.ends_with(char::is_whitespace) {
        return Err(BadName::Spaces);
    }
    Ok(())
}

fn is_system(name: &str) -> bool {
    name.get(..SYSTEM.len()).is_some_and(|start| start.eq_ignore_ascii_case(SYSTEM))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(prefix: &str, reserved: &[&str]) -> NameRules {
        NameRules {
            user_prefix: prefix.to_owned(),
            group_prefix: prefix.to_owned(),
            reserved: reserved.iter().map(|&one| one.to_owned()).collect(),
            users: [("system:admin".to_owned(), "root@example.com".to_owned())].into(),
            groups: [("admins".to_owned(), "system:masters".to_owned())].into(),
        }
    }

    #[test]
    fn t05_names_of_the_system_are_refused_unless_they_are_mapped() {
        let bare = rules("", &[]);
        for name in ["system:masters", "system:node:n1", "system:serviceaccount:a:b", "system:", "SYSTEM:masters"] {
            assert_eq!(bare.user(name), Err(BadName::System), "{name}");
            assert_eq!(bare.group(name), Err(BadName::System), "{name}");
            assert_eq!(rules("oidc:", &[]).user(name).unwrap().as_ref(), format!("oidc:{name}"));
        }
        assert_eq!(bare.user("system:admin").unwrap().as_ref(), "root@example.com");
        assert_eq!(bare.group("admins").unwrap().as_ref(), "system:masters", "the operator said so");
        assert_eq!(bare.user("systemic").unwrap().as_ref(), "systemic");
        let half = NameRules { user_prefix: "sys".to_owned(), ..NameRules::default() };
        assert_eq!(half.user("tem:masters"), Err(BadName::System), "the name as it will be is what counts");
    }

    #[test]
    fn t05_prefixes_that_a_name_could_begin_with_are_reserved() {
        let prefixes = ["a:", "key:", "key:x:", "other-key:", "key"].map(str::to_owned).into();
        let reserved = |user: &str, group: &str| {
            let (user_prefix, group_prefix) = (user.to_owned(), group.to_owned());
            let mut rules = NameRules { user_prefix, group_prefix, ..NameRules::default() };
            rules.reserve(&prefixes);
            rules.reserved.join(" ")
        };
        assert_eq!(reserved("key:", "key:"), "key:x:", "what is no longer than ours is ours");
        assert_eq!(reserved("key:", "a:"), "key:x:", "by its users or by its groups");
        assert_eq!(reserved("key:", ""), "a: key key: key:x: other-key:");
    }

    #[test]
    fn t05_no_provider_makes_names_of_another() {
        assert_eq!(rules("", &["corp:", "cluster:hub:"]).user("corp:alice"), Err(BadName::Reserved));
        assert_eq!(rules("", &["cluster:hub:"]).group("cluster:hub:x"), Err(BadName::Reserved));
        assert_eq!(rules("corp:", &["corp:partner:"]).user("partner:bob"), Err(BadName::Reserved));
        assert_eq!(rules("corp:partner:", &["corp:"]).user("bob").unwrap().as_ref(), "corp:partner:bob");
        assert_eq!(rules("corp:", &["corp:"]).user("bob").unwrap().as_ref(), "corp:bob", "two that share a prefix");
    }

    #[test]
    fn a_name_means_the_same_everywhere() {
        let long = "a".repeat(LONGEST + 1);
        for bad in [
            "",
            " alice",
            "alice ",
            "a\nb",
            "a\r\nX: y",
            "a\u{1b}[31m",
            "a\0",
            "a\u{2028}b",
            "a\u{2029}b",
            "a\u{3000}",
            "\u{a0}a",
            "\u{fffd}",
            &long,
        ] {
            assert!(rules("", &[]).user(bad).is_err(), "{bad:?}");
            assert!(rules("corp:", &[]).user(bad).is_err(), "{bad:?}");
        }
        let longest = "a".repeat(LONGEST);
        for good in ["alice", "alice@example.com", "Ünal Ö", "https://idp/x#1", "a b", &longest] {
            assert_eq!(rules("", &[]).user(good).unwrap().as_ref(), good);
        }
        assert_eq!(rules("corp:", &[]).user(&longest), Err(BadName::TooLong), "with its prefix it is too long");
    }

    #[test]
    fn prefixes_and_targets_are_checked_before_they_are_used() {
        for bad in ["system:", "System:x:", "a\n", " a"] {
            assert!(rules(bad, &[]).problem().is_some(), "{bad:?}");
            for half in [
                NameRules { user_prefix: bad.to_owned(), ..NameRules::default() },
                NameRules { group_prefix: bad.to_owned(), ..NameRules::default() },
            ] {
                assert!(half.problem().is_some(), "{bad:?}");
            }
        }
        for good in ["", "corp:", "system-x:"] {
            assert_eq!(rules(good, &[]).problem(), None, "{good:?}");
        }
        let empty = NameRules { users: [("a".to_owned(), String::new())].into(), ..NameRules::default() };
        assert!(empty.problem().is_some());
        let empty = NameRules { groups: [("a".to_owned(), "b\n".to_owned())].into(), ..NameRules::default() };
        assert!(empty.problem().is_some());
    }
}
