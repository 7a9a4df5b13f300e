//! Takes the streams the hub opens and hands each to the adapter of its protocol: steps 6 to 9 of a request's path are theirs.

use crate::{Agent, adapter::Offered};
use mctunnel_core::{Happening, OpenError, routing};
use mctunnel_tunnel::{Incoming, Offers, RefuseCode};
use std::sync::Arc;
use tokio::time::Instant;

impl Agent {
    /// Takes the streams the hub opens, each in a task of its own.
    pub(crate) async fn serve(&self, mut offers: Offers) {
        while let Some(incoming) = offers.next().await {
            self.serve_stream(incoming);
        }
    }

    fn serve_stream(&self, incoming: Incoming) {
        let since = Instant::now();
        let (protocol, target) = match routing::read(incoming.headers(), self.inner.cluster.as_str()) {
            Ok(routed) => routed,
            Err(bad) => return self.refuse(incoming, &bad.to_string()),
        };
        let Some(adapter) = self.inner.adapters.get(&protocol) else {
            return self.refuse(incoming, &format!("this agent does not serve the protocol {protocol}"));
        };
        let (cluster, observer) = (self.inner.cluster.clone(), Arc::clone(&self.inner.observer));
        let offered = Offered { incoming, target, cluster, observer, since };
        self.inner.tasks.spawn(Arc::clone(adapter).serve(offered));
    }

    fn refuse(&self, incoming: Incoming, reason: &str) {
        incoming.refuse(RefuseCode::BadRequest, reason);
        self.inner.observe(&Happening::StreamRefused {
            cluster: Some(self.inner.cluster.clone()),
            target: "?".to_owned(),
            code: OpenError::BadRequest(String::new()).code().code,
            reason: reason.to_owned(),
        });
    }
}
