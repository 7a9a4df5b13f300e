//! The settings in effect: of all sources, the last that gives a setting wins. Values become typed here, and a mistake is told
//! with the name under which it was made.

use super::{
    ConfigError,
    source::{Origin, Source, Value},
    table::Setting,
};
use std::{collections::BTreeMap, net::SocketAddr, path::PathBuf, time::Duration};

/// Every setting of a role, with its origin.
#[derive(Debug)]
pub(crate) struct Effective {
    pub(super) settings: &'static [&'static [Setting]],
    pub(super) values: BTreeMap<&'static str, Value>,
}

impl Effective {
    /// Merges sources, the weakest first.
    pub(crate) fn merge(settings: &'static [&'static [Setting]], sources: impl IntoIterator<Item = Source>) -> Self {
        let mut values = BTreeMap::new();
        for source in sources {
            values.extend(source.values);
        }
        Self { settings, values }
    }

    pub(crate) fn text(&self, key: &str) -> Option<&str> {
        self.values.get(key)?.texts.first().map(String::as_str)
    }

    pub(crate) fn texts(&self, key: &str) -> &[String] {
        self.values.get(key).map(|value| value.texts.as_slice()).unwrap_or_default()
    }

    pub(crate) fn path(&self, key: &str) -> Option<PathBuf> {
        self.text(key).map(PathBuf::from)
    }

    pub(crate) fn required(&self, key: &str) -> Result<&str, ConfigError> {
        self.text(key).ok_or_else(|| ConfigError::Missing { flag: format!("--{}", key.replace('_', "-")) })
    }

    pub(crate) fn switch(&self, key: &str) -> Result<bool, ConfigError> {
        match self.text(key) {
            Some("true" | "1" | "yes" | "on") => Ok(true),
            None | Some("false" | "0" | "no" | "off") => Ok(false),
            Some(other) => Err(self.bad_value(key, format!("{other:?} is neither true nor false"))),
        }
    }

    pub(crate) fn duration(&self, key: &str) -> Result<Duration, ConfigError> {
        let text = self.required(key)?;
        humantime::parse_duration(text)
            .map_err(|_| self.bad_value(key, format!("{text:?} is not a time such as 250ms, 30s or 5m")))
    }

    /// A number of bytes.
    pub(crate) fn size(&self, key: &str) -> Result<u64, ConfigError> {
        let text = self.required(key)?;
        parse_size(text).ok_or_else(|| self.bad_value(key, format!("{text:?} is not a size such as 512MiB or 2GiB")))
    }

    /// An address to listen on; `None` for `off`.
    pub(crate) fn listen(&self, key: &str) -> Result<Option<SocketAddr>, ConfigError> {
        match self.required(key)? {
            "off" => Ok(None),
            text => text.parse().map(Some).map_err(|_| {
                let forms = "is not an address such as 127.0.0.1:8081 or [::1]:0 (port 0 is any free port), nor 'off'";
                self.bad_value(key, format!("{text:?} {forms}"))
            }),
        }
    }

    pub(crate) fn bad_value(&self, key: &str, problem: impl Into<String>) -> ConfigError {
        ConfigError::BadValue { setting: self.name_of(key), problem: problem.into() }
    }

    /// What the setting is called where its value is from.
    pub(crate) fn name_of(&self, key: &str) -> String {
        match self.values.get(key).map(|value| &value.origin) {
            Some(Origin::Given(name)) => name.clone(),
            Some(Origin::Default) | None => format!("--{}", key.replace('_', "-")),
        }
    }
}

/// `1048576`, `1024KiB`, `512MiB`, `2GiB`.
pub(super) fn parse_size(text: &str) -> Option<u64> {
    let digits = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let shift = match unit {
        "" => 0,
        "KiB" => 10,
        "MiB" => 20,
        "GiB" => 30,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(1 << shift)
}
