//! What is kept of an API key: everything but the key.

use crate::{
    AuthnError,
    clock::{moment, unix},
    digest::{Digest, hex},
};
use serde::{Deserialize, Serialize};
use std::time::SystemTime;

/// An API key at rest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiKeyRecord {
    /// What the key is called; part of the key, and no secret.
    pub id: String,
    /// SHA-256 of the whole key. A slow hash would protect nothing: the key has 160 random bits, so there is nothing to guess, and
    /// it would be paid at each request.
    pub hash: [u8; 32],
    /// Whose key it is, before the provider's prefix.
    pub user: String,
    /// Its groups, likewise.
    pub groups: Vec<String>,
    /// What it is for, for people.
    pub note: String,
    /// When it was made.
    pub created: SystemTime,
    /// When it ends.
    pub expires: Option<SystemTime>,
    /// When it was revoked.
    pub revoked: Option<SystemTime>,
}

impl ApiKeyRecord {
    /// The record as JSON, for a store.
    #[must_use]
    pub fn to_json(&self) -> String {
        let file = RecordFile {
            version: VERSION,
            id: self.id.clone(),
            sha256: hex(&self.hash),
            user: self.user.clone(),
            groups: self.groups.clone(),
            note: self.note.clone(),
            created: unix(self.created),
            expires: self.expires.map(unix),
            revoked: self.revoked.map(unix),
        };
        #[expect(clippy::expect_used, reason = "numbers and texts always serialise")]
        serde_json::to_string(&file).expect("plain values")
    }

    /// Reads a record that [`to_json`](Self::to_json) wrote.
    pub fn from_json(json: &str) -> Result<Self, AuthnError> {
        let bad = |what: &str| AuthnError::KeyRecord(what.to_owned());
        let file: RecordFile = serde_json::from_str(json).map_err(|error| {
            AuthnError::KeyRecord(format!("wrong at line {} column {}", error.line(), error.column()))
        })?;
        if file.version != VERSION {
            return Err(AuthnError::KeyRecord(format!(
                "its version is {}, this program reads {VERSION}",
                file.version
            )));
        }
        let when = |seconds: u64| moment(seconds).ok_or_else(|| bad("it has a date no clock has"));
        Ok(Self {
            id: file.id,
            hash: unhex(&file.sha256).ok_or_else(|| bad("its hash is not 64 hex digits"))?,
            user: file.user,
            groups: file.groups,
            note: file.note,
            created: when(file.created)?,
            expires: file.expires.map(when).transpose()?,
            revoked: file.revoked.map(when).transpose()?,
        })
    }
}

const VERSION: u32 = 1;

/// The format at rest. It is a promise to records already written, so it is not the type the program works with.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RecordFile {
    version: u32,
    id: String,
    sha256: String,
    user: String,
    groups: Vec<String>,
    note: String,
    created: u64,
    expires: Option<u64>,
    revoked: Option<u64>,
}

fn unhex(text: &str) -> Option<Digest> {
    let mut digest = [0; 32];
    let digits: Option<Vec<u32>> = text.chars().map(|digit| digit.to_digit(16)).collect();
    let digits = digits.filter(|digits| digits.len() == 64)?;
    for (byte, pair) in digest.iter_mut().zip(digits.chunks(2)) {
        let &[high, low] = pair else { return None };
        *byte = u8::try_from(high * 16 + low).ok()?;
    }
    Some(digest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, UNIX_EPOCH};

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let record = ApiKeyRecord {
            id: "abc".to_owned(),
            hash: std::array::from_fn(|n| u8::try_from(n * 8).unwrap()),
            user: "ci".to_owned(),
            groups: vec!["builders".to_owned()],
            note: "\"the\" runner".to_owned(),
            created: UNIX_EPOCH + Duration::from_secs(1_800_000_000),
            expires: Some(UNIX_EPOCH + Duration::from_secs(1_900_000_000)),
            revoked: None,
        };
        let json = record.to_json();
        assert_eq!(ApiKeyRecord::from_json(&json).unwrap(), record);
        for bad in [
            "",
            "{}",
            &json.replace("\"version\":1", "\"version\":2"),
            &json.replace("\"user\"", "\"usr\""),
            &json.replace("f8", "f"),
            &json.replace("f8", "zz"),
            &json.replace("1800000000", "18446744073709551615"),
        ] {
            assert!(ApiKeyRecord::from_json(bad).is_err(), "{bad}");
        }
    }
}
