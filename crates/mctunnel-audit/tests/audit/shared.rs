//! One record that several write, each in its turn: one chain, whoever is killed.

use crate::rig::{Place, request};
use mctunnel_audit::{AuditConfig, AuditLog};
use mctunnel_core::Audit as _;
use serde_json::json;
use std::{fs::OpenOptions, io::Write as _, thread, time::Duration};

fn config(place: &Place) -> AuditConfig {
    let mut config = place.config();
    let file = config.file.as_mut().expect("a file");
    (file.shared, file.keep) = (true, 1_000);
    config
}

fn open(place: &Place) -> AuditLog {
    AuditLog::open(config(place)).expect("it opens beside the other")
}

fn append(place: &Place, bytes: &[u8]) {
    let mut file = OpenOptions::new().append(true).open(place.log()).expect("the log");
    file.write_all(bytes).expect("the log");
}

#[test]
fn what_several_write_at_once_over_many_files_is_one_chain() {
    const EACH: u64 = 400;
    let place = Place::new();
    let logs: Vec<_> = (0..3)
        .map(|_| {
            let mut config = config(&place);
            config.file.as_mut().expect("a file").rotate_bytes = 20_000;
            config.sync_every = Duration::ZERO;
            AuditLog::open(config).expect("it opens beside the others")
        })
        .collect();
    thread::scope(|scope| {
        for (number, log) in logs.iter().enumerate() {
            scope.spawn(move || {
                for at in 0..EACH {
                    request(log, &format!("{number}-{at}"));
                    if at % 7 == 0 {
                        log.flush();
                    }
                }
            });
        }
    });
    for log in logs {
        log.close().expect("it closes");
    }
    let verified = place.verify().expect("it holds");
    assert_eq!((verified.first, verified.records, verified.torn), (1, 3 * (EACH + 2), 0));
    assert!(place.layout().files().expect("files").len() > 10, "they were rotated by all of them");
    let known = place.layout().read_head().expect("a checkpoint");
    assert_eq!(known, verified.head, "the checkpoint is the last one's");
}

#[test]
fn a_line_that_another_left_unfinished_is_told_of_by_who_writes_next() {
    let place = Place::new();
    let log = open(&place);
    request(&log, "1");
    log.flush();
    append(&place, br#"{"seq":3,"time":"2026"#);
    request(&log, "2");
    log.flush();
    let records: Vec<_> =
        place.lines().iter().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok()).collect();
    assert_eq!((&records[2]["event"], &records[2]["bytes"]), (&json!("torn"), &json!(21)));
    assert_eq!(records[3]["id"], "2");
    let verified = place.verify().expect("it holds");
    assert_eq!((verified.torn, verified.records), (1, 4));
}

#[test]
fn a_file_that_another_set_aside_before_it_was_killed_is_followed_by_the_next() {
    let place = Place::new();
    let log = open(&place);
    request(&log, "1");
    log.flush();
    let aside = place.log().with_file_name(format!("audit-{:020}.log", 1));
    std::fs::rename(place.log(), aside).expect("the log");
    request(&log, "2");
    log.close().expect("it closes");
    assert_eq!(place.verify().expect("it holds").records, 4);
    assert_eq!(place.records()[0]["seq"], 3);
}

#[test]
fn start_and_stop_say_whose_they_are() {
    let place = Place::new();
    let (one, other) = (open(&place), open(&place));
    one.close().expect("it closes");
    other.flush();
    let records = place.records();
    let of = |event: &str| {
        let found = records.iter().filter(|record| record["event"] == event);
        found.map(|record| record["writer"].as_str().expect("a writer").to_owned()).collect::<Vec<_>>()
    };
    let (started, stopped) = (of("start"), of("stop"));
    assert!(started[0] != started[1] && stopped.len() == 1 && started.contains(&stopped[0]), "{records:?}");
}

#[test]
fn without_a_turn_requests_are_refused_until_there_is_one() {
    let place = Place::new();
    let mut config = config(&place);
    config.file.as_mut().expect("a file").turn_within = Duration::from_millis(20);
    let log = AuditLog::open(config).expect("it opens");
    log.flush();
    let turn = OpenOptions::new().write(true).open(place.log().with_file_name("audit.turn")).expect("the turn");
    turn.lock().expect("as somebody who is frozen in its turn");
    let mut recorded = 0;
    while let Ok(slot) = log.begin() {
        slot.finish(&crate::rig::subject("x"), &crate::rig::outcome());
        recorded += 1;
        thread::yield_now();
    }
    assert!(log.status().blocked.is_some_and(|reason| reason.contains("turn")));
    turn.unlock().expect("it was ours");
    log.flush();
    assert!(log.begin().is_ok());
    log.close().expect("it closes");
    assert_eq!(place.verify().expect("it holds").records, recorded + 3, "nothing that was recorded is lost");
}

#[test]
fn who_shares_and_who_does_not_keep_each_other_out() {
    let place = Place::new();
    for (first, second) in [(config(&place), place.config()), (place.config(), config(&place))] {
        let log = AuditLog::open(first).expect("it opens");
        let refused = AuditLog::open(second).expect_err("the first would be disturbed");
        assert_eq!(refused.code().code, "MCT-AUDIT-IN-USE");
        request(&log, "x");
        log.close().expect("it closes");
    }
}
