//! The authentication file: which providers there are, in which order, and what each needs. Reading it is this crate's, because its
//! form is. The format is its own; the settings of the providers are not serialisable.

mod build;
mod form;
#[cfg(test)]
mod tests;

pub(crate) use build::{Built, Reuse};
pub use form::AuthConfig;

use crate::{ApiKeyStore, AuthnError, Chain, Clock, ReviewToken, digest};
use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf},
    sync::Arc,
};

/// A longer file is not read.
const LONGEST: u64 = 1 << 20;

/// What providers need and a file cannot give.
#[derive(Debug, Clone, Default)]
pub struct AuthParts {
    /// Who can ask the hub's cluster, for `token_review`.
    pub reviews: Option<Arc<dyn ReviewToken>>,
    /// Where the API keys are, for `api_keys`.
    pub api_keys: Option<Arc<dyn ApiKeyStore>>,
    /// The time.
    pub clock: Clock,
}

impl AuthConfig {
    /// Reads a file and what it names, and makes the providers. Nothing is asked of anybody yet.
    pub fn load(path: &Path, parts: &AuthParts) -> Result<Chain, AuthnError> {
        Ok(Files::read(path)?.build(parts, &Reuse::nothing())?.chain)
    }
}

/// The authentication file and the files it names, as they were at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Files {
    path: PathBuf,
    text: String,
    named: BTreeMap<PathBuf, Vec<u8>>,
}

impl Files {
    pub(crate) fn read(path: &Path) -> Result<Self, AuthnError> {
        let text = String::from_utf8(read(path)?)
            .map_err(|_| AuthnError::Syntax { path: path.to_owned(), reason: "it is not UTF-8".to_owned() })?;
        let config = AuthConfig::parse(&text).map_err(|reason| AuthnError::Syntax { path: path.to_owned(), reason })?;
        let mut named = BTreeMap::new();
        for file in config.files() {
            let place = beside(path, file);
            named.insert(file.clone(), read(&place)?);
        }
        Ok(Self { path: path.to_owned(), text, named })
    }

    /// The digest of the authentication file alone, in hex.
    pub(crate) fn sha256(&self) -> String {
        digest::hex(&digest::of(self.text.as_bytes()))
    }

    pub(crate) fn build(&self, parts: &AuthParts, reuse: &Reuse) -> Result<Built, AuthnError> {
        let syntax = |reason| AuthnError::Syntax { path: self.path.clone(), reason };
        build::build(AuthConfig::parse(&self.text).map_err(syntax)?, &self.named, parts, reuse)
    }
}

/// Paths are relative to the file they stand in.
fn beside(config: &Path, file: &Path) -> PathBuf {
    config.parent().map_or_else(|| file.to_owned(), |directory| directory.join(file))
}

fn read(path: &Path) -> Result<Vec<u8>, AuthnError> {
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(AuthnError::file(path))?;
    file.take(LONGEST + 1).read_to_end(&mut bytes).map_err(AuthnError::file(path))?;
    if u64::try_from(bytes.len()).is_ok_and(|length| length > LONGEST) {
        return Err(AuthnError::file(path)(io::Error::other("it is longer than 1 MiB")));
    }
    Ok(bytes)
}
