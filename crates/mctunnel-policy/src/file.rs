//! The policy file as text: its keys, and nothing of what they mean. Unknown keys, keys given twice, keys without a value and empty
//! lists are errors.

use crate::error::Problem;
use serde::{Deserialize, Deserializer, de};
use serde_saphyr::{MergeKeyPolicy, Spanned};
use std::{collections::BTreeMap, fmt};

/// A longer file is not a policy.
pub(crate) const LONGEST: u64 = 32 << 20;

/// The whole file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PolicyText {
    #[serde(default, deserialize_with = "given")]
    pub(crate) version: Option<u32>,
    #[serde(default, deserialize_with = "given")]
    pub(crate) clusters: Option<BTreeMap<String, LabelsText>>,
    #[serde(default, deserialize_with = "given")]
    pub(crate) roles: Option<BTreeMap<String, Spanned<RoleText>>>,
    #[serde(default, deserialize_with = "given")]
    pub(crate) bindings: Option<Vec<Spanned<BindingText>>>,
    #[serde(default, deserialize_with = "given")]
    pub(crate) deny: Option<Vec<Spanned<DenyText>>>,
    #[serde(default, deserialize_with = "given")]
    pub(crate) quotas: Option<Vec<Spanned<QuotaText>>>,
}

/// What may be done.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RoleText {
    #[expect(dead_code, reason = "for the reader of the file")]
    #[serde(default, deserialize_with = "given")]
    pub(crate) description: Option<String>,
    #[serde(default, deserialize_with = "given")]
    pub(crate) rules: Option<Vec<Spanned<RuleText>>>,
}

/// One of four kinds of rules; which one is told by the keys that are there.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct RuleText {
    #[serde(default, deserialize_with = "given")]
    pub(crate) clusters: Option<List>,
    #[serde(default, deserialize_with = "given")]
    pub(crate) cluster_labels: Option<BTreeMap<String, String>>,
    #[serde(default, deserialize_with = "given")]
    pub(crate) namespaces: Option<List>,
    #[serde(default, deserialize_with = "given")]
    pub(crate) api_groups: Option<List>,
    #[serde(default, deserialize_with = "given")]
    pub(crate) resources: Option<List>,
    #[serde(default, deserialize_with = "given")]
    pub(crate) names: Option<List>,
    #[serde(default, deserialize_with = "given")]
    pub(crate) verbs: Option<List>,
    #[serde(default, deserialize_with = "given")]
    pub(crate) non_resource_paths: Option<List>,
    #[serde(default, deserialize_with = "given")]
    pub(crate) services: Option<List>,
    #[serde(default, deserialize_with = "given")]
    pub(crate) endpoints: Option<List>,
    #[serde(default, deserialize_with = "given")]
    pub(crate) methods: Option<List>,
    #[serde(default, deserialize_with = "given")]
    pub(crate) paths: Option<List>,
    #[serde(default, deserialize_with = "given")]
    pub(crate) bytes: Option<List>,
    #[serde(default, deserialize_with = "given")]
    pub(crate) protocols: Option<List>,
}

/// Who may do what a role says.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct BindingText {
    pub(crate) name: String,
    pub(crate) role: String,
    #[serde(default, deserialize_with = "given")]
    pub(crate) users: Option<List>,
    #[serde(default, deserialize_with = "given")]
    pub(crate) groups: Option<List>,
    #[serde(default, deserialize_with = "given")]
    pub(crate) providers: Option<List>,
    #[serde(default)]
    pub(crate) anonymous: bool,
    #[serde(default, deserialize_with = "given")]
    pub(crate) when: Option<String>,
    #[serde(default, deserialize_with = "given")]
    pub(crate) sources: Option<List>,
    #[serde(default, deserialize_with = "given")]
    pub(crate) window: Option<WindowText>,
    #[serde(default, deserialize_with = "given")]
    pub(crate) not_before: Option<String>,
    #[serde(default, deserialize_with = "given")]
    pub(crate) not_after: Option<String>,
}

