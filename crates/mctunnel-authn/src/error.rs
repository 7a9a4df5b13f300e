//! What can be wrong with the configuration of authentication, and with API keys. Each situation has a stable code and a remedy.

use mctunnel_core::ErrorCode;
use std::{
    io,
    path::{Path, PathBuf},
};

/// Authentication cannot be set up, or an API key cannot be changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AuthnError {
    /// No provider is configured.
    #[error("no provider of authentication is configured, so nobody could get in")]
    NoProvider,
    /// A file of the authentication configuration cannot be read.
    #[error("{} cannot be read", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The authentication file is not YAML as we take it.
    #[error("{} cannot be used: {reason}", path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A provider of the authentication file makes no sense.
    #[error("the provider '{name}' cannot be used: {reason}")]
    Provider {
        /// Which one.
        name: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A provider needs something that this program was not given.
    #[error("the provider '{name}' cannot be used here: {missing}")]
    MissingPart {
        /// Which one.
        name: String,
        /// What it needs.
        missing: &'static str,
    },
    /// The API key cannot be made as asked for.
    #[error("no API key was made: {0}")]
    KeyRefused(String),
    /// No API key has this id.
    #[error("there is no API key with the id '{0}'")]
    KeyUnknown(String),
    /// The record of an API key is damaged.
    #[error("the record of an API key cannot be read: {0}")]
    KeyRecord(String),
    /// The store of API keys did not take the change.
    #[error("the store of API keys did not take the change: {0}")]
    KeyStore(String),
    /// The system has no random bytes.
    #[error("the system gave no random bytes")]
    Random,
}

impl AuthnError {
    /// The stable code and its remedy.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        let (code, remedy) = match self {
            Self::NoProvider => {
                ("MCT-AUTHN-NO-PROVIDER", "add a provider under 'providers:' in the authentication file")
            }
            Self::File { .. } => (
                "MCT-AUTHN-FILE",
                "check that the file exists and that this user may read it; paths are relative to the authentication file",
            ),
            Self::Syntax { .. } => (
                "MCT-AUTHN-SYNTAX",
                "correct the authentication file as the message says; docs/security/authentication.md has all keys",
            ),
            Self::Provider { .. } => ("MCT-AUTHN-PROVIDER", "correct the provider as the message says"),
            Self::MissingPart { .. } => (
                "MCT-AUTHN-MISSING-PART",
                "give the hub what the provider needs, or take the provider out of the authentication file",
            ),
            Self::KeyRefused(_) => ("MCT-AUTHN-KEY-REFUSED", "choose another user, group or lifetime for the key"),
            Self::KeyUnknown(_) => ("MCT-AUTHN-KEY-UNKNOWN", "check the id against 'mctunnel api-key list'"),
            Self::KeyRecord(_) => {
                ("MCT-AUTHN-KEY-RECORD", "restore the store from a backup, or revoke the key and make a new one")
            }
            Self::KeyStore(_) => ("MCT-AUTHN-KEY-STORE", "check that the data directory can be written and has room"),
            Self::Random => ("MCT-AUTHN-RANDOM", "try again; if it stays, check the system's random number generator"),
        };
        ErrorCode { code, remedy }
    }

    pub(crate) fn provider(name: &str, reason: impl Into<String>) -> Self {
        Self::Provider { name: name.to_owned(), reason: reason.into() }
    }

    pub(crate) fn file(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::File { path, source }
    }
}
