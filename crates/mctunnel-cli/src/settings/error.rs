//! Mistakes in flags, environment and file. Each has a stable code and a remedy, and ends the program with status 2.

use mctunnel::ErrorCode;
use std::path::PathBuf;

/// The configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConfigError {
    /// The configuration file cannot be read.
    #[error("cannot read the configuration file {}", path.display())]
    FileUnreadable { path: PathBuf, source: std::io::Error },
    /// The configuration file is not YAML as we take it.
    #[error("{}: {problem}", path.display())]
    FileInvalid { path: PathBuf, problem: String },
    /// The configuration file has a key that is no setting.
    #[error("{}: no setting is called {key:?}{}", path.display(), suggested(suggestion.as_deref()))]
    UnknownKey { path: PathBuf, key: String, suggestion: Option<String> },
    /// A variable begins with `MCTUNNEL_` but is no setting.
    #[error("no setting is called {variable}{}", suggested(suggestion.as_deref()))]
    UnknownVariable { variable: String, suggestion: Option<String> },
    /// The value of a setting cannot be read.
    #[error("{setting}: {problem}")]
    BadValue { setting: String, problem: String },
    /// A setting that must be given is not.
    #[error("{flag} is required")]
    Missing { flag: String },
    /// A file with a secret cannot be used.
    #[error("the secret in {} cannot be read", path.display())]
    SecretUnreadable { path: PathBuf, source: std::io::Error },
    /// CONNECT without TLS would listen where others can reach it.
    #[error("{setting}: {address} is not loopback, and CONNECT without TLS shows the tokens of clients to the network")]
    ConnectExposed { setting: String, address: String },
}

impl ConfigError {
    /// The stable code and its remedy.
    pub(crate) fn code(&self) -> ErrorCode {
        let (code, remedy) = match self {
            Self::FileUnreadable { .. } => (
                "MCT-CONFIG-FILE",
                "check the path given with --config or MCTUNNEL_CONFIG, and that this user may read it",
            ),
            Self::FileInvalid { .. } => (
                "MCT-CONFIG-SYNTAX",
                "write one 'key: value' for each setting, as docs/config.md shows; --print-config gives an example",
            ),
            Self::UnknownKey { .. } => {
                ("MCT-CONFIG-UNKNOWN-KEY", "correct or delete the key; --help lists the settings, with '-' for '_'")
            }
            Self::UnknownVariable { .. } => {
                ("MCT-CONFIG-UNKNOWN-VARIABLE", "correct or unset the variable; --help lists the settings")
            }
            Self::BadValue { .. } => {
                ("MCT-CONFIG-BAD-VALUE", "correct the value as the message says; --help shows the forms")
            }
            Self::Missing { .. } => {
                ("MCT-CONFIG-MISSING", "give it as a flag, in the environment or in the configuration file; see --help")
            }
            Self::SecretUnreadable { .. } => {
                ("MCT-CONFIG-SECRET", "give a file that this user may read, with one line of plain text in it")
            }
            Self::ConnectExposed { .. } => (
                "MCT-CONFIG-CONNECT-EXPOSED",
                "use 127.0.0.1, or --connect-tls-listen; --insecure-connect-anywhere takes it all the same",
            ),
        };
        ErrorCode { code, remedy }
    }
}

fn suggested(suggestion: Option<&str>) -> String {
    suggestion.map(|name| format!("; did you mean {name}?")).unwrap_or_default()
}
