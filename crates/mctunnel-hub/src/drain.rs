//! Stopping without losing anybody: agents are told to move, streams finish or the grace ends, then tunnels close.

use crate::Hub;
use mctunnel_core::Happening;
use mctunnel_tunnel::{Drain, DrainReason};
use std::time::Duration;

impl Hub {
    /// Drains the hub: takes no new tunnels, tells agents to dial anew, and waits until no stream is open or `grace` has passed.
    /// Streams may still be opened meanwhile. Then call [`Hub::stop`].
    pub async fn drain(&self, grace: Duration) {
        self.inner.stopping.cancel();
        let sessions = self.inner.registry.sessions();
        self.inner.observe(&Happening::Draining { streams: self.streams(), grace });
        for session in &sessions {
            session.drain(Drain {
                reason: DrainReason::Stopping,
                message: "the hub is about to stop".to_owned(),
                reconnect_after_ms: 0,
            });
        }
        let all_idle = async {
            for session in &sessions {
                session.idle().await;
            }
        };
        let _ = tokio::time::timeout(grace, all_idle).await;
        self.inner.observe(&Happening::Drained { cut: self.streams() });
    }

    /// Closes every tunnel, with a reason to the agents, and waits until that was said.
    pub async fn stop(&self) {
        self.inner.stopping.cancel();
        self.inner.stopped.cancel();
        self.inner.tasks.close();
        let _ = tokio::time::timeout(Duration::from_secs(3), self.inner.tasks.wait()).await;
    }

    fn streams(&self) -> usize {
        self.inner.registry.sessions().iter().map(mctunnel_tunnel::Session::streams).sum()
    }
}
