//! What of the records of a pod is shown, and how.

use super::*;
use mctunnel::{ClusterName, report::Record};

fn found(position: u64, source: &str, body: &str) -> StoredRecord {
    let record = Record::new(1_700_000_000_123_456, source, body.to_owned()).unwrap();
    StoredRecord { cluster: ClusterName::parse("c1").unwrap(), number: position + 1, position, received: 0, record }
}

fn line(position: u64, uid: &str, restart: u64, text: &str) -> StoredRecord {
    let body = format!("{{\"uid\":{uid:?},\"restart\":{restart},\"line\":{text:?}}}");
    found(position, "team-a/web/nginx", &body)
}

fn wanted() -> LogWanted {
    LogWanted { namespace: "team-a".to_owned(), pod: "web".to_owned(), ..LogWanted::default() }
}

fn shown(wanted: &LogWanted, records: &[StoredRecord]) -> Result<String, NoLog> {
    let mut runs = Runs::default();
    records.iter().for_each(|found| runs.note(wanted, found));
    let run = runs.choose(wanted)?;
    let (first, mut out) = (run.first, Vec::new());
    let mut printer = LogPrinter::new(run, wanted.clone());
    for found in records.iter().filter(|found| found.position >= first) {
        assert_eq!(printer.print(found, &mut out), Next::More);
    }
    Ok(String::from_utf8(out).unwrap())
}

#[test]
fn the_newest_run_of_the_newest_pod_is_shown_and_the_one_before_on_request() {
    let records = [
        line(0, "u1", 0, "old pod"),
        line(1, "u2", 0, "first"),
        line(2, "u2", 3, "fourth, begun"),
        line(3, "u1", 0, "the last word of the old pod"),
        line(4, "u2", 0, "late of the first"),
        line(5, "u2", 3, "fourth"),
        found(6, "team-a/web-2/nginx", r#"{"uid":"u9","restart":9,"line":"another pod"}"#),
        found(7, "team-ab/web/nginx", r#"{"uid":"u9","restart":9,"line":"another namespace"}"#),
        found(8, "team-a/web/nginx", "not JSON"),
    ];
    assert_eq!(shown(&wanted(), &records).unwrap(), "fourth, begun\nfourth\n");
    let previous = LogWanted { previous: true, ..wanted() };
    assert_eq!(shown(&previous, &records).unwrap(), "first\nlate of the first\n");
    let none = shown(&previous, &records[..2]);
    assert_eq!(none, Err(NoLog::NoPrevious { pod: "team-a/web".to_owned(), container: "nginx".to_owned() }));
    assert_eq!(shown(&wanted(), &[]), Err(NoLog::Nothing { pod: "team-a/web".to_owned() }));
}

#[test]
fn of_several_containers_one_has_to_be_named() {
    let records = [
        line(0, "u1", 0, "from nginx"),
        found(1, "team-a/web/sidecar", r#"{"uid":"u1","restart":0,"line":"from sidecar"}"#),
    ];
    let containers = vec!["nginx".to_owned(), "sidecar".to_owned()];
    assert_eq!(shown(&wanted(), &records), Err(NoLog::Several { pod: "team-a/web".to_owned(), containers }));
    let named = LogWanted { container: Some("sidecar".to_owned()), ..wanted() };
    assert_eq!(shown(&named, &records).unwrap(), "from sidecar\n");
}

#[test]
fn bytes_are_those_of_the_container() {
    let source = "team-a/web/nginx";
    let records = [
        found(0, source, r#"{"uid":"u","restart":0,"line":"\u001b[31mred\ttab"}"#),
        found(1, source, r#"{"uid":"u","restart":0,"bytes":"Zm9vCQ=="}"#),
        found(2, source, r#"{"uid":"u","restart":0,"line":"half","partial":true}"#),
        found(3, source, r#"{"uid":"u","restart":0,"line":" a line"}"#),
        found(4, source, r#"{"uid":"u","restart":0,"line":""}"#),
        found(5, source, r#"{"uid":"u","restart":0,"line":"the end","partial":true}"#),
    ];
    assert_eq!(shown(&wanted(), &records).unwrap(), "\u{1b}[31mred\ttab\nfoo\t\nhalf a line\n\nthe end");
    let timed = LogWanted { timestamps: true, ..wanted() };
    let at = "2023-11-14T22:13:20.123456000Z";
    let expected = format!("{at} half a line\n{at} \n{at} the end");
    assert_eq!(shown(&timed, &records[2..]).unwrap(), expected, "once for each line");
    let exact = found(0, source, r#"{"uid":"u","restart":0,"line":"x","time":"2023-11-14T22:13:20.123456789Z"}"#);
    assert_eq!(shown(&timed, &[exact]).unwrap(), "2023-11-14T22:13:20.123456789Z x\n");
}

#[test]
fn who_follows_a_run_ends_with_it() {
    let wanted = LogWanted { follow: true, ..wanted() };
    let begun = [line(0, "u0", 0, "before"), line(1, "u1", 0, "a")];
    let follow = || {
        let mut runs = Runs::default();
        begun.iter().for_each(|found| runs.note(&wanted, found));
        LogPrinter::new(runs.choose(&wanted).unwrap(), wanted.clone())
    };
    for (next, expected) in [
        (line(2, "u1", 0, "b"), Next::More),
        (line(2, "u1", 1, "restarted"), Next::Over),
        (line(2, "u2", 0, "replaced"), Next::Over),
        (line(2, "u0", 5, "late of an old pod"), Next::More),
    ] {
        let (mut printer, mut out) = (follow(), Vec::new());
        assert!(printer.goes_on());
        assert_eq!(printer.print(&next, &mut out), expected);
    }
}
