//! What is found when somebody changes the record.

use crate::rig::Place;
use mctunnel_audit::{Broken, Head, Problem, VerifyError, verify};

/// Five requests between start and stop: seven lines.
fn recorded() -> Place {
    let place = Place::new();
    place.record(5);
    place
}

fn broken(result: Result<mctunnel_audit::Verified, VerifyError>) -> (u64, Problem) {
    match result {
        Err(VerifyError::Broken(Broken { line, problem, .. })) => (line, problem),
        other => panic!("it should be broken: {other:?}"),
    }
}

/// Writes the lines as the change leaves them, and gives where the files alone show it.
fn after(change: impl FnOnce(&mut Vec<String>)) -> (u64, Problem) {
    let place = recorded();
    let mut lines = place.lines();
    change(&mut lines);
    place.write(lines.iter().map(|line| format!("{line}\n")).collect::<String>());
    assert!(place.verify().is_err(), "the checkpoint does not make it better");
    broken(place.verify_files())
}

#[test]
fn a_record_that_nobody_touched_holds() {
    let place = recorded();
    let verified = place.verify().expect("it holds");
    assert_eq!((verified.records, verified.first, verified.head.map(|head| head.seq)), (7, 1, Some(7)));
    assert_eq!((verified.torn, verified.unfinished, verified.unused), (0, 0, vec![]));
}

#[test]
fn an_edited_line_is_found() {
    for (from, to) in
        [("alice", "malic"), ("\"status\":200", "\"status\":201"), ("allowed", "denied!"), ("\"seq\":3", "\"seq\":4")]
    {
        assert_eq!(after(|lines| lines[2] = lines[2].replacen(from, to, 1)), (3, Problem::Changed), "{from}");
    }
}

#[test]
fn a_deleted_line_is_found() {
    assert_eq!(after(|lines| drop(lines.remove(2))), (3, Problem::Missing { from: 3, to: 3 }));
    assert_eq!(after(|lines| drop(lines.drain(1..4))), (2, Problem::Missing { from: 2, to: 4 }));
}

#[test]
fn lines_in_another_order_and_lines_twice_are_found() {
    assert_eq!(after(|lines| lines.swap(2, 3)), (3, Problem::Missing { from: 3, to: 3 }));
    assert_eq!(after(|lines| lines.insert(3, lines[2].clone())), (4, Problem::OutOfOrder { due: 4, found: 3 }));
}

#[test]
fn a_line_from_another_record_is_found() {
    let other = recorded().lines();
    assert_eq!(after(|lines| lines[2] = other[2].clone()), (3, Problem::Replaced { before: 2 }));
    assert_eq!(after(|lines| lines[..3].clone_from_slice(&other[..3])), (4, Problem::Replaced { before: 3 }));
}

#[test]
fn an_inserted_line_is_found() {
    assert_eq!(after(|lines| lines.insert(2, "{\"seq\":3}".to_owned())), (3, Problem::Changed));
    assert_eq!(after(|lines| lines.insert(2, String::new())), (3, Problem::Changed));
}

#[test]
fn an_end_that_was_taken_away_is_found_by_the_checkpoint() {
    let place = recorded();
    let lines = place.lines();
    let known = place.layout().read_head().expect("the checkpoint").expect("there is one");
    for left in [6, 3, 0] {
        place.write(lines[..left].iter().map(|line| format!("{line}\n")).collect::<String>());
        assert_eq!(
            place.verify_files().map(|verified| verified.records).ok(),
            Some(left as u64),
            "the files alone hold"
        );
        let expected = Problem::Truncated { known, last: left as u64 };
        assert_eq!(broken(place.verify()), (left as u64 + 1, expected));
    }
    std::fs::remove_file(place.log()).expect("the log");
    assert!(matches!(broken(place.verify()).1, Problem::Truncated { last: 0, .. }));
}

#[test]
fn a_record_written_anew_is_found_by_a_checkpoint_kept_elsewhere() {
    let (place, forged) = (recorded(), recorded());
    let noted = place.verify().expect("it holds").head.expect("a head");
    place.write(forged.text());
    std::fs::copy(forged.layout().head(), place.layout().head()).expect("a copy");
    assert!(place.verify().is_ok(), "whoever can write all files can write another history");
    let files = place.layout().files().expect("files");
    assert_eq!(broken(verify(&files, &[noted])), (7, Problem::NotAsKnown { known: noted }));
    let early = Head { seq: 4, ..noted };
    assert_eq!(broken(verify(&files, &[early])), (4, Problem::NotAsKnown { known: early }));
}

#[test]
fn a_line_that_is_being_written_is_no_break() {
    let place = recorded();
    let text = place.text();
    place.write(format!("{text}{{\"seq\":8,\"ti"));
    let verified = place.verify().expect("it holds");
    assert_eq!((verified.records, verified.unfinished), (7, 12));
    place.write(format!("{text}{{\"seq\":8,\"ti\n"));
    assert_eq!(broken(place.verify()), (8, Problem::Changed), "with its end it was written so");
}
