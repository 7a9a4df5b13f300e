//! How a cluster is: its nodes and what they can do, its version, the APIs it serves. Asked, not watched: a node says something of
//! itself every few seconds, and nobody wants to know that often. Lists are summed up page by page, so that a cluster of 5,000 nodes
//! takes no more memory than a small one.

use crate::{
    ClusterAccess, KubeError,
    follow::{Trouble, request},
    object::{PageMetadata, null_as_empty},
    quantity::thousandths,
};
use kube::Client;
use serde::Deserialize;
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    time::Duration,
};
use tokio::time::timeout;

/// Nodes of a page: each is some 15 KiB, most of it the list of its images.
const PAGE: u32 = 100;
/// The most pages: a server that always has another one is not followed for ever.
const MOST_PAGES: u32 = 200;
/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(20);
/// The most nodes that are named because they are not ready.
const MOST_NOT_READY: usize = 20;
/// The most conditions that are told apart.
const MOST_CONDITIONS: usize = 16;
/// The most nodes that are named for one condition.
const MOST_WITH_CONDITION: usize = 10;
/// The longest text of a node that is passed on.
const MOST_TEXT: usize = 256;

/// An answer, or why there is none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer<T> {
    /// It is known.
    Known(T),
    /// The agent may not ask, and what the server said to that.
    Denied(String),
    /// The server did not answer, and why.
    Unknown(String),
}

impl<T> Answer<T> {
    /// What is known.
    pub fn known(&self) -> Option<&T> {
        match self {
            Self::Known(known) => Some(known),
            Self::Denied(_) | Self::Unknown(_) => None,
        }
    }
}

/// The nodes of a cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Nodes {
    /// How many there are.
    pub total: u64,
    /// How many are ready.
    pub ready: u64,
    /// How many take no new pods because somebody said so.
    pub unschedulable: u64,
    /// The first few of those that are not ready.
    pub not_ready: Vec<NotReady>,
    /// Each condition but `Ready` that is the case somewhere, and on how many nodes.
    pub conditions: BTreeMap<String, u64>,
    /// The names of the first few nodes of each of these conditions.
    pub with_condition: BTreeMap<String, Vec<String>>,
    /// What they have in all.
    pub capacity: Resources,
    /// What of it pods may use.
    pub allocatable: Resources,
    /// How many pages the list had.
    pub pages: u32,
}

/// A node that is not ready.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotReady {
    /// Its name.
    pub name: String,
    /// Why, in one word of Kubernetes; empty if it does not say.
    pub reason: String,
}

/// What nodes have.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Resources {
    /// Thousandths of a CPU.
    pub cpu_millis: u64,
    /// Bytes of memory.
    pub memory_bytes: u64,
    /// Pods.
    pub pods: u64,
}

/// Asks.
pub struct AskState {
    client: Client,
}

impl fmt::Debug for AskState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AskState").finish_non_exhaustive()
    }
}

impl AskState {
    /// Prepares to ask.
    pub fn new(access: &ClusterAccess) -> Result<Self, KubeError> {
        Ok(Self { client: access.client()? })
    }

    /// The version of the kube-apiserver, as in `v1.33.1`.
    pub async fn version(&self) -> Answer<String> {
        answer(async { Ok(in_time(self.client.apiserver_version()).await?.git_version) }.await)
    }

    /// The nodes, summed up.
    pub async fn nodes(&self) -> Answer<Nodes> {
        answer(self.list_nodes().await)
    }

    /// The APIs that are served, as in `v1` and `apps/v1`, in the order of their names.
    pub async fn apis(&self) -> Answer<Vec<String>> {
        answer(self.list_apis().await)
    }

    async fn list_nodes(&self) -> Result<Nodes, Trouble> {
        let mut nodes = Nodes::default();
        let mut next: Option<String> = None;
        loop {
            let request = request::list_selected("/api/v1", "nodes", None, None, PAGE, next.as_deref())?;
            let page: NodePage = in_time(self.client.request(request)).await?;
            page.items.iter().for_each(|node| nodes.add(node));
            nodes.pages += 1;
            next = page.metadata.next.filter(|next| !next.is_empty());
            if next.is_none() {
                return Ok(nodes);
            }
            if nodes.pages >= MOST_PAGES {
                return Err(Trouble::Failed(format!("there are more than {MOST_PAGES} pages of nodes")));
            }
        }
    }

