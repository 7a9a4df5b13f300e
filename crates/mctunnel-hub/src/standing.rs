//! What an agent that was let in stands on: the certificate it showed, and later the ones it was renewed to.

#[cfg(test)]
mod tests;

use crate::Hub;
use mctunnel_core::{
    Happening,
    clusters::{Renewed, Standing},
};
use mctunnel_identity::{AgentIdentity, OwnChain};
use rand::random;
use std::time::Duration;
use tokio::time::Instant;

/// How often a tunnel that is up is held against the list of clusters, and by how much later at most, so that they do not all come
/// at once. With the goodbye, a revoked agent is out within 5 s.
const RECHECK: Duration = Duration::from_secs(3);
const SPREAD: Duration = Duration::from_secs(1);
const SHORTEST: Duration = Duration::from_millis(200);

/// How long a tunnel stays at most while it cannot be read whether it may. Descriptors that strangers use up, or a disk that fails for
/// a moment, take no cluster away; nor can whoever makes the list unreadable keep a revoked one in for longer.
const UNREAD: Duration = Duration::from_secs(60);

/// Who an agent is, by which CA.
#[derive(Debug, Clone)]
pub(crate) struct Peer {
    pub(crate) agent: AgentIdentity,
    /// Its certificate is of the operator's own CA, not of the hub's.
    pub(crate) own: Option<OwnChain>,
}

impl Hub {
    /// Whether the certificate counts: one that this hub issued to that cluster and did not take back, or one of the operator's CA for
    /// a cluster that may have such.
    pub(crate) async fn stands(&self, peer: &Peer) -> Standing {
        let clusters = &self.inner.clusters;
        if peer.own.is_some() {
            clusters.stands_own(&peer.agent.cluster).await
        } else {
            clusters.stands(&peer.agent.cluster, &peer.agent.serial).await
        }
    }

    /// Resolves when the agent's certificate has ended without being renewed, was replaced, its CA is not the operator's any more, or its
    /// cluster was revoked or removed: a tunnel that is up is no better than a new one. Only what cannot be read counts otherwise: a new
    /// one is refused, this one has a minute.
    pub(crate) async fn no_longer_admitted(&self, peer: &Peer) -> &'static str {
        let mut standing = peer.clone();
        // From here on time is counted, not read: a clock that is set does not end tunnels.
        let left = standing.agent.not_after_unix.saturating_sub(self.inner.authority.unix_now());
        let mut ends = Instant::now() + seconds(left);
        let (mut read, mut told) = (Instant::now(), false);
        loop {
            let usual = RECHECK + SPREAD.mul_f64(random::<f64>());
            // A certificate that lives for seconds is renewed within seconds.
            let left = ends.saturating_duration_since(Instant::now());
            tokio::time::sleep(usual.min(left / 2).max(SHORTEST)).await;
            while let Some(next) = self.successor(&standing).await {
                ends += seconds(next.not_after_unix.saturating_sub(standing.agent.not_after_unix));
                standing.agent.serial = next.serial;
                standing.agent.not_after_unix = next.not_after_unix;
            }
            if Instant::now() > ends {
                return "the agent's certificate has expired";
            }
            if standing.own.as_mut().is_some_and(|chain| !self.inner.authority.still_trusts(chain)) {
                return "the CA of the agent's certificate is not one of this hub's any more (--agent-ca)";
            }
            match self.stands(&standing).await {
                Standing::Admitted => (read, told) = (Instant::now(), false),
                Standing::Refused => {
                    return "the cluster was revoked or removed from this hub, or its certificate was replaced";
                }
                Standing::Unknown(reason) => {
                    if !told {
                        let cluster = standing.agent.cluster.clone();
                        self.inner.observe(&Happening::ClusterUnread { cluster, reason });
                        told = true;
                    }
                    // The next look would come too late.
                    if read.elapsed() + RECHECK + SPREAD > UNREAD {
                        return "this hub could not read for a minute what it has about the cluster; try again";
                    }
                }
            }
        }
    }

    async fn successor(&self, peer: &Peer) -> Option<Renewed> {
        if peer.own.is_some() {
            return None;
        }
        self.inner.clusters.successor(&peer.agent.cluster, &peer.agent.serial).await
    }
}

/// At most a hundred years, so that adding it to a moment never fails.
fn seconds(count: i64) -> Duration {
    const CENTURY: u64 = 100 * 365 * 24 * 60 * 60;
    Duration::from_secs(u64::try_from(count).unwrap_or_default().min(CENTURY))
}
