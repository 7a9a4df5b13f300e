//! The name of a managed cluster: one DNS label, checked on raw bytes, parsed once.

use std::{fmt, sync::Arc};

/// A valid cluster name: `[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?`.
///
/// Cheap to clone. There is no other way to make one than [`ClusterName::parse`], so whoever holds one need not check it again.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClusterName(Arc<str>);

impl ClusterName {
    /// Parses a name; upper case, dots, percent codes and non-ASCII letters are all refused, never normalised.
    pub fn parse(name: &str) -> Result<Self, InvalidClusterName> {
        let bytes = name.as_bytes();
        let ends = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit();
        let inner = |b: &u8| ends(b) || *b == b'-';
        let (Some(first), Some(last)) = (bytes.first(), bytes.last()) else {
            return Err(InvalidClusterName);
        };
        if bytes.len() > 63 || !ends(first) || !ends(last) || !bytes.iter().all(inner) {
            return Err(InvalidClusterName);
        }
        Ok(Self(name.into()))
    }

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ClusterName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for ClusterName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
    }
}

impl TryFrom<&str> for ClusterName {
    type Error = InvalidClusterName;
    fn try_from(name: &str) -> Result<Self, Self::Error> {
        Self::parse(name)
    }
}

impl std::str::FromStr for ClusterName {
    type Err = InvalidClusterName;
    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::parse(name)
    }
}

/// The text is not a cluster name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a cluster name is 1 to 63 of the letters a-z, digits and '-', and begins and ends with a letter or digit")]
pub struct InvalidClusterName;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_dns_labels_are_cluster_names() {
        for good in ["a", "cluster-a", "c1", "0", &"x".repeat(63)] {
            assert!(ClusterName::parse(good).is_ok(), "{good}");
        }
        let long = "x".repeat(64);
        for bad in ["", "-a", "a-", "A", "a.b", "a_b", "a/b", "a%2f", "..", "é", "a\0", " a", "a\n", &long] {
            assert!(ClusterName::parse(bad).is_err(), "{bad:?}");
        }
    }
}