    async fn list_apis(&self) -> Result<Vec<String>, Trouble> {
        let core = in_time(self.client.list_core_api_versions()).await?.versions;
        let groups = in_time(self.client.list_api_groups()).await?.groups;
        let versions = groups.into_iter().flat_map(|group| group.versions).map(|version| version.group_version);
        let all: BTreeSet<String> = core.into_iter().chain(versions).collect();
        Ok(all.into_iter().collect())
    }
}

async fn in_time<T>(asked: impl Future<Output = kube::Result<T>>) -> Result<T, Trouble> {
    match timeout(PATIENCE, asked).await {
        Ok(answer) => Ok(answer?),
        Err(_) => Err(Trouble::Failed(format!("no answer within {PATIENCE:?}"))),
    }
}

fn answer<T>(outcome: Result<T, Trouble>) -> Answer<T> {
    match outcome {
        Ok(known) => Answer::Known(known),
        Err(Trouble::Denied(reason)) => Answer::Denied(shortened(&reason)),
        Err(Trouble::Failed(reason)) => Answer::Unknown(shortened(&reason)),
        Err(Trouble::Gone) => Answer::Unknown("the list changed while it was read".to_owned()),
        Err(Trouble::Ended) => Answer::Unknown("the answer broke off".to_owned()),
    }
}

fn shortened(text: &str) -> String {
    text.chars().take(MOST_TEXT).collect()
}

// === as the kube-apiserver sends them ===

#[derive(Deserialize)]
struct NodePage {
    #[serde(default)]
    metadata: PageMetadata,
    #[serde(default = "Vec::new", deserialize_with = "null_as_empty")]
    items: Vec<Node>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Node {
    metadata: NodeMetadata,
    spec: NodeSpec,
    status: NodeStatus,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct NodeMetadata {
    name: String,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct NodeSpec {
    unschedulable: bool,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct NodeStatus {
    #[serde(deserialize_with = "null_as_empty")]
    conditions: Vec<Condition>,
    capacity: ResourceTexts,
    allocatable: ResourceTexts,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Condition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
    reason: String,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct ResourceTexts {
    cpu: String,
    memory: String,
    pods: String,
}

impl Nodes {
    fn add(&mut self, node: &Node) {
        self.total += 1;
        self.unschedulable += u64::from(node.spec.unschedulable);
        self.capacity.add(&node.status.capacity);
        self.allocatable.add(&node.status.allocatable);
        let conditions = &node.status.conditions;
        let ready = conditions.iter().find(|condition| condition.kind == "Ready");
        if ready.is_some_and(|ready| ready.status == "True") {
            self.ready += 1;
        } else if self.not_ready.len() < MOST_NOT_READY {
            let reason = ready.map(|ready| shortened(&ready.reason)).unwrap_or_default();
            self.not_ready.push(NotReady { name: shortened(&node.metadata.name), reason });
        }
        for condition in conditions.iter().filter(|condition| condition.kind != "Ready" && condition.status == "True") {
            let name = shortened(&condition.kind);
            if self.conditions.len() < MOST_CONDITIONS || self.conditions.contains_key(&name) {
                let named = self.with_condition.entry(name.clone()).or_default();
                if named.len() < MOST_WITH_CONDITION {
                    named.push(shortened(&node.metadata.name));
                }
                *self.conditions.entry(name).or_default() += 1;
            }
        }
    }
}

impl Resources {
    /// What cannot be read counts as nothing.
    fn add(&mut self, texts: &ResourceTexts) {
        let millis = |text: &str| thousandths(text).unwrap_or(0);
        let whole = |text: &str| u64::try_from(millis(text) / 1_000).unwrap_or(u64::MAX);
        let cpu = u64::try_from(millis(&texts.cpu)).unwrap_or(u64::MAX);
        self.cpu_millis = self.cpu_millis.saturating_add(cpu);
        self.memory_bytes = self.memory_bytes.saturating_add(whole(&texts.memory));
        self.pods = self.pods.saturating_add(whole(&texts.pods));
    }
}
