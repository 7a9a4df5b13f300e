//! Where a command reads reports: in the data directory of a hub, or from a hub that runs.

use crate::hub_client::{AskFailed, HubClient, HubFlags};
use clap::Args;
use std::path::PathBuf;

/// A data directory, or a hub.
#[derive(Debug, Args)]
pub(crate) struct ReportPlace {
    /// The data directory of the hub, for whoever may read it
    #[arg(long, value_name = "DIR", env = "MCTUNNEL_DATA_DIR", required_unless_present = "hub")]
    data_dir: Option<PathBuf>,
    #[command(flatten)]
    hub: HubFlags,
}

/// One of the two.
pub(crate) enum Place {
    Files(PathBuf),
    Hub(HubClient),
}

impl ReportPlace {
    /// The hub, if one is named; the variable for the directory may be set for other commands.
    pub(crate) fn place(&self) -> anyhow::Result<Place> {
        match (self.hub.client()?, &self.data_dir) {
            (Some(hub), _) => Ok(Place::Hub(hub)),
            (None, Some(dir)) => Ok(Place::Files(dir.clone())),
            // The parser of the command line asks for one of the two.
            (None, None) => Err(AskFailed::Nobody.into()),
        }
    }
}

/// A query of a URL.
pub(crate) fn query(pairs: &[(&str, Option<String>)]) -> String {
    let given = pairs.iter().filter_map(|(key, value)| Some(format!("{key}={}", encoded(value.as_deref()?))));
    let given: Vec<String> = given.collect();
    if given.is_empty() { String::new() } else { format!("?{}", given.join("&")) }
}

/// Whatever is not plain is in percent codes.
pub(crate) fn encoded(text: &str) -> String {
    let code = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => char::from(byte).to_string(),
        byte => format!("%{byte:02X}"),
    };
    text.bytes().map(code).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_plain_is_encoded() {
        let pairs = [("source", Some("a/b c&d=é".to_owned())), ("kind", None), ("watch", Some("true".to_owned()))];
        assert_eq!(query(&pairs), "?source=a%2Fb%20c%26d%3D%C3%A9&watch=true");
        assert_eq!(query(&[("kind", None)]), "");
    }
}
