//! One record over many lives of its writer, however each ended.

use crate::rig::{Place, request};
use mctunnel_audit::{AuditError, AuditLog, Head, Problem, VerifyError};
use serde_json::json;
use std::{fs, os::unix::fs::PermissionsExt};

#[test]
fn the_chain_goes_on_after_a_restart() {
    let place = Place::new();
    for _ in 0..3 {
        place.record(2);
    }
    assert_eq!(place.verify().expect("it holds").records, 12);
    let events: Vec<_> =
        place.records().iter().filter_map(|record| Some(record["event"].as_str()?.to_owned())).collect();
    assert_eq!(events, ["start", "stop", "start", "stop", "start", "stop"]);
}

#[test]
fn a_torn_line_is_kept_and_told_of() {
    let place = Place::new();
    place.record(2);
    let text = place.text();
    let whole_line = text.lines().last().expect("a line");
    // At every byte of a line that a crash can leave.
    for at in 1..whole_line.len() {
        let torn = &whole_line[..at];
        place.write(format!("{text}{torn}"));
        place.record(1);
        let verified = place.verify().unwrap_or_else(|error| panic!("torn at {at}: {error}"));
        assert_eq!((verified.torn, verified.records), (1, 4 + 1 + 3));
        let lines = place.lines();
        assert_eq!(lines[4], torn, "it is still there");
        let told: serde_json::Value = serde_json::from_str(&lines[5]).expect("JSON");
        assert_eq!((&told["event"], &told["bytes"]), (&json!("torn"), &json!(at)));
        fs::remove_file(place.layout().head()).expect("the checkpoint of the round before");
    }
}

#[test]
fn a_whole_line_without_its_end_counts() {
    let place = Place::new();
    place.record(2);
    let text = place.text();
    place.write(text.trim_end());
    place.record(1);
    let verified = place.verify().expect("it holds");
    assert_eq!((verified.records, verified.torn), (7, 0));
}

#[test]
fn whatever_a_crash_leaves_behind_the_last_record_is_kept_and_told_of() {
    for garbage in [&b"\0\0\0\0\0\0\0\0"[..], b"\n", b"\n\n", b"abc\ndef\nghi", b"abc\n", b"\xff\xfe\n{\"seq\":9"] {
        let place = Place::new();
        place.record(1);
        place.write([place.text().as_bytes(), garbage].concat());
        place.record(1);
        let verified = place.verify().unwrap_or_else(|error| panic!("{garbage:?}: {error}"));
        assert_eq!((verified.records, verified.torn), (7, 1), "{garbage:?}");
        // And it cannot be changed afterwards.
        let bytes = fs::read(place.log()).expect("the log");
        let at = bytes.windows(garbage.len()).position(|window| window == garbage).expect("it is there");
        place.write([&bytes[..at], b"x", &bytes[at..]].concat());
        assert!(place.verify().is_err(), "{garbage:?}");
    }
}

#[test]
fn a_log_of_nothing_but_garbage_begins_behind_it() {
    let place = Place::new();
    place.record(0);
    fs::remove_file(place.layout().head()).expect("the checkpoint");
    place.write("no record at all");
    place.record(1);
    let verified = place.verify().expect("it holds");
    assert_eq!((verified.first, verified.records, verified.torn), (1, 4, 1));
}

#[test]
fn an_end_that_was_taken_away_while_nobody_wrote_stays_visible() {
    let place = Place::new();
    place.record(4);
    let lines = place.lines();
    place.write(format!("{}\n{}\n", lines[0], lines[1]));
    place.record(1);
    let told = &place.records()[2];
    assert_eq!((&told["event"], &told["seq"]), (&json!("lost"), &json!(7)));
    assert!(told["found"].as_str().is_some_and(|found| found.starts_with("2:")), "{told}");
    assert!(told["known"].as_str().is_some_and(|known| known.starts_with("6:")), "{told}");
    let Err(VerifyError::Broken(broken)) = place.verify_files() else { panic!("it is broken") };
    assert_eq!((broken.line, broken.problem), (3, Problem::Missing { from: 3, to: 6 }));
}

#[test]
fn an_end_that_was_replaced_while_nobody_wrote_stays_visible() {
    let (place, other) = (Place::new(), Place::new());
    place.record(4);
    other.record(4);
    place.write(other.text());
    place.record(1);
    let Err(VerifyError::Broken(broken)) = place.verify_files() else { panic!("it is broken") };
    assert_eq!((broken.line, broken.problem), (7, Problem::Replaced { before: 6 }));
}

#[test]
fn a_checkpoint_that_is_behind_is_no_loss() {
    let place = Place::new();
    place.record(1);
    let old: Head = place.layout().read_head().expect("a checkpoint").expect("there is one");
    place.record(1);
    // As after a crash between the log and its checkpoint.
    fs::write(place.layout().head(), old.to_string()).expect("the checkpoint");
    place.record(1);
    assert_eq!(place.verify().expect("it holds").records, 9);
}

#[test]
fn a_checkpoint_that_is_none_is_not_passed_over() {
    let place = Place::new();
    place.record(1);
    fs::write(place.layout().head(), "garbage").expect("the checkpoint");
    let refused = AuditLog::open(place.config()).expect_err("it must not start as if there was none");
    assert!(matches!(refused, AuditError::BadHead { .. }), "{refused:?}");
}

#[test]
fn one_at_a_time_writes() {
    let place = Place::new();
    let log = place.open();
    let refused = AuditLog::open(place.config()).expect_err("another writes");
    assert_eq!(refused.code().code, "MCT-AUDIT-IN-USE");
    log.close().expect("it closes");
    place.record(1);
}

#[test]
fn the_files_are_for_their_owner_alone() {
    let place = Place::new();
    let log = place.open();
    request(&log, "1");
    log.flush();
    let directory = place.log().parent().expect("a directory").to_owned();
    let mode = |path: &std::path::Path| fs::metadata(path).expect("it is there").permissions().mode() & 0o7777;
    assert_eq!(mode(&directory), 0o700);
    for entry in fs::read_dir(&directory).expect("a directory") {
        let path = entry.expect("an entry").path();
        assert_eq!(mode(&path), 0o600, "{}", path.display());
    }
}

#[test]
fn the_checkpoint_is_the_last_durable_record() {
    let place = Place::new();
    let log = place.open();
    for number in 1..4_u64 {
        request(&log, "x");
        log.flush();
        assert_eq!(place.layout().read_head().expect("a checkpoint").map(|head| head.seq), Some(number + 1));
        assert_eq!(place.verify().expect("it holds").records, number + 1);
    }
}
