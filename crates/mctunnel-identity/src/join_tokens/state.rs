//! A token as it is kept, and the one decision about it. Pure: the time comes in, and the caller keeps what comes out.

use super::{JoinTokenRecord, NewJoinToken, TokenGrant};
use crate::{
    CaPin, EnrolError, TokenId, TokenSecret,
    ca_pin::{from_hex, to_hex},
};
use mctunnel_core::ClusterName;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Who wants to use a token.
#[derive(Debug, Clone, Copy)]
pub struct TokenUse<'a> {
    /// The cluster that is asked for, if one is.
    pub cluster: Option<&'a ClusterName>,
    /// Names the agent's key: SHA-256 of its SubjectPublicKeyInfo, lower-case hex. Whoever asks has proven that it has the key.
    pub key: &'a str,
}

/// A token as it is kept: without its secret.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenState {
    id: String,
    /// SHA-256 of the secret.
    secret: String,
    cluster: String,
    epoch: String,
    created: i64,
    expires: i64,
    uses: u32,
    /// The keys of the agents that have used it, in order.
    used_by: Vec<String>,
    revoked: bool,
    pin: String,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    labels: BTreeMap<String, String>,
}

impl TokenState {
    /// A token that nobody has used.
    #[must_use]
    pub fn new(id: TokenId, secret: &TokenSecret, new: NewJoinToken, now_unix: i64) -> Self {
        let ttl = i64::try_from(new.ttl.as_secs()).unwrap_or(i64::MAX);
        Self {
            id: id.to_string(),
            secret: to_hex(&secret.hash()),
            cluster: new.cluster.to_string(),
            epoch: new.epoch,
            created: now_unix,
            expires: now_unix.saturating_add(ttl),
            uses: new.uses,
            used_by: Vec::new(),
            revoked: false,
            pin: new.pin.to_string(),
            labels: new.labels,
        }
    }

    /// Reads what [`TokenState::to_json`] wrote; `Err` says what is wrong with it.
    pub fn parse(text: &str) -> Result<Self, String> {
        serde_json::from_str(text).map_err(|error| error.to_string())
    }

    /// As text, to be kept.
    #[must_use]
    pub fn to_json(&self) -> String {
        #[expect(clippy::expect_used, reason = "strings and numbers always serialise")]
        let mut text = serde_json::to_string(self).expect("plain values");
        text.push('\n');
        text
    }

    /// The token as lists show it; `Err` says what is wrong with it.
    pub fn record(&self) -> Result<JoinTokenRecord, String> {
        Ok(JoinTokenRecord {
            id: TokenId::parse(&self.id).ok_or("its id is none")?,
            cluster: self.cluster()?,
            epoch: self.epoch.clone(),
            created_unix: self.created,
            expires_unix: self.expires,
            uses: self.uses,
            used: u32::try_from(self.used_by.len()).unwrap_or(u32::MAX),
            revoked: self.revoked,
            labels: self.labels.clone(),
            pin: CaPin::parse(&self.pin).ok_or("its pin is none")?,
        })
    }

    /// Takes a use, if the token is what it is said to be and still counts. Only then is there something to be kept.
    ///
    /// Why a token does not count is told to whoever has its secret; to others it is not known. A key that has used the token
    /// before takes no further use: its agent did not get the answer.
    pub fn take_use(
        &mut self,
        secret: &TokenSecret,
        by: &TokenUse<'_>,
        now_unix: i64,
    ) -> Result<TokenGrant, EnrolError> {
        let kept = from_hex::<32>(&self.secret).ok_or(EnrolError::TokenUnknown)?;
        if !is_same(&kept, &secret.hash()) {
            return Err(EnrolError::TokenUnknown);
        }
        let cluster = self.cluster().map_err(|_| EnrolError::TokenUnknown)?;
        if self.revoked {
            return Err(EnrolError::TokenRevoked);
        }
        if now_unix >= self.expires {
            return Err(EnrolError::TokenExpired);
        }
        if by.cluster.is_some_and(|asked| *asked != cluster) {
            return Err(EnrolError::TokenOfAnotherCluster);
        }
        if !self.used_by.iter().any(|key| key == by.key) {
            if self.used_by.len() >= usize::try_from(self.uses).unwrap_or(usize::MAX) {
                return Err(EnrolError::TokenUsed);
            }
            self.used_by.push(by.key.to_owned());
        }
        Ok(TokenGrant { cluster, epoch: self.epoch.clone(), labels: self.labels.clone() })
    }

    /// The token does not count from now on.
    pub fn revoke(&mut self) {
        self.revoked = true;
    }

    fn cluster(&self) -> Result<ClusterName, String> {
        ClusterName::parse(&self.cluster).map_err(|error| error.to_string())
    }
}

/// Takes the same time whatever the difference.
fn is_same(a: &[u8; 32], b: &[u8; 32]) -> bool {
    let difference = a.iter().zip(b).fold(0, |difference, (a, b)| difference | (a ^ b));
    std::hint::black_box(difference) == 0
}
