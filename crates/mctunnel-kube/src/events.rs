//! Follows the events of a cluster (`events.k8s.io/v1`) and hands each change of one on, once and in order: lists, watches from there,
//! resumes where whoever takes them says, and after a gap leaves out what was taken before.

use crate::{
    ClusterAccess, KubeError,
    follow::{DENIED_RETRY, HEALTHY, LIST_TIMEOUT, Trouble, WATCH_SECONDS, WATCH_TIMEOUT, backoff, if_there, request},
    object::PageMetadata,
};
use futures_util::{FutureExt as _, TryStreamExt as _};
use kube::{Client, core::WatchEvent};
use mctunnel_core::target::Label;
use serde::Deserialize;
use serde_json::Value;
use std::{fmt, pin::pin};
use tokio::time::{Instant, sleep, timeout, timeout_at};

const GROUP: &str = "/apis/events.k8s.io/v1";
const RESOURCE: &str = "events";
/// Events that are handed on at once, at most.
const AT_ONCE: usize = 256;
/// Bytes that are handed on at once, about.
const BYTES_AT_ONCE: usize = 256 << 10;

/// An event, or a change of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KubeEvent {
    /// What it is about: `NAMESPACE/KIND/NAME`.
    pub about: String,
    /// When it was seen last, as Kubernetes writes it; empty if it does not say.
    pub time: String,
    /// The whole object as JSON, without `managedFields`.
    pub json: String,
}

/// Takes events.
///
/// Obligation: `take` keeps the events and the version in one step, so that after a crash both or neither are there.
pub trait TakeEvents: Send + Sync + 'static {
    /// The version that came with the last events that were taken.
    fn taken_up_to(&self) -> Option<String>;

    /// Takes events in their order, with the version behind them. While it waits, no more are read.
    fn take(&self, events: Vec<KubeEvent>, version: &str) -> impl Future<Output = Result<(), String>> + Send;
}

/// Which events.
#[derive(Debug, Clone, Default)]
pub struct EventFilter {
    /// Of this namespace alone.
    pub namespace: Option<Label>,
    /// Of one of these types, `Normal` or `Warning`; of all if there are none.
    pub types: Vec<String>,
    /// With one of these reasons; with any if there are none.
    pub reasons: Vec<String>,
}

/// Follows events for ever.
pub struct EventFollower<T> {
    client: Client,
    filter: EventFilter,
    taker: T,
}

impl<T> fmt::Debug for EventFollower<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventFollower").field("filter", &self.filter).finish_non_exhaustive()
    }
}

/// Where to go on.
enum Place {
    /// With a list, of which only what is newer than this counts.
    List(Option<String>),
    Watch(String),
}

impl<T: TakeEvents> EventFollower<T> {
    /// Prepares to follow; nothing is asked yet.
    pub fn new(access: &ClusterAccess, filter: EventFilter, taker: T) -> Result<Self, KubeError> {
        Ok(Self { client: access.client()?, filter, taker })
    }

    /// Follows.
    pub async fn follow(self) {
        let mut place = self.taker.taken_up_to().map_or(Place::List(None), Place::Watch);
        let mut failures: u32 = 0;
        loop {
            let began = Instant::now();
            let (trouble, next) = match place {
                Place::List(after) => match self.list(after.as_deref()).await {
                    Ok(version) => {
                        place = Place::Watch(version);
                        continue;
                    }
                    Err(trouble) => (trouble, Place::List(self.taker.taken_up_to().or(after))),
                },
                Place::Watch(mut version) => {
                    let before = version.clone();
                    let trouble = self.watch(&mut version).await;
                    if version != before || began.elapsed() >= HEALTHY {
                        failures = 0;
                    }
                    (trouble, Place::Watch(version))
                }
            };
            place = next;
            let pause = match trouble {
                Trouble::Ended => backoff(failures, rand::random()),
                Trouble::Gone => {
                    place = Place::List(self.taker.taken_up_to());
                    tracing::info!(
                        "The kube-apiserver has forgotten where the events were left; they are listed anew."
                    );
                    backoff(failures, rand::random())
                }
                Trouble::Denied(reason) => {
                    tracing::warn!(reason, "The agent may not watch events.");
                    DENIED_RETRY
                }
                Trouble::Failed(reason) => {
                    tracing::warn!(reason, "Events cannot be followed; trying again.");
                    // What was not taken is asked for again.
                    if let (Place::Watch(_), Some(taken)) = (&place, self.taker.taken_up_to()) {
                        place = Place::Watch(taken);
                    }
                    backoff(failures, rand::random())
                }
            };
            failures = failures.saturating_add(1);
            sleep(pause).await;
        }
    }

    /// Lists events and hands on those that are newer than `after`, the oldest change first; gives the version to watch from.
    async fn list(&self, after: Option<&str>) -> Result<String, Trouble> {
        let mut events: Vec<(String, KubeEvent)> = Vec::new();
        let mut next: Option<String> = None;
        let version = loop {
            let request = request::list(GROUP, RESOURCE, self.filter.namespace.as_ref(), next.as_deref())?;
            let page: EventPage = match timeout(LIST_TIMEOUT, self.client.request(request)).await {
                Ok(page) => page?,
                Err(_) => return Err(Trouble::Failed(format!("no list arrived within {LIST_TIMEOUT:?}"))),
            };
            let new = page.items.into_iter().filter_map(|event| self.read(event));
            events.extend(new.filter(|(version, _)| after.is_none_or(|after| is_newer(version, after))));
            next = page.metadata.next.filter(|next| !next.is_empty());
            if next.is_none() {
                break page.metadata.resource_version;
            }
        };
        events.sort_by_key(|(version, _)| version.parse::<u64>().unwrap_or(u64::MAX));
        let mut group = Group::default();
        for (version, event) in events {
            group.add(event, version);
            if group.is_full() {
                group.hand_on(&self.taker).await?;
            }
        }
        group.hand_on(&self.taker).await?;
        Ok(version)
    }

