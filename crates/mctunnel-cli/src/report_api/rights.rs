//! What it takes to see a record: what Kubernetes takes for the same, and a resource of our own for what Kubernetes does not have.

use super::{ReportApi, turns::Asker};
use mctunnel::{
    ClusterName,
    gateway::Permit,
    gateway::http::{Asking, NoPage, Viewer},
    report::StoredRecord,
};
use mctunnel_core::{Action, Decision, Destination, KubeRequest, ResourceRequest, Target, Verb};
use serde_json::Value;
use std::{collections::BTreeMap, sync::Arc};

/// The API group of kinds that are not the agent's own.
const OWN_GROUP: &str = "reports.mctunnel.io";

/// Where in a cluster something is that was reported.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Whereabouts {
    /// None: in all of them, or in none.
    pub(super) namespace: Option<String>,
    pub(super) pod: Option<String>,
}

impl Whereabouts {
    /// Of a record.
    pub(super) fn of(kind: &str, found: &StoredRecord) -> Self {
        match kind {
            "events" => {
                let event: Value = serde_json::from_slice(&found.record.body).unwrap_or_default();
                let namespace = event.pointer("/metadata/namespace").and_then(Value::as_str);
                Self { namespace: namespace.filter(|name| !name.is_empty()).map(str::to_owned), pod: None }
            }
            "logs" => {
                let mut parts = found.record.source.split('/').map(str::to_owned);
                Self { namespace: parts.next(), pod: parts.next() }
            }
            _ => Self::default(),
        }
    }

    /// What seeing a record from here takes.
    pub(super) fn takes(&self, kind: &str) -> Action {
        let (verb, api_group, resource, subresource) = match kind {
            "events" => (Verb::List, "events.k8s.io", "events", None),
            "logs" => (Verb::Get, "", "pods", Some("log")),
            "status" => (Verb::List, "", "nodes", None),
            kind => (Verb::List, OWN_GROUP, kind, None),
        };
        Action::Kube(KubeRequest::Resource(ResourceRequest {
            verb,
            plain_verb: None,
            api_group: api_group.to_owned(),
            api_version: "v1".to_owned(),
            resource: resource.to_owned(),
            subresource: subresource.map(str::to_owned),
            namespace: self.namespace.clone(),
            name: self.pod.clone(),
        }))
    }
}

/// What somebody wants to see some of.
pub(super) struct Wanted {
    pub(super) clusters: Arc<[ClusterName]>,
    pub(super) kinds: Vec<String>,
    pub(super) place: Whereabouts,
}

impl ReportApi {
    /// Lets somebody in who may see some of it in some of the clusters; tells the others what it takes. It counts for the quotas of the
    /// cluster that allows it: who has no part in a cluster uses up nothing of those who have.
    pub(super) async fn admit(&self, asking: &Asking<'_>, wanted: Wanted) -> Result<Option<Permit>, NoPage> {
        // The one that is tried in vain is the one that is recorded.
        let tried = wanted.clusters.first().cloned().zip(wanted.kinds.first().cloned());
        let Some((cluster, kind)) = tried else { return Ok(None) };
        let (many, place) = (wanted.clusters.len() > 1, wanted.place.clone());
        let found = self.first_allowed(asking, wanted).await?;
        let (cluster, kind) = found.unwrap_or((cluster, kind));
        let action = place.takes(&kind);
        let admitted = asking.admit_some(destination(&cluster), action.clone());
        let whereabouts = if many { "any cluster" } else { cluster.as_str() };
        admitted.map(Some).map_err(|decision| NoPage::Refused(explained(decision, &action, whereabouts)))
    }

    /// The first of which the client may see some. There may be many to ask about, so nobody else waits for it.
    async fn first_allowed(
        &self,
        asking: &Asking<'_>,
        wanted: Wanted,
    ) -> Result<Option<(ClusterName, String)>, NoPage> {
        let (turn, viewer) = (self.turns.take(Asker::of(asking)).await?, asking.viewer());
        let deciding = tokio::task::spawn_blocking(move || {
            // Held by who decides, also when the client is gone.
            let _turn = turn;
            let Wanted { clusters, kinds, place } = wanted;
            let all = clusters.iter().flat_map(|cluster| kinds.iter().map(move |kind| (cluster, kind)));
            let mut all = all.map(|(cluster, kind)| (cluster.clone(), kind.clone()));
            all.find(|(cluster, kind)| viewer.may_some(&destination(cluster), &place.takes(kind)))
        });
        deciding.await.map_err(|error| NoPage::NotNow(format!("it cannot be decided: {error}")))
    }
}

/// A refusal that says what it takes.
pub(super) fn explained(decision: Decision, action: &Action, cluster: &str) -> Decision {
    match decision {
        Decision::Denied { rule } => Decision::denied(format!("{rule}; it takes permission to {action}, in {cluster}")),
        Decision::Allowed { .. } | Decision::Limited { .. } => decision,
    }
}

pub(super) fn destination(cluster: &ClusterName) -> Destination {
    Destination { cluster: cluster.clone(), target: Target::KubeApi }
}

/// What somebody may see, as far as it was asked. For one group of records: the next one is decided anew.
pub(super) struct Sight<'a> {
    viewer: &'a Viewer,
    kind: &'a str,
    decided: BTreeMap<(ClusterName, Whereabouts), bool>,
}

impl<'a> Sight<'a> {
    pub(super) fn new(viewer: &'a Viewer, kind: &'a str) -> Self {
        Self { viewer, kind, decided: BTreeMap::new() }
    }

    /// Whether a record from there may be seen.
    pub(super) fn has(&mut self, cluster: &ClusterName, place: Whereabouts) -> bool {
        let action = place.takes(self.kind);
        let decide = || self.viewer.may(&destination(cluster), &action);
        *self.decided.entry((cluster.clone(), place)).or_insert_with(decide)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mctunnel::report::Record;

    #[test]
    fn a_record_takes_what_kubernetes_takes_for_the_same() {
        let takes = |kind: &str, source: &str, body: &str| {
            let record = Record::new(0, source, body.to_owned()).unwrap();
            let cluster = ClusterName::parse("c1").unwrap();
            let found = StoredRecord { cluster, number: 1, position: 0, received: 0, record };
            Whereabouts::of(kind, &found).takes(kind).to_string()
        };
        let event = r#"{"metadata":{"namespace":"team-a"},"regarding":{"namespace":"other"}}"#;
        assert_eq!(takes("events", "other/Pod/web", event), "list events.events.k8s.io in team-a");
        assert_eq!(takes("events", "/Node/n1", "{}"), "list events.events.k8s.io", "what is nowhere takes all of them");
        assert_eq!(takes("events", "team-a/Pod/x", "not JSON"), "list events.events.k8s.io");
        assert_eq!(takes("logs", "team-a/web-0/nginx", "{}"), "get pods/log web-0 in team-a");
        assert_eq!(takes("status", "agent", "{}"), "list nodes");
        assert_eq!(takes("deploys", "ci", "{}"), "list deploys.reports.mctunnel.io");
    }
}
