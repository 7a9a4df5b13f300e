//! Reading records, for people and programs that look at them. Not for verifying: that is done on the bytes.

use serde::Deserialize;

/// A record as it stands in the log. Which fields it has depends on what was known; see `docs/security/audit.md`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the fields are those of the log, described in docs/security/audit.md")]
pub struct Record {
    pub seq: u64,
    pub time: String,
    pub stage: String,
    pub id: Option<String>,
    pub gateway: Option<String>,
    pub identity: Option<String>,
    pub user: Option<String>,
    pub uid: Option<String>,
    pub groups: Vec<String>,
    pub provider: Option<String>,
    pub credential: Option<String>,
    pub source: Option<String>,
    pub cluster: Option<String>,
    pub target: Option<String>,
    pub action: Option<String>,
    pub verb: Option<String>,
    pub api_group: Option<String>,
    pub api_version: Option<String>,
    pub resource: Option<String>,
    pub subresource: Option<String>,
    pub namespace: Option<String>,
    pub name: Option<String>,
    pub method: Option<String>,
    pub path: Option<String>,
    pub decision: Option<String>,
    pub rule: Option<String>,
    pub status: Option<u16>,
    pub bytes_up: Option<u64>,
    pub bytes_down: Option<u64>,
    pub duration_ms: Option<u64>,
    pub end: Option<String>,
    pub error: Option<String>,
    pub cut: bool,
    pub event: Option<String>,
    pub count: Option<u64>,
    pub left_out: Option<u64>,
    pub sources: Option<u64>,
    pub from_source: Option<u64>,
    pub bytes: Option<u64>,
    pub sha256: Option<String>,
    pub found: Option<String>,
    pub known: Option<String>,
    pub version: Option<String>,
    pub file: Option<String>,
    pub problem: Option<String>,
    pub writer: Option<String>,
    pub prev: String,
    pub hash: String,
}

impl Record {
    /// Parses a line of the log; `None` if it is none.
    #[must_use]
    pub fn parse(line: &[u8]) -> Option<Self> {
        serde_json::from_slice(line).ok()
    }
}
