//! What an operator watches: files that do not count, the next policy, the record. Read as Prometheus reads it.

use crate::rig::{Hub, Role, get, request, run, until};
use std::fs;
use tempfile::TempDir;

const AUTH: &str = "providers: [{name: keys, api_keys: {}}]\n";
const POLICY: &str = "version: 1
roles:
  all: {rules: [{clusters: ['*'], nonResourcePaths: ['*'], verbs: ['*']}]}
bindings: [{name: b, role: all, users: [alice], providers: [keys]}]
deny: []
";

const SERVICES: &str = "services: {db: {address: 'tcp://127.0.0.1:1'}}\n";

/// A hub with all four files.
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
        fs::write(path("services.yaml"), SERVICES).expect("a file");
        let trust = ["--auth-config", &auth, "--policy", &policy, "--shadow-policy", &next, "--gateway-plain"];
        let hub = Hub::start(&[&trust[..], &["--services", &path("services.yaml")]].concat());
        Self { files, hub }
    }

    fn page(&self) -> String {
        get(self.hub.address("admin"), "/metrics").1
    }

    fn shows(&self, line: &str) {
        until(line, || self.page().lines().any(|one| one == line).then_some(()));
    }
}

/// As an editor does it: the whole file at once.
fn edit(files: &TempDir, file: &str, text: &str) {
    fs::write(files.path().join("new"), text).expect("a file");
    fs::rename(files.path().join("new"), files.path().join(file)).expect("a file");
}

