//! `mctunnel audit`: what it says of a log that holds and of one that does not, and how it shows and follows one.

use crate::rig::{Ran, mctunnel, run};
use mctunnel_audit::{AuditConfig, AuditLog, FileConfig};
use mctunnel_core::{Action, Audit as _, AuditOutcome, AuditSubject, ClusterName, Decision, Destination, Target, User};
use std::{
    fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Stdio},
    time::Duration,
};

/// A data directory with an audit log of small files.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a directory"))
    }

    fn data_dir(&self) -> &str {
        self.0.path().to_str().expect("UTF-8")
    }

    fn log(&self) -> PathBuf {
        self.0.path().join(FileConfig::IN_DATA_DIR)
    }

    fn open(&self, rotate_bytes: u64) -> AuditLog {
        let mut file = FileConfig::in_data_dir(self.0.path());
        (file.rotate_bytes, file.keep) = (rotate_bytes, 1_000);
        let mut config = AuditConfig::default();
        config.file = Some(file);
        AuditLog::open(config).expect("it opens")
    }

    fn verify(&self) -> Ran {
        run(&["audit", "verify", "--data-dir", self.data_dir()])
    }

    fn tail(&self, more: &[&str]) -> Vec<String> {
        let ran = run(&[&["audit", "tail", "--data-dir", self.data_dir()], more].concat());
        assert_eq!(ran.status, Some(0), "{ran:?}");
        ran.out.lines().map(str::to_owned).collect()
    }
}

/// Somebody looks at pods.
fn record(log: &AuditLog, user: &str, cluster: &str) {
    let target = Target::KubeApi;
    let subject = AuditSubject {
        request_id: "r".into(),
        gateway: "http",
        identity: Some(User::new(user, "keys").into()),
        source: None,
        cluster: None,
        action: Some(Action::of_http(&target, "GET", "/api/v1/namespaces/kube-system/pods").expect("a path")),
        destination: Some(Destination { cluster: ClusterName::parse(cluster).expect("a name"), target }),
        decision: Some(Decision::allowed("rule 7")),
    };
    let outcome =
        AuditOutcome { status: 200, bytes_up: 0, bytes_down: 9, lasted: Duration::from_millis(5), error: None };
    log.begin().expect("a slot").finish(&subject, &outcome);
}

fn recorded() -> Place {
    let place = Place::new();
    let log = place.open(2_000);
    for number in 0..12 {
        record(&log, if number % 3 == 0 { "bob" } else { "alice" }, if number % 2 == 0 { "east" } else { "west" });
    }
    log.close().expect("it closes");
    place
}

#[test]
fn a_log_that_holds_is_said_to_hold_with_a_checkpoint_to_keep() {
    let place = recorded();
    let verified = place.verify();
    assert_eq!(verified.status, Some(0), "{verified:?}");
    assert!(verified.out.starts_with("The log holds: 14 records in "), "{}", verified.out);
    let checkpoint = verified.out.lines().last().expect("a line").trim();
    assert!(checkpoint.starts_with("14:"), "{checkpoint}");
    let again = run(&["audit", "verify", "--data-dir", place.data_dir(), "--checkpoint", checkpoint]);
    assert_eq!(again.status, Some(0), "{again:?}");
    let other = format!("14:{}", "0".repeat(64));
    let wrong = run(&["audit", "verify", "--data-dir", place.data_dir(), "--checkpoint", &other]);
    assert_eq!(wrong.status, Some(1));
    assert!(wrong.err.contains("is not the one of the checkpoint"), "{}", wrong.err);
    assert_eq!(run(&["audit", "verify", "x", "--checkpoint", "14"]).status, Some(2));
}

#[test]
fn a_log_that_was_changed_is_an_error_that_names_the_line() {
    let place = recorded();
    let text = fs::read_to_string(place.log()).expect("the log");
    fs::write(place.log(), text.replacen("alice", "malic", 1)).expect("the log");
    let broken = place.verify();
    assert_eq!((broken.status, broken.out.as_str()), (Some(1), ""));
    let expected = format!("error[MCT-AUDIT-BROKEN]: the log does not hold: {}:", place.log().display());
    assert!(broken.err.starts_with(&expected), "{}", broken.err);
    assert!(
        broken.err.contains(": the line is no record, or was changed after it was written\n  remedy: "),
        "{}",
        broken.err
    );
}

