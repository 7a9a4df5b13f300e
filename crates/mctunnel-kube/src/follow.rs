//! Follows one kind of object: lists it, watches it from there, resumes after a cut, and lists anew when the server has forgotten
//! where we were. It fills a [`Scope`]; it decides nothing.

mod request;
mod trouble;

use crate::{object::Page, scope::Scope, view::Keep};
use futures_util::TryStreamExt;
use kube::{Client, core::WatchEvent};
use mctunnel_core::target::Label;
use std::{pin::pin, sync::Arc, time::Duration};
use tokio::time::{Instant, sleep, timeout, timeout_at};
use trouble::Trouble;

/// How long a page of a list may take.
const LIST_TIMEOUT: Duration = Duration::from_secs(30);

/// How long the server is asked to keep a watch open. Short, because a connection that died silently is noticed only then.
const WATCH_SECONDS: u32 = 120;

/// How long after that a watch is given up.
const WATCH_TIMEOUT: Duration = Duration::from_secs(WATCH_SECONDS as u64 + 15);

/// How long to wait before asking again for what was denied.
const DENIED_RETRY: Duration = Duration::from_secs(60);

/// A watch that lived this long, or that brought anything, was healthy.
const HEALTHY: Duration = Duration::from_secs(5);

/// After so many failures in a row a watch is not resumed, but begun anew.
const ENOUGH: u32 = 5;

/// Follows objects of a kind, for ever.
pub(crate) struct Follower {
    pub(crate) client: Client,
    /// The namespace, or all of them.
    pub(crate) namespace: Option<Label>,
    pub(crate) scope: Arc<Scope>,
}

impl Follower {
    pub(crate) async fn follow<T: Keep>(self) {
        // Where to resume; `None` to begin with a list.
        let mut version: Option<String> = None;
        let mut failures = 0;
        loop {
            let outcome = match &mut version {
                None => self.list::<T>().await.map(|listed| version = Some(listed)),
                Some(version) => {
                    let since = Instant::now();
                    let before = version.clone();
                    let outcome = self.watch::<T>(version).await;
                    if since.elapsed() >= HEALTHY || *version != before {
                        failures = 0;
                    }
                    outcome
                }
            };
            let pause = match outcome {
                // Behind a list the watch follows at once; behind a watch that ended by itself, the next one after a breath.
                Ok(()) => continue,
                Err(Trouble::Ended) => backoff(failures, rand::random()),
                Err(Trouble::Gone) => {
                    version = None;
                    backoff(failures, rand::random())
                }
                Err(Trouble::Denied(reason)) => {
                    version = None;
                    self.scope.deny::<T>(&reason);
                    DENIED_RETRY
                }
                Err(Trouble::Failed(reason)) => {
                    self.scope.fail::<T>(&reason);
                    // Whatever it is about this version that the server does not like, a list has another.
                    if failures >= ENOUGH {
                        version = None;
                    }
                    backoff(failures, rand::random())
                }
            };
            failures = failures.saturating_add(1);
            sleep(pause).await;
        }
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

    /// Watches from a version, which moves with what is seen. Ends only in trouble, of which the end of the watch is the least.
    async fn watch<T: Keep>(&self, version: &mut String) -> Result<(), Trouble> {
        let request = request::watch(T::GROUP, T::RESOURCE, self.namespace.as_ref(), version, WATCH_SECONDS)?;
        let silent = || Trouble::Failed("the watch went silent".to_owned());
        let end = Instant::now() + WATCH_TIMEOUT;
        let opened = timeout_at(end, self.client.request_events::<T>(request)).await.map_err(|_| silent())?;
        let mut events = pin!(opened?);
        while let Some(event) = timeout_at(end, events.try_next()).await.map_err(|_| silent())?? {
            self.take(event, version)?;
        }
        Err(Trouble::Ended)
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

/// The wait after a number of failures in a row: from 50 ms, doubling up to 30 s, the upper half of it at random.
fn backoff(failures: u32, random: u32) -> Duration {
    const FIRST: Duration = Duration::from_millis(50);
    const LONGEST: Duration = Duration::from_secs(30);
    let longest = FIRST.saturating_mul(1_u32.checked_shl(failures).unwrap_or(u32::MAX)).min(LONGEST);
    let half = longest / 2;
    half + half.mul_f64(f64::from(random) / f64::from(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_from_50_ms_to_30_s() {
        let longest: Vec<_> = (0..12).map(|failures| backoff(failures, u32::MAX).as_millis()).collect();
        assert_eq!(longest, [50, 100, 200, 400, 800, 1600, 3200, 6400, 12_800, 25_600, 30_000, 30_000]);
        assert_eq!(backoff(0, 0), Duration::from_millis(25));
        assert_eq!(backoff(u32::MAX, 0), Duration::from_secs(15));
    }
}
