//! `mctunnel clusters`, `events`, `reports` and `logs`: the same from a hub that runs, by permission, and from its files.

use crate::{
    report_rig::{Stage, event, line},
    rig::{mctunnel, run, until},
};
use serde_json::{Value, json};
use std::{
    fs::{self, File},
    process::{Child, Stdio},
};

#[test]
fn a_hub_and_its_files_say_the_same_and_the_hub_only_to_who_may_see_it() {
    let mut stage = Stage::new(&["ops", "alice", "lily", "eve"], &[]);
    let deploys = [(1_700_000_000_000_000, "ci".to_owned(), json!({"version": "1.4.2", "text": "a\tb"}))];
    let lines = [
        line("web", 0, "before"),
        line("web", 1, "\u{1b}[31mcolour\u{1b}[0m"),
        (1, "team-a/web/nginx".to_owned(), json!({"uid": "u1", "restart": 1, "bytes": "/wA="})),
        (2, "team-a/web/nginx".to_owned(), json!({"uid": "u1", "restart": 1, "line": "end", "partial": true})),
    ];
    let events = [event("team-a", "seen"), event("kube-system", "hidden")];
    stage.reported("c1", &[("events", &events), ("logs", &lines), ("deploys", &deploys)]);

    for words in ["events", "events -o json", "reports -k deploys", "reports -k deploys -o json --source c"] {
        let (hub, files) = (stage.command("ops", words), stage.on_files(words));
        assert_eq!(hub.status, Some(0), "{words}: {hub:?}");
        assert!(!hub.out.is_empty(), "{words}");
        if words.ends_with("json") || words.starts_with("reports") {
            assert_eq!(hub.out, files.out, "{words}");
        }
        assert_eq!(hub.out.lines().count(), files.out.lines().count(), "{words}");
    }
    let seen = stage.command("alice", "events");
    assert!(seen.out.contains("seen") && !seen.out.contains("hidden"), "{seen:?}");
    let refused = stage.command("eve", "events");
    assert_eq!((refused.status, refused.out.as_str()), (Some(2), ""), "{refused:?}");
    assert!(refused.err.starts_with("error[MCT-ASK-REFUSED]: the hub refused to answer (403): "), "{}", refused.err);
    assert!(refused.err.contains("list events.events.k8s.io"), "{}", refused.err);
    assert_eq!(run(&["events"]).status, Some(2), "one of the two is needed");

    // Bytes that are no text: compared as bytes.
    let bytes = |arguments: &[&str]| mctunnel(arguments).output().expect("it runs");
    let (hub, token, data) =
        (format!("http://{}", stage.hub.address("gateway")), stage.path("lily"), stage.hub.path("data"));
    for (more, expected) in [
        (&[][..], &b"\x1b[31mcolour\x1b[0m\n\xff\x00\nend"[..]),
        (&["--previous"], b"before\n"),
        (&["-c", "nginx"], b"\x1b[31mcolour\x1b[0m\n\xff\x00\nend"),
    ] {
        let logs = [&["logs", "c1", "team-a/web"], more].concat();
        let from_hub = bytes(&[&logs[..], &["--hub", &hub, "--token-file", &token]].concat());
        assert_eq!(from_hub.stdout, expected, "{more:?}: {}", String::from_utf8_lossy(&from_hub.stderr));
        assert_eq!(bytes(&[&logs[..], &["--data-dir", &data]].concat()).stdout, expected, "{more:?}");
    }
    for (words, code) in [
        ("logs c1 team-a/web -c nobody", "MCT-LOGS-NOTHING"),
        ("logs c1 team-a/nobody", "MCT-LOGS-NOTHING"),
        ("logs c1 web", "MCT-LOGS-BAD-POD"),
        ("logs C1 team-a/web", "MCT-CLUSTER-BAD-NAME"),
    ] {
        let none = stage.on_files(words);
        assert!(none.out.is_empty() && none.err.starts_with(&format!("error[{code}]: ")), "{words}: {none:?}");
    }
    assert!(stage.command("lily", "logs c1 team-a/other").err.contains("(403)"));
}

