//! Fairness as a unit test.

use super::*;
use alloc::{collections::BTreeMap, vec::Vec};

/// Streams that always have a full frame to send; gives the bytes each got.
fn run(streams: &[(u64, Priority)], frames: usize) -> BTreeMap<u64, i64> {
    let mut scheduler = Scheduler::default();
    let mut shares: BTreeMap<u64, Share> = BTreeMap::new();
    for (id, priority) in streams {
        let share = shares.entry(*id).or_insert_with(|| Share::new(*priority));
        scheduler.ready(StreamId(*id), share);
    }
    let mut sent = BTreeMap::new();
    for _ in 0..frames {
        let turn = scheduler.next().unwrap();
        *sent.entry(turn.stream.0).or_default() += 60_000;
        scheduler.sent(turn, shares.get_mut(&turn.stream.0).unwrap(), 60_000);
    }
    sent
}

#[test]
fn streams_of_one_class_share_evenly() {
    let streams: Vec<_> = (1..=16).map(|id| (id, Priority::Normal)).collect();
    let sent = run(&streams, 16_000);
    let (min, max) = (sent.values().min().unwrap(), sent.values().max().unwrap());
    assert!(max - min <= 2 * QUANTUM, "{sent:?}");
}

#[test]
fn classes_share_by_weight_and_none_starves() {
    let sent = run(&[(1, Priority::Interactive), (2, Priority::Normal), (3, Priority::Bulk)], 13_000);
    let total: i64 = sent.values().sum();
    for (id, weight) in [(1, 8), (2, 4), (3, 1)] {
        let share = sent[&id] * 13 * 100 / total;
        assert!((share - weight * 100).abs() < 10, "class {id} got {share} hundredths of {weight}");
    }
}

#[test]
fn a_fresh_stream_goes_first_but_only_once() {
    let mut scheduler = Scheduler::default();
    let mut bulk = [Share::default(), Share::default()];
    for (i, share) in bulk.iter_mut().enumerate() {
        scheduler.ready(StreamId(u64::try_from(i).unwrap()), share);
    }
    for _ in 0..4 {
        let turn = scheduler.next().unwrap();
        let index = usize::try_from(turn.stream.0).unwrap();
        scheduler.sent(turn, &mut bulk[index], QUANTUM);
    }
    let mut ping = Share::default();
    scheduler.ready(StreamId(9), &mut ping);
    let turn = scheduler.next().unwrap();
    assert_eq!(turn.stream, StreamId(9), "the newcomer is served before the bulk");
    scheduler.sent(turn, &mut ping, 64);
    scheduler.idle(turn, &mut ping);
    scheduler.ready(StreamId(9), &mut ping);
    assert_ne!(scheduler.next().unwrap().stream, StreamId(9), "and then waits its turn");
}
