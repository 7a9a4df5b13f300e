//! The quotas of a policy file, read and checked.

use super::Key;
use crate::{
    compile::{Mistakes, is_name},
    file::{List, QuotaText, line_of},
    names::Names,
    subject::Subject,
};
use mctunnel_core::{Access, ClusterName};
use serde_saphyr::Spanned;
use std::{collections::BTreeSet, num::NonZeroU64, sync::Arc};

/// All quotas.
#[derive(Debug, Default)]
pub(crate) struct QuotaRules(Vec<Quota>);

/// One quota.
#[derive(Debug)]
struct Quota {
    name: Arc<str>,
    per: Per,
    subject: Subject,
    clusters: Names,
    limits: Limits,
}

/// Who shares what is allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Per {
    User,
    Cluster,
    UserAndCluster,
}

/// How much.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Limits {
    pub(crate) requests: Option<Rate>,
    pub(crate) concurrent_streams: Option<u32>,
    pub(crate) bytes_per_second: Option<NonZeroU64>,
}

/// So many a second, and so many at once after a rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rate {
    pub(crate) per_second: NonZeroU64,
    pub(crate) burst: NonZeroU64,
}

impl QuotaRules {
    /// Reads them; notes every mistake.
    pub(crate) fn read(list: &[Spanned<QuotaText>], mistakes: &mut Mistakes) -> Self {
        let mut seen = BTreeSet::new();
        let mut quotas = Vec::new();
        for quota in list {
            let text = &quota.value;
            let (line, place) = (line_of(quota), format!("quota {}", text.name));
            if !seen.insert(&text.name) {
                mistakes.add(line, &place, "the name is taken");
            }
            match Quota::read(text) {
                Ok(quota) => quotas.push(quota),
                Err(messages) => messages.into_iter().for_each(|message| mistakes.add(line, &place, message)),
            }
        }
        Self(quotas)
    }

    /// The quotas a request counts for, and under which key.
    pub(crate) fn fitting<'a>(&'a self, access: &'a Access<'_>) -> impl Iterator<Item = (Key, Limits)> + 'a {
        let cluster = &access.destination.cluster;
        let fits = move |quota: &&Quota| quota.clusters.covers(cluster.as_str()) && quota.subject.has(access.identity);
        self.0.iter().filter(fits).map(move |quota| (quota.key(access, cluster), quota.limits))
    }
}

impl Quota {
    fn read(text: &QuotaText) -> Result<Self, Vec<String>> {
        let mut mistakes = Vec::new();
        if let Err(message) = is_name(&text.name) {
            mistakes.push(message);
        }
        let per = per(&text.per).map_err(|message| mistakes.push(message)).ok();
        // A quota counts a user whoever vouches for it; two users of one name are counted apart.
        let everyone = List(vec!["*".to_owned()]);
        let providers = (text.users.is_some() || text.groups.is_some()).then_some(&everyone);
        let subject = Subject::read(text.users.as_ref(), text.groups.as_ref(), providers, false);
        let subject = subject.map_err(|messages| mistakes.extend(messages)).ok();
        let clusters = match &text.clusters {
            Some(list) => {
                Names::parse(&list.0, |name| ClusterName::parse(name).map(drop).map_err(|error| error.to_string()))
            }
            None => Err("it is missing: write clusters: [\"*\"] for all".to_owned()),
        };
        let clusters = clusters.map_err(|message| mistakes.push(format!("clusters: {message}"))).ok();
        let limits = limits(text).map_err(|message| mistakes.push(message)).ok();
        match (per, subject, clusters, limits) {
            (Some(per), Some(subject), Some(clusters), Some(limits)) if mistakes.is_empty() => {
                Ok(Self { name: text.name.as_str().into(), per, subject, clusters, limits })
            }
            _ => Err(mistakes),
        }
    }

    fn key(&self, access: &Access<'_>, cluster: &ClusterName) -> Key {
        let user = || match access.identity.user() {
            Some(user) => (Arc::clone(&user.provider), Arc::clone(&user.name)),
            None => ("".into(), "".into()),
        };
        Key {
            quota: Arc::clone(&self.name),
            user: (self.per != Per::Cluster).then(user),
            cluster: (self.per != Per::User).then(|| cluster.clone()),
        }
    }
}

fn per(text: &str) -> Result<Per, String> {
    match text {
        "user" => Ok(Per::User),
        "cluster" => Ok(Per::Cluster),
        "userAndCluster" => Ok(Per::UserAndCluster),
        _ => Err(format!("per: {text:?} is none of user, cluster, userAndCluster")),
    }
}

fn limits(text: &QuotaText) -> Result<Limits, String> {
    let zero = |key: &str| format!("{key} is 0: to allow nothing, write a deny rule");
    let requests = match (text.requests_per_second, text.burst) {
        (None, None) => None,
        (None, Some(_)) => return Err("burst has no place without requestsPerSecond".to_owned()),
        (Some(per_second), burst) => {
            let per_second = NonZeroU64::new(per_second.into()).ok_or_else(|| zero("requestsPerSecond"))?;
            let burst =
                burst.map_or(Ok(per_second), |burst| NonZeroU64::new(burst.into()).ok_or_else(|| zero("burst")))?;
            Some(Rate { per_second, burst })
        }
    };
    if text.concurrent_streams == Some(0) {
        return Err(zero("concurrentStreams"));
    }
    let bytes_per_second = text.bytes_per_second.as_deref().map(bytes).transpose()?;
    let limits = Limits { requests, concurrent_streams: text.concurrent_streams, bytes_per_second };
    if limits.requests.is_none() && limits.concurrent_streams.is_none() && limits.bytes_per_second.is_none() {
        return Err("it limits nothing: give requestsPerSecond, concurrentStreams or bytesPerSecond".to_owned());
    }
    Ok(limits)
}

/// Bytes of `10MiB`, `512KiB`, `1GiB` or a plain number.
fn bytes(text: &str) -> Result<NonZeroU64, String> {
    let digits = text.trim_end_matches(|letter: char| !letter.is_ascii_digit());
    let unit: u64 = match text.strip_prefix(digits).unwrap_or_default() {
        "" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => 0,
    };
    let is_plain = digits.bytes().all(|byte| byte.is_ascii_digit()) && !digits.starts_with('0');
    let count = digits.parse::<u64>().ok().filter(|_| is_plain).and_then(|count| count.checked_mul(unit));
    count
        .and_then(NonZeroU64::new)
        .ok_or_else(|| format!("bytesPerSecond: {text:?} is not a rate: write a number, or one with KiB, MiB or GiB"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_of_bytes_is_a_plain_number_with_a_unit_or_without() {
        for (text, expected) in [
            ("1", 1),
            ("10", 10),
            ("1024", 1024),
            ("512KiB", 512 * 1024),
            ("10MiB", 10 * 1024 * 1024),
            ("3GiB", 3 * 1024 * 1024 * 1024),
        ] {
            assert_eq!(bytes(text).map(NonZeroU64::get), Ok(expected), "{text}");
        }
        for bad in ["", "0", "01", "0KiB", "+1", "-1", "1.5MiB", "1 KiB", "KiB", "1kib", "1KB", "1e3", "17179869184GiB"]
        {
            assert!(bytes(bad).is_err(), "{bad}");
        }
    }
}
