//! Follows the pods of one selection: lists them page by page, watches from there, and lists anew when the server has forgotten.

use super::{
    LogSelection,
    chosen::{Chosen, PodName},
    pod::Pod,
};
use crate::{
    follow::{LIST_TIMEOUT, ListAndWatch, Trouble, WATCH_SECONDS, WATCH_TIMEOUT, keep_up, request},
    object::{PageMetadata, null_as_empty},
};
use futures_util::TryStreamExt as _;
use kube::{Client, core::WatchEvent};
use serde::Deserialize;
use std::{collections::BTreeSet, pin::pin, sync::Arc};
use tokio::time::{Instant, timeout, timeout_at};

const GROUP: &str = "/api/v1";
const RESOURCE: &str = "pods";
/// Pods of a page: each is some ten KiB before it is cut down.
const PAGE: u32 = 200;

/// Follows pods for ever.
pub(crate) struct PodWatch {
    pub(crate) client: Client,
    pub(crate) selection: LogSelection,
    /// Which of the selections this is.
    pub(crate) number: usize,
    pub(crate) chosen: Arc<Chosen>,
}

#[derive(Deserialize)]
struct PodPage {
    #[serde(default)]
    metadata: PageMetadata,
    #[serde(default = "Vec::new", deserialize_with = "null_as_empty")]
    items: Vec<Pod>,
}

impl ListAndWatch for PodWatch {
    async fn list(&self) -> Result<String, Trouble> {
        self.list_pods().await
    }
    async fn watch(&self, version: &mut String) -> Trouble {
        self.watch_pods(version).await.err().unwrap_or(Trouble::Ended)
    }
    fn denied(&self, reason: &str) {
        tracing::warn!(reason, "The agent may not list and watch pods, so their logs are not reported.");
    }
    fn failed(&self, reason: &str) {
        tracing::warn!(reason, "Pods cannot be followed; trying again.");
    }
}

impl PodWatch {
    pub(crate) async fn follow(self) {
        keep_up(&self).await;
    }

    async fn list_pods(&self) -> Result<String, Trouble> {
        let LogSelection { namespace, labels } = &self.selection;
        let mut names = BTreeSet::new();
        let mut next: Option<String> = None;
        loop {
            let labels = labels.as_ref().map(|labels| labels.as_str());
            let next_page = next.as_deref();
            let request = request::list_selected(GROUP, RESOURCE, namespace.as_ref(), labels, PAGE, next_page)?;
            let page: PodPage = match timeout(LIST_TIMEOUT, self.client.request(request)).await {
                Ok(page) => page?,
                Err(_) => return Err(Trouble::Failed(format!("no list of pods arrived within {LIST_TIMEOUT:?}"))),
            };
            for pod in &page.items {
                names.insert(PodName::of(pod));
                self.chosen.keep(self.number, pod);
            }
            next = page.metadata.next.filter(|next| !next.is_empty());
            if next.is_none() {
                self.chosen.listed(self.number, &names);
                return Ok(page.metadata.resource_version);
            }
        }
    }

    /// Watches from a version, which moves with what is seen, to the end of the watch.
    async fn watch_pods(&self, version: &mut String) -> Result<(), Trouble> {
        let LogSelection { namespace, labels } = &self.selection;
        let labels = labels.as_ref().map(|labels| labels.as_str());
        let request = request::watch_selected(GROUP, RESOURCE, namespace.as_ref(), labels, version, WATCH_SECONDS)?;
        let silent = || Trouble::Failed("the watch of pods went silent".to_owned());
        let end = Instant::now() + WATCH_TIMEOUT;
        let opened = timeout_at(end, self.client.request_events::<Pod>(request)).await.map_err(|_| silent())?;
        let mut events = pin!(opened?);
        while let Some(event) = timeout_at(end, events.try_next()).await.map_err(|_| silent())?? {
            match event {
                WatchEvent::Added(pod) | WatchEvent::Modified(pod) => {
                    self.chosen.keep(self.number, &pod);
                    *version = pod.metadata.resource_version;
                }
                WatchEvent::Deleted(pod) => {
                    self.chosen.forget(self.number, &PodName::of(&pod));
                    *version = pod.metadata.resource_version;
                }
                WatchEvent::Bookmark(bookmark) => *version = bookmark.metadata.resource_version,
                WatchEvent::Error(status) => return Err(Trouble::from_status(&status)),
            }
        }
        Ok(())
    }
}
