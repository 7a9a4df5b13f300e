//! Lets ServiceAccounts of the hub's own cluster vouch for agents that enrol: whose a token is, the cluster says; which agent that account
//! may be, the hub's record of clusters. What the agent says of itself counts for nothing.

mod claims;
mod turns;

use claims::Claims;
use mctunnel_authn::ReviewToken;
use mctunnel_core::Secret;
use mctunnel_identity::{
    Clock, EnrolError, EnrolEvidence, FindCluster, ServiceAccount, SystemClock,
    enrolment::{Presented, Vouched, VouchedFor},
};
use std::{collections::BTreeMap, net::IpAddr, sync::Arc, time::Duration};
use tokio::time::timeout;
use turns::Turns;

#[cfg(test)]
mod tests;

/// How long the cluster may take to answer. The agent, and one of the hub's turns to enrol, wait for it.
const PATIENCE: Duration = Duration::from_secs(5);

/// How many questions are under way at once, one for each source. Fewer than a hub has turns to enrol: strangers can ask for as long as a
/// slow cluster takes, and those who renew, or come with a join token, must not wait for it.
const AT_ONCE: usize = 4;

/// ServiceAccount tokens as evidence.
#[derive(Debug)]
pub struct ServiceAccountEvidence {
    reviews: Arc<dyn ReviewToken>,
    /// Sent with each question; a token must be for one of them.
    audiences: Vec<String>,
    clusters: Arc<dyn FindCluster>,
    turns: Turns,
}

impl ServiceAccountEvidence {
    /// Takes tokens for one of these audiences. Without an audience none is taken.
    #[must_use]
    pub fn new(reviews: Arc<dyn ReviewToken>, audiences: Vec<String>, clusters: Arc<dyn FindCluster>) -> Self {
        Self { reviews, audiences, clusters, turns: Turns::new(AT_ONCE) }
    }

    /// Refuses what the cluster need not be asked about: a token that says itself that it is for nothing here. What it says is not
    /// verified, so it counts against the token and never for it.
    fn glance(&self, token: &Secret) -> Result<(), EnrolError> {
        let refused = |why: &'static str| EnrolError::EvidenceRefused(why.into());
        let claims = Claims::unverified(token).ok_or_else(|| refused("it is not a token as a cluster makes them"))?;
        if !claims.is_for_one_of(&self.audiences) {
            return Err(refused("the token says that it is not for this hub"));
        }
        if claims.has_ended(SystemClock.unix_now()) {
            return Err(refused("the token says that it has ended"));
        }
        let account = ServiceAccount::of_user(&claims.sub);
        let account = account.ok_or_else(|| refused("the token says that it is of no ServiceAccount"))?;
        match self.clusters.vouched_for_by(&account)? {
            Some(_) => Ok(()),
            None => Err(vouches_for_none(&account)),
        }
    }

    /// The account whose token it is.
    async fn account(&self, token: &Secret, source: Option<IpAddr>) -> Result<ServiceAccount, EnrolError> {
        if self.audiences.is_empty() {
            // A cluster that is asked without one answers for its own.
            return Err(EnrolError::EvidenceRefused("no audience means this hub".into()));
        }
        self.glance(token)?;
        let too_many = || EnrolError::EvidenceUnchecked("too many tokens are being checked".into());
        let _turn = self.turns.take(source).ok_or_else(too_many)?;
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
        let account = self.account(token, asked.source).await?;
        // Looked up only now: a cluster that was revoked while the question was under way is out.
        let Some((cluster, epoch)) = self.clusters.vouched_for_by(&account)? else {
            return Err(vouches_for_none(&account));
        };
        if asked.cluster.as_ref().is_some_and(|asked| *asked != cluster) {
            return Err(EnrolError::TokenOfAnotherCluster);
        }
        Ok(Some(Vouched { cluster, epoch, labels: BTreeMap::new(), by: format!("ServiceAccount {account}") }))
    }
}

fn vouches_for_none(account: &ServiceAccount) -> EnrolError {
    EnrolError::EvidenceRefused(format!("ServiceAccount {account} vouches for no cluster").into())
}
