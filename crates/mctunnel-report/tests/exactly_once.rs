//! A spool and a store in one program, joined by a pipe that is cut anywhere, each closed and opened again at any time.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

use bytes::Bytes;
use mctunnel_core::ClusterName;
use mctunnel_report::{
    AtLimit, Connect, Kind, LaneConfig, Query, Receiver, Record, ReportError, Retention, Spool, Store, StoredRecord,
    send,
};
use parking_lot::Mutex;
use std::{
    collections::BTreeMap,
    io,
    path::Path,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf},
    task::JoinSet,
    time::timeout,
};
use tokio_util::sync::CancellationToken;

const LIMIT: Duration = Duration::from_secs(60);

/// A stream that breaks after so many bytes, wherever that is.
struct Fragile {
    inner: DuplexStream,
    left: usize,
}

impl AsyncRead for Fragile {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, out: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.left == 0 {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        Pin::new(&mut self.inner).poll_read(cx, out)
    }
}

impl AsyncWrite for Fragile {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if self.left == 0 {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        let most = bytes.len().min(self.left);
        let written = Pin::new(&mut self.inner).poll_write(cx, bytes.get(..most).unwrap_or(bytes));
        if let Poll::Ready(Ok(count)) = written {
            self.left -= count;
        }
        written
    }
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

/// The way to a hub that may be away.
#[derive(Default)]
struct Way {
    hub: Mutex<Option<Receiver>>,
    serving: Mutex<JoinSet<()>>,
    /// Bytes until the next stream breaks; it never does when this is empty.
    cuts: Mutex<Vec<usize>>,
}

impl Connect for Way {
    type Stream = Fragile;

    async fn connect(&self) -> Result<Fragile, String> {
        let hub = self.hub.lock().clone().ok_or("the hub is away")?;
        let (ours, theirs) = tokio::io::duplex(64 << 10);
        self.serving.lock().spawn(async move {
            let _ = hub.serve(&cluster(), theirs).await;
        });
        Ok(Fragile { inner: ours, left: self.cuts.lock().pop().unwrap_or(usize::MAX) })
    }
}

impl Way {
    /// The hub is gone, with everything that it was about to do.
    async fn hub_goes(&self) {
        *self.hub.lock() = None;
        let mut serving = std::mem::take(&mut *self.serving.lock());
        serving.shutdown().await;
    }

