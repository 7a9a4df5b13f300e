//! Lets ServiceAccounts of the hub's own cluster vouch for agents that enrol: whose a token is, the cluster says; which agent that account
//! may be, the hub's record of clusters. What the agent says of itself counts for nothing.

use mctunnel_authn::ReviewToken;
use mctunnel_core::Secret;
use mctunnel_identity::{
    EnrolError, EnrolEvidence, FindCluster, ServiceAccount,
    enrolment::{Presented, Vouched, VouchedFor},
};
use std::{collections::BTreeMap, sync::Arc, time::Duration};
use tokio::{sync::Semaphore, time::timeout};

#[cfg(test)]
mod tests;

/// How long the cluster may take to answer. The agent, and one of the hub's turns to enrol, wait for it.
const PATIENCE: Duration = Duration::from_secs(5);

/// How many questions are under way at once. Fewer than a hub has turns to enrol: strangers can ask for as long as a slow cluster takes,
/// and those who renew, or come with a join token, must not wait for it.
const AT_ONCE: usize = 4;

/// ServiceAccount tokens as evidence.
#[derive(Debug)]
pub struct ServiceAccountEvidence {
    reviews: Arc<dyn ReviewToken>,
    /// Sent with each question; a token must be for one of them.
    audiences: Vec<String>,
    clusters: Arc<dyn FindCluster>,
    turns: Semaphore,
}

impl ServiceAccountEvidence {
    /// Takes tokens for one of these audiences. Without an audience none is taken.
    #[must_use]
    pub fn new(reviews: Arc<dyn ReviewToken>, audiences: Vec<String>, clusters: Arc<dyn FindCluster>) -> Self {
        Self { reviews, audiences, clusters, turns: Semaphore::new(AT_ONCE) }
    }

    /// The account whose token it is.
    async fn account(&self, token: &Secret) -> Result<ServiceAccount, EnrolError> {
        if self.audiences.is_empty() {
            // A cluster that is asked without one answers for its own.
            return Err(EnrolError::EvidenceRefused("no audience means this hub".into()));
        }
        let too_many = || EnrolError::EvidenceUnchecked("too many tokens are being checked".into());
        let _turn = self.turns.try_acquire().map_err(|_| too_many())?;
        let asked = timeout(PATIENCE, self.reviews.review(token, &self.audiences)).await;
        let asked = asked.unwrap_or_else(|_| Err(format!("there was no answer within {PATIENCE:?}")));
        let unchecked = |why| EnrolError::EvidenceUnchecked(format!("the hub's cluster cannot be asked: {why}").into());
        let review = asked.map_err(unchecked)?;
        let user = review.of_audience(&self.audiences).map_err(|why| EnrolError::EvidenceRefused(why.into()))?;
        let other = || EnrolError::EvidenceRefused("the token is of no ServiceAccount".into());
        ServiceAccount::of_user(&user.name).ok_or_else(other)
    }
}

impl EnrolEvidence for ServiceAccountEvidence {
    async fn vouch(&self, presented: &Presented, asked: &VouchedFor) -> Result<Option<Vouched>, EnrolError> {
        let Presented::ServiceAccountToken(token) = presented else { return Ok(None) };
        let account = self.account(token).await?;
        // Looked up only now: a cluster that was revoked while the question was under way is out.
        let Some((cluster, epoch)) = self.clusters.vouched_for_by(&account)? else {
            return Err(EnrolError::EvidenceRefused(format!("ServiceAccount {account} vouches for no cluster").into()));
        };
        if asked.cluster.as_ref().is_some_and(|asked| *asked != cluster) {
            return Err(EnrolError::TokenOfAnotherCluster);
        }
        Ok(Some(Vouched { cluster, epoch, labels: BTreeMap::new(), by: format!("ServiceAccount {account}") }))
    }
}
