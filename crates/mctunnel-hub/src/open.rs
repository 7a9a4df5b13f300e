//! Step 4 of a request's path: finding the cluster's tunnel and opening a stream on it.

use crate::Hub;
use mctunnel_core::{Destination, Identity, Open, OpenError, OpenRequest, routing};
use mctunnel_tunnel::{CloseCode, OpenFailed, Session, Stream};
use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};
use tokio::time::{Instant, timeout_at};

#[cfg(test)]
mod tests;

impl Open for Hub {
    type Stream = Stream;

    async fn open(&self, request: OpenRequest) -> Result<Stream, OpenError> {
        let _pending = Pending::begin(&self.inner.pending);
        let now = Instant::now();
        let wait_until = now + request.wait_for_tunnel;
        // A second try does not make it longer.
        let latest = wait_until + request.timeout;
        let cluster = &request.destination.cluster;
        for _ in 0..TRIES {
            let session = self.session(&request, wait_until).await?;
            let asked = Instant::now();
            let deadline = latest.min(asked + request.timeout);
            let opening = session.open(self.routing(&request), request.first_bytes.clone());
            let Ok(opened) = timeout_at(deadline, opening).await else {
                return Err(no_answer(&request, deadline - asked));
            };
            return match opened {
                Ok(stream) => Ok(stream),
                // Nothing was sent: the tunnel went away under us. A newer one may be there, or come.
                Err(OpenFailed::NotAsked(reason)) if !session.is_usable() => {
                    tracing::debug!(%cluster, %reason, "The tunnel changed while opening; looking again.");
                    continue;
                }
                Err(OpenFailed::NotAsked(reason)) => Err(OpenError::Busy(reason.to_string())),
                Err(OpenFailed::Refused { code, message }) => Err(OpenError::from_refusal(code, message)),
                // Whether the tunnel was given up for its silence before our own patience ended, or after, is the same to who asked.
                Err(OpenFailed::Lost(_)) if fell_silent(&session) => Err(no_answer(&request, asked.elapsed())),
                Err(OpenFailed::Lost(reason)) => Err(OpenError::TunnelLost(reason)),
            };
        }
        Err(self.no_tunnel())
    }
}

fn no_answer(request: &OpenRequest, within: Duration) -> OpenError {
    let Destination { cluster, target } = &request.destination;
    OpenError::Timeout(format!("{target} in {cluster} gave no answer within {:.1} s", within.as_secs_f64()))
}

/// Whether the tunnel ended because nobody answered any more.
fn fell_silent(session: &Session) -> bool {
    session.ending().is_some_and(|ending| ending.code == Some(CloseCode::Silent))
}

/// A request of which nothing was sent is tried once more.
const TRIES: usize = 2;

/// Counted for as long as it lives, also when whoever asked goes away.
struct Pending<'a>(&'a AtomicUsize);

impl<'a> Pending<'a> {
    fn begin(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Hub {
    /// The cluster's active tunnel; waits for one that may be back in a moment.
    async fn session(&self, request: &OpenRequest, wait_until: Instant) -> Result<Session, OpenError> {
        let cluster = &request.destination.cluster;
        if let Some(session) = self.inner.registry.active(cluster) {
            return Ok(session);
        }
        if !self.inner.clusters.is_known(cluster).await {
            return Err(OpenError::UnknownCluster);
        }
        if !self.inner.registry.is_reconnecting(cluster) {
            return Err(self.no_tunnel());
        }
        let waited = timeout_at(wait_until, self.inner.registry.wait_for_active(cluster)).await;
        waited.map_err(|_| self.no_tunnel())
    }

    fn no_tunnel(&self) -> OpenError {
        OpenError::NoTunnel { retry_after: self.inner.config.retry_after }
    }

    /// What stands in the opening frame.
    fn routing(&self, request: &OpenRequest) -> mctunnel_tunnel::Open {
        mctunnel_tunnel::Open {
            priority: request.priority,
            headers: routing::headers_for(&request.protocol, &request.destination),
            user: if let Identity::User(user) = &request.identity {
                Some(self.inner.open_users.of(user))
            } else {
                None
            },
        }
    }
}