    fn hub_comes(&self, dir: &Path) -> Store {
        let store = Store::open(dir, Retention::default()).expect("the store opens");
        *self.hub.lock() = Some(Receiver::new(store.clone(), CancellationToken::new()));
        store
    }
}

fn cluster() -> ClusterName {
    ClusterName::parse("c1").unwrap()
}

fn kind(name: &str) -> Kind {
    Kind::parse(name).unwrap()
}

fn open_spool(dir: &Path) -> Spool {
    Spool::open(dir, LaneConfig::default(), BTreeMap::new()).expect("the spool opens")
}

/// Opens a spool that was dropped a moment ago; what still wrote for it has to end first, as it would with its process.
async fn open_again(dir: &Path) -> Spool {
    let opened = async {
        loop {
            match Spool::open(dir, LaneConfig::default(), BTreeMap::new()) {
                Err(ReportError::InUse(_)) => tokio::task::yield_now().await,
                opened => break opened.expect("the spool opens"),
            }
        }
    };
    timeout(LIMIT, opened).await.expect("nobody holds it")
}

fn record(source: usize, ordinal: u64) -> Record {
    let body = format!("{{\"ordinal\":{ordinal},\"text\":\"something that happened in a cluster\"}}");
    Record::new(i64::try_from(ordinal).unwrap(), format!("source-{source}"), Bytes::from(body)).unwrap()
}

/// Waits until the lane of a kind was stored up to a number.
async fn stored_up_to(store: &Store, kind: &Kind, count: u64) {
    let mut changes = store.changes();
    let all = async {
        while store.lanes().iter().filter(|lane| lane.kind == *kind).map(|lane| lane.next - 1).sum::<u64>() < count {
            changes.changed().await.unwrap();
        }
    };
    timeout(LIMIT, all).await.unwrap_or_else(|_| panic!("{count} records did not arrive: {:?}", store.lanes()));
}

fn all(store: &Store, name: &str) -> Vec<StoredRecord> {
    store.read(&Query { limit: usize::MAX, ..Query::new(kind(name)) }).unwrap()
}

/// Each source's records are there once, and in order.
fn assert_exact(stored: &[StoredRecord], sources: usize, each: u64) {
    for source in 0..sources {
        let name = format!("source-{source}");
        let times: Vec<_> =
            stored.iter().filter(|found| *found.record.source == *name).map(|found| found.record.time).collect();
        assert!(times.iter().copied().eq(0..i64::try_from(each).unwrap()), "{name}: {} of {each}", times.len());
    }
    assert_eq!(stored.len() as u64, each * sources as u64);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn records_of_many_sources_arrive_once_and_in_order_whatever_breaks() {
    const EACH: u64 = 5_000;
    let dir = tempfile::tempdir().unwrap();
    let (spool_dir, store_dir) = (dir.path().join("spool"), dir.path().join("store"));
    let way = Arc::new(Way::default());
    *way.cuts.lock() = (0..60_usize).map(|cut| 1 + (cut * 7_919) % 30_011).collect();
    let mut store = way.hub_comes(&store_dir);
    let mut next = [0_u64; 4];
    for round in 0..10_u64 {
        let spool = open_again(&spool_dir).await;
        let stop = CancellationToken::new();
        let mut tasks = JoinSet::new();
        tasks.spawn(send(spool.clone(), Arc::clone(&way), stop.clone()));
        for (source, next) in next.iter_mut().enumerate() {
            let (spool, from, to) = (spool.clone(), *next, EACH * (round + 1) / 10);
            *next = to;
            tasks.spawn(async move {
                let mut ordinal = from;
                while ordinal < to {
                    let count = (1 + ordinal % 37).min(to - ordinal);
                    let batch = (ordinal..ordinal + count).map(|ordinal| record(source, ordinal)).collect();
                    spool.append(&kind("events"), batch).await.unwrap();
                    ordinal += count;
                }
            });
        }
        for _ in 0..4 {
            timeout(LIMIT, tasks.join_next()).await.unwrap();
        }
        // The agent ends wherever its sender is; every other time so does the hub.
        stop.cancel();
        timeout(LIMIT, tasks.shutdown()).await.unwrap();
        drop(spool);
        if round % 2 == 0 {
            way.hub_goes().await;
            drop(store);
            store = way.hub_comes(&store_dir);
        }
    }
    let spool = open_again(&spool_dir).await;
    let mut tasks = JoinSet::new();
    tasks.spawn(send(spool.clone(), Arc::clone(&way), CancellationToken::new()));
    stored_up_to(&store, &kind("events"), EACH * 4).await;
    assert_exact(&all(&store, "events"), 4, EACH);
    let lanes = store.lanes();
    assert_eq!((lanes.len(), lanes[0].missing, lanes[0].stored), (1, 0, EACH * 4));
}

#[tokio::test]
async fn what_is_reported_while_the_hub_is_away_arrives_when_it_is_back() {
    let dir = tempfile::tempdir().unwrap();
    let way = Arc::new(Way::default());
    let spool = open_spool(&dir.path().join("spool"));
    let mut tasks = JoinSet::new();
    tasks.spawn(send(spool.clone(), Arc::clone(&way), CancellationToken::new()));
    for ordinal in (0..20_000).step_by(500) {
        let batch = (ordinal..ordinal + 500).map(|ordinal| record(0, ordinal)).collect();
        spool.append(&kind("events"), batch).await.unwrap();
    }
    let held = spool.status(&kind("events")).unwrap();
    assert_eq!((held.next, held.wanted), (20_001, 1));
    let store = way.hub_comes(&dir.path().join("store"));
    stored_up_to(&store, &kind("events"), 20_000).await;
    assert_exact(&all(&store, "events"), 1, 20_000);
    // A reader that holds little gets little at a time, and everything in the end.
    let (mut found, mut query) = (Vec::new(), Query { bytes: 1000, ..Query::new(kind("events")) });
    while found.len() < 50 {
        let some = store.read(&query).unwrap();
        let bytes: usize = some.iter().map(|found| found.record.body.len()).sum();
        assert!((1000..1100).contains(&bytes), "{bytes}");
        query.from = some.last().unwrap().position + 1;
        found.extend(some);
    }
    assert_eq!(found, all(&store, "events").into_iter().take(found.len()).collect::<Vec<_>>());
    let one = store.read(&Query { bytes: 1, ..Query::new(kind("events")) }).unwrap();
    assert_eq!(one.len(), 1, "there always is one");
}

#[tokio::test]
async fn a_full_lane_makes_its_source_wait_until_the_hub_takes_some_and_another_kind_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let way = Arc::new(Way::default());
    let small = LaneConfig { limit: 64 << 10, at_limit: AtLimit::Block };
    let spool = Spool::open(&dir.path().join("spool"), LaneConfig::default(), BTreeMap::from([(kind("logs"), small)]));
    let spool = spool.unwrap();
    let mut tasks = JoinSet::new();
    tasks.spawn(send(spool.clone(), Arc::clone(&way), CancellationToken::new()));
    let noisy = |ordinal: u64| {
        let noise: Vec<u8> = (0..4_000).map(|_| rand_byte()).collect();
        Record::new(i64::try_from(ordinal).unwrap(), "source-0", noise).unwrap()
    };
    let mut taken = 0;
    let full = loop {
        // What waits is not lost when nobody waits for it any more, so it is asked in a task.
        let (spool, record) = (spool.clone(), noisy(taken));
        let mut one = JoinSet::new();
        one.spawn(async move { spool.append(&kind("logs"), vec![record]).await });
        match timeout(Duration::from_millis(500), one.join_next()).await {
            Ok(Some(done)) => done.unwrap().unwrap(),
            Ok(None) => unreachable!("it was spawned"),
            Err(_) => break one,
        }
        taken += 1;
        assert!(taken < 100, "the limit does not hold");
    };
    spool.append(&kind("events"), vec![record(0, 0)]).await.expect("another kind has room");
    let store = way.hub_comes(&dir.path().join("store"));
    let mut full = full;
    timeout(LIMIT, full.join_next()).await.unwrap().unwrap().unwrap().expect("there is room now");
    stored_up_to(&store, &kind("logs"), taken + 1).await;
    assert_exact(&all(&store, "logs"), 1, taken + 1);
    assert_eq!(store.lanes().iter().map(|lane| lane.missing).sum::<u64>(), 0);
}

#[tokio::test]
async fn what_a_full_lane_drops_is_missing_at_the_hub_to_the_record() {
    let dir = tempfile::tempdir().unwrap();
    let way = Arc::new(Way::default());
    let config = LaneConfig { limit: 64 << 10, at_limit: AtLimit::DropOldest };
    let spool = Spool::open(&dir.path().join("spool"), config, BTreeMap::new()).unwrap();
    for ordinal in 0..200 {
        let noise: Vec<u8> = (0..4_000).map(|_| rand_byte()).collect();
        spool.append(&kind("logs"), vec![Record::new(ordinal, "s", noise).unwrap()]).await.unwrap();
    }
    let held = spool.status(&kind("logs")).unwrap();
    assert_eq!(held.dropped, held.oldest - 1);
    assert!(held.dropped > 150, "{held:?}");
    let mut tasks = JoinSet::new();
    tasks.spawn(send(spool.clone(), Arc::clone(&way), CancellationToken::new()));
    let store = way.hub_comes(&dir.path().join("store"));
    stored_up_to(&store, &kind("logs"), 200).await;
    let lane = &store.lanes()[0];
    assert_eq!((lane.missing, lane.stored), (held.dropped, 200 - held.dropped));
    let times: Vec<_> = all(&store, "logs").iter().map(|found| found.record.time).collect();
    assert!(times.iter().copied().eq(i64::try_from(held.dropped).unwrap()..200), "the newest are there");
}

#[tokio::test]
async fn a_spool_that_was_set_back_takes_a_new_name_and_loses_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let (spool_dir, kept) = (dir.path().join("spool"), dir.path().join("kept"));
    let way = Arc::new(Way::default());
    let store = way.hub_comes(&dir.path().join("store"));
    let report = async |spool: &Spool, ordinals: std::ops::Range<u64>, until: u64| {
        let mut tasks = JoinSet::new();
        let batch = ordinals.map(|ordinal| record(0, ordinal)).collect();
        spool.append(&kind("events"), batch).await.unwrap();
        tasks.spawn(send(spool.clone(), Arc::clone(&way), CancellationToken::new()));
        stored_up_to(&store, &kind("events"), until).await;
        tasks.shutdown().await;
    };
    let spool = open_again(&spool_dir).await;
    let name = spool.id();
    report(&spool, 0..10, 10).await;
    drop(spool);
    copy(&spool_dir, &kept);
    let spool = open_again(&spool_dir).await;
    report(&spool, 10..30, 30).await;
    drop(spool);
    // The disk is set back to the copy: numbers 11 to 30 would mean other records.
    std::fs::remove_dir_all(&spool_dir).unwrap();
    copy(&kept, &spool_dir);
    let spool = open_again(&spool_dir).await;
    report(&spool, 100..105, 45).await;
    assert_ne!(spool.id(), name);
    let times: Vec<_> = all(&store, "events").iter().map(|found| found.record.time).collect();
    assert!((100..105).all(|time| times.contains(&time)), "{times:?}");
}

