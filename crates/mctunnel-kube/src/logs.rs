//! Follows the logs of chosen containers and hands each line on once and in order: finds their pods by list and watch, reads each log
//! through the kube-apiserver, and resumes where whoever takes the lines says, through cuts, rotations and restarts.
//!
//! | question | answered by |
//! |---|---|
//! | Which pods? | `watch_pods.rs` asks, `chosen.rs` holds |
//! | Which of their containers, and how many at once? | `follow_all.rs` |
//! | Which instance of a container, and until when? | `container.rs` |
//! | What is a line? | `lines.rs` |
//! | What was taken before? | `place.rs` |
//!
//! What a rotation has taken away while nobody followed, the kube-apiserver does not give any more.

mod chosen;
mod container;
mod follow_all;
mod lines;
mod place;
mod pod;
mod watch_pods;

use crate::{ClusterAccess, KubeError};
use chosen::Chosen;
use follow_all::FollowAll;
use kube::Client;
use mctunnel_core::target::Label;
use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};
use tokio::task::JoinSet;
use watch_pods::PodWatch;

/// The log of one container of one pod. A pod of the same name that comes later is another.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ContainerLog {
    /// The namespace.
    pub namespace: Arc<str>,
    /// The name of the pod.
    pub pod: Arc<str>,
    /// What tells the pod from others of its name.
    pub uid: Arc<str>,
    /// The name of the container.
    pub container: Arc<str>,
}

impl ContainerLog {
    fn is_beside(&self, other: &Self) -> bool {
        (&self.namespace, &self.pod, &self.uid) == (&other.namespace, &other.pod, &other.uid)
    }
}

/// `NAMESPACE/POD/CONTAINER`.
impl fmt::Display for ContainerLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.namespace, self.pod, self.container)
    }
}

/// A line of a log, or a part of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogLine {
    /// When the container runtime read it, in microseconds since 1970.
    pub time_micros: i64,
    /// What the container wrote, without the newline.
    pub bytes: Vec<u8>,
    /// Whether no newline is behind it: it is a part of a long line and more follows, or the log ended here.
    pub is_partial: bool,
}

/// Takes lines.
///
/// Obligation: `take` keeps the lines and the place in one step, so that after a crash both or neither are there.
pub trait TakeLogs: Send + Sync + 'static {
    /// The place that came with the last lines of a container that were taken.
    fn taken_up_to(&self, container: &ContainerLog) -> Option<String>;

    /// Takes lines of an instance in their order, with the place behind them. While it waits, no more of this container are read.
    fn take(
        &self,
        container: &ContainerLog,
        restart: u32,
        lines: Vec<LogLine>,
        place: String,
    ) -> impl Future<Output = Result<(), String>> + Send;

    /// The containers of which a place is kept.
    fn kept(&self) -> Vec<ContainerLog>;

    /// How many there are.
    fn places(&self) -> usize;

    /// Forgets the place of a container that is gone.
    fn forget(&self, container: &ContainerLog);
}

/// Which pods.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogSelection {
    /// Of this namespace; of all for `None`.
    pub namespace: Option<Label>,
    /// With these labels; with any for `None`.
    pub labels: Option<LabelSelector>,
}

/// A label selector as kubectl takes it: `app=web,tier in (a,b)`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabelSelector(Arc<str>);

impl LabelSelector {
    /// Parses a selector. Whether it makes sense, the kube-apiserver says; that nothing else is in it is checked here.
    pub fn parse(text: &str) -> Result<Self, InvalidLabelSelector> {
        let is_letter = |letter: char| letter.is_ascii_alphanumeric() || "-_./=!,() ".contains(letter);
        match text.chars().all(is_letter) && text.chars().any(|letter| letter.is_ascii_alphanumeric()) {
            true => Ok(Self(text.into())),
            false => Err(InvalidLabelSelector),
        }
    }

    /// The selector as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The text is not a label selector.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a label selector is text such as app=web,tier!=cache or 'env in (a,b)'")]
pub struct InvalidLabelSelector;

/// How much is followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogLimits {
    /// The most containers at once; each is a connection to the kube-apiserver, or a stream of one. Further ones wait.
    pub containers: usize,
    /// The most places that are kept.
    pub places: usize,
}

/// How many containers are followed, for people and metrics.
#[derive(Debug, Default)]
pub struct LogCounts {
    followed: AtomicUsize,
    waiting: AtomicUsize,
    denied: AtomicBool,
}

impl LogCounts {
    /// Those whose logs are followed now.
    #[must_use]
    pub fn followed(&self) -> usize {
        self.followed.load(Ordering::Relaxed)
    }

    /// Those that wait because as many are followed as may be.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    fn set(&self, followed: usize, waiting: usize) {
        self.followed.store(followed, Ordering::Relaxed);
        self.waiting.store(waiting, Ordering::Relaxed);
    }

    fn is_first_denial(&self) -> bool {
        !self.denied.swap(true, Ordering::Relaxed)
    }
}

/// Follows logs for ever.
pub struct LogFollower<T> {
    client: Client,
    selections: Vec<LogSelection>,
    limits: LogLimits,
    taker: T,
    counts: Arc<LogCounts>,
}

impl<T> fmt::Debug for LogFollower<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogFollower").field("selections", &self.selections).finish_non_exhaustive()
    }
}

impl<T: TakeLogs> LogFollower<T> {
    /// Prepares to follow; nothing is asked yet. A pod that several selections have is followed once.
    pub fn new(
        access: &ClusterAccess,
        selections: Vec<LogSelection>,
        limits: LogLimits,
        taker: T,
    ) -> Result<Self, KubeError> {
        Ok(Self { client: access.client()?, selections, limits, taker, counts: Arc::default() })
    }

    /// How many are followed, now and as long as it follows.
    #[must_use]
    pub fn counts(&self) -> Arc<LogCounts> {
        Arc::clone(&self.counts)
    }

    /// Follows.
    pub async fn follow(self) {
        let Self { client, selections, limits, taker, counts } = self;
        let chosen = Arc::new(Chosen::default());
        let count = selections.len();
        let mut watches = JoinSet::new();
        for (number, selection) in selections.into_iter().enumerate() {
            let (client, chosen) = (client.clone(), Arc::clone(&chosen));
            watches.spawn(PodWatch { client, selection, number, chosen }.follow());
        }
        FollowAll::new(client, Arc::new(taker), (chosen, count), limits, counts).run().await;
    }
}
