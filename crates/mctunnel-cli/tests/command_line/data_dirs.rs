//! The data directory of a hub through the real binary: one that is mistyped, one with a damaged file, one that is another user's, and
//! what the lists say of it.

use crate::{
    enrolment::token,
    rig::{Hub, Ran, Role, run, until},
};
use serde_json::Value;
use std::{
    fs,
    os::unix::fs::{MetadataExt, chown},
    path::Path,
};
use tempfile::TempDir;

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

fn directory() -> TempDir {
    tempfile::tempdir().expect("a directory")
}

/// A command about the hub in that directory.
fn at(data_dir: &Path, words: &[&str]) -> Ran {
    run(&[words, &["--data-dir", text(data_dir)]].concat())
}

/// Commands about a CA.
const OF_A_CA: [&[&str]; 4] = [&["ca", "status"], &["ca", "show"], &["ca", "rotate"], &["ca", "retire", "--force"]];
/// The others that make nothing.
const OF_A_HUB: [&[&str]; 5] = [
    &["cluster", "list"],
    &["cluster", "revoke", "cluster-a"],
    &["cluster", "remove", "cluster-a"],
    &["join-token", "list"],
    &["join-token", "revoke", "0123456789abcdef"],
];

#[test]
fn a_mistyped_data_directory_is_an_error_and_makes_nothing() {
    let dir = directory();
    let typo = dir.path().join("typo");
    for words in OF_A_CA.iter().chain(&OF_A_HUB) {
        let refused = at(&typo, words);
        assert_eq!(refused.status, Some(1), "{words:?} {refused:?}");
        assert!(refused.err.starts_with("error[MCT-CONTROL-NO-DATA-DIR]: "), "{words:?} {}", refused.err);
        assert!(refused.err.contains(text(&typo)) && refused.err.contains("\n  remedy: "), "{words:?} {}", refused.err);
        assert!(refused.out.is_empty() && !typo.exists(), "{words:?}");
    }
    // One that is there, and is not a hub's.
    for words in OF_A_CA {
        let refused = at(dir.path(), words);
        assert_eq!(refused.status, Some(1), "{words:?} {refused:?}");
        assert!(refused.err.starts_with("error[MCT-IDENTITY-NO-CA]: "), "{words:?} {}", refused.err);
        assert_eq!(fs::read_dir(dir.path()).expect("it").count(), 0, "{words:?}");
    }
}

#[test]
fn whoever_makes_a_ca_is_told() {
    let dir = directory();
    let bundle = dir.path().join("a.join");
    let add: &[&str] = &["cluster", "add", "cluster-a", "--out", text(&bundle), "--reissue"];
    let create: &[&str] = &["join-token", "create", "--cluster", "cluster-a", "-o", "token"];
    for (place, words) in [("one", add), ("two", create)] {
        let place = dir.path().join(place);
        for is_new in [true, false] {
            let made = at(&place, words);
            assert_eq!(made.status, Some(0), "{made:?}");
            let told = made.err.lines().any(|line| line.contains("a new one was made") && line.contains(text(&place)));
            assert_eq!(told, is_new, "{}", made.err);
        }
    }
    let own = at(&dir.path().join("three"), &["cluster", "add", "cluster-a", "--own-ca"]);
    assert!(own.err.contains("there was no data directory"), "{own:?}");
    // And the hub says it where it says everything.
    let hub = Hub::start(&[]);
    assert!(hub.role.log().contains("There was no CA, so a new one was made."), "{}", hub.role.log());
}

/// Files of trust with a rule that denies by a label.
fn trust(files: &Path) -> [String; 5] {
    fs::write(files.join("auth.yaml"), "anonymous: {}\nproviders: [{name: keys, api_keys: {}}]\n").expect("a file");
    fs::write(files.join("policy.yaml"), LABELLED).expect("a file");
    let path = |name: &str| text(&files.join(name)).to_owned();
    let [auth, policy] = [path("auth.yaml"), path("policy.yaml")];
    ["--auth-config".to_owned(), auth, "--policy".to_owned(), policy, "--gateway-plain".to_owned()]
}

const LABELLED: &str = "version: 1
roles:
  all: {rules: [{clusters: ['*'], nonResourcePaths: ['*'], verbs: ['*']}]}
bindings: [{name: b, role: all, anonymous: true}]
deny:
  - name: production
    users: ['*']
    providers: ['*']
    rules: [{clusterLabels: {env: prod}, nonResourcePaths: ['*'], verbs: ['*']}]
";

