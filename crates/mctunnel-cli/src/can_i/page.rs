//! `POST /-/can-i` at the gateway: the question as JSON, answered by the policy that decides requests at that moment.

use super::Answer;
use mctunnel::gateway::http::{Asking, NoPage};
use mctunnel_core::{Action, ClusterName, Destination, Identity, Target};
use mctunnel_policy::{Question, ReloadingPolicy, question};
use serde::{Deserialize, Serialize};

/// What Kubernetes calls it to ask about others; whoever may do that in a cluster may ask the hub about it.
const ABOUT_OTHERS: &str = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
/// And what it calls it to ask about oneself.
const ABOUT_ONESELF: &str = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";

/// The page of a hub with a policy.
#[derive(Clone)]
pub(crate) struct CanIPage {
    policy: ReloadingPolicy,
}

impl CanIPage {
    pub(crate) fn new(policy: ReloadingPolicy) -> Self {
        Self { policy }
    }
}

/// The form of the question. Its names are a promise, and those of tables of expectations.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Asked {
    /// About whom; without it about who asks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) who: Option<question::Who>,
    #[serde(rename = "where")]
    pub(super) place: question::Place,
    pub(super) what: question::Deed,
    #[serde(default)]
    pub(super) from: question::Origin,
}

impl CanIPage {
    /// Answers with JSON.
    pub(crate) fn answer(&self, asking: &Asking<'_>) -> Result<String, NoPage> {
        let bad = |error: &dyn std::fmt::Display| NoPage::Bad(error.to_string());
        let Asked { who, place, what, mut from } = serde_json::from_slice(asking.body).map_err(|error| bad(&error))?;
        let who = match who {
            Some(other) => {
                may_ask_about_others(asking, &place.cluster)?;
                other
            }
            None => {
                let (place, action) = about(&place.cluster, ABOUT_ONESELF)?;
                // Everybody may ask about themselves, as often as they may ask for anything there.
                asking.within_limits(place, action).map(drop).map_err(NoPage::Refused)?;
                from.source = from.source.or(Some(asking.source));
                own(asking.identity)
            }
        };
        let question = Question { who, place, what, from };
        let answer = Answer::of(&question, &self.policy.current()).map_err(|error| bad(&error))?;
        serde_json::to_string(&answer).map_err(|error| bad(&error))
    }
}

fn may_ask_about_others(asking: &Asking<'_>, cluster: &str) -> Result<(), NoPage> {
    let (place, action) = about(cluster, ABOUT_OTHERS)?;
    asking.admit(place, action).map(drop).map_err(NoPage::Refused)
}

/// What the question would be to the cluster itself.
fn about(cluster: &str, path: &str) -> Result<(Destination, Action), NoPage> {
    let bad = |error: &dyn std::fmt::Display| NoPage::Bad(error.to_string());
    let cluster = ClusterName::parse(cluster).map_err(|error| bad(&format!("the cluster {cluster:?}: {error}")))?;
    let action = Action::of_http(&Target::KubeApi, "POST", path).map_err(|error| bad(&error))?;
    Ok((Destination { cluster, target: Target::KubeApi }, action))
}

/// Who asks, as a question names it.
fn own(identity: &Identity) -> question::Who {
    let Some(user) = identity.user() else { return question::Who::default() };
    question::Who {
        user: Some(user.name.to_string()),
        groups: user.groups.iter().map(ToString::to_string).collect(),
        uid: user.uid.as_deref().map(str::to_owned),
        extra: user.extra.iter().chain(&user.facts).map(|(key, values)| (key.clone(), values.clone())).collect(),
        provider: Some(user.provider.to_string()),
    }
}
