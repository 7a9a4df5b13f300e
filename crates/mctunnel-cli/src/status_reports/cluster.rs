//! What a status says of the cluster, asked beside the reports so that a kube-apiserver that is slow holds up none of them. A large
//! cluster is asked for its nodes less often.

use super::EVERY;
use mctunnel::kube::cluster_state::{Answer, AskState, Nodes, Resources};
use serde_json::{Map, Value, json};
use std::{sync::Arc, time::Duration};
use tokio::{
    sync::watch,
    time::{Instant, sleep},
};

/// The most APIs that are named.
const MOST_APIS: usize = 256;
/// A list of nodes with so many pages is asked for as often as everything else; a longer one less often, in proportion.
const USUAL_PAGES: u32 = 5;
/// But at least this often.
const NODES_AT_LEAST_EVERY: Duration = Duration::from_secs(10 * 60);
/// An agent that may not list nodes asks again after this time.
const DENIED_RETRY: Duration = Duration::from_secs(5 * 60);

/// What the kube-apiserver said last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ClusterAnswers {
    version: Answer<String>,
    apis: Answer<Vec<String>>,
    nodes: Answer<Nodes>,
}

/// Asks for ever, and tells what changed.
pub(super) async fn keep_asking(ask: AskState, tell: watch::Sender<Option<Arc<ClusterAnswers>>>) {
    let mut nodes: Option<(Instant, Answer<Nodes>)> = None;
    loop {
        let (version, apis) = (ask.version().await, ask.apis().await);
        let known = match nodes.take() {
            Some((due, known)) if Instant::now() < due => (due, known),
            _ => {
                let asked = ask.nodes().await;
                (Instant::now() + pause(&asked), asked)
            }
        };
        let answers = ClusterAnswers { version, apis, nodes: known.1.clone() };
        nodes = Some(known);
        tell.send_if_modified(|told| {
            let is_new = told.as_deref() != Some(&answers);
            if is_new {
                *told = Some(Arc::new(answers));
            }
            is_new
        });
        sleep(EVERY).await;
    }
}

/// Until nodes are asked for again.
fn pause(nodes: &Answer<Nodes>) -> Duration {
    match nodes {
        Answer::Known(nodes) => (EVERY * nodes.pages / USUAL_PAGES).clamp(EVERY / 2, NODES_AT_LEAST_EVERY),
        Answer::Denied(_) => DENIED_RETRY,
        Answer::Unknown(_) => EVERY / 2,
    }
}