/// Whether a request to a cluster is refused because of its label.
fn is_denied(hub: &Hub, cluster: &str) -> bool {
    let head = format!("GET /{cluster}/version HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    let (status, body) = crate::rig::request(hub.address("gateway"), &head);
    status == 403 && body.contains("deny production, rule 1")
}

#[test]
fn a_damaged_record_keeps_its_own_cluster_out_and_nothing_else() {
    let files = directory();
    let trust = trust(files.path());
    let trust: Vec<&str> = trust.iter().map(String::as_str).collect();
    let mut hub = Hub::start(&trust);
    let (token_a, token_b) = (token(&hub, "cluster-a", &["--label", "env=prod"]), token(&hub, "cluster-b", &[]));
    let (home_a, home_b) = (hub.path("a"), hub.path("b"));
    let agent = |hub: &Hub, name: &str, more: &[&str]| {
        Role::start(hub.dir.path(), name, &[&["agent", "--hub", hub.address("tunnel")], more].concat(), &[])
    };
    let mut a = agent(&hub, "a", &["--join-token", &token_a, "--data-dir", &home_a]);
    let mut b = agent(&hub, "b", &["--join-token", &token_b, "--data-dir", &home_b]);
    for agent in [&mut a, &mut b] {
        agent.ready();
    }
    assert!(is_denied(&hub, "cluster-a") && !is_denied(&hub, "cluster-b"));

    let record = hub.path("data/clusters/cluster-a.json");
    fs::write(&record, "{\"cluster\":").expect("a file");
    // Its tunnel stays for a moment, and so does what is denied there.
    until("the hub to take note", || hub.role.log().contains("The record of a cluster cannot be read").then_some(()));
    assert!(is_denied(&hub, "cluster-a"));
    lists_pass_over(&hub, &record);

    // A hub starts on it.
    for role in [&a, &b, &hub.role] {
        role.signal("TERM");
    }
    assert_eq!((a.wait().code(), b.wait().code(), hub.role.wait().code()), (Some(0), Some(0), Some(0)));
    let data_dir = hub.path("data");
    let mut arguments = vec!["hub", "--data-dir", &data_dir];
    for listener in ["--tunnel-listen", "--gateway-listen", "--admin-listen"] {
        arguments.extend([listener, "127.0.0.1:0"]);
    }
    arguments.extend(["--connect-listen", "off"]);
    arguments.extend(trust);
    hub.role = Role::start(hub.dir.path(), "again", &arguments, &[]);
    hub.ready = hub.role.ready();
    let mut b = agent(&hub, "b", &["--data-dir", &home_b]);
    b.ready();
    let a = agent(&hub, "a", &["--data-dir", &home_a]);
    until("the refusal", || a.log().contains("MCT-ADMIT-UNREAD").then_some(()));
    let log = hub.role.log();
    let said = log.lines().filter(|line| line.contains("The record of a cluster cannot be read")).count();
    assert_eq!(said, 1, "not every second: {log}");
    let (_, metrics) = crate::rig::get(hub.address("admin"), "/metrics");
    let count = metrics.lines().find_map(|line| line.strip_prefix("mctunnel_clusters_unread_total "));
    assert!(count.is_some_and(|count| count != "0"), "{metrics}");
}

/// The lists have the others, and say what is wrong.
fn lists_pass_over(hub: &Hub, record: &str) {
    let data_dir = hub.path("data");
    for form in ["table", "json"] {
        let listed = run(&["cluster", "list", "--data-dir", &data_dir, "-o", form]);
        assert_eq!(listed.status, Some(0), "{listed:?}");
        assert!(listed.out.contains("cluster-b") && !listed.out.contains("cluster-a"), "{listed:?}");
        assert!(listed.err.starts_with("warning: ") && listed.err.contains(record), "{listed:?}");
    }
    let reported = run(&["clusters", "--data-dir", &data_dir]);
    assert!(reported.status == Some(0) && reported.out.contains("cluster-b"), "{reported:?}");
    assert!(reported.err.starts_with("warning: ") && reported.err.contains(record), "{reported:?}");
    // A token that is left over, and one whose file is damaged.
    token(hub, "cluster-b", &[]);
    let broken = hub.path("data/join-tokens/0123456789abcdef.json");
    fs::write(&broken, "{}").expect("a file");
    let made = run(&["join-token", "create", "--cluster", "cluster-c", "--data-dir", &data_dir]);
    assert!(made.status == Some(0) && made.err.contains(&broken), "{made:?}");
    let listed = run(&["join-token", "list", "--data-dir", &data_dir]);
    assert_eq!(listed.status, Some(0), "{listed:?}");
    assert!(listed.out.contains("cluster-c") && listed.out.contains("cluster-b"), "{listed:?}");
    assert!(listed.err.contains(&broken) && listed.err.contains(record), "{listed:?}");
    fs::remove_file(broken).expect("it is there");
}

#[test]
fn lists_say_what_was_taken_back() {
    let hub = Hub::start(&[]);
    let data_dir = hub.path("data");
    let data_dir = Path::new(&data_dir);
    let _ = token(&hub, "cluster-a", &["--label", "env=prod", "--uses", "2"]);
    let _ = token(&hub, "cluster-b", &[]);
    hub.add("cluster-c");
    let json = |words: &[&str]| -> Value {
        serde_json::from_str(&at(data_dir, &[words, &["list", "-o", "json"]].concat()).out).expect("JSON")
    };
    let states = |words: &[&str]| -> Vec<String> {
        let list = json(words);
        let lines = list.as_array().expect("a list").iter();
        lines.map(|line| line["state"].as_str().expect("text").to_owned()).collect()
    };
    assert_eq!(states(&["join-token"]), ["open", "open"]);
    assert_eq!(states(&["cluster"]), ["waiting", "waiting", "allowed"]);
    let mut agent = Role::start(
        hub.dir.path(),
        "agent",
        &[
            "agent",
            "--join-token",
            &token(&hub, "cluster-a", &["--label", "env=prod"]),
            "--data-dir",
            &hub.path("agent"),
        ],
        &[],
    );
    agent.ready();
    let table = at(data_dir, &["cluster", "list"]).out;
    let lines: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[0], ["NAME", "ADDED", "STATE", "LABELS", "CERTIFICATE"]);
    assert_eq!((lines[1][2], lines[1][3], lines[1].len()), ("allowed", "env=prod", 5), "{table}");
    assert_eq!((lines[2][2], lines[2].len()), ("waiting", 3), "{table}");

    assert_eq!(at(data_dir, &["cluster", "revoke", "cluster-a"]).status, Some(0));
    assert_eq!(at(data_dir, &["cluster", "remove", "cluster-b"]).status, Some(0));
    assert_eq!(states(&["cluster"]), ["revoked", "allowed"]);
    let mut left = states(&["join-token"]);
    left.sort();
    assert_eq!(left, ["used", "void", "void"]);
    let tokens = at(data_dir, &["join-token", "list"]).out;
    assert!(tokens.lines().any(|line| line.contains("cluster-a  void ")), "{tokens}");
    // A new one counts, and the old ones still do not.
    let _ = token(&hub, "cluster-a", &[]);
    let mut left = states(&["join-token"]);
    left.sort();
    assert_eq!(left, ["open", "used", "void", "void"]);
    let help = run(&["--help"]).out;
    assert!(help.lines().any(|line| line.contains("revoke") && line.contains("clusters")), "{help}");
}

