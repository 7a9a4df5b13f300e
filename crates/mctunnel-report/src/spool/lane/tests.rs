//! Numbers, limits and checkpoints of one lane.

use super::*;

fn records(count: usize) -> Vec<Record> {
    (0..count).map(|i| Record::new(i as i64, "s", format!("{i:0100}")).unwrap()).collect()
}

/// Records that do not compress, one batch each.
fn noise(lane: &mut Lane, count: usize) -> Result<(), ReportError> {
    for _ in 0..count {
        let body: Vec<u8> = (0..1000).map(|_| rand::random()).collect();
        lane.append(&[Record::new(0, "s", body).unwrap()], &Checkpoints::new())?;
        lane.sync()?;
    }
    Ok(())
}

fn config(at_limit: AtLimit) -> LaneConfig {
    LaneConfig { limit: LEAST_LIMIT, at_limit }
}

#[test]
fn numbers_go_on_after_a_restart_even_when_everything_was_forgotten() {
    let dir = tempfile::tempdir().unwrap();
    let open = || Lane::open(dir.path(), &LaneConfig::default()).unwrap();
    let mut lane = open();
    let checkpoint = |text: &'static str| Checkpoints::from([("s".into(), Bytes::from_static(text.as_bytes()))]);
    lane.append(&records(500), &checkpoint("far")).unwrap();
    lane.append(&records(500), &checkpoint("farther")).unwrap();
    lane.sync().unwrap();
    assert_eq!(lane.progress().synced, 1_001);
    lane.forget_below(1_001).unwrap();
    drop(lane);
    let told = |lane: &Lane| (lane.next(), lane.checkpoint("s").cloned());
    assert_eq!(told(&open()), (1_001, Some("farther".into())));
    let mut lane = open();
    lane.roll().unwrap();
    lane.forget_below(1_001).unwrap();
    drop(lane);
    assert_eq!(told(&open()), (1_001, Some("farther".into())), "from the head alone");
    let mut lane = open();
    lane.append(&records(1), &checkpoint("")).unwrap();
    lane.sync().unwrap();
    drop(lane);
    assert_eq!(told(&open()), (1_002, None), "a source that was forgotten stays so");
}

#[test]
fn sources_with_a_checkpoint_are_bounded() {
    let dir = tempfile::tempdir().unwrap();
    let mut lane = Lane::open(dir.path(), &LaneConfig::default()).unwrap();
    let many = |range: std::ops::Range<usize>| -> Checkpoints {
        range.map(|i| (format!("s{i}").into(), "x".into())).collect()
    };
    lane.append(&records(1), &many(0..MOST_CHECKPOINTS)).unwrap();
    let more = lane.append(&records(1), &many(MOST_CHECKPOINTS..MOST_CHECKPOINTS + 1));
    assert!(matches!(more, Err(ReportError::TooManySources(MOST_CHECKPOINTS))));
    lane.append(&records(1), &many(7..9)).unwrap();
    // One goes, so one may come.
    let mut one_for_another = many(MOST_CHECKPOINTS..MOST_CHECKPOINTS + 1);
    one_for_another.insert("s5".into(), Bytes::new());
    lane.append(&records(1), &one_for_another).unwrap();
    assert_eq!((lane.checkpoints().len(), lane.checkpoint("s5")), (MOST_CHECKPOINTS, None));
}

#[test]
fn a_full_lane_makes_its_source_wait_and_goes_on_once_the_hub_has_some() {
    let dir = tempfile::tempdir().unwrap();
    let mut lane = Lane::open(dir.path(), &config(AtLimit::Block)).unwrap();
    assert!(matches!(noise(&mut lane, 1_000), Err(ReportError::Full)));
    let taken = lane.next() - 1;
    assert!((50..64).contains(&taken), "{taken}");
    assert!(lane.segments.bytes() <= LEAST_LIMIT);
    lane.forget_below(5).unwrap();
    assert!(matches!(noise(&mut lane, 1), Err(ReportError::Full)), "nothing is gone for less than a segment");
    lane.forget_below(taken / 2).unwrap();
    noise(&mut lane, 10).unwrap();
    lane.forget_below(lane.next()).unwrap();
    noise(&mut lane, 50).unwrap();
    assert_eq!((lane.dropped, lane.next()), (0, taken + 61));
}

#[test]
fn a_full_lane_drops_its_oldest_and_the_count_is_exact() {
    let dir = tempfile::tempdir().unwrap();
    let mut lane = Lane::open(dir.path(), &config(AtLimit::DropOldest)).unwrap();
    noise(&mut lane, 1_000).unwrap();
    let progress = lane.progress();
    assert!(progress.bytes <= LEAST_LIMIT, "{}", progress.bytes);
    assert_eq!((progress.synced, progress.dropped), (1_001, progress.oldest() - 1));
    // What the hub has is not dropped when it goes.
    lane.forget_below(1_001).unwrap();
    let dropped = lane.dropped;
    noise(&mut lane, 40).unwrap();
    assert_eq!(lane.dropped, dropped);
}

#[test]
fn what_was_dropped_and_what_the_hub_has_is_known_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let open = || Lane::open(dir.path(), &config(AtLimit::DropOldest)).unwrap();
    let mut lane = open();
    noise(&mut lane, 20).unwrap();
    // In the middle of a segment; nothing is appended behind it.
    lane.forget_below(20).unwrap();
    drop(lane);
    let mut lane = open();
    assert_eq!((lane.wanted, lane.dropped), (20, 0));
    noise(&mut lane, 200).unwrap();
    let dropped = lane.progress().oldest() - 20;
    assert_eq!(lane.dropped, dropped, "what the hub has is not among them");
    drop(lane);
    let mut lane = open();
    assert_eq!(lane.dropped, dropped);
    // A crash between the two: a segment went, and it was not written down.
    let second = lane.starts[1].first;
    lane.segments.forget_oldest().unwrap();
    drop(lane);
    let lane = open();
    assert_eq!((lane.progress().oldest(), lane.dropped), (second, second - 20));
    drop(lane);
    std::fs::write(dir.path().join("marks"), b"not marks, which have another length").unwrap();
    assert_eq!((open().wanted, open().dropped), (1, 0), "a lane without them is read all the same");
}

#[test]
fn what_the_hub_claims_beyond_what_was_synced_is_not_forgotten() {
    let dir = tempfile::tempdir().unwrap();
    let mut lane = Lane::open(dir.path(), &LaneConfig::default()).unwrap();
    lane.append(&records(5), &Checkpoints::new()).unwrap();
    lane.forget_below(u64::MAX).unwrap();
    assert_eq!(lane.wanted, 1);
    lane.sync().unwrap();
    lane.forget_below(u64::MAX).unwrap();
    assert_eq!(lane.wanted, 6);
}
