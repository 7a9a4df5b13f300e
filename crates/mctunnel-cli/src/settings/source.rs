//! The seam between settings and where they come from: a source is a plain map, made from flags, from any list of variables or
//! from any text. So precedence and errors are tested without a process, an environment or a file.

use super::{
    ConfigError,
    file_value::FileValue,
    nearest,
    table::{ALL, PREFIX, Setting, Shape},
};
use clap::{ArgMatches, parser::ValueSource};
use std::{collections::BTreeMap, ffi::OsString, path::Path};

/// The settings that one place gives.
#[derive(Debug, Default)]
pub(crate) struct Source {
    pub(super) values: BTreeMap<&'static str, Value>,
}

/// A setting's values as text, and where they are from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Value {
    pub(super) texts: Vec<String>,
    pub(super) origin: Origin,
}

/// Where a value is from, as it is called there: `--grace`, `MCTUNNEL_GRACE`, `hub.yaml: grace`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Origin {
    Default,
    Given(String),
}

impl Source {
    pub(crate) fn defaults(settings: &[&'static [Setting]]) -> Self {
        let with_default = settings.iter().copied().flatten().filter_map(|s| Some((s.key, s.default?)));
        let value = |text: &str| Value { texts: vec![text.to_owned()], origin: Origin::Default };
        Self { values: with_default.map(|(key, text)| (key, value(text))).collect() }
    }

    pub(crate) fn flags(settings: &[&'static [Setting]], matches: &ArgMatches) -> Self {
        let mut source = Self::default();
        for setting in settings.iter().copied().flatten().filter(|setting| setting.is_flag()) {
            if matches.value_source(setting.key) != Some(ValueSource::CommandLine) {
                continue;
            }
            let texts = match setting.shape {
                Shape::Switch => vec![matches.get_flag(setting.key).to_string()],
                Shape::One | Shape::Many => {
                    matches.get_many::<String>(setting.key).into_iter().flatten().cloned().collect()
                }
            };
            source.put(setting, texts, setting.flag());
        }
        source
    }

    /// Our variables, and those of other programs that we honour. An empty one is the same as none.
    pub(crate) fn environment(
        settings: &[&'static [Setting]],
        variables: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> Result<Self, ConfigError> {
        let variables = readable(variables)?;
        for name in variables.keys().filter(|name| name.starts_with(PREFIX)) {
            check_variable(name)?;
        }
        let mut source = Self::default();
        for setting in settings.iter().copied().flatten().filter(|setting| setting.is_variable()) {
            let own = setting.variable();
            let names = std::iter::once(own.as_str()).chain(setting.also.iter().copied());
            let given = names.filter_map(|name| Some((name, variables.get(name)?))).find(|(_, text)| !text.is_empty());
            if let Some((name, text)) = given {
                let texts = match setting.shape {
                    Shape::Many => {
                        let parts = text.split(setting.separator).map(|part| part.trim().to_owned());
                        parts.filter(|part| !part.is_empty()).collect()
                    }
                    Shape::One | Shape::Switch => vec![text.clone()],
                };
                source.put(setting, texts, name.to_owned());
            }
        }
        Ok(source)
    }

    /// The file's text; `path` is only for messages.
    pub(crate) fn file(settings: &[&'static [Setting]], path: &Path, text: &str) -> Result<Self, ConfigError> {
        let invalid = |problem: String| ConfigError::FileInvalid { path: path.to_owned(), problem };
        // Snippets are off: the line with the mistake may hold a password.
        let options = serde_saphyr::options! { strict_booleans: true, with_snippet: false };
        let document: Option<BTreeMap<String, FileValue>> =
            serde_saphyr::from_str_with_options(text, options).map_err(|error| invalid(error.to_string()))?;
        let keys = || settings.iter().copied().flatten().filter(|setting| setting.is_file_key());
        let mut source = Self::default();
        for (key, value) in document.unwrap_or_default() {
            let Some(setting) = keys().find(|setting| setting.key == key) else {
                let suggestion = nearest(&key, keys().map(|setting| setting.key)).map(str::to_owned);
                return Err(ConfigError::UnknownKey { path: path.to_owned(), key, suggestion });
            };
            let texts = match value {
                FileValue::Null => continue,
                FileValue::Scalar(text) => vec![text],
                FileValue::List(texts) if setting.shape == Shape::Many => texts,
                FileValue::List(_) => return Err(invalid(format!("{key} has one value, not a list"))),
            };
            source.put(setting, texts, format!("{}: {key}", path.display()));
        }
        Ok(source)
    }

    fn put(&mut self, setting: &Setting, texts: Vec<String>, name: String) {
        self.values.insert(setting.key, Value { texts, origin: Origin::Given(name) });
    }
}

/// The variables we look at, as text.
fn readable(
    variables: impl IntoIterator<Item = (OsString, OsString)>,
) -> Result<BTreeMap<String, String>, ConfigError> {
    let also: Vec<_> = ALL.iter().copied().flatten().flat_map(|setting| setting.also).collect();
    let mut readable = BTreeMap::new();
    for (name, text) in variables {
        let Ok(name) = name.into_string() else { continue };
        if !name.starts_with(PREFIX) && !also.contains(&&name.as_str()) {
            continue;
        }
        let Ok(text) = text.into_string() else {
            return Err(ConfigError::BadValue { setting: name, problem: "the value is not UTF-8".to_owned() });
        };
        readable.insert(name, text);
    }
    Ok(readable)
}

fn check_variable(name: &str) -> Result<(), ConfigError> {
    let known: Vec<String> =
        ALL.iter().copied().flatten().filter(|setting| setting.is_variable()).map(Setting::variable).collect();
    if is_service_link(name) || known.iter().any(|variable| variable == name) {
        return Ok(());
    }
    let suggestion = nearest(name, known.iter().map(String::as_str)).map(str::to_owned);
    Err(ConfigError::UnknownVariable { variable: name.to_owned(), suggestion })
}

/// Whether Kubernetes set it: every pod beside a Service called `mctunnel-hub` has `MCTUNNEL_HUB_PORT` and its kin.
fn is_service_link(name: &str) -> bool {
    let ends = ["_SERVICE_HOST", "_SERVICE_PORT", "_PORT"];
    let name = name.strip_prefix("MCTUNNEL").unwrap_or(name);
    ends.iter().any(|end| name.ends_with(end))
        || name.contains("_SERVICE_PORT_")
        || name.rsplit_once("_PORT_").is_some_and(|(_, rest)| rest.starts_with(|c: char| c.is_ascii_digit()))
}