/// The part of a status that is about the cluster. Its names are a promise to scripts.
pub(super) fn describe(answers: Option<&ClusterAnswers>) -> Map<String, Value> {
    let version = answers.and_then(|answers| answers.version.known());
    let nodes = answers.map(|answers| &answers.nodes);
    let known = nodes.and_then(Answer::known);
    let all = [
        ("kubernetes_version", json!(version)),
        ("nodes", nodes.map_or(Value::Null, |nodes| or_why_not(nodes, describe_nodes))),
        ("capacity", known.map_or(Value::Null, |nodes| describe_resources(nodes.capacity))),
        ("allocatable", known.map_or(Value::Null, |nodes| describe_resources(nodes.allocatable))),
        ("apis", answers.map_or(Value::Null, |answers| or_why_not(&answers.apis, |apis| describe_apis(apis)))),
    ];
    all.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

fn or_why_not<T>(answer: &Answer<T>, describe: impl Fn(&T) -> Value) -> Value {
    match answer {
        Answer::Known(known) => describe(known),
        Answer::Denied(reason) => json!({"denied": reason}),
        Answer::Unknown(reason) => json!({"unknown": reason}),
    }
}

fn describe_nodes(nodes: &Nodes) -> Value {
    let not_ready = nodes.not_ready.iter().map(|node| json!({"name": node.name, "reason": node.reason}));
    let named = u64::try_from(nodes.not_ready.len()).unwrap_or(u64::MAX);
    json!({
        "ready": nodes.ready,
        "total": nodes.total,
        "unschedulable": nodes.unschedulable,
        "conditions": nodes.conditions,
        "condition_nodes": nodes.with_condition,
        "not_ready": not_ready.collect::<Vec<_>>(),
        "not_ready_left_out": (nodes.total - nodes.ready).saturating_sub(named),
    })
}

fn describe_resources(resources: Resources) -> Value {
    let Resources { cpu_millis, memory_bytes, pods } = resources;
    json!({"cpu_millis": cpu_millis, "memory_bytes": memory_bytes, "pods": pods})
}

fn describe_apis(apis: &[String]) -> Value {
    let served: Vec<_> = apis.iter().take(MOST_APIS).collect();
    json!({"served": served, "left_out": apis.len() - served.len()})
}

#[cfg(test)]
mod tests {
    use super::*;
    use mctunnel::kube::cluster_state::NotReady;

    fn answers(nodes: Answer<Nodes>) -> ClusterAnswers {
        let apis = Answer::Known(vec!["apps/v1".to_owned(), "v1".to_owned()]);
        ClusterAnswers { version: Answer::Known("v1.33.1".to_owned()), apis, nodes }
    }

    #[test]
    fn a_status_has_what_the_kube_apiserver_said() {
        let nodes = Nodes {
            total: 30,
            ready: 3,
            not_ready: vec![NotReady { name: "n1".to_owned(), reason: "KubeletNotReady".to_owned() }],
            conditions: [("DiskPressure".to_owned(), 1)].into(),
            with_condition: [("DiskPressure".to_owned(), vec!["n2".to_owned()])].into(),
            capacity: Resources { cpu_millis: 8_000, memory_bytes: 16 << 30, pods: 220 },
            ..Nodes::default()
        };
        let told = Value::Object(describe(Some(&answers(Answer::Known(nodes)))));
        assert_eq!(told["kubernetes_version"], "v1.33.1");
        assert_eq!(told["apis"], json!({"served": ["apps/v1", "v1"], "left_out": 0}));
        assert_eq!(told["capacity"], json!({"cpu_millis": 8000, "memory_bytes": 17_179_869_184_u64, "pods": 220}));
        let expected = json!({
            "ready": 3, "total": 30, "unschedulable": 0,
            "conditions": {"DiskPressure": 1}, "condition_nodes": {"DiskPressure": ["n2"]},
            "not_ready": [{"name": "n1", "reason": "KubeletNotReady"}], "not_ready_left_out": 26,
        });
        assert_eq!(told["nodes"], expected);
    }

    #[test]
    fn without_permission_the_status_says_so() {
        let denied = describe(Some(&answers(Answer::Denied("nodes is forbidden".to_owned()))));
        assert_eq!(denied["nodes"], json!({"denied": "nodes is forbidden"}));
        assert_eq!(denied["capacity"], Value::Null);
        let nothing = describe(None);
        assert!(nothing.len() == 5 && nothing.values().all(Value::is_null), "{nothing:?}");
    }

    #[test]
    fn a_large_cluster_is_asked_for_its_nodes_less_often() {
        let after = |pages| pause(&Answer::Known(Nodes { pages, ..Nodes::default() })).as_secs();
        assert_eq!([1, 5, 50, 1_000].map(after), [15, 30, 300, 600]);
    }

    #[test]
    fn a_status_of_the_worst_cluster_is_a_record() {
        let long = || "x".repeat(256);
        let not_ready = vec![NotReady { name: long(), reason: long() }; 20];
        let with_condition = (0..16).map(|i| (format!("{}{i}", long()), vec![long(); 10])).collect();
        let nodes = Nodes { total: 5_000, not_ready, with_condition, ..Nodes::default() };
        let apis = Answer::Known(vec!["example.com/v1alpha1".repeat(4); 2_000]);
        let told = describe(Some(&ClusterAnswers { apis, ..answers(Answer::Known(nodes)) }));
        assert_eq!(told["apis"]["left_out"], 2_000 - MOST_APIS);
        assert!(serde_json::to_vec(&told).unwrap().len() < 128 << 10);
    }
}
