//! Sinks: each gets everything, in order; one that is slow, broken or away holds up nobody and goes on where it was.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking, in its helpers too")]

use mctunnel_core::ClusterName;
use mctunnel_report::{
    Connect, Kind, LaneConfig, NotTaken, Receiver, Record, Retention, Sink, Spool, Store, StoredRecord, feed, send,
};
use parking_lot::Mutex;
use std::{collections::BTreeMap, sync::Arc, time::Duration};
use tokio::{
    io::DuplexStream,
    sync::{Notify, watch},
    task::JoinSet,
    time::timeout,
};
use tokio_util::sync::CancellationToken;

const LIMIT: Duration = Duration::from_secs(30);

struct Way {
    receiver: Receiver,
    serving: Mutex<JoinSet<()>>,
}

impl Connect for Way {
    type Stream = DuplexStream;

    async fn connect(&self) -> Result<DuplexStream, String> {
        let (ours, theirs) = tokio::io::duplex(64 << 10);
        let receiver = self.receiver.clone();
        self.serving.lock().spawn(async move {
            let _ = receiver.serve(&ClusterName::parse("c1").unwrap(), theirs).await;
        });
        Ok(ours)
    }
}

/// What a sink got.
#[derive(Clone, Default)]
struct Got(Arc<(Mutex<Vec<i64>>, Notify)>);

impl Got {
    async fn wait_for(&self, count: usize) -> Vec<i64> {
        let all = async {
            loop {
                let changed = self.0.1.notified();
                if self.0.0.lock().len() >= count {
                    return;
                }
                changed.await;
            }
        };
        timeout(LIMIT, all).await.unwrap_or_else(|_| panic!("{} of {count} came", self.0.0.lock().len()));
        self.0.0.lock().clone()
    }
}

/// Fails every other time, if it is to.
struct Kept {
    name: &'static str,
    got: Got,
    fails: Mutex<Option<bool>>,
}

impl Sink for Kept {
    fn name(&self) -> &str {
        self.name
    }

    async fn deliver(&self, _: &Kind, records: &[StoredRecord]) -> Result<(), NotTaken> {
        if let Some(fail) = &mut *self.fails.lock() {
            *fail = !*fail;
            if *fail {
                return Err(NotTaken::Later("not now".to_owned()));
            }
        }
        self.got.0.0.lock().extend(records.iter().map(|found| found.record.time));
        self.got.0.1.notify_waiters();
        Ok(())
    }
}

/// Never answers.
struct Stuck;

impl Sink for Stuck {
    fn name(&self) -> &str {
        "stuck"
    }

    async fn deliver(&self, _: &Kind, _: &[StoredRecord]) -> Result<(), NotTaken> {
        std::future::pending().await
    }
}

fn kept(name: &'static str, fails: bool) -> (Kept, Got) {
    let got = Got::default();
    (Kept { name, got: got.clone(), fails: Mutex::new(fails.then_some(false)) }, got)
}

#[tokio::test]
async fn each_sink_gets_everything_in_order_and_a_stuck_one_holds_up_nobody() {
    let dir = tempfile::tempdir().unwrap();
    let (places, kind) = (dir.path().join("places"), Kind::parse("events").unwrap());
    let store = Store::open(&dir.path().join("store"), Retention::default()).unwrap();
    let spool = Spool::open(&dir.path().join("spool"), LaneConfig::default(), BTreeMap::new()).unwrap();
    let receiver = Receiver::new(store.clone(), CancellationToken::new());
    let mut tasks = JoinSet::new();
    tasks.spawn(send(spool.clone(), Arc::new(Way { receiver, serving: Mutex::default() }), CancellationToken::new()));
    let report = async |times: std::ops::Range<i64>| {
        let records = times.map(|time| Record::new(time, "s", "x").unwrap()).collect();
        spool.append(&kind, records).await.unwrap();
    };
    let mut sinks = JoinSet::new();
    let mut begin = |sink: Kept| {
        let (store, places) = (store.clone(), places.clone());
        sinks.spawn(async move { feed(store, &places, sink).await.expect("it begins") })
    };
    let ((one, one_got), (two, two_got)) = (kept("one", false), kept("two", true));
    let one = begin(one);
    begin(two);
    let stuck = (store.clone(), places.clone());
    tasks.spawn(async move { feed(stuck.0, &stuck.1, Stuck).await.expect("it begins") });

    report(0..1_000).await;
    assert!(one_got.wait_for(1_000).await.into_iter().eq(0..1_000));
    assert!(two_got.wait_for(1_000).await.into_iter().eq(0..1_000), "what failed came again, once");
    // One is away for a while and goes on where it was.
    one.abort();
    report(1_000..1_200).await;
    two_got.wait_for(1_200).await;
    let (again, again_got) = kept("one", false);
    begin(again);
    assert!(again_got.wait_for(200).await.into_iter().eq(1_000..1_200));
}