#[test]
fn an_end_that_is_missing_is_seen_by_the_checkpoint_beside_the_log() {
    let place = recorded();
    let text = fs::read_to_string(place.log()).expect("the log");
    let cut = text.trim_end().rsplit_once('\n').map_or("", |(rest, _)| rest);
    fs::write(place.log(), format!("{cut}\n")).expect("the log");
    for arguments in [&["--data-dir", place.data_dir()][..], &[place.log().to_str().expect("UTF-8")]] {
        let broken = run(&[&["audit", "verify"], arguments].concat());
        assert_eq!(broken.status, Some(1), "{broken:?}");
        assert!(broken.err.contains("its end was taken away"), "{}", broken.err);
    }
}

#[test]
fn files_may_be_given_in_any_order_and_a_missing_one_is_found() {
    let place = recorded();
    let directory = place.log().parent().expect("a directory").to_owned();
    let entries = fs::read_dir(&directory).expect("a directory").map(|entry| entry.expect("an entry").path());
    let mut files: Vec<String> = entries
        .filter(|path| path.extension().is_some_and(|extension| extension == "log"))
        .map(|path| path.to_str().expect("UTF-8").to_owned())
        .collect();
    files.sort_by(|a, b| b.cmp(a));
    assert!(files.len() > 3);
    let verify = |files: &[String]| {
        let files: Vec<&str> = files.iter().map(String::as_str).collect();
        run(&[&["audit", "verify"], &files[..]].concat())
    };
    assert_eq!(verify(&files).status, Some(0));
    files.remove(2);
    let broken = verify(&files);
    assert_eq!(broken.status, Some(1));
    assert!(broken.err.contains("missing"), "{}", broken.err);
}

#[test]
fn the_newest_records_are_shown_for_people_over_files() {
    let place = recorded();
    let lines = place.tail(&["-n", "5"]);
    assert_eq!(lines.len(), 5);
    assert!(lines[4].ends_with("  -- the log was closed"), "{lines:#?}");
    let expected =
        "  alice  allowed  list pods in kube-system  in west (kube-apiserver)  200 5ms 0B up 9B down  rule: rule 7";
    assert!(lines[3].ends_with(expected), "{lines:#?}");
    assert!(place.tail(&["-n", "100"]).len() == 14, "all files are read");
    assert_eq!(place.tail(&["--user", "bob", "-n", "100"]).len(), 4);
    assert_eq!(place.tail(&["--cluster", "east"]).len(), 6);
    let json = place.tail(&["--cluster", "east", "--user", "bob", "-o", "json"]);
    assert_eq!(json.len(), 2);
    assert!(
        json.iter()
            .all(|line| serde_json::from_str::<serde_json::Value>(line).is_ok_and(|record| record["user"] == "bob"))
    );
}

#[test]
fn a_log_that_is_not_there_is_an_error() {
    let place = Place::new();
    for command in ["verify", "tail"] {
        let missing = run(&["audit", command, "--data-dir", place.data_dir()]);
        assert_eq!(missing.status, Some(1));
        assert!(missing.err.starts_with("error[MCT-AUDIT-NO-LOG]: "), "{}", missing.err);
        assert_eq!(run(&["audit", command]).status, Some(2));
    }
}

/// A command that follows; killed when dropped.
struct Following(Child);

impl Following {
    fn start(data_dir: &Path, more: &[&str]) -> (Self, impl Iterator<Item = String>) {
        let mut command = mctunnel(&[&["audit", "tail", "-f"], more].concat());
        command.arg("--data-dir").arg(data_dir).stdout(Stdio::piped());
        let mut child = command.spawn().expect("the binary starts");
        let out = BufReader::new(child.stdout.take().expect("a pipe"));
        (Self(child), out.lines().map(|line| line.expect("UTF-8")))
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        // Both fail only when it has ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn records_are_followed_as_they_come_over_files_and_restarts() {
    let place = Place::new();
    let log = place.open(2_000);
    record(&log, "before", "east");
    log.flush();
    let (_following, mut lines) = Following::start(place.0.path(), &["--cluster", "east"]);
    assert!(lines.next().expect("a line").contains("  before  "));
    for number in 0..9 {
        record(&log, &format!("user-{number}"), "east");
        record(&log, "other", "west");
        log.flush();
        assert!(lines.next().expect("a line").contains(&format!("  user-{number}  ")));
    }
    log.close().expect("it closes");
    let log = place.open(2_000);
    record(&log, "after", "east");
    log.close().expect("it closes");
    assert!(lines.next().expect("a line").contains("  after  "));
}
