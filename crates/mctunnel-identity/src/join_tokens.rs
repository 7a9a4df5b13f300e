//! Port: the join tokens a hub has given out. What a token is good for is decided here; where it is kept is up to the implementer.

mod files;
mod state;

pub use files::JoinTokenFiles;
pub use state::{TokenState, TokenUse};

use crate::{CaPin, EnrolError, IdentityError, TokenId, TokenSecret};
use mctunnel_core::ClusterName;
use std::{collections::BTreeMap, fmt, time::Duration};

/// The join tokens of a hub.
///
/// Obligations: 1. what was acknowledged is there after any crash; 2. `take_use` is one step: of two agents that use the last use
/// of a token at once, one gets it; 3. a token made or revoked by another process counts at once; 4. an error is never a use.
///
/// The calls wait for the disk. On a runtime, make them where blocking is allowed.
pub trait JoinTokens: fmt::Debug + Send + Sync + 'static {
    /// Makes a token. Its secret is given once and not kept.
    fn create(&self, new: NewJoinToken) -> Result<(TokenId, TokenSecret), IdentityError>;

    /// All tokens, oldest first, also those that no longer count.
    fn list(&self) -> Result<Vec<JoinTokenRecord>, IdentityError>;

    /// The token does not count from now on.
    fn revoke(&self, id: TokenId) -> Result<(), IdentityError>;

    /// Takes one use of a token, if it counts: see [`TokenState::take_use`].
    fn take_use(&self, id: TokenId, secret: &TokenSecret, by: &TokenUse<'_>) -> Result<TokenGrant, EnrolError>;
}

/// What a token is to be good for.
#[derive(Debug, Clone)]
pub struct NewJoinToken {
    /// For which cluster.
    pub cluster: ClusterName,
    /// The cluster's epoch, see `ClusterFiles::ensure`; the token counts as long as that does.
    pub epoch: String,
    /// For how long.
    pub ttl: Duration,
    /// For how many agents.
    pub uses: u32,
    /// What is said about the cluster once it has enrolled.
    pub labels: BTreeMap<String, String>,
    /// The CA that the token pins: it must not go before the token does.
    pub pin: CaPin,
}

/// A token as lists show it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct JoinTokenRecord {
    /// Its name.
    pub id: TokenId,
    /// For which cluster.
    pub cluster: ClusterName,
    /// The cluster's epoch when it was made. In another one it gets nothing: the cluster was revoked or removed since.
    pub epoch: String,
    /// When it was made, in seconds since 1970.
    pub created_unix: i64,
    /// When it ends, in seconds since 1970.
    pub expires_unix: i64,
    /// For how many agents it is.
    pub uses: u32,
    /// How many have used it.
    pub used: u32,
    /// Whether it was taken back.
    pub revoked: bool,
    /// What is said about the cluster.
    pub labels: BTreeMap<String, String>,
    /// The CA it pins.
    pub pin: CaPin,
}

impl JoinTokenRecord {
    /// Whether it lets another agent in.
    #[must_use]
    pub fn counts(&self, now_unix: i64) -> bool {
        !self.revoked && self.used < self.uses && now_unix < self.expires_unix
    }
}

/// What a use of a token gives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenGrant {
    /// The cluster its bearer may be.
    pub cluster: ClusterName,
    /// The cluster's epoch when the token was made.
    pub epoch: String,
    /// What is said about the cluster.
    pub labels: BTreeMap<String, String>,
}