/// A file that is watched.
struct File {
    name: &'static str,
    /// What metrics call it.
    label: &'static str,
    good: &'static str,
    /// The same with a mistake.
    bad: String,
    /// What the log says, besides the name of the file, while it is broken and when it is gone.
    said: [&'static str; 2],
}

/// Breaks, mends and removes a file; the page and the log of who watches it tell each time.
fn breaks_and_goes(files: &TempDir, file: &File, page: &dyn Fn() -> String, log: &dyn Fn() -> String) {
    let File { name, label, good, bad, said } = file;
    let shows = |value: u8| {
        let line = format!("mctunnel_file_broken{{file=\"{label}\"}} {value}");
        until(&line, || page().lines().any(|one| one == line).then_some(()));
    };
    let replaced = || -> u64 {
        let line = format!("mctunnel_file_replaced_total{{file=\"{label}\"}} ");
        page().lines().find_map(|one| one.strip_prefix(&line)?.parse().ok()).expect("a count")
    };
    // A line for people, about this file and no other.
    let lines = |said: &str| {
        let of_this = |line: &&str| line.contains(said) && line.contains(&format!("/{name}\""));
        log().lines().filter(|line| line.contains("\"WARN\"") || line.contains("\"ERROR\"")).filter(of_this).count()
    };
    let [is_broken, is_gone] = *said;
    shows(0);
    let before = replaced();
    edit(files, name, bad);
    shows(1);
    assert_eq!(replaced(), before, "{name}: a broken file replaces nothing");
    until(is_broken, || (lines(is_broken) == 1).then_some(()));
    assert_eq!(lines(is_gone), 0, "{name} is there: {}", log());
    edit(files, name, good);
    shows(0);
    fs::remove_file(files.path().join(name)).expect("a file");
    shows(1);
    until(is_gone, || (lines(is_gone) == 1).then_some(()));
    assert_eq!(lines(is_broken), 1, "{name}, said once: {}", log());
    edit(files, name, good);
    shows(0);
    assert!(replaced() >= before + 2, "{name} was gone, and is back");
}

#[test]
fn t18_a_file_that_does_not_count_is_a_metric_and_a_line() {
    let stage = Stage::new();
    let misspelt = |good: &str| good.replacen("name", "nmae", 1);
    let policy =
        ["the policy is broken: the last good one stays", "the policy file is not there: everything is denied"];
    let trust = [
        "the authentication file is broken: the last good one stays",
        "the authentication file is not there: nobody gets in",
    ];
    let services = [
        "The file of services is broken: the last good one stays.",
        "The file of services is gone: clusters are offered none.",
    ];
    for file in [
        File { name: "policy.yaml", label: "policy", good: POLICY, bad: misspelt(POLICY), said: policy },
        File { name: "next.yaml", label: "shadow_policy", good: POLICY, bad: misspelt(POLICY), said: policy },
        File { name: "auth.yaml", label: "authentication", good: AUTH, bad: misspelt(AUTH), said: trust },
        File {
            name: "services.yaml",
            label: "services",
            good: SERVICES,
            bad: SERVICES.replace("address", "adress"),
            said: services,
        },
    ] {
        breaks_and_goes(&stage.files, &file, &|| stage.page(), &|| stage.hub.role.log());
    }
}

#[test]
fn t18_a_file_of_services_that_cannot_be_read_for_a_while_counts_again_as_it_was() {
    let stage = Stage::new();
    let (file, aside) = (stage.files.path().join("services.yaml"), stage.files.path().join("aside"));
    let broken = |value: u8| format!("mctunnel_file_broken{{file=\"services\"}} {value}");
    stage.shows(&broken(0));
    // A directory cannot be read as a file.
    fs::rename(&file, &aside).expect("it is ours");
    fs::create_dir(&file).expect("a directory");
    until("the line", || stage.hub.role.log().contains("\"code\":\"MCT-SERVICE-FILE\"").then_some(()));
    stage.shows(&broken(1));
    fs::remove_dir(&file).expect("it is ours");
    fs::rename(&aside, &file).expect("it is ours");
    stage.shows(&broken(0));
}

#[test]
fn t18_an_agents_list_that_does_not_count_is_a_metric_and_a_line() {
    const LIST: &str = "services: [\"default/web:80\"]\n";
    let (hub, files) = (Hub::start(&[]), tempfile::tempdir().expect("a directory"));
    edit(&files, "list.yaml", LIST);
    let (bundle, list) = (hub.add("c1"), files.path().join("list.yaml"));
    let list = list.to_str().expect("UTF-8");
    let flags = ["agent", "--join", &bundle, "--admin-listen", "127.0.0.1:0", "--allow-service-file", list];
    let mut agent = Role::start(hub.dir.path(), "agent", &flags, &[]);
    let admin = agent.ready()["admin"].as_str().expect("an address").to_owned();
    let file = File {
        name: "list.yaml",
        label: "allow_service",
        good: LIST,
        bad: LIST.replace("services", "service"),
        said: [
            "the service rules are broken: the last good ones stay",
            "the file of service rules is not there: every service is denied",
        ],
    };
    breaks_and_goes(&files, &file, &|| get(&admin, "/metrics").1, &|| agent.log());
}

#[test]
fn the_next_policy_and_the_record_are_counted_and_every_metric_is_documented() {
    let stage = Stage::new();
    let made = run(&["api-key", "create", "alice", "--user", "alice", "--data-dir", &stage.hub.path("data")]);
    let head = format!("GET /nowhere/version HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {}\r\n", made.out.trim());
    assert_eq!(request(stage.hub.address("gateway"), &format!("{head}Connection: close\r\n\r\n")).0, 404);
    stage.shows("mctunnel_shadow_decisions_total{outcome=\"would_refuse\"} 1");
    stage.shows("mctunnel_shadow_decisions_total{outcome=\"would_allow\"} 0");
    // The log has lines of its own, and a request that takes long has one when it begins, too: all of them are counted.
    until("a record", || {
        let log = fs::read_to_string(stage.hub.path("data/audit/audit.log")).unwrap_or_default();
        let line = format!("mctunnel_audit_records_total{{outcome=\"written\"}} {}", log.lines().count());
        (log.contains("\"stage\":\"request\"") && stage.page().lines().any(|one| one == line)).then_some(())
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
