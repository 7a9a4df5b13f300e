//! The log of a kind: each number once, what is kept and for how long, and what it remembers of what is gone.

use super::*;
use crate::{Kind, Record, store::query::Query, store::reader::StoreReader};
use std::time::Duration;

fn cluster(name: &str) -> ClusterName {
    ClusterName::parse(name).unwrap()
}

/// Records that do not compress.
fn batch(first: u64, count: usize, bytes: usize) -> Batch {
    let record = |i: usize| {
        let noise: Vec<u8> = (0..bytes).map(|_| rand::random()).collect();
        Record::new(i64::try_from(first).unwrap() + i as i64, "s", noise).unwrap()
    };
    Batch::pack(first, &(0..count).map(record).collect::<Vec<_>>())
}

fn stored(name: &str, batch: Batch) -> Stored {
    Stored::new(&cluster(name), SpoolId([1; 16]), batch)
}

fn open(dir: &Path, retention: Retention) -> (KindLog, Index) {
    KindLog::open(dir, retention).unwrap()
}

fn key(name: &str) -> LaneKey {
    LaneKey { cluster: cluster(name), spool: SpoolId([1; 16]) }
}

#[test]
fn a_number_is_stored_once_and_a_gap_is_counted() {
    let dir = tempfile::tempdir().unwrap();
    let (mut log, _) = open(dir.path(), Retention::default());
    let next =
        |log: &mut KindLog, batch: Batch, follows| log.append(stored("c1", batch), follows).map(|(_, next)| next);
    assert_eq!(next(&mut log, batch(1, 10, 9), 1).unwrap(), 11);
    assert_eq!(next(&mut log, batch(1, 10, 9), 1).unwrap(), 11, "again");
    assert_eq!(next(&mut log, batch(5, 10, 9), 1).unwrap(), 15, "half of it again");
    assert_eq!(next(&mut log, batch(20, 5, 9), 15).unwrap(), 25, "behind a gap");
    log.sync().unwrap();
    let (_, index) = open(dir.path(), Retention::default());
    let mark = index.lanes[&key("c1")];
    assert_eq!((mark.next, mark.stored, mark.missing), (25, 19, 5));
    assert_eq!(index.batches.iter().map(|batch| batch.count).sum::<u32>(), 19);
}

#[test]
fn what_follows_records_that_failed_is_not_taken_for_a_gap() {
    let dir = tempfile::tempdir().unwrap();
    let (mut log, _) = open(dir.path(), Retention::default());
    log.append(stored("c1", batch(1, 10, 9)), 1).unwrap();
    // The batch with 11 to 20 was sent on the same stream and could not be written.
    let after = log.append(stored("c1", batch(21, 10, 9)), 21);
    assert!(matches!(after, Err(ReportError::Interrupted)), "{after:?}");
    let (_, next) = log.append(stored("c1", batch(11, 10, 9)), 11).unwrap();
    assert_eq!(next, 21, "they come again, and nothing is missing");
    assert_eq!(log.lanes[&key("c1")].missing, 0);
}

#[test]
fn the_oldest_go_at_the_size_and_at_the_age_and_the_marks_stay() {
    let dir = tempfile::tempdir().unwrap();
    let retention = Retention { bytes: LEAST_BYTES, age: Duration::from_secs(3600) };
    let (mut log, mut index) = open(dir.path(), retention);
    log.append(stored("old", batch(1, 3, 9)), 1).unwrap();
    for round in 0..100 {
        let (change, _) = log.append(stored("c1", batch(1 + round * 10, 10, 4_000)), 1).unwrap();
        log.sync().unwrap();
        change.unwrap().apply(&mut index);
        if let Some(gone) = log.retain(now()).unwrap() {
            index.forget_segment(gone);
        }
    }
    assert!(log.segments.bytes() <= LEAST_BYTES, "{}", log.segments.bytes());
    assert!(index.batches.front().unwrap().position > 500, "the oldest are gone");
    drop(log);
    let (mut log, reopened) = open(dir.path(), retention);
    assert_eq!(reopened.batches.len(), index.batches.len());
    assert_eq!(reopened.lanes[&key("old")].next, 4, "a lane of which nothing is left is still known");
    assert_eq!(reopened.lanes[&key("c1")].next, 1_001);
    let (_, next) = log.append(stored("old", batch(1, 3, 9)), 1).unwrap();
    assert_eq!(next, 4, "and is not stored again");
    // An hour and a bit later everything has gone, of the segment that is written too.
    let last = log.segments.active().id;
    assert_eq!(log.retain(now() + 3_700).unwrap(), Some(last));
    assert_eq!((log.spans.len(), log.segments.active().id), (1, last + 1));
    assert_eq!(log.retain(now() + 3_700_000).unwrap(), None, "one that is empty stays");
    drop(log);
    let (mut log, reopened) = open(dir.path(), retention);
    assert_eq!((reopened.batches.len(), reopened.lanes[&key("c1")].next), (0, 1_001), "and what it was is known");
    let (change, _) = log.append(stored("c1", batch(1_001, 1, 9)), 1).unwrap();
    assert_eq!(change.unwrap().added.position, 1_003, "positions go on");
}

#[test]
fn lanes_of_a_cluster_are_bounded_and_the_one_used_last_stays() {
    let dir = tempfile::tempdir().unwrap();
    let (mut log, _) = open(dir.path(), Retention::default());
    for spool in 0..100_u8 {
        let mut stored = Stored::new(&cluster("c1"), SpoolId([spool; 16]), batch(1, 1, 9));
        stored.received = 1_000 + u64::from(spool);
        log.append(stored, 1).unwrap();
    }
    log.append(stored("c2", batch(1, 1, 9)), 1).unwrap();
    let of = |name: &str| log.lanes.keys().filter(|key| key.cluster.as_str() == name).count();
    assert_eq!((of("c1"), of("c2")), (crate::store::index::MOST_LANES, 1));
    let newest = LaneKey { cluster: cluster("c1"), spool: SpoolId([99; 16]) };
    assert!(log.lanes.contains_key(&newest));
}

#[test]
fn another_process_reads_along_over_segments_and_finds_what_it_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let kind = Kind::parse("logs").unwrap();
    let retention = Retention { bytes: LEAST_BYTES * 4, age: Duration::from_secs(3600) };
    let mut reader = StoreReader::new(dir.path(), Query { cluster: Some(cluster("c1")), since: 5, ..Query::new(kind) });
    assert_eq!(reader.next_records().unwrap(), None, "nothing is there yet");
    let (mut log, _) = open(&dir.path().join("logs"), retention);
    let mut seen = Vec::new();
    for round in 0..300_u64 {
        log.append(stored("c1", batch(1 + round * 2, 2, 2_000)), 1).unwrap();
        log.append(stored("c2", batch(1 + round, 1, 10)), 1).unwrap();
        if round == 150 {
            let query = Query::new(Kind::parse("logs").unwrap());
            let last = StoreReader::new(dir.path(), query).last_of_each().unwrap();
            let last: Vec<_> = last.iter().map(|found| (found.cluster.to_string(), found.number)).collect();
            assert_eq!(last, [("c1".to_owned(), 302), ("c2".to_owned(), 151)]);
        }
        if round % 7 == 0 {
            while let Some(records) = reader.next_records().unwrap() {
                seen.extend(records.iter().map(|found| found.number));
            }
        }
    }
    while let Some(records) = reader.next_records().unwrap() {
        seen.extend(records.iter().map(|found| found.number));
    }
    assert!(log.segments.active().id > 1, "more than one segment");
    assert!(seen.iter().copied().eq(5..=600), "{} seen", seen.len());
}
