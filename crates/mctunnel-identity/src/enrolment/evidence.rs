//! Port: who vouches for an agent that has no certificate yet. Join tokens are built in.

use super::{EnrolError, wire};
use crate::{JoinTokens, TokenId, TokenSecret, join_tokens::TokenUse};
use mctunnel_core::{ClusterName, Secret};
use std::{collections::BTreeMap, fmt, net::IpAddr, pin::Pin, sync::Arc};

/// What an agent shows instead of a certificate.
#[derive(Debug)]
#[non_exhaustive]
pub enum Presented {
    /// A join token.
    JoinToken {
        /// Its name.
        id: TokenId,
        /// Its proof.
        secret: TokenSecret,
    },
    /// A Kubernetes ServiceAccount token.
    ServiceAccountToken(Secret),
}

impl Presented {
    /// What an `EnrolRequest` brings.
    pub(super) fn read(evidence: Option<wire::Evidence>) -> Result<Self, EnrolError> {
        match evidence {
            Some(wire::Evidence::JoinToken(token)) => {
                let id = TokenId::from_bytes(&token.id).ok_or(EnrolError::Message("the token's id is not 8 bytes"))?;
                let secret = TokenSecret::from_bytes(&token.secret);
                let secret = secret.ok_or(EnrolError::Message("the token's secret is not 32 bytes"))?;
                Ok(Self::JoinToken { id, secret })
            }
            Some(wire::Evidence::ServiceAccountToken(wire::ServiceAccountToken { token })) => {
                let is_token = (1..=wire::MOST_TOKEN_BYTES).contains(&token.len());
                if !is_token || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
                    return Err(EnrolError::Message("the ServiceAccount token is none, or longer than 16 KiB"));
                }
                Ok(Self::ServiceAccountToken(Secret::new(token)))
            }
            None => Err(EnrolError::Message("it has no evidence")),
        }
    }
}

/// For whom it is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VouchedFor {
    /// The cluster that the request names, if it names one.
    pub cluster: Option<ClusterName>,
    /// Names the agent's key: SHA-256 of its SubjectPublicKeyInfo, lower-case hex.
    pub key: String,
    /// Where it comes from, if that is known.
    pub source: Option<IpAddr>,
}

/// What the agent may be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Vouched {
    /// Its cluster.
    pub cluster: ClusterName,
    /// The cluster's epoch at the time somebody promised it; a cluster that was revoked since then gets nothing.
    pub epoch: String,
    /// What is said about the cluster.
    pub labels: BTreeMap<String, String>,
    /// Who vouched, for logs: "join token 0123456789abcdef". Nothing secret.
    pub by: String,
}

/// Vouches for agents.
///
/// Obligations: 1. `None` says that it does not know this kind of evidence, never that the evidence is wrong; 2. an error is never a
/// yes; 3. if the request names a cluster, another one is refused before anything is used up; 4. nothing secret is in errors.
pub trait EnrolEvidence: Send + Sync + 'static {
    /// Says which cluster the agent may be.
    fn vouch(
        &self,
        presented: &Presented,
        asked: &VouchedFor,
    ) -> impl Future<Output = Result<Option<Vouched>, EnrolError>> + Send;
}

type Answer<'a> = Pin<Box<dyn Future<Output = Result<Option<Vouched>, EnrolError>> + Send + 'a>>;

/// The object-safe twin of [`EnrolEvidence`].
pub trait DynEnrolEvidence: Send + Sync + 'static {
    /// See [`EnrolEvidence::vouch`].
    fn vouch<'a>(&'a self, presented: &'a Presented, asked: &'a VouchedFor) -> Answer<'a>;
}

impl<T: EnrolEvidence> DynEnrolEvidence for T {
    fn vouch<'a>(&'a self, presented: &'a Presented, asked: &'a VouchedFor) -> Answer<'a> {
        Box::pin(EnrolEvidence::vouch(self, presented, asked))
    }
}

impl fmt::Debug for dyn DynEnrolEvidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EnrolEvidence")
    }
}

/// Shared evidence.
pub type SharedEvidence = Arc<dyn DynEnrolEvidence>;

// === TokenEvidence ===

/// Join tokens as evidence.
#[derive(Debug)]
pub struct TokenEvidence {
    tokens: Arc<dyn JoinTokens>,
}

impl TokenEvidence {
    /// Takes these tokens.
    #[must_use]
    pub fn new(tokens: Arc<dyn JoinTokens>) -> Self {
        Self { tokens }
    }
}

impl EnrolEvidence for TokenEvidence {
    async fn vouch(&self, presented: &Presented, asked: &VouchedFor) -> Result<Option<Vouched>, EnrolError> {
        let Presented::JoinToken { id, secret } = presented else { return Ok(None) };
        let by = TokenUse { cluster: asked.cluster.as_ref(), key: &asked.key };
        let grant = self.tokens.take_use(*id, secret, &by)?;
        Ok(Some(Vouched {
            cluster: grant.cluster,
            epoch: grant.epoch,
            labels: grant.labels,
            by: format!("join token {id}"),
        }))
    }
}
