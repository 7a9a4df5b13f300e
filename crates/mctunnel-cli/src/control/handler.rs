//! Carries commands out on the store: in the hub, or in the command's own process when no hub runs.

use super::protocol::{ApiKeyLine, Command, Failure, Reply};
use crate::stored_api_keys::StoredApiKeys;
use mctunnel::ErrorCode;
use mctunnel_authn::{ApiKeyStore as _, AuthnError, Clock, NewApiKey, create_api_key, list_api_keys, revoke_api_key};
use mctunnel_core::{Store, StoreError};
use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

/// The longest name of a key.
const MOST_NAME_CHARACTERS: usize = 100;

/// Does what is asked for.
#[derive(Debug)]
pub(crate) struct Handler {
    api_keys: StoredApiKeys,
    clock: Clock,
    /// No other handler ever has it.
    name: String,
}

impl Handler {
    pub(crate) fn new(store: Arc<dyn Store>) -> Result<Self, StoreError> {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let name = format!("{}-{}", std::process::id(), now.as_nanos());
        Ok(Self { api_keys: StoredApiKeys::open(store)?, clock: Clock::system(), name })
    }

    /// Carries out a command. It waits for the disk.
    pub(super) fn handle(&self, command: Command) -> Reply {
        let is_about_keys = !matches!(command, Command::Ping);
        if is_about_keys && !self.api_keys.is_current() {
            let reason = "they have changed, and the store cannot be read".to_owned();
            return Reply::Failed(failure(AuthnError::KeyStore(reason)));
        }
        let done = match command {
            Command::Ping => Ok(Reply::Pong { pid: std::process::id(), version: env!("CARGO_PKG_VERSION").to_owned() }),
            Command::ApiKeyCreate { name, user, groups, lifetime } => self.create_api_key(name, user, groups, lifetime),
            Command::ApiKeyList => {
                let keys = list_api_keys(&self.api_keys).iter().map(|record| ApiKeyLine::from(&**record)).collect();
                Ok(Reply::ApiKeys { keys })
            }
            Command::ApiKeyRevoke { id } => revoke_api_key(&self.api_keys, &id, &self.clock)
                .map(|record| Reply::ApiKeyRevoked { record: (&*record).into() })
                .map_err(failure),
            Command::ApiKeyRecords { known } => Ok(self.records(known.as_deref())),
        };
        done.unwrap_or_else(Reply::Failed)
    }

    fn records(&self, known: Option<&str>) -> Reply {
        // The number first: what changes in between is told the next time.
        let state = format!("{}-{}", self.name, self.api_keys.generation());
        let records = (known != Some(&state)).then(|| self.api_keys.list().iter().map(|one| one.to_json()).collect());
        Reply::ApiKeyRecords { state, records }
    }

    fn create_api_key(
        &self,
        name: String,
        user: String,
        groups: Vec<String>,
        lifetime: Option<u64>,
    ) -> Result<Reply, Failure> {
        let length = name.chars().count();
        if !(1..=MOST_NAME_CHARACTERS).contains(&length) || name.chars().any(char::is_control) {
            let code = ErrorCode {
                code: "MCT-CONTROL-BAD-KEY-NAME",
                remedy: "say in 1 to 100 characters what the key is for, as in ci-runner",
            };
            return Err(Failure::new(
                code,
                anyhow::anyhow!("the key's name is empty, too long, or has control characters"),
            ));
        }
        let new = NewApiKey { user, groups, note: name, lifetime: lifetime.map(Duration::from_secs) };
        let created = create_api_key(&self.api_keys, new, &self.clock).map_err(failure)?;
        Ok(Reply::ApiKeyCreated { key: created.key, record: (&created.record).into() })
    }
}

fn failure(error: AuthnError) -> Failure {
    Failure::new(error.code(), error)
}
