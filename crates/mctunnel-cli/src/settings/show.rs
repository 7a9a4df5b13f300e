//! `--print-config`: the settings in effect as a file that could be given with `--config`, secrets masked.

use super::{
    effective::Effective,
    source::Origin,
    table::{Setting, Shape},
};
use std::fmt::Write;

impl Effective {
    /// The settings as YAML, each with its origin as a comment.
    pub(crate) fn to_yaml(&self) -> String {
        let mut yaml = String::new();
        for setting in self.settings.iter().copied().flatten().filter(|setting| setting.is_file_key()) {
            // Writing to a string cannot fail.
            let _ = self.write_setting(&mut yaml, setting);
        }
        yaml
    }

    fn write_setting(&self, yaml: &mut String, setting: &Setting) -> std::fmt::Result {
        let key = setting.key;
        let Some(value) = self.values.get(key) else {
            return writeln!(yaml, "{key}: null # not set");
        };
        let origin = match &value.origin {
            Origin::Default => "default",
            Origin::Given(name) => name,
        };
        let mut texts = value.texts.iter().map(|text| match key {
            "https_proxy" | "audit_webhook" | "report_webhook" | "report_otlp" => masked(text),
            "join_token" => "***".to_owned(),
            _ => text.clone(),
        });
        match setting.shape {
            Shape::Many => {
                writeln!(yaml, "{key}: # {origin}")?;
                texts.try_for_each(|text| writeln!(yaml, "  - {}", scalar(&text)))
            }
            Shape::One | Shape::Switch => {
                texts.try_for_each(|text| writeln!(yaml, "{key}: {} # {origin}", scalar(&text)))
            }
        }
    }
}

/// The URL without its user, its password and its query, which may be a key. A password may have a `?`, so it goes first.
fn masked(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").map_or(("", url), |(scheme, rest)| (scheme, rest));
    let masked = match rest.rsplit_once('@') {
        Some((_, host)) if scheme.is_empty() => format!("***@{host}"),
        Some((_, host)) => format!("{scheme}://***@{host}"),
        None => url.to_owned(),
    };
    match masked.split_once('?') {
        Some((shown, _)) => format!("{shown}?***"),
        None => masked,
    }
}

/// Plain where it cannot be mistaken for anything else, otherwise quoted as in JSON, which YAML reads too.
fn scalar(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./".contains(c);
    let starts_plain = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/');
    let is_number_like = text.parse::<u64>().is_ok();
    if is_number_like
        || starts_plain && text.chars().all(is_plain) && !["null", "yes", "no", "on", "y", "n"].contains(&text)
    {
        return text.to_owned();
    }
    serde_json::Value::from(text).to_string()
}
