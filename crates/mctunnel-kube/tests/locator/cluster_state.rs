//! How a cluster is: nodes summed up page by page, APIs, and what is said when the agent may not ask.

use crate::{fake_api::FakeApi, setup::access};
use mctunnel_kube::cluster_state::{Answer, AskState, NotReady, Resources};
use serde_json::{Value, json};

fn node(name: &str, ready: &str, more: &[&str]) -> Value {
    let condition =
        |kind: &str, status: &str| json!({"type": kind, "status": status, "reason": format!("Kubelet{status}")});
    let mut conditions = vec![condition("Ready", ready), condition("DiskPressure", "False")];
    conditions.extend(more.iter().map(|kind| condition(kind, "True")));
    json!({
        "metadata": {"name": name, "managedFields": [{}]},
        "spec": {"unschedulable": ready == "Unknown"},
        "status": {
            "conditions": conditions, "images": [{"names": ["x"]}],
            "capacity": {"cpu": "4", "memory": "16Gi", "pods": "110", "ephemeral-storage": "1Ti"},
            "allocatable": {"cpu": "3920m", "memory": "1Ki", "pods": "110"},
        },
    })
}

#[tokio::test]
async fn nodes_are_summed_up_over_all_pages() {
    let api = FakeApi::start().await;
    let first: Vec<Value> = (0..60).map(|number| node(&format!("n{number}"), "True", &[])).collect();
    let second: Vec<Value> =
        (60..90).map(|number| node(&format!("n{number}"), "Unknown", &["MemoryPressure"])).collect();
    api.page("nodes", &first, "more");
    api.list("nodes", "10", &second);
    let asking = AskState::new(&access(&api).await).unwrap();
    let Answer::Known(nodes) = asking.nodes().await else { panic!("they are known") };
    assert_eq!((nodes.total, nodes.ready, nodes.unschedulable, nodes.pages), (90, 60, 30, 2));
    assert_eq!(nodes.not_ready.len(), 20, "not all are named");
    assert_eq!(nodes.not_ready[0], NotReady { name: "n60".to_owned(), reason: "KubeletUnknown".to_owned() });
    let named = &nodes.with_condition["MemoryPressure"];
    assert!(nodes.with_condition.len() == 1 && named.len() == 10, "{named:?}");
    assert_eq!((named[0].as_str(), named[9].as_str()), ("n60", "n69"));
    assert_eq!(nodes.conditions.into_iter().collect::<Vec<_>>(), [("MemoryPressure".to_owned(), 30)]);
    assert_eq!(nodes.capacity, Resources { cpu_millis: 360_000, memory_bytes: 90 * (16 << 30), pods: 9_900 });
    assert_eq!(nodes.allocatable, Resources { cpu_millis: 90 * 3_920, memory_bytes: 90 << 10, pods: 9_900 });
    let asked = api.asked("nodes", 2).await;
    assert!(asked[0].contains("limit=100") && asked[1].contains("continue=more"), "{asked:?}");
}

#[tokio::test]
async fn without_permission_the_answer_says_so() {
    let api = FakeApi::start().await;
    api.refuse_list("nodes", 403);
    api.refuse_list("nodes", 500);
    let asking = AskState::new(&access(&api).await).unwrap();
    assert_eq!(asking.nodes().await, Answer::Denied("refused with 403".to_owned()));
    let Answer::Unknown(reason) = asking.nodes().await else { panic!("nobody knows") };
    assert!(reason.contains("refused with 500"), "{reason}");
}

#[tokio::test]
async fn served_apis_and_the_version_are_asked_for() {
    let api = FakeApi::start().await;
    api.json("api", json!({"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}));
    let version = |text: &str| json!({"groupVersion": format!("apps/{text}"), "version": text});
    let group =
        json!({"name": "apps", "versions": [version("v1"), version("v1beta1")], "preferredVersion": version("v1")});
    api.json("apis", json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": [group]}));
    api.json("version", json!({"major": "1", "minor": "33", "gitVersion": "v1.33.1"}));
    let asking = AskState::new(&access(&api).await).unwrap();
    let apis = ["apps/v1", "apps/v1beta1", "v1"].map(str::to_owned).to_vec();
    assert_eq!(asking.apis().await, Answer::Known(apis));
    assert_eq!(asking.version().await, Answer::Known("v1.33.1".to_owned()));
}
