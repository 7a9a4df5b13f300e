//! Sinks for reports: each gets everything; one that does not answer holds up neither another nor what clusters are told.

use crate::{
    audit_webhook::Receiver,
    report_rig::{Said, Stage},
    rig::{run, until},
};
use serde_json::{Value, json};
use std::fs;

fn said(count: i64) -> Vec<Said> {
    (0..count).map(|number| (number, "ci".to_owned(), json!({"note": number}))).collect()
}

fn notes(records: &[Value]) -> Vec<i64> {
    records.iter().map(|record| record["body"]["note"].as_i64().expect("a number")).collect()
}

#[test]
fn a_dead_sink_holds_up_neither_the_others_nor_the_clusters() {
    let (webhook, collector, dir) = (Receiver::start(), Receiver::start(), tempfile::tempdir().expect("a directory"));
    let file = dir.path().join("reports.ndjson");
    let path = file.to_str().expect("UTF-8");
    webhook.hold(true);
    let otlp = collector.url.strip_suffix("/in").expect("a path");
    let sinks = [
        "--report-webhook",
        &webhook.url,
        "--report-webhook-kind",
        "deploys",
        "--report-otlp",
        otlp,
        "--report-file",
        path,
    ];
    let mut stage = Stage::new(&["ops"], &sinks);
    // Returns when the hub has acknowledged all of them.
    stage.reported("c1", &[("deploys", &said(600)), ("builds", &said(2))]);
    assert_eq!(webhook.records().len(), 0, "it is held up");
    until("the file", || {
        let lines = fs::read_to_string(&file).unwrap_or_default();
        (lines.lines().filter(|line| line.contains("\"kind\":\"deploys\"")).count() == 600).then_some(())
    });
    let exported = || -> Vec<Value> {
        let requests = collector.records();
        let records = requests.iter().flat_map(|request| request["resourceLogs"].as_array().expect("resources"));
        let scopes = records.flat_map(|resource| resource["scopeLogs"].as_array().expect("scopes"));
        scopes.flat_map(|scope| scope["logRecords"].as_array().expect("records").clone()).collect()
    };
    let of_kind = |records: &[Value], kind: &str| {
        records.iter().filter(|record| record["attributes"][0]["value"]["stringValue"] == kind).count()
    };
    until("the collector", || {
        (of_kind(&exported(), "deploys") == 600 && of_kind(&exported(), "builds") == 2).then_some(())
    });
    let head = collector.heads().remove(0);
    assert!(
        head.starts_with("POST /v1/logs HTTP/1.1\r\n") && head.contains("content-type: application/json"),
        "{head}"
    );
    assert_eq!(webhook.records().len(), 0, "and it still is");

    webhook.hold(false);
    until("the webhook", || (webhook.records().len() >= 600).then_some(()));
    let got = webhook.records();
    assert!(got.iter().all(|record| record["kind"] == "deploys"), "only what was asked for");
    let mut distinct = notes(&got);
    distinct.dedup();
    distinct.sort_unstable();
    distinct.dedup();
    assert!(distinct.into_iter().eq(0..600), "at least once, and nothing is missing");
}

#[test]
fn a_webhook_that_was_away_goes_on_where_it_was_after_kill_9_of_the_hub() {
    let webhook = Receiver::start();
    let mut stage = Stage::new(&["ops"], &["--report-webhook", &webhook.url, "--report-webhook-kind", "deploys"]);
    stage.reported("c1", &[("deploys", &said(10))]);
    until("the first ones", || (webhook.records().len() == 10).then_some(()));
    until("its place", || {
        let places = fs::read_to_string(stage.hub.path("data/report-sinks/webhook.places")).unwrap_or_default();
        places.lines().any(|line| line == "deploys 10").then_some(())
    });
    stage.hub.role.signal("KILL");
    stage.hub.role.wait();
    let again = Receiver::start();
    let (data, tunnel) = (stage.hub.path("data"), stage.hub.address("tunnel"));
    let mut arguments = vec!["hub", "--insecure-no-auth", "--data-dir", &data, "--report-webhook", &again.url];
    arguments.extend(["--tunnel-listen", tunnel]);
    for listener in ["--gateway-listen", "--connect-listen", "--admin-listen"] {
        arguments.extend([listener, "127.0.0.1:0"]);
    }
    let mut hub = crate::rig::Role::start(stage.hub.dir.path(), "hub-2", &arguments, &[]);
    hub.ready();
    // The agent comes back and says so; what was sent before does not come again.
    until("a new status", || again.records().iter().any(|record| record["kind"] == "status").then_some(()));
    assert!(again.records().iter().all(|record| record["kind"] != "deploys"), "{:?}", again.records());
}

#[test]
fn what_would_not_be_done_is_an_error() {
    for (flags, problem) in [
        (&["--report-webhook-kind", "deploys"][..], "it needs --report-webhook"),
        (&["--report-webhook-ca", "ca.pem"], "it needs --report-webhook"),
        (&["--report-otlp-authorization-file", "token"], "it needs --report-otlp"),
        (&["--report-webhook", "siem.example.com"], "is not an address"),
        (&["--report-otlp", "ftp://x/"], "is not an address"),
        (
            &["--report-webhook", "http://siem.example.com/in", "--report-webhook-authorization-file", "t"],
            "write https://",
        ),
        (&["--report-webhook", "http://127.0.0.1/in", "--report-webhook-kind", "A b"], "a kind is"),
    ] {
        let refused = run(&[&["hub", "--data-dir", "d", "--insecure-no-auth", "--print-config"], flags].concat());
        assert_eq!(refused.status, Some(2), "{flags:?}: {refused:?}");
        assert!(
            refused.err.starts_with("error[MCT-CONFIG-BAD-VALUE]: ") && refused.err.contains(problem),
            "{}",
            refused.err
        );
    }
}
