//! What is said on the control socket. Command and hub may be of two versions: a command that the hub does not know is answered with
//! an error that says so.

use mctunnel::{ErrorCode, Secret};
use mctunnel_authn::ApiKeyRecord;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::time::{SystemTime, UNIX_EPOCH};

/// The version of this protocol.
pub(super) const VERSION: u32 = 1;

/// What a client says.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Request<C> {
    pub(super) version: u32,
    pub(super) command: C,
}

/// What can be asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) enum Command {
    /// Whether a hub is there.
    Ping,
    /// Makes an API key.
    ApiKeyCreate {
        /// What it is for.
        name: String,
        /// Whose it is to be.
        user: String,
        /// With which groups.
        groups: Vec<String>,
        /// How long it counts, in seconds; for ever if nothing is said.
        lifetime: Option<u64>,
    },
    /// Lists API keys.
    ApiKeyList,
    /// Revokes an API key.
    ApiKeyRevoke {
        /// Which.
        id: String,
    },
    /// All that is kept of API keys, for a hub that is about to take over.
    ApiKeyRecords {
        /// The state that it was told last; told again if it is another by now.
        known: Option<String>,
    },
}

/// What is answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub(crate) enum Reply {
    /// A hub is there.
    Pong {
        /// Its process.
        pid: u32,
        /// Its version.
        version: String,
    },
    /// An API key was made.
    ApiKeyCreated {
        /// The key itself, this once.
        #[serde(serialize_with = "reveal", deserialize_with = "hide")]
        key: Secret,
        /// What is kept of it.
        record: ApiKeyLine,
    },
    /// The API keys.
    ApiKeys {
        /// All of them, the oldest first.
        keys: Vec<ApiKeyLine>,
    },
    /// An API key was revoked, now or before.
    ApiKeyRevoked {
        /// Which.
        record: ApiKeyLine,
    },
    /// What is kept of API keys.
    ApiKeyRecords {
        /// The state they are in: another text after each change, and at each hub.
        state: String,
        /// All of them, as they are stored; nothing when the state is known.
        records: Option<Vec<String>>,
    },
    /// It could not be done.
    Failed(Failure),
}

/// Why something could not be done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Failure {
    pub(crate) code: String,
    pub(crate) message: String,
    pub(crate) remedy: String,
}

impl Failure {
    /// An error with its causes.
    pub(super) fn new(code: ErrorCode, error: impl Into<anyhow::Error>) -> Self {
        let ErrorCode { code, remedy } = code;
        Self { code: code.to_owned(), message: format!("{:#}", error.into()), remedy: remedy.to_owned() }
    }
}

/// An API key as it is listed. Its names are a promise to scripts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ApiKeyLine {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) user: String,
    pub(crate) groups: Vec<String>,
    /// Seconds since 1970, as all times here.
    pub(crate) created: u64,
    pub(crate) expires: Option<u64>,
    pub(crate) revoked: Option<u64>,
}

impl From<&ApiKeyRecord> for ApiKeyLine {
    fn from(record: &ApiKeyRecord) -> Self {
        Self {
            id: record.id.clone(),
            name: record.note.clone(),
            user: record.user.clone(),
            groups: record.groups.clone(),
            created: unix(record.created),
            expires: record.expires.map(unix),
            revoked: record.revoked.map(unix),
        }
    }
}

fn unix(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

fn reveal<S: Serializer>(secret: &Secret, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(secret.expose())
}

fn hide<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Secret, D::Error> {
    String::deserialize(deserializer).map(Secret::new)
}
