//! No slot, no request: when too many are open, and when the record cannot be written.

use crate::rig::{Fragile, Place, outcome, request, subject};
use mctunnel_audit::{AuditConfig, AuditError, AuditLog, OnFull};
use mctunnel_core::Audit as _;
use serde_json::json;
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, channel},
    },
    time::Duration,
};

#[test]
fn when_all_slots_are_taken_requests_are_refused() {
    let place = Place::new();
    let mut config = place.config();
    config.slots = 3;
    let log = AuditLog::open(config).expect("it opens");
    let mut slots: Vec<_> = (0..3).map(|_| log.begin().expect("a slot")).collect();
    assert!(log.begin().is_err());
    slots[0].started(&subject("s"));
    assert!(log.begin().is_err(), "a stream keeps its slot");
    for slot in slots.drain(..) {
        slot.finish(&subject("s"), &outcome());
    }
    log.flush();
    assert_eq!(log.status().slots_taken, 0);
    log.begin().expect("a slot").finish(&subject("s"), &outcome());
    let status = log.status();
    assert_eq!((status.refused, status.dropped, status.blocked), (2, 0, None));
}

#[test]
fn a_slot_is_free_only_once_its_record_is_written() {
    let (fails, log, tried) = fragile(1, OnFull::Refuse);
    tried.recv().expect("the start is written");
    fails.store(true, Ordering::SeqCst);
    log.begin().expect("a slot").finish(&subject("1"), &outcome());
    tried.recv().expect("it is tried");
    assert!(log.begin().is_err(), "it was filled, but it is not written");
    fails.store(false, Ordering::SeqCst);
    log.flush();
    assert!(log.begin().is_ok());
}

#[test]
fn the_operator_may_choose_to_serve_what_cannot_be_recorded_and_the_record_says_how_many() {
    let place = Place::new();
    let mut config = place.config();
    (config.slots, config.on_full) = (1, OnFull::DropAndCount);
    let log = AuditLog::open(config).expect("it opens");
    let slot = log.begin().expect("a slot");
    for _ in 0..5 {
        let mut unrecorded = log.begin().expect("it is served");
        unrecorded.started(&subject("lost"));
        unrecorded.finish(&subject("lost"), &outcome());
    }
    slot.finish(&subject("kept"), &outcome());
    log.close().expect("it closes");
    let records = place.records();
    let dropped: u64 = records
        .iter()
        .filter(|record| record["event"] == "dropped")
        .map(|record| record["count"].as_u64().expect("a count"))
        .sum();
    assert_eq!(dropped, 5);
    assert!(!place.text().contains("lost") && place.text().contains("kept"));
    assert_eq!(log.status().dropped, 5);
    place.verify().expect("it holds");
}

#[test]
fn t40_who_fills_its_own_share_does_not_switch_off_the_record_of_its_requests() {
    let place = Place::new();
    let mut config = place.config();
    (config.slots, config.slots_per_source, config.on_full) = (3, 2, OnFull::DropAndCount);
    let log = AuditLog::open(config).expect("it opens");
    let from = |last: u8| log.begin_from(Some([10, 0, 0, last].into()));
    let held: Vec<_> = (0..2).map(|_| from(1).expect("a slot")).collect();
    assert!(from(1).is_err(), "it is not served without a record");
    assert_eq!((log.status().refused, log.status().dropped), (1, 0));
    let last = from(2).expect("a slot");
    from(3).expect("all are taken: it is served").finish(&subject("lost"), &outcome());
    assert_eq!((log.status().refused, log.status().dropped, log.status().slots_taken), (1, 1, 3));
    drop((held, last));
}

/// A log that writes to a fragile place alone.
fn fragile(slots: usize, on_full: OnFull) -> (Arc<AtomicBool>, AuditLog, Receiver<bool>) {
    let fails = Arc::new(AtomicBool::new(false));
    let (tell, tried) = channel();
    let mut config = AuditConfig::default();
    (config.slots, config.on_full) = (slots, on_full);
    (config.retry_every, config.close_within) = (Duration::from_millis(1), Duration::from_millis(20));
    config.sinks.push(Box::new(Fragile { fails: Arc::clone(&fails), tried: tell }));
    (fails, AuditLog::open(config).expect("it opens"), tried)
}

#[test]
fn while_the_record_cannot_be_written_requests_are_refused_and_nothing_is_lost() {
    let place = Place::new();
    let fails = Arc::new(AtomicBool::new(false));
    let (tell, tried) = channel();
    let mut config = place.config();
    config.sinks.push(Box::new(Fragile { fails: Arc::clone(&fails), tried: tell }));
    let log = AuditLog::open(config).expect("it opens");
    request(&log, "before");
    log.flush();
    while tried.try_recv().is_ok() {}

    fails.store(true, Ordering::SeqCst);
    let open = log.begin().expect("nobody knows yet that it fails");
    request(&log, "during");
    // The second try comes after the first was found to have failed.
    for _ in 0..2 {
        assert!(tried.recv().expect("it is tried"));
    }
    assert!(log.begin().is_err());
    assert!(log.status().blocked.is_some_and(|reason| reason.starts_with("fragile: ")));
    // What has a slot can be filled meanwhile.
    open.finish(&subject("open"), &outcome());

    fails.store(false, Ordering::SeqCst);
    log.flush();
    assert_eq!(log.status().blocked, None);
    request(&log, "after");
    log.close().expect("it closes");
    let ids: Vec<_> = place.records().iter().filter_map(|record| Some(record["id"].as_str()?.to_owned())).collect();
    assert_eq!(ids, ["before", "during", "open", "after"]);
    place.verify().expect("it holds");
}

#[test]
fn closing_does_not_wait_for_ever_and_says_what_is_lost() {
    let (fails, log, tried) = fragile(10, OnFull::Refuse);
    tried.recv().expect("the start is written");
    fails.store(true, Ordering::SeqCst);
    request(&log, "1");
    let Err(AuditError::Unwritten { records, reason }) = log.close() else { panic!("it cannot have been written") };
    assert!(records >= 1, "{records}");
    assert!(reason.starts_with("fragile: "), "{reason}");
    assert!(log.begin().is_err(), "closed is closed");
    log.close().expect("twice is no error");
}

#[test]
fn a_slot_that_outlives_the_record_harms_nobody() {
    let place = Place::new();
    let log = place.open();
    let mut slot = log.begin().expect("a slot");
    log.close().expect("it closes");
    slot.started(&subject("late"));
    slot.finish(&subject("late"), &outcome());
    log.flush();
    assert_eq!(place.records().last().map(|record| record["event"].clone()), Some(json!("stop")));
    place.verify().expect("it holds");
}

#[test]
fn a_log_that_goes_nowhere_is_refused() {
    assert!(matches!(AuditLog::open(AuditConfig::default()), Err(AuditError::NoSink)));
}