/// As root beside a hub with its own user; else, as that user itself.
#[test]
fn a_command_leaves_a_data_directory_to_its_owner() {
    let dir = directory();
    let data_dir = dir.path().join("data");
    fs::create_dir(&data_dir).expect("a directory");
    let us = fs::metadata(&data_dir).expect("it").uid();
    let may_be_skipped = std::env::var_os("TESTS_MUST_RUN").is_none_or(|value| value.is_empty());
    assert!(
        us == 0 || may_be_skipped,
        "only root shows whose the files become, and TESTS_MUST_RUN says that it should"
    );
    let owner = if us == 0 { 64_123 } else { us };
    chown(&data_dir, Some(owner), None).expect("root may, and to ourselves anybody");
    let bundle = dir.path().join("b.join");
    for words in [
        &["join-token", "create", "--cluster", "cluster-a"][..],
        &["cluster", "add", "cluster-b", "--out", text(&bundle)],
        &["cluster", "revoke", "cluster-a"],
        &["join-token", "create", "--cluster", "cluster-a"],
        &["ca", "rotate"],
        &["ca", "retire", "--force"],
    ] {
        let ran = at(&data_dir, words);
        assert_eq!(ran.status, Some(0), "{words:?} {ran:?}");
        assert_owned(&data_dir, owner);
    }
    assert_eq!(fs::metadata(&bundle).expect("a bundle").uid(), us, "a bundle is of who asked for it");
}

fn assert_owned(place: &Path, owner: u32) {
    for entry in fs::read_dir(place).expect("a directory").map(|entry| entry.expect("an entry")) {
        let metadata = fs::symlink_metadata(entry.path()).expect("it is there");
        assert_eq!(metadata.uid(), owner, "{}", entry.path().display());
        if metadata.is_dir() {
            assert_owned(&entry.path(), owner);
        }
    }
}

#[test]
fn an_agent_that_cannot_start_leaves_its_token_for_one_that_can() {
    let hub = Hub::start(&[]);
    let (token, home) = (token(&hub, "cluster-a", &[]), hub.path("agent"));
    let arguments = ["agent", "--join-token", &token, "--data-dir", &home];
    let refused = run(&[&arguments[..], &["--kube-api", "http://127.0.0.1:1", "--impersonate"]].concat());
    assert!(refused.err.starts_with("error[MCT-AGENT-IMPERSONATE]: "), "{refused:?}");
    assert!(refused.err.contains("--kube-token-file"), "{refused:?}");
    let listed = run(&["join-token", "list", "--data-dir", &hub.path("data"), "-o", "json"]).out;
    let listed: Value = serde_json::from_str(&listed).expect("JSON");
    assert_eq!((&listed[0]["used"], &listed[0]["state"]), (&0.into(), &"open".into()));
    let mut agent = Role::start(hub.dir.path(), "agent", &arguments, &[]);
    agent.ready();
}
