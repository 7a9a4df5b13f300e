//! A ServiceAccount of the hub's own Kubernetes cluster: who may vouch for the agent of a cluster. It is a name and nothing else; that
//! somebody is that account, the cluster says.

use mctunnel_core::target::Label;
use std::{fmt, str::FromStr};

/// What Kubernetes calls an account where it names users.
const USER: &str = "system:serviceaccount:";

/// The longest name of an account, as in Kubernetes.
const LONGEST: usize = 253;

/// A ServiceAccount, `namespace/name`. There is one spelling of each.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ServiceAccount {
    namespace: Label,
    name: String,
}

impl ServiceAccount {
    /// Reads what it prints: `namespace/name`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (namespace, name) = text.split_once('/')?;
        Self::new(namespace, name)
    }

    /// The account that a cluster means by a user: exactly `system:serviceaccount:NAMESPACE:NAME`. No other user is one.
    #[must_use]
    pub fn of_user(user: &str) -> Option<Self> {
        let (namespace, name) = user.strip_prefix(USER)?.split_once(':')?;
        Self::new(namespace, name)
    }

    fn new(namespace: &str, name: &str) -> Option<Self> {
        let namespace = Label::parse(namespace).ok()?;
        is_subdomain(name).then(|| Self { namespace, name: name.to_owned() })
    }
}

/// Whether Kubernetes would take it for the name of an object: labels with dots between them.
fn is_subdomain(name: &str) -> bool {
    let is_letter = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_label = |label: &str| {
        let bytes = label.as_bytes();
        let ends = bytes.first().is_some_and(is_letter) && bytes.last().is_some_and(is_letter);
        ends && bytes.iter().all(|byte| is_letter(byte) || *byte == b'-')
    };
    name.len() <= LONGEST && name.split('.').all(is_label)
}

impl fmt::Display for ServiceAccount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

impl FromStr for ServiceAccount {
    type Err = NotAnAccount;

    fn from_str(text: &str) -> Result<Self, NotAnAccount> {
        Self::parse(text).ok_or(NotAnAccount)
    }
}

/// The text names no ServiceAccount.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a ServiceAccount is written NAMESPACE/ACCOUNT, as in fleet/cluster-a")]
pub struct NotAnAccount;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_has_one_spelling() {
        let long = "a".repeat(253);
        for name in ["runner", "a", "9", "a-b", "a.b-c.d", long.as_str()] {
            let text = format!("fleet/{name}");
            let account = ServiceAccount::parse(&text).unwrap();
            assert_eq!(account.to_string(), text);
            assert_eq!(ServiceAccount::of_user(&format!("system:serviceaccount:fleet:{name}")), Some(account));
        }
    }

    #[test]
    fn t29_no_other_user_is_an_account() {
        let long = format!("system:serviceaccount:fleet:{}", "a".repeat(254));
        for user in [
            "",
            "alice",
            "fleet/runner",
            "fleet:runner",
            "system:serviceaccount:",
            "system:serviceaccount:fleet",
            "system:serviceaccount:fleet:",
            "system:serviceaccount::runner",
            "system:serviceaccount:fleet:runner:",
            "system:serviceaccount:fleet:a:b",
            "system:serviceaccount:fleet:a/b",
            "system:serviceaccount:fleet/x:a",
            "system:serviceaccount:fleet.x:a",
            "system:serviceaccount:fleet:Runner",
            "system:serviceaccount:Fleet:runner",
            "system:serviceaccount:fleet:runner ",
            " system:serviceaccount:fleet:runner",
            "system:serviceaccount:fleet:runner\n",
            "system:serviceaccount:fleet:run\u{e9}",
            "system:serviceaccount:fleet:.a",
            "system:serviceaccount:fleet:a..b",
            "system:serviceaccount:fleet:-a",
            "system:serviceaccount:fleet:a-.b",
            "system:serviceaccounts:fleet:runner",
            "System:serviceaccount:fleet:runner",
            "cluster:hub:system:serviceaccount:fleet:runner",
            "system:node:fleet",
            &long,
        ] {
            assert_eq!(ServiceAccount::of_user(user), None, "{user:?}");
        }
        for text in ["", "/", "fleet", "fleet/", "/runner", "fleet/a/b", "fleet/a:b", "fleet:a", "Fleet/a", "a.b/c"] {
            assert_eq!(ServiceAccount::parse(text), None, "{text:?}");
            assert_eq!(text.parse::<ServiceAccount>(), Err(NotAnAccount));
        }
    }
}
