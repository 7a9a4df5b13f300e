//! What an operator watches: files that do not count, the next policy, the record. Read as Prometheus reads it.

use crate::rig::{Hub, get, request, run, until};
use std::fs;
use tempfile::TempDir;

const AUTH: &str = "providers: [{name: keys, api_keys: {}}]\n";
const POLICY: &str = "version: 1
roles:
  all: {rules: [{clusters: ['*'], nonResourcePaths: ['*'], verbs: ['*']}]}
bindings: [{name: b, role: all, users: [alice], providers: [keys]}]
deny: []
";

/// A hub with all three files.
struct Stage {
    files: TempDir,
    hub: Hub,
}

impl Stage {
    fn new() -> Self {
        let files = tempfile::tempdir().expect("a directory");
        let path = |name: &str| files.path().join(name).to_str().expect("UTF-8").to_owned();
        let (auth, policy, next) = (path("auth.yaml"), path("policy.yaml"), path("next.yaml"));
        fs::write(&auth, AUTH).expect("a file");
        fs::write(&policy, POLICY).expect("a file");
        fs::write(&next, POLICY.replace("[alice]", "[nobody]")).expect("a file");
        let trust = ["--auth-config", &auth, "--policy", &policy, "--shadow-policy", &next, "--gateway-plain"];
        let hub = Hub::start(&trust);
        Self { files, hub }
    }

    /// As an editor does it: the whole file at once.
    fn edit(&self, file: &str, text: &str) {
        fs::write(self.files.path().join("new"), text).expect("a file");
        fs::rename(self.files.path().join("new"), self.files.path().join(file)).expect("a file");
    }

    fn page(&self) -> String {
        get(self.hub.address("admin"), "/metrics").1
    }

    fn shows(&self, line: &str) {
        until(line, || self.page().lines().any(|one| one == line).then_some(()));
    }
}

#[test]
fn t18_a_file_that_does_not_count_is_a_metric_and_a_line() {
    let stage = Stage::new();
    for (file, name, good) in [
        ("policy.yaml", "policy", POLICY),
        ("next.yaml", "shadow_policy", POLICY),
        ("auth.yaml", "authentication", AUTH),
    ] {
        let broken = |value: u8| format!("mctunnel_file_broken{{file=\"{name}\"}} {value}");
        stage.shows(&broken(0));
        stage.edit(file, &good.replacen("name", "nmae", 1));
        stage.shows(&broken(1));
        stage.edit(file, good);
        stage.shows(&broken(0));
        fs::remove_file(stage.files.path().join(file)).expect("a file");
        stage.shows(&broken(1));
        stage.edit(file, good);
        stage.shows(&broken(0));
    }
    let log = stage.hub.role.log();
    let warnings = log.lines().filter(|line| line.contains("\"WARN\"") || line.contains("\"ERROR\"")).count();
    assert!(warnings >= 6, "each of them has a line: {log}");
}

#[test]
fn the_next_policy_and_the_record_are_counted_and_every_metric_is_documented() {
    let stage = Stage::new();
    let made = run(&["api-key", "create", "alice", "--user", "alice", "--data-dir", &stage.hub.path("data")]);
    let head = format!("GET /nowhere/version HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {}\r\n", made.out.trim());
    assert_eq!(request(stage.hub.address("gateway"), &format!("{head}Connection: close\r\n\r\n")).0, 404);
    stage.shows("mctunnel_shadow_decisions_total{outcome=\"would_refuse\"} 1");
    stage.shows("mctunnel_shadow_decisions_total{outcome=\"would_allow\"} 0");
    // One that takes long has a line when it begins, too.
    until("a record", || {
        let page = stage.page();
        let written =
            page.lines().find_map(|line| line.strip_prefix("mctunnel_audit_records_total{outcome=\"written\"} "));
        written.filter(|count| ["1", "2"].contains(count)).map(drop)
    });
    stage.shows("mctunnel_audit_records_total{outcome=\"refused\"} 0");
    stage.shows("mctunnel_audit_records_total{outcome=\"dropped\"} 0");
    stage.shows("mctunnel_audit_blocked 0");
    stage.shows("mctunnel_opens_pending 0");

    let (page, documented) = (stage.page(), include_str!("../../../../docs/operations.md"));
    let names = page.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next());
    for name in names {
        assert!(page.contains(&format!("# HELP {name} ")), "{name} has no help");
        assert!(documented.contains(&format!("`{name}`")), "{name} is not in docs/operations.md");
    }
}
