//! What an agent that was let in stands on: the certificate it showed, and later the ones it was renewed to.

use crate::Hub;
use mctunnel_core::clusters::Renewed;
use mctunnel_identity::AgentIdentity;
use rand::random;
use std::time::Duration;
use tokio::time::Instant;

/// How often a tunnel that is up is held against the list of clusters, and by how much later at most, so that they do not all come
/// at once. With the goodbye, a revoked agent is out within 5 s.
const RECHECK: Duration = Duration::from_secs(3);
const SPREAD: Duration = Duration::from_secs(1);
const SHORTEST: Duration = Duration::from_millis(200);

/// Who an agent is, by which CA.
#[derive(Debug, Clone)]
pub(crate) struct Peer {
    pub(crate) agent: AgentIdentity,
    /// Its certificate is of the operator's own CA, not of the hub's.
    pub(crate) own_ca: bool,
}

impl Hub {
    /// Whether the certificate counts: one that this hub issued to that cluster and did not take back, or one of the operator's CA for
    /// a cluster that may have such.
    pub(crate) async fn admits(&self, peer: &Peer) -> bool {
        let clusters = &self.inner.clusters;
        if peer.own_ca {
            clusters.admits_own(&peer.agent.cluster).await
        } else {
            clusters.admits(&peer.agent.cluster, &peer.agent.serial).await
        }
    }

    /// Resolves when the agent's certificate has ended without being renewed, was replaced, or its cluster was revoked or removed: a
    /// tunnel that is up is no better than a new one.
    pub(crate) async fn no_longer_admitted(&self, peer: &Peer) -> &'static str {
        let mut standing = peer.clone();
        // From here on time is counted, not read: a clock that is set does not end tunnels.
        let left = standing.agent.not_after_unix.saturating_sub(self.inner.authority.unix_now());
        let mut ends = Instant::now() + seconds(left);
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
            if !self.admits(&standing).await {
                return "the cluster was revoked or removed from this hub, or its certificate was replaced";
            }
        }
    }

    async fn successor(&self, peer: &Peer) -> Option<Renewed> {
        if peer.own_ca {
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
