//! Who was not identified cannot push out the records of others: beyond a pace, the record has the number alone. And no source has all
//! the slots.

use crate::rig::{PATIENCE, Place, outcome, request, subject};
use mctunnel_audit::AuditLog;
use mctunnel_core::{Audit as _, AuditSubject, ClusterName, Decision, Identity};
use serde_json::Value;
use std::{fs, net::IpAddr, thread, time::Duration};
use tokio::time::Instant;

/// Nobody known is refused.
fn stranger(log: &AuditLog, from: [u8; 4], id: &str) {
    let source = Some(IpAddr::from(from));
    let subject = AuditSubject { identity: None, decision: None, action: None, source, ..subject(id) };
    log.begin_from(source).expect("a slot").finish(&subject, &outcome());
}

/// The records in all files.
fn all_records(place: &Place) -> Vec<Value> {
    let texts = place.layout().files().expect("files").into_iter().map(|file| fs::read_to_string(file).expect("text"));
    let parse = |line: &str| serde_json::from_str(line).expect("JSON");
    texts.flat_map(|text| text.lines().map(parse).collect::<Vec<Value>>()).collect()
}

/// Strangers in the records: with one of their own, and as a number.
fn strangers(records: &[Value]) -> (usize, u64) {
    let is_whole = |record: &&Value| {
        record["stage"] == "request" && record["identity"] != "user" && record["decision"] != "allowed"
    };
    let whole = records.iter().filter(is_whole).count();
    let left_out = records.iter().filter(|record| record["event"] == "strangers");
    (whole, left_out.map(|record| record["left_out"].as_u64().expect("a number")).sum())
}

#[test]
fn t40_strangers_do_not_push_out_what_others_need_and_their_number_is_recorded() {
    const MANY: u64 = 100_000;
    let place = Place::new();
    let mut config = place.config();
    let file = config.file.as_mut().expect("a file");
    (file.rotate_bytes, file.keep) = (200_000, 2);
    // Nobody is refused for want of a slot.
    (config.slots, config.slots_per_source) = (200_000, 200_000);
    let log = AuditLog::open(config).expect("it opens");
    request(&log, "needed");
    for number in 0..MANY {
        stranger(&log, [10, 0, 0, 9], &number.to_string());
    }
    log.flush();
    assert_eq!(log.status().slots_taken, 0, "what has no record keeps no slot");
    request(&log, "after");
    log.close().expect("it closes");

    let records = all_records(&place);
    let has = |id: &str| records.iter().any(|record| record["id"] == id && record["decision"] == "allowed");
    assert!(has("needed") && has("after"), "{:?}", records.first());
    let (whole, left_out) = strangers(&records);
    assert!((200..1_000).contains(&whole), "{whole}");
    assert_eq!(u64::try_from(whole).expect("few") + left_out, MANY);
    let status = log.status();
    assert_eq!((status.strangers, status.files_deleted, status.refused), (left_out, 0, 0));
    let told = records.iter().find(|record| record["event"] == "strangers").expect("a line");
    assert_eq!((&told["source"], &told["from_source"]), (&"10.0.0.9".into(), &told["left_out"]));
    assert_eq!((&told["stage"], &told["sources"]), (&"log".into(), &1.into()));
    place.verify().expect("it holds");
}

#[test]
fn how_many_strangers_there_were_is_told_while_the_log_is_open() {
    let place = Place::new();
    let mut config = place.config();
    // Nothing else wakes the writer.
    config.sync_every = Duration::from_secs(3_600);
    let log = AuditLog::open(config).expect("it opens");
    for number in 0..2_000 {
        stranger(&log, [10, 0, 0, 9], &number.to_string());
    }
    let until = Instant::now() + PATIENCE;
    while !place.text().contains("\"event\":\"strangers\"") {
        assert!(Instant::now() < until, "nobody says so: {}", place.lines().len());
        thread::yield_now();
    }
    log.close().expect("it closes");
}

#[test]
fn who_is_known_or_allowed_has_a_record_however_many_there_are() {
    let place = Place::new();
    let log = place.open();
    // All that strangers may have.
    for number in 0..3_000 {
        stranger(&log, [10, 0, 0, 9], &number.to_string());
    }
    let source = Some(IpAddr::from([10, 0, 0, 9]));
    let anonymous =
        |decision| AuditSubject { identity: Some(Identity::Anonymous), source, decision, ..subject("nobody") };
    for _ in 0..1_500 {
        let denied = AuditSubject { decision: Some(Decision::denied("rule 1")), source, ..subject("user") };
        for case in [denied, anonymous(Some(Decision::allowed("everybody may")))] {
            log.begin_from(source).expect("a slot").finish(&case, &outcome());
        }
    }
    for decision in [Some(Decision::denied("nobody may")), None] {
        log.begin_from(source).expect("a slot").finish(&anonymous(decision), &outcome());
    }
    // And one that is dropped before anybody said anything of it.
    drop(log.begin_from(source).expect("a slot"));
    log.close().expect("it closes");
    let records = place.records();
    let count = |id: &str, decision: &str| {
        records.iter().filter(|record| record["id"] == id && record["decision"] == decision).count()
    };
    assert_eq!((count("user", "denied"), count("nobody", "allowed")), (1_500, 1_500));
    let (whole, left_out) = strangers(&records);
    assert_eq!(u64::try_from(whole).expect("few") + left_out, 3_000 + 3, "{whole}");
}

#[test]
fn t40_junk_does_not_hide_that_a_token_was_used_twice() {
    let place = Place::new();
    let mut config = place.config();
    (config.slots, config.slots_per_source) = (200_000, 200_000);
    let log = AuditLog::open(config).expect("it opens");
    for number in 0..3_000 {
        stranger(&log, [10, 0, 0, 9], &number.to_string());
    }
    let source = Some(IpAddr::from([10, 0, 0, 9]));
    let cluster = Some(ClusterName::parse("c1").expect("a name"));
    let decision = Some(Decision::denied("join token 5f01c3a29be47d10"));
    let used =
        AuditSubject { identity: None, action: None, destination: None, source, cluster, decision, ..subject("used") };
    for _ in 0..1_000 {
        log.begin_from(source).expect("a slot").finish(&used, &outcome());
    }
    log.close().expect("it closes");
    let records = place.records();
    let whole: Vec<&Value> = records.iter().filter(|record| record["id"] == "used").collect();
    // The holder of a token fills no files either.
    assert!((100..200).contains(&whole.len()), "{}", whole.len());
    assert_eq!((&whole[0]["cluster"], &whole[0]["rule"]), (&"c1".into(), &"join token 5f01c3a29be47d10".into()));
    let (whole, left_out) = strangers(&records);
    assert_eq!(u64::try_from(whole).expect("few") + left_out, 4_000, "each is counted");
}

#[test]
fn t40_one_source_cannot_have_all_the_slots() {
    let place = Place::new();
    let mut config = place.config();
    (config.slots, config.slots_per_source) = (8, 2);
    let log = AuditLog::open(config).expect("it opens");
    let from = |last: u8| log.begin_from(Some([10, 0, 0, last].into()));
    let mut held: Vec<_> = (0..2).map(|_| from(1).expect("a slot")).collect();
    assert!(from(1).is_err(), "its share is taken");
    let other = from(2).expect("others are served");
    for slot in held.drain(..) {
        slot.finish(&subject("1"), &outcome());
    }
    log.flush();
    held.push(from(1).expect("its share is free once it is written"));
    drop((held, other));
    log.flush();
    assert_eq!((log.status().slots_taken, log.status().refused), (0, 1));
}
