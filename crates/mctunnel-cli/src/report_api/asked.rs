//! What the query of a request says, read strictly: what is not known, given twice or makes no sense is an error.

use crate::{hub_pages::Route, reports::micros_ago};
use mctunnel::{
    ClusterName,
    gateway::http::{Asking, NoPage},
    report::Kind,
};
use mctunnel_core::bad_target::decode;
use std::{
    collections::BTreeMap,
    time::{SystemTime, UNIX_EPOCH},
};

/// The most records of a list that has no other form.
const MOST_LISTED: u64 = 10_000;
const USUALLY_LISTED: u64 = 1_000;

/// The parameters that a page takes.
pub(crate) const fn parameters(route: Route) -> &'static [&'static str] {
    match route {
        Route::CanI | Route::OpenApi | Route::Clusters => &[],
        Route::Reports => &["cluster", "kind", "namespace", "source", "since", "limit", "after", "watch"],
        Route::Events => &["cluster", "namespace", "source", "since", "limit", "after", "watch"],
        Route::Logs => &["container", "follow", "previous", "timestamps"],
    }
}

/// The parameters of a request.
pub(super) struct Parameters(BTreeMap<String, String>);

impl Parameters {
    pub(super) fn read(query: &str, route: Route) -> Result<Self, NoPage> {
        let mut found = BTreeMap::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            let plain = |text: &str| String::from_utf8(decode(&text.replace('+', " "))?).ok();
            let (key, value) = plain(key).zip(plain(value)).ok_or_else(|| bad("the query cannot be read"))?;
            if !parameters(route).contains(&key.as_str()) {
                return Err(bad(format!("there is no parameter {key:?} here, but {}", parameters(route).join(", "))));
            }
            if found.insert(key.clone(), value).is_some() {
                return Err(bad(format!("{key} is given twice")));
            }
        }
        Ok(Self(found))
    }

    /// What is given; an empty value is none.
    pub(super) fn text(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// `true`, `1` or nothing but the name; `false` or `0`.
    pub(super) fn switch(&self, key: &str) -> Result<bool, NoPage> {
        match self.0.get(key).map(String::as_str) {
            None | Some("false" | "0") => Ok(false),
            Some("" | "true" | "1") => Ok(true),
            Some(_) => Err(bad(format!("{key} is true or false"))),
        }
    }

    /// A name of Kubernetes.
    pub(super) fn name(&self, key: &str) -> Result<Option<String>, NoPage> {
        self.text(key).map(|text| kubernetes_name(key, text)).transpose()
    }

    fn number(&self, key: &str) -> Result<Option<u64>, NoPage> {
        self.text(key).map(|text| text.parse().map_err(|_| bad(format!("{key} is a number")))).transpose()
    }
}

/// A name that has a place in a path: of a namespace, a pod or a container.
pub(super) fn kubernetes_name(what: &str, text: &str) -> Result<String, NoPage> {
    let is_part = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'.');
    let is_name = !text.is_empty() && text.len() <= 253 && text.bytes().all(is_part);
    if is_name { Ok(text.to_owned()) } else { Err(bad(format!("{text:?} is not the name of a {what}"))) }
}

pub(super) fn cluster_name(text: &str) -> Result<ClusterName, NoPage> {
    ClusterName::parse(text).map_err(|error| bad(format!("the cluster {text:?}: {error}")))
}

fn bad(reason: impl Into<String>) -> NoPage {
    NoPage::Bad(reason.into())
}

// === Asked ===

/// The form of the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// One JSON object with all of them.
    List,
    /// A JSON object a line.
    Lines,
}

/// Which records are asked for.
#[derive(Debug, Clone)]
pub(super) struct Asked {
    pub(super) kind: Option<Kind>,
    pub(super) cluster: Option<ClusterName>,
    pub(super) namespace: Option<String>,
    /// What the source begins with.
    pub(super) source: String,
    /// In microseconds since 1970.
    pub(super) since: i64,
    pub(super) limit: u64,
    /// The position of the first that is wanted.
    pub(super) from: u64,
    pub(super) watch: bool,
    pub(super) form: Form,
}

impl Asked {
    /// Reads a request for records; of one kind, if it is about that.
    pub(super) fn read(asking: &Asking<'_>, route: Route, kind: Option<Kind>) -> Result<Self, NoPage> {
        let given = Parameters::read(asking.query, route)?;
        let watch = given.switch("watch")?;
        let form = if watch || asking.accept.contains("application/x-ndjson") { Form::Lines } else { Form::List };
        let limit = match (given.number("limit")?, form) {
            (Some(limit), Form::List) if limit > MOST_LISTED => {
                return Err(bad(format!(
                    "a list has at most {MOST_LISTED} records; 'accept: application/x-ndjson' any number"
                )));
            }
            (Some(limit), _) => limit,
            (None, Form::List) => USUALLY_LISTED,
            (None, Form::Lines) => u64::MAX,
        };
        let named =
            given.text("kind").map(|text| Kind::parse(text).map_err(|error| bad(error.to_string()))).transpose()?;
        let kind = kind.or(named);
        let after = given.number("after")?;
        if after.is_some() && kind.is_none() {
            return Err(bad("positions are those of one kind: 'after' needs 'kind'"));
        }
        Ok(Self {
            kind,
            cluster: given.text("cluster").map(cluster_name).transpose()?,
            namespace: given.name("namespace")?,
            source: given.text("source").unwrap_or_default().to_owned(),
            since: given.text("since").map_or(Ok(i64::MIN), since)?,
            limit,
            from: after.map_or(0, |after| after.saturating_add(1)),
            watch,
            form,
        })
    }
}

/// A time, or how long ago.
fn since(text: &str) -> Result<i64, NoPage> {
    if let Ok(ago) = humantime::parse_duration(text) {
        return Ok(micros_ago(ago));
    }
    let time: SystemTime = humantime::parse_rfc3339_weak(text)
        .map_err(|_| bad(format!("{text:?} is neither a time, as 2026-12-31T18:00:00Z, nor how long ago, as 1h")))?;
    let micros = time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros());
    Ok(i64::try_from(micros).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_known_or_given_twice_is_an_error() {
        let read = |query| Parameters::read(query, Route::Events);
        let given = read("cluster=c1&source=a%2Fb+c&watch&since=").unwrap();
        assert_eq!(
            (given.text("cluster"), given.text("source"), given.text("since")),
            (Some("c1"), Some("a/b c"), None)
        );
        assert!(given.switch("watch").unwrap() && !given.switch("limit").unwrap());
        for query in ["kind=events", "cluster=a&cluster=b", "x", "source=%zz", "source=%ff", "Cluster=c1"] {
            assert!(matches!(read(query), Err(NoPage::Bad(_))), "{query}");
        }
        assert!(read("watch=maybe").unwrap().switch("watch").is_err());
    }

    #[test]
    fn a_time_is_a_date_or_how_long_ago() {
        assert_eq!(since("1970-01-01T00:00:01Z"), Ok(1_000_000));
        let hour_ago = since("1h").unwrap();
        assert!((micros_ago(std::time::Duration::from_secs(3600)) - hour_ago).abs() < 60_000_000);
        assert!(since("yesterday").is_err());
    }

    #[test]
    fn a_name_has_no_way_out_of_its_place() {
        assert!(kubernetes_name("pod", "web-0.a").is_ok());
        for bad in ["", "a/b", "..%2f", "A", "a b", "a*"] {
            assert!(kubernetes_name("pod", bad).is_err(), "{bad}");
        }
    }
}
