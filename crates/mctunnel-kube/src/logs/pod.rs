//! A pod as the kube-apiserver sends it, cut down while it is read to what says which logs there are.

use crate::object::{null_as_default, null_as_empty};
use serde::{Deserialize, de::IgnoredAny};
use std::sync::Arc;

/// A pod.
#[derive(Debug, Deserialize, Clone)]
pub(crate) struct Pod {
    pub(crate) metadata: PodMetadata,
    #[serde(default, deserialize_with = "null_as_default")]
    status: PodStatus,
}

#[derive(Debug, Deserialize, Clone, Default)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct PodMetadata {
    pub(crate) name: String,
    pub(crate) namespace: String,
    pub(crate) uid: String,
    pub(crate) resource_version: String,
}

#[derive(Debug, Deserialize, Clone, Default)]
#[serde(rename_all = "camelCase", default)]
struct PodStatus {
    #[serde(deserialize_with = "null_as_empty")]
    init_container_statuses: Vec<ContainerStatus>,
    #[serde(deserialize_with = "null_as_empty")]
    container_statuses: Vec<ContainerStatus>,
    #[serde(deserialize_with = "null_as_empty")]
    ephemeral_container_statuses: Vec<ContainerStatus>,
}

#[derive(Debug, Deserialize, Clone, Default)]
#[serde(rename_all = "camelCase", default)]
struct ContainerStatus {
    name: String,
    restart_count: i64,
    #[serde(deserialize_with = "null_as_default")]
    state: ContainerState,
    #[serde(deserialize_with = "null_as_default")]
    last_state: ContainerState,
}

#[derive(Debug, Deserialize, Clone, Default)]
#[serde(default)]
struct ContainerState {
    running: Option<IgnoredAny>,
    terminated: Option<IgnoredAny>,
}

/// The instance of a container whose log the server gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Instance {
    /// How often the container was restarted before it.
    pub(crate) restart: u32,
    pub(crate) phase: Phase,
    /// Whether the log of the instance before it can be asked for.
    pub(crate) has_previous: bool,
}

/// What can be read of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Nothing yet.
    NotYet,
    /// What there is, and what comes.
    Running,
    /// What there is.
    Over,
}

impl Pod {
    /// The containers of all sorts, in the order in which they run.
    pub(crate) fn containers(&self) -> Vec<(Arc<str>, Instance)> {
        let PodStatus { init_container_statuses, container_statuses, ephemeral_container_statuses } = &self.status;
        let all = init_container_statuses.iter().chain(container_statuses).chain(ephemeral_container_statuses);
        all.map(|status| (Arc::from(status.name.as_str()), status.instance())).collect()
    }
}

impl ContainerStatus {
    fn instance(&self) -> Instance {
        let is_waiting = self.state.running.is_none() && self.state.terminated.is_none();
        let phase = if self.state.running.is_some() {
            Phase::Running
        } else if self.state.terminated.is_some() || self.last_state.terminated.is_some() {
            // While a container waits to be started again, the server gives the log of the one that ended.
            Phase::Over
        } else {
            Phase::NotYet
        };
        let restart = u32::try_from(self.restart_count).unwrap_or(0);
        Instance { restart, phase, has_previous: restart > 0 && !is_waiting }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn instance(status: &serde_json::Value) -> Instance {
        let pod = json!({"metadata": {"name": "p"}, "status": {"containerStatuses": [status], "initContainerStatuses": null}});
        serde_json::from_value::<Pod>(pod).unwrap().containers()[0].1
    }

    #[test]
    fn which_log_the_server_gives_depends_on_the_state() {
        let of = |restart, phase, has_previous| Instance { restart, phase, has_previous };
        let state =
            |count: u32, state, last| json!({"name": "c", "restartCount": count, "state": state, "lastState": last});
        assert_eq!(instance(&state(0, json!({"waiting": {}}), json!({}))), of(0, Phase::NotYet, false));
        assert_eq!(instance(&state(0, json!({"running": {}}), json!({}))), of(0, Phase::Running, false));
        assert_eq!(instance(&state(2, json!({"running": {}}), json!({"terminated": {}}))), of(2, Phase::Running, true));
        assert_eq!(instance(&state(2, json!({"waiting": {}}), json!({"terminated": {}}))), of(2, Phase::Over, false));
        assert_eq!(instance(&state(1, json!({"terminated": {}}), json!(null))), of(1, Phase::Over, true));
    }

    #[test]
    fn init_containers_come_first_and_a_pod_without_status_has_none() {
        let named = |name: &str| json!([{"name": name}]);
        let pod = json!({"metadata": {"name": "p"}, "status": {
            "containerStatuses": named("app"), "initContainerStatuses": named("init"), "ephemeralContainerStatuses": named("debug"),
        }});
        let pod: Pod = serde_json::from_value(pod).unwrap();
        let names: Vec<_> = pod.containers().into_iter().map(|(name, _)| name.to_string()).collect();
        assert_eq!(names, ["init", "app", "debug"]);
        let bare: Pod = serde_json::from_value(json!({"metadata": {"name": "p"}})).unwrap();
        assert!(bare.containers().is_empty());
    }
}