/// Who may not do what, whatever else is allowed.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct DenyText {
    pub(crate) name: String,
    #[serde(default, deserialize_with = "given")]
    pub(crate) users: Option<List>,
    #[serde(default, deserialize_with = "given")]
    pub(crate) groups: Option<List>,
    #[serde(default, deserialize_with = "given")]
    pub(crate) providers: Option<List>,
    #[serde(default, deserialize_with = "given")]
    pub(crate) when: Option<String>,
    #[serde(default, deserialize_with = "given")]
    pub(crate) sources: Option<List>,
    #[serde(default, deserialize_with = "given")]
    pub(crate) window: Option<WindowText>,
    #[serde(default, deserialize_with = "given")]
    pub(crate) not_before: Option<String>,
    #[serde(default, deserialize_with = "given")]
    pub(crate) not_after: Option<String>,
    #[serde(default, deserialize_with = "given")]
    pub(crate) rules: Option<Vec<Spanned<RuleText>>>,
}

/// Hours of some days.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct WindowText {
    #[serde(default, deserialize_with = "given")]
    pub(crate) days: Option<List>,
    #[serde(default, deserialize_with = "given")]
    pub(crate) from: Option<String>,
    #[serde(default, deserialize_with = "given")]
    pub(crate) to: Option<String>,
    #[serde(default, deserialize_with = "given")]
    pub(crate) utc_offset: Option<String>,
}

/// How much at once.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct QuotaText {
    pub(crate) name: String,
    pub(crate) per: String,
    #[serde(default, deserialize_with = "given")]
    pub(crate) users: Option<List>,
    #[serde(default, deserialize_with = "given")]
    pub(crate) groups: Option<List>,
    #[serde(default, deserialize_with = "given")]
    pub(crate) clusters: Option<List>,
    #[serde(default, deserialize_with = "given")]
    pub(crate) requests_per_second: Option<u32>,
    #[serde(default, deserialize_with = "given")]
    pub(crate) burst: Option<u32>,
    #[serde(default, deserialize_with = "given")]
    pub(crate) concurrent_streams: Option<u32>,
    #[serde(default, deserialize_with = "given")]
    pub(crate) bytes_per_second: Option<String>,
}

impl PolicyText {
    /// Reads the text of a file.
    pub(crate) fn parse(text: &str) -> Result<Self, Problem> {
        read(text)
    }
}

/// Reads YAML as strictly as the parser can: one document, no merge keys, no tags, `true` and `false` and no other booleans.
pub(crate) fn read<'de, T: Deserialize<'de>>(text: &'de str) -> Result<T, Problem> {
    let options = serde_saphyr::options! {
        strict_booleans: true,
        merge_keys: MergeKeyPolicy::Error,
        reject_unsupported_tags: true,
        with_snippet: false,
        budget: serde_saphyr::budget! { max_events: 16_000_000, max_nodes: 8_000_000, max_depth: 16, max_documents: 1 },
    };
    serde_saphyr::from_str_with_options(text, options).map_err(|error| Problem {
        line: error.location().map(|location| location.line()).filter(|line| *line > 0),
        place: String::new(),
        message: error.to_string(),
    })
}

/// A key that may be left out, but not left without a value: `when:` with nothing behind it was meant to be a condition.
fn given<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    match Option::deserialize(deserializer)? {
        Some(value) => Ok(Some(value)),
        None => Err(de::Error::custom("a key has no value")),
    }
}

/// The line a part of the file begins at.
pub(crate) fn line_of<T>(part: &Spanned<T>) -> Option<u64> {
    Some(part.referenced.line()).filter(|line| *line > 0)
}

/// The labels of a cluster.
#[derive(Debug)]
pub(crate) struct LabelsText(pub(crate) BTreeMap<String, String>);

impl<'de> Deserialize<'de> for LabelsText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        given(deserializer).map(|labels| Self(labels.unwrap_or_default()))
    }
}

// === List ===

/// A list with at least one item, all of them text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct List(pub(crate) Vec<String>);

impl<'de> Deserialize<'de> for List {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(ListVisitor)
    }
}

struct ListVisitor;

impl<'de> de::Visitor<'de> for ListVisitor {
    type Value = List;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list in brackets, as in [a, b]")
    }

    fn visit_seq<A: de::SeqAccess<'de>>(self, mut items: A) -> Result<List, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        if list.is_empty() {
            return Err(de::Error::custom("an empty list names nothing and is not a wildcard: write [\"*\"] for all"));
        }
        Ok(List(list))
    }
}
