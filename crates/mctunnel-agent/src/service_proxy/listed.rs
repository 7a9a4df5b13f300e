//! Whether an open stream's service is still on the list. The list says when to ask again; nobody asks in between.

#[cfg(test)]
mod tests;

use mctunnel_core::{PermitService, Target};
use std::future::pending;

/// Resolves, with the reason, when the list no longer has the target. Only services are on it.
pub(super) async fn unlisted(services: &dyn PermitService, target: &Target) -> String {
    let Target::Service(service) = target else { return pending().await };
    loop {
        // Before the question: a change between the two is not missed.
        let changed = services.changed();
        if !services.permits(service) {
            tracing::info!(%service, "A stream is cut: its service is no longer on the list.");
            return format!("{service} is no longer on the agent's list of services");
        }
        changed.await;
    }
}
