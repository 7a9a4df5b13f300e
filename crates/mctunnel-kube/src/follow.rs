//! Follows one kind of object: lists it, watches it from there, resumes after a cut, and lists anew when the server has forgotten
//! where we were. It fills a [`Scope`]; it decides nothing.

mod if_there;
mod keep_up;
pub(crate) mod request;
mod trouble;

pub(crate) use if_there::if_there;
pub(crate) use keep_up::{
    DENIED_RETRY, HEALTHY, LIST_TIMEOUT, ListAndWatch, WATCH_SECONDS, WATCH_TIMEOUT, backoff, keep_up,
};
pub(crate) use trouble::Trouble;

use crate::{object::Page, scope::Scope, view::Keep};
use futures_util::TryStreamExt;
use kube::{Client, core::WatchEvent};
use mctunnel_core::target::Label;
use std::{marker::PhantomData, pin::pin, sync::Arc};
use tokio::time::{Instant, timeout, timeout_at};

/// Follows objects of a kind, for ever.
pub(crate) struct Follower {
    pub(crate) client: Client,
    /// The namespace, or all of them.
    pub(crate) namespace: Option<Label>,
    pub(crate) scope: Arc<Scope>,
}

/// A follower of one kind.
struct Following<T>(Follower, PhantomData<fn() -> T>);

impl<T: Keep> ListAndWatch for Following<T> {
    async fn list(&self) -> Result<String, Trouble> {
        self.0.list::<T>().await
    }
    async fn watch(&self, version: &mut String) -> Trouble {
        self.0.watch::<T>(version).await.err().unwrap_or(Trouble::Ended)
    }
    fn denied(&self, reason: &str) {
        self.0.scope.deny::<T>(reason);
    }
    fn failed(&self, reason: &str) {
        self.0.scope.fail::<T>(reason);
    }
}

impl Follower {
    pub(crate) async fn follow<T: Keep>(self) {
        keep_up(&Following::<T>(self, PhantomData)).await;
    }

    /// Lists all objects, page by page, and gives the version to watch from.
    async fn list<T: Keep>(&self) -> Result<String, Trouble> {
        let mut objects: Vec<T> = Vec::new();
        let mut next: Option<String> = None;
        loop {
            let request = request::list(T::GROUP, T::RESOURCE, self.namespace.as_ref(), next.as_deref())?;
            let page: Page<T> = match timeout(LIST_TIMEOUT, self.client.request(request)).await {
                Ok(page) => page?,
                Err(_) => return Err(Trouble::Failed(format!("no list arrived within {LIST_TIMEOUT:?}"))),
            };
            objects.extend(page.items);
            next = page.metadata.next.filter(|next| !next.is_empty());
            if next.is_none() {
                self.scope.replace(objects);
                return Ok(page.metadata.resource_version);
            }
        }
    }

    /// Watches from a version, which moves with what is seen, to the end of the watch.
    async fn watch<T: Keep>(&self, version: &mut String) -> Result<(), Trouble> {
        let request = request::watch(T::GROUP, T::RESOURCE, self.namespace.as_ref(), version, WATCH_SECONDS)?;
        let silent = || Trouble::Failed("the watch went silent".to_owned());
        let end = Instant::now() + WATCH_TIMEOUT;
        let opened = timeout_at(end, self.client.request_events::<T>(request)).await.map_err(|_| silent())?;
        let mut events = pin!(opened?);
        while let Some(event) = timeout_at(end, events.try_next()).await.map_err(|_| silent())?? {
            self.take(event, version)?;
        }
        Ok(())
    }

    fn take<T: Keep>(&self, event: WatchEvent<T>, version: &mut String) -> Result<(), Trouble> {
        match event {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                version.clone_from(&object.metadata().resource_version);
                self.scope.keep(object);
            }
            WatchEvent::Deleted(object) => {
                version.clone_from(&object.metadata().resource_version);
                self.scope.forget(&object);
            }
            WatchEvent::Bookmark(bookmark) => *version = bookmark.metadata.resource_version,
            WatchEvent::Error(status) => return Err(Trouble::from_status(&status)),
        }
        Ok(())
    }
}