#[tokio::test]
async fn a_directory_is_of_one_process_and_a_record_has_bounds() {
    let dir = tempfile::tempdir().unwrap();
    let spool = open_spool(dir.path());
    let again = Spool::open(dir.path(), LaneConfig::default(), BTreeMap::new());
    assert!(matches!(again, Err(ReportError::InUse(_))));
    let large = Record { time: 0, source: "s".into(), body: vec![0; 300 << 10].into() };
    assert!(matches!(spool.append(&kind("x"), vec![large]).await, Err(ReportError::Oversized(_))));
    for number in 0..40 {
        let taken = spool.append(&kind(&format!("kind-{number}")), vec![record(0, 0)]).await;
        assert_eq!(taken.is_ok(), number < 16, "kind {number}: {taken:?}");
    }
    spool.append(&kind("status"), vec![record(0, 0)]).await.expect("there is always room for the agent's own");
}

#[tokio::test]
async fn t22_a_hostile_agent_is_told_no_and_leaves_nothing_behind() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path(), Retention::default()).unwrap();
    let receiver = Receiver::new(store.clone(), CancellationToken::new());
    // A Hello of kind "x", then what follows; lengths in front.
    let hello = [&[2 + 16 + 3, 0x0a, 16][..], &[7; 16], &[0x12, 1, b'x']].concat();
    let after = |bytes: &[u8]| [&hello, bytes].concat();
    for (attack, bytes) in [
        ("a huge message", after(&[0xff, 0xff, 0xff, 0x7f])),
        ("a length that is none", after(&[0xff; 12])),
        ("an empty batch", after(&[0])),
        ("garbage", after(&[9, 1, 2, 3, 4, 5, 6, 7, 8, 9])),
        ("a kind that leads elsewhere", [&[2 + 16 + 5, 0x0a, 16][..], &[7; 16], &[0x12, 3, b'.', b'.', b'/']].concat()),
        ("a short name", vec![4, 0x0a, 2, 7, 7]),
    ] {
        let (mut ours, theirs) = tokio::io::duplex(64 << 10);
        let cluster = cluster();
        let serving = receiver.serve(&cluster, theirs);
        let attacking = async {
            ours.write_all(&bytes).await.unwrap();
            let mut answer = Vec::new();
            let _ = ours.read_to_end(&mut answer).await;
        };
        let (served, ()) = timeout(LIMIT, async { tokio::join!(serving, attacking) }).await.expect(attack);
        assert!(served.is_err(), "{attack}");
    }
    assert!(store.lanes().is_empty());
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &to.join(entry.file_name()));
        } else {
            std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
        }
    }
}

/// A byte that does not compress.
fn rand_byte() -> u8 {
    use std::sync::atomic::{AtomicU64, Ordering};
    static STATE: AtomicU64 = AtomicU64::new(1);
    let next = STATE.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
    let mixed = (next ^ (next >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb).to_be_bytes()[0]
}
