//! Sources: what one gives is in the spool once and in order, though it fails now and then and its process ends at any time; while the
//! spool is full it is not asked.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use bytes::Bytes;
use mctunnel_report::{AtLimit, Found, Kind, LaneConfig, Record, ReportError, Source, Spool, collect};
use std::{
    collections::BTreeMap,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::time::timeout;

const LIMIT: Duration = Duration::from_secs(30);

/// Counts to an end, a few numbers at a time, and fails every third time it is asked.
struct Counting {
    kind: Kind,
    name: Arc<str>,
    end: u64,
    asked: Arc<AtomicU64>,
    body: usize,
    fails: bool,
}

impl Counting {
    fn to(end: u64, body: usize) -> Self {
        Self {
            kind: Kind::parse("numbers").unwrap(),
            name: "counter".into(),
            end,
            asked: Arc::default(),
            body,
            fails: true,
        }
    }
}

impl Source for Counting {
    fn kind(&self) -> &Kind {
        &self.kind
    }

    fn name(&self) -> &Arc<str> {
        &self.name
    }

    async fn next(&mut self, place: Option<&Bytes>) -> Result<Option<Found>, String> {
        if self.asked.fetch_add(1, Ordering::SeqCst) % 3 == 2 && self.fails {
            return Err("not now".to_owned());
        }
        let from = place.map_or(0, |place| u64::from_be_bytes(place.as_ref().try_into().unwrap()));
        if from == self.end {
            return Ok(None);
        }
        let to = (from + 7).min(self.end);
        let numbers = from..to;
        let record = |n| Record::new(i64::try_from(n).unwrap(), Arc::clone(&self.name), noise(n, self.body)).unwrap();
        Ok(Some(Found { records: numbers.map(record).collect(), place: Bytes::copy_from_slice(&to.to_be_bytes()) }))
    }
}

/// Bytes that do not become fewer when they are packed: a spool is as full as its disk.
fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(2).wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[0]
    };
    (0..length).map(|_| next()).collect()
}

fn open(dir: &Path, limit: u64) -> Spool {
    let lane = LaneConfig { limit, at_limit: AtLimit::Block };
    Spool::open(dir, lane, BTreeMap::new()).unwrap()
}

/// How many records of the kind were ever taken.
fn taken(spool: &Spool) -> u64 {
    // Numbers begin with 1.
    spool.status(&Kind::parse("numbers").unwrap()).unwrap().next - 1
}

#[tokio::test]
async fn a_source_that_fails_and_whose_process_ends_is_taken_once_and_whole() {
    let dir = tempfile::tempdir().unwrap();
    for last_asked in [1, 2, 4, 5, 7, 8, 11] {
        let spool = open(dir.path(), 64 << 20);
        let source = Counting::to(100, 10);
        let asked = Arc::clone(&source.asked);
        // Ends anywhere: between two records, in a pause, before the first.
        let ended = async {
            while asked.load(Ordering::SeqCst) < last_asked {
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            biased;
            () = ended => {}
            done = collect(&spool, source) => done.unwrap(),
        }
        let (count, place) = (taken(&spool), spool.checkpoint(&Kind::parse("numbers").unwrap(), "counter").unwrap());
        let place = place.map_or(0, |place| u64::from_be_bytes(place.as_ref().try_into().unwrap()));
        assert_eq!(count, place, "what was taken and the place never differ");
    }
    let spool = open(dir.path(), 64 << 20);
    timeout(LIMIT, collect(&spool, Counting::to(100, 10))).await.unwrap().unwrap();
    assert_eq!(taken(&spool), 100);
}

#[tokio::test]
async fn while_the_spool_is_full_a_source_is_not_asked() {
    let dir = tempfile::tempdir().unwrap();
    let spool = open(dir.path(), 1 << 20);
    let source = Counting { fails: false, ..Counting::to(10_000, 10_000) };
    let asked = Arc::clone(&source.asked);
    let waiting = timeout(Duration::from_secs(2), collect(&spool, source)).await;
    assert!(waiting.is_err(), "it waits");
    let (count, asked) = (taken(&spool), asked.load(Ordering::SeqCst));
    assert!(count < 1000, "{count} records of 10 KB in a spool of 1 MiB");
    assert!(asked <= 40, "asked {asked} times for 70 KB each");
}

#[tokio::test]
async fn what_does_not_fit_into_a_batch_is_an_error_and_not_cut() {
    let dir = tempfile::tempdir().unwrap();
    let spool = open(dir.path(), 64 << 20);
    let failed = collect(&spool, Counting::to(7, 200_000)).await;
    assert!(matches!(failed, Err(ReportError::TooMuch)), "{failed:?}");
    assert_eq!(taken(&spool), 0);
}