#[test]
fn clusters_are_listed_in_every_form() {
    let mut stage = Stage::new(&["ops", "nina", "eve"], &[]);
    stage.reported("c1", &[]);
    stage.hub.add("c2");
    until("the first status", || (stage.stored("c1", "status") > 0).then_some(()));
    let json = stage.command("ops", "clusters -o json");
    let lines: Vec<Value> = serde_json::from_str(&json.out).unwrap_or_else(|_| panic!("{json:?}"));
    assert_eq!((&lines[0]["cluster"], &lines[0]["state"]), (&"c1".into(), &"live".into()));
    assert_eq!((&lines[1]["cluster"], &lines[1]["state"]), (&"c2".into(), &"silent".into()));
    assert_eq!(lines[0]["agent_version"], env!("CARGO_PKG_VERSION"));
    let table = stage.command("ops", "clusters");
    let wide = stage.command("ops", "clusters -o wide");
    assert!(table.out.starts_with("CLUSTER") && table.out.contains("LAST ERROR") && !table.out.contains("UPTIME"));
    assert!(wide.out.contains("UPTIME") && wide.out.lines().count() == 3, "{wide:?}");
    let yaml = stage.command("ops", "clusters -o yaml");
    assert!(yaml.out.starts_with("- cluster: c1\n") && yaml.out.contains("\n  state: live\n"), "{yaml:?}");
    let files = stage.on_files("clusters -o json");
    let of_files: Vec<Value> = serde_json::from_str(&files.out).expect("JSON");
    assert_eq!((&of_files[0]["cluster"], &of_files[1]["state"]), (&"c1".into(), &"silent".into()));
    let one = stage.command("nina", "clusters");
    assert!(one.out.contains("c1") && !one.out.contains("c2"), "{one:?}");
    assert_eq!(stage.command("eve", "clusters").status, Some(2));
}

#[test]
fn a_cluster_whose_agent_does_not_report_is_connected_with_its_round_trip_time() {
    let stage = Stage::new(&["ops"], &[]);
    let bundle = stage.hub.add("c1");
    let quiet = ["agent", "--join", &bundle, "--admin-listen", "off", "--allow", "tcp://10.0.0.1:1"];
    let mut agent = crate::rig::Role::start(stage.hub.dir.path(), "quiet", &quiet, &[]);
    agent.ready();
    let line = until("its round-trip time", || {
        let lines = stage.json("ops", "/-/v1/clusters").1;
        lines["items"][0]["rtt_seconds"].is_number().then(|| lines["items"][0].clone())
    });
    assert_eq!(line["state"], "connected", "{line}");
    assert!(line["connected_seconds"].is_u64() && line["streams"] == 0, "{line}");
    let table = stage.command("ops", "clusters");
    assert!(table.out.lines().nth(1).is_some_and(|row| row.starts_with("c1") && row.contains("ms")), "{table:?}");
}

/// A command that goes on, with what it has said so far; killed when dropped.
struct Watching {
    child: Child,
    out: String,
}

impl Watching {
    fn start(out: String, arguments: &[&str]) -> Self {
        let mut command = mctunnel(arguments);
        command.stdout(File::create(&out).expect("a file")).stderr(Stdio::null());
        Self { child: command.spawn().expect("the binary starts"), out }
    }

    /// Waits for a line with all of these in it.
    fn shows(&self, words: &[&str]) {
        until(&format!("{words:?} in {}", self.out), || {
            let said = fs::read_to_string(&self.out).expect("text");
            said.lines().any(|line| words.iter().all(|word| line.contains(word))).then_some(())
        });
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        // Both fail only when it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn what_is_watched_goes_on_with_clusters_and_kinds_that_come_later() {
    let mut stage = Stage::new(&["ops"], &[]);
    let (hub, token, data) =
        (format!("http://{}", stage.hub.address("gateway")), stage.path("ops"), stage.hub.path("data"));
    stage.reported("c1", &[("events", &[event("team-a", "first")])]);
    let (files, asked) = (["-w", "--data-dir", &data], ["-w", "--hub", &hub, "--token-file", &token]);
    let start = |command: &str| {
        let watch = |name: &str, place: &[&str]| {
            Watching::start(stage.path(&format!("{command}-{name}.out")), &[&[command][..], place].concat())
        };
        [watch("files", &files), watch("hub", &asked)]
    };
    let [clusters, events, reports] = ["clusters", "events", "reports"].map(start);
    for watching in &clusters {
        watching.shows(&["c1", "live"]);
    }
    for watching in events.iter().chain(&reports) {
        watching.shows(&["c1", "first"]);
    }
    let deploys = [(1_700_000_000_000_000, "ci".to_owned(), json!({"note": "third"}))];
    stage.reported("c2", &[("events", &[event("team-a", "second")]), ("deploys", &deploys)]);
    for watching in &clusters {
        watching.shows(&["c2", "live"]);
    }
    for watching in events.iter().chain(&reports) {
        watching.shows(&["c2", "second"]);
    }
    for watching in &reports {
        watching.shows(&["c2", "third"]);
    }
}
