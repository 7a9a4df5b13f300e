//! Lists that tell of their changes, and lists that do not.

use super::*;
use mctunnel_core::{ServiceTarget, locate::Changing};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::{
    sync::watch,
    task::JoinSet,
    time::{Instant, timeout},
};

fn web() -> Target {
    ServiceTarget::parse("default", "web:80").unwrap().into()
}

/// Allows everything or nothing, and does not tell.
struct Silent(AtomicBool);

impl PermitService for Silent {
    fn permits(&self, _: &ServiceTarget) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

/// The same, but it tells, and counts how often it is asked.
struct Telling {
    allows: watch::Sender<bool>,
    asked: AtomicUsize,
}

impl Telling {
    fn new() -> Self {
        Self { allows: watch::Sender::new(true), asked: AtomicUsize::new(0) }
    }
}

impl PermitService for Telling {
    fn permits(&self, _: &ServiceTarget) -> bool {
        self.asked.fetch_add(1, Ordering::SeqCst);
        *self.allows.borrow()
    }

    fn changed(&self) -> Changing<'_> {
        let mut allows = self.allows.subscribe();
        Box::pin(async move {
            // Its sender is here.
            let _ = allows.changed().await;
        })
    }
}

#[tokio::test(start_paused = true)]
async fn t17_a_list_that_does_not_tell_is_asked_every_second() {
    let list = Silent(AtomicBool::new(true));
    let target = web();
    let mut gone = Box::pin(unlisted(&list, &target));
    timeout(Duration::from_secs(600), gone.as_mut()).await.expect_err("it is on the list");
    list.0.store(false, Ordering::SeqCst);
    let since = Instant::now();
    let reason = gone.await;
    assert!(since.elapsed() < Duration::from_millis(1100), "{:?}", since.elapsed());
    assert!(reason.contains("default/web:80 is no longer on the agent's list"), "{reason}");
}

#[tokio::test(start_paused = true)]
async fn t17_a_list_that_tells_is_asked_when_it_changes_and_not_before() {
    const STREAMS: usize = 1000;
    let list = Arc::new(Telling::new());
    let mut streams = JoinSet::new();
    for _ in 0..STREAMS {
        let list = Arc::clone(&list);
        streams.spawn(async move { unlisted(&*list, &web()).await });
    }
    timeout(Duration::from_secs(3600), streams.join_next()).await.expect_err("it is on the list");
    assert_eq!(list.asked.load(Ordering::SeqCst), STREAMS, "an hour costs nothing");
    // Another list that still has it.
    list.allows.send_replace(true);
    timeout(Duration::from_secs(3600), streams.join_next()).await.expect_err("it is still on the list");
    assert_eq!(list.asked.load(Ordering::SeqCst), 2 * STREAMS);
    let since = Instant::now();
    list.allows.send_replace(false);
    assert_eq!(streams.join_all().await.len(), STREAMS);
    assert_eq!(since.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn t17_a_change_before_the_first_question_is_seen() {
    let list = Telling::new();
    list.allows.send_replace(false);
    assert!(timeout(Duration::from_secs(1), unlisted(&list, &web())).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn the_kube_apiserver_is_on_no_list() {
    let list = Silent(AtomicBool::new(false));
    let waited = timeout(Duration::from_secs(3600), unlisted(&list, &Target::KubeApi)).await;
    assert!(waited.is_err());
}