/// Refuses everything for good until it is told otherwise.
struct Misrouted {
    got: Got,
    tried: Got,
    taking: watch::Receiver<bool>,
}

impl Sink for Misrouted {
    fn name(&self) -> &str {
        "misrouted"
    }

    async fn deliver(&self, _: &Kind, records: &[StoredRecord]) -> Result<(), NotTaken> {
        if !*self.taking.borrow() {
            self.tried.0.0.lock().extend(records.iter().map(|found| found.record.time));
            self.tried.0.1.notify_waiters();
            return Err(NotTaken::Never("status 400".to_owned()));
        }
        self.got.0.0.lock().extend(records.iter().map(|found| found.record.time));
        self.got.0.1.notify_waiters();
        Ok(())
    }

    fn set_aside(&self, _: &Kind, found: &StoredRecord) {
        panic!("{} was set aside", found.position);
    }
}

#[tokio::test]
async fn a_sink_that_refuses_everything_for_good_for_a_while_loses_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(&dir.path().join("store"), Retention::default()).unwrap();
    let spool = Spool::open(&dir.path().join("spool"), LaneConfig::default(), BTreeMap::new()).unwrap();
    let receiver = Receiver::new(store.clone(), CancellationToken::new());
    let mut tasks = JoinSet::new();
    tasks.spawn(send(spool.clone(), Arc::new(Way { receiver, serving: Mutex::default() }), CancellationToken::new()));
    let records = (0..50).map(|time| Record::new(time, "s", "x").unwrap()).collect();
    spool.append(&Kind::parse("events").unwrap(), records).await.unwrap();
    let (take, taking) = watch::channel(false);
    let (got, tried) = (Got::default(), Got::default());
    let misrouted = Misrouted { got: got.clone(), tried: tried.clone(), taking };
    let places = dir.path().join("places");
    tasks.spawn(async move { feed(store, &places, misrouted).await.expect("it begins") });
    // More than once down to the single records: 50 in a group, and six times halved.
    tried.wait_for(1_000).await;
    take.send_replace(true);
    assert!(got.wait_for(50).await.into_iter().eq(0..50));
}

/// Refuses every group with a record of these times in it, and everything of one kind.
struct Picky {
    got: Got,
    poison: [i64; 3],
    aside: Got,
}

impl Sink for Picky {
    fn name(&self) -> &str {
        "picky"
    }

    async fn deliver(&self, kind: &Kind, records: &[StoredRecord]) -> Result<(), NotTaken> {
        if kind.as_str() == "away" {
            return Err(NotTaken::Later("not now".to_owned()));
        }
        if records.iter().any(|found| self.poison.contains(&found.record.time)) {
            return Err(NotTaken::Never("status 400".to_owned()));
        }
        self.got.0.0.lock().extend(records.iter().map(|found| found.record.time));
        self.got.0.1.notify_waiters();
        Ok(())
    }

    fn set_aside(&self, _: &Kind, found: &StoredRecord) {
        self.aside.0.0.lock().push(found.record.time);
        self.aside.0.1.notify_waiters();
    }
}

#[tokio::test]
async fn a_record_that_is_refused_for_good_is_set_aside_and_a_kind_that_is_not_taken_holds_up_no_other() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(&dir.path().join("store"), Retention::default()).unwrap();
    let spool = Spool::open(&dir.path().join("spool"), LaneConfig::default(), BTreeMap::new()).unwrap();
    let receiver = Receiver::new(store.clone(), CancellationToken::new());
    let mut tasks = JoinSet::new();
    tasks.spawn(send(spool.clone(), Arc::new(Way { receiver, serving: Mutex::default() }), CancellationToken::new()));
    // The kind that is not taken is the first of them.
    for kind in ["away", "events"] {
        let records = (0..700).map(|time| Record::new(time, "s", "x").unwrap()).collect();
        spool.append(&Kind::parse(kind).unwrap(), records).await.unwrap();
    }
    let (got, aside, poison) = (Got::default(), Got::default(), [0, 333, 699]);
    let picky = Picky { got: got.clone(), poison, aside: aside.clone() };
    let places = dir.path().join("places");
    tasks.spawn(async move { feed(store, &places, picky).await.expect("it begins") });

    assert!(got.wait_for(697).await.into_iter().eq((0..700).filter(|time| !poison.contains(time))), "once, in order");
    assert_eq!(aside.wait_for(3).await, poison);
}
