//! Events of a cluster: each change once and in order, through cuts, restarts and a server that forgets.

use crate::{fake_api::FakeApi, setup::access};
use mctunnel_kube::events::{EventFilter, EventFollower, KubeEvent, TakeEvents};
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};
use tokio::{sync::Notify, task::JoinSet, time::timeout};

const EVENTS: &str = "events";

fn event(name: &str, version: u64, kind: &str, reason: &str) -> Value {
    json!({
        "metadata": {
            "name": name, "namespace": "default", "resourceVersion": version.to_string(), "managedFields": [{"x": "y"}],
            "creationTimestamp": "2026-01-01T00:00:00Z",
        },
        "regarding": {"kind": "Pod", "namespace": "default", "name": "web-0"},
        "type": kind, "reason": reason, "note": format!("note {version}"),
    })
}

fn warning(version: u64) -> Value {
    event("e", version, "Warning", "BackOff")
}

/// Keeps what it takes, and can be made to refuse.
#[derive(Clone, Default)]
struct Taken(Arc<Kept>);

impl std::ops::Deref for Taken {
    type Target = Kept;

    fn deref(&self) -> &Kept {
        &self.0
    }
}

#[derive(Default)]
struct Kept {
    notes: Mutex<Vec<String>>,
    version: Mutex<Option<String>>,
    refusals: Mutex<u32>,
    changed: Notify,
}

impl TakeEvents for Taken {
    fn taken_up_to(&self) -> Option<String> {
        self.version.lock().clone()
    }

    async fn take(&self, events: Vec<KubeEvent>, version: &str) -> Result<(), String> {
        {
            let mut refusals = self.refusals.lock();
            if *refusals > 0 {
                *refusals -= 1;
                return Err("the disk is full".to_owned());
            }
        }
        for event in events {
            assert_eq!((event.about.as_str(), event.time.as_str()), ("default/Pod/web-0", "2026-01-01T00:00:00Z"));
            assert!(!event.json.contains("managedFields"), "{}", event.json);
            let json: Value = serde_json::from_str(&event.json).unwrap();
            self.notes.lock().push(json["note"].as_str().unwrap().to_owned());
        }
        *self.version.lock() = Some(version.to_owned());
        self.changed.notify_waiters();
        Ok(())
    }
}

impl Kept {
    async fn wait_for(&self, expected: &[u64]) {
        let expected: Vec<_> = expected.iter().map(|version| format!("note {version}")).collect();
        let all = async {
            loop {
                let changed = self.changed.notified();
                if self.notes.lock().len() >= expected.len() {
                    return;
                }
                changed.await;
            }
        };
        let _ = timeout(Duration::from_secs(20), all).await;
        assert_eq!(*self.notes.lock(), expected);
    }
}

async fn follow(api: &FakeApi, taken: &Taken, filter: EventFilter) -> JoinSet<()> {
    let follower = EventFollower::new(&access(api).await, filter, taken.clone()).unwrap();
    let mut tasks = JoinSet::new();
    tasks.spawn(follower.follow());
    tasks
}

#[tokio::test]
async fn events_are_listed_once_then_watched_and_a_cut_loses_none() {
    let api = FakeApi::start().await;
    // As a list has them: by name, not by when they changed.
    api.list(EVENTS, "10", &[warning(7), warning(3), warning(9)]);
    let feed = api.watch(EVENTS);
    let taken = Taken::default();
    let _following = follow(&api, &taken, EventFilter::default()).await;
    feed.tell("ADDED", warning(11)).await;
    feed.tell("DELETED", warning(12)).await;
    feed.tell("MODIFIED", warning(13)).await;
    taken.wait_for(&[3, 7, 9, 11, 13]).await;
    let again = api.watch(EVENTS);
    feed.cut().await;
    again.tell("ADDED", warning(14)).await;
    taken.wait_for(&[3, 7, 9, 11, 13, 14]).await;
    let asked = api.asked("watch=1", 2).await;
    assert!(asked[0].contains("resourceVersion=10&") && asked[1].contains("resourceVersion=13&"), "{asked:?}");
}

#[tokio::test]
async fn after_a_restart_the_watch_goes_on_where_it_was_taken_up_to() {
    let api = FakeApi::start().await;
    let feed = api.watch(EVENTS);
    let taken = Taken::default();
    *taken.version.lock() = Some("42".to_owned());
    let _following = follow(&api, &taken, EventFilter::default()).await;
    feed.tell("ADDED", warning(43)).await;
    taken.wait_for(&[43]).await;
    let asked = api.asked(EVENTS, 1).await;
    assert!(asked[0].contains("watch=1") && asked[0].contains("resourceVersion=42&"), "nothing is listed: {asked:?}");
}

#[tokio::test]
async fn a_server_that_has_forgotten_is_listed_anew_and_what_was_taken_is_left_out() {
    let api = FakeApi::start().await;
    api.refuse_watch(EVENTS, 410);
    api.list(EVENTS, "60", &[warning(41), warning(42), warning(55), warning(50)]);
    let feed = api.watch(EVENTS);
    let taken = Taken::default();
    *taken.version.lock() = Some("42".to_owned());
    let _following = follow(&api, &taken, EventFilter::default()).await;
    feed.tell("ADDED", warning(61)).await;
    taken.wait_for(&[50, 55, 61]).await;
}

#[tokio::test]
async fn events_that_could_not_be_taken_come_again() {
    let api = FakeApi::start().await;
    let feed = api.watch(EVENTS);
    let again = api.watch(EVENTS);
    let taken = Taken(Arc::new(Kept { refusals: Mutex::new(1), ..Kept::default() }));
    *taken.version.lock() = Some("1".to_owned());
    let _following = follow(&api, &taken, EventFilter::default()).await;
    feed.tell("ADDED", warning(2)).await;
    // The server tells again what is behind the version that is asked for.
    again.tell("ADDED", warning(2)).await;
    taken.wait_for(&[2]).await;
    let asked = api.asked("watch=1", 2).await;
    assert!(asked[1].contains("resourceVersion=1&"), "{asked:?}");
}

#[tokio::test]
async fn only_what_is_asked_for_is_handed_on() {
    let api = FakeApi::start().await;
    api.list(EVENTS, "10", &[event("a", 1, "Normal", "Pulled"), event("b", 2, "Warning", "BackOff"), warning(3)]);
    let taken = Taken::default();
    let filter = EventFilter {
        namespace: Some(mctunnel_core::target::Label::parse("default").unwrap()),
        types: vec!["Warning".to_owned()],
        reasons: vec!["BackOff".to_owned()],
    };
    let _following = follow(&api, &taken, filter).await;
    taken.wait_for(&[2, 3]).await;
    assert!(api.asked(EVENTS, 1).await[0].starts_with("/apis/events.k8s.io/v1/namespaces/default/events?"));
}