    /// Watches from a version, which moves with what was taken. Ends only in trouble, of which the end of the watch is the least.
    async fn watch(&self, version: &mut String) -> Trouble {
        match self.try_watch(version).await {
            Ok(()) => Trouble::Ended,
            Err(trouble) => trouble,
        }
    }

    async fn try_watch(&self, version: &mut String) -> Result<(), Trouble> {
        let request = request::watch(GROUP, RESOURCE, self.filter.namespace.as_ref(), version, WATCH_SECONDS)?;
        let silent = || Trouble::Failed("the watch of events went silent".to_owned());
        let end = Instant::now() + WATCH_TIMEOUT;
        let opened = timeout_at(end, self.client.request_events::<Value>(request)).await.map_err(|_| silent())?;
        let mut changes = pin!(opened?);
        loop {
            let first = timeout_at(end, changes.try_next()).await.map_err(|_| silent())??;
            let Some(first) = first else { return Ok(()) };
            let mut group = Group::default();
            let mut outcome = self.collect(first, &mut group);
            // What has arrived meanwhile goes with it.
            while outcome.is_ok() && !group.is_full() {
                match if_there(|| changes.try_next().now_or_never()).await {
                    Some(Ok(Some(change))) => outcome = self.collect(change, &mut group),
                    Some(Ok(None)) => outcome = Err(Trouble::Ended),
                    Some(Err(error)) => outcome = Err(error.into()),
                    None => break,
                }
            }
            let seen = group.version.clone();
            group.hand_on(&self.taker).await?;
            if !seen.is_empty() {
                *version = seen;
            }
            match outcome {
                Ok(()) => {}
                Err(Trouble::Ended) => return Ok(()),
                Err(trouble) => return Err(trouble),
            }
        }
    }

    fn collect(&self, change: WatchEvent<Value>, group: &mut Group) -> Result<(), Trouble> {
        match change {
            WatchEvent::Added(event) | WatchEvent::Modified(event) => {
                let seen = version_of(&event);
                match self.read(event) {
                    Some((version, event)) => group.add(event, version),
                    None => group.version = seen,
                }
            }
            // An event that ends its time is no news.
            WatchEvent::Deleted(event) => group.version = version_of(&event),
            WatchEvent::Bookmark(bookmark) => group.version = bookmark.metadata.resource_version,
            WatchEvent::Error(status) => return Err(Trouble::from_status(&status)),
        }
        Ok(())
    }

    /// The event with its version, if it is asked for.
    fn read(&self, mut event: Value) -> Option<(String, KubeEvent)> {
        let text = |path: &str| event.pointer(path).and_then(Value::as_str).unwrap_or_default();
        let asked = |wanted: &[String], is: &str| wanted.is_empty() || wanted.iter().any(|one| one == is);
        if !asked(&self.filter.types, text("/type")) || !asked(&self.filter.reasons, text("/reason")) {
            return None;
        }
        let about = [text("/regarding/namespace"), text("/regarding/kind"), text("/regarding/name")].join("/");
        let times =
            ["/series/lastObservedTime", "/deprecatedLastTimestamp", "/eventTime", "/metadata/creationTimestamp"];
        let time = times.iter().map(|path| text(path)).find(|time| !time.is_empty()).unwrap_or_default().to_owned();
        let version = version_of(&event);
        if let Some(metadata) = event.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("managedFields");
        }
        Some((version, KubeEvent { about, time, json: event.to_string() }))
    }
}

/// Events that are handed on together.
#[derive(Default)]
struct Group {
    events: Vec<KubeEvent>,
    bytes: usize,
    version: String,
}

impl Group {
    fn add(&mut self, event: KubeEvent, version: String) {
        self.bytes += event.json.len();
        self.events.push(event);
        self.version = version;
    }

    fn is_full(&self) -> bool {
        self.events.len() >= AT_ONCE || self.bytes >= BYTES_AT_ONCE
    }

    async fn hand_on(&mut self, taker: &impl TakeEvents) -> Result<(), Trouble> {
        let Self { events, version, .. } = std::mem::take(self);
        if events.is_empty() {
            return Ok(());
        }
        taker.take(events, &version).await.map_err(Trouble::Failed)
    }
}

#[derive(Deserialize)]
struct EventPage {
    #[serde(default)]
    metadata: PageMetadata,
    #[serde(default)]
    items: Vec<Value>,
}

fn version_of(event: &Value) -> String {
    event.pointer("/metadata/resourceVersion").and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// Whether a version is behind another. Two that cannot be compared are taken for new: rather twice than not at all.
fn is_newer(version: &str, than: &str) -> bool {
    match (version.parse::<u64>(), than.parse::<u64>()) {
        (Ok(version), Ok(than)) => version > than,
        _ => true,
    }
}
