//! Reports by HTTP: who may not list events of a namespace does not see them here either; lists, lines, and lines that go on.

use crate::{
    report_rig::{OPEN, POLICY, Said, Stage, event, line},
    rig::until,
};
use serde_json::{Value, json};
use std::fs;

fn said(time: i64, source: &str, note: &str) -> Said {
    (time, source.to_owned(), json!({"note": note}))
}

/// Two clusters with events of two namespaces, and what a program reported.
fn staged(users: &[&str]) -> Stage {
    let mut stage = Stage::new(users, &[]);
    let events = [
        event("team-a", "a1"),
        event("kube-system", "k1"),
        event("team-a", "a2"),
        event("kube-system", "k2"),
        event("team-a", "a3"),
    ];
    let deploys = [said(1_000_000, "ci/one", "d1"), said(2_000_000, "ci/two", "d2"), said(3_000_000, "cd", "d3")];
    stage.reported("c1", &[("events", &events), ("deploys", &deploys), ("logs", &[line("web", 0, "x")])]);
    stage.reported("c2", &[("events", &[event("team-a", "other")])]);
    stage
}

#[test]
fn who_may_not_list_events_of_a_namespace_does_not_see_them() {
    let mut stage = staged(&["ops", "dora", "alice", "lily", "carl", "nina", "eve"]);
    assert_eq!(stage.page(None, "/-/v1/events").0, 401);
    let sorted = |user: &str, path: &str| {
        let mut notes = stage.bodies(user, path);
        notes.sort_by_key(ToString::to_string);
        notes
    };
    assert_eq!(sorted("ops", "/-/v1/events"), ["a1", "a2", "a3", "k1", "k2", "other"]);
    assert_eq!(sorted("dora", "/-/v1/events"), ["a1", "a2", "a3", "other"], "a namespace is denied");
    assert_eq!(sorted("alice", "/-/v1/events"), ["a1", "a2", "a3"], "one namespace of one cluster");
    assert_eq!(sorted("alice", "/-/v1/events?namespace=team-a&cluster=c1"), ["a1", "a2", "a3"]);
    assert_eq!(sorted("alice", "/-/v1/reports?kind=events"), ["a1", "a2", "a3"], "the same by another way");
    assert_eq!(sorted("alice", "/-/v1/reports"), ["a1", "a2", "a3"], "nothing of other kinds");
    assert_eq!(sorted("dora", "/-/v1/events?namespace=team-a"), ["a1", "a2", "a3", "other"]);
    for (user, path, takes) in [
        ("eve", "/-/v1/events", "list events.events.k8s.io, in any cluster"),
        ("lily", "/-/v1/events", "list events.events.k8s.io, in any cluster"),
        ("alice", "/-/v1/events?cluster=c2", "list events.events.k8s.io, in c2"),
        ("alice", "/-/v1/events?namespace=kube-system&cluster=c1", "list events.events.k8s.io in kube-system, in c1"),
        ("dora", "/-/v1/events?namespace=kube-system&cluster=c1", "list events.events.k8s.io in kube-system, in c1"),
        ("alice", "/-/v1/reports?kind=deploys&cluster=c1", "list deploys.reports.mctunnel.io, in c1"),
        ("alice", "/-/v1/reports?kind=logs&cluster=c1", "get pods/log, in c1"),
        ("alice", "/-/v1/clusters", "list nodes, in any cluster"),
        ("lily", "/-/v1/logs/c1/team-a/other", "get pods/log other in team-a, in c1"),
        ("lily", "/-/v1/logs/c2/team-a/web", "get pods/log web in team-a, in c2"),
        ("eve", "/-/v1/reports", "list deploys.reports.mctunnel.io, in any cluster"),
    ] {
        let (status, answer) = stage.json(user, path);
        let message = answer["message"].as_str().unwrap_or_default();
        assert!(
            status == 403 && message.contains(&format!("it takes permission to {takes} ")),
            "{user} {path}: {answer}"
        );
        assert_eq!(answer["details"]["causes"][0]["reason"], "MCT-HTTP-DENIED", "{path}");
    }
    assert_eq!(stage.bodies("carl", "/-/v1/reports?kind=deploys"), ["d1", "d2", "d3"]);
    assert_eq!(stage.bodies("carl", "/-/v1/reports"), ["d1", "d2", "d3"]);
    assert_eq!(stage.bodies("dora", "/-/v1/reports?kind=deploys"), ["d1", "d2", "d3"], "reports are in no namespace");
    let clusters = |user: &str| {
        let (status, list) = stage.json(user, "/-/v1/clusters");
        assert_eq!(status, 200, "{list}");
        list["items"].as_array().expect("a list").iter().map(|line| line["cluster"].clone()).collect::<Vec<_>>()
    };
    assert_eq!((clusters("ops"), clusters("nina")), (vec!["c1".into(), "c2".into()], vec![Value::from("c1")]));

    stage.hub.role.signal("TERM");
    assert_eq!(stage.hub.role.wait().code(), Some(0));
    let log = fs::read_to_string(stage.hub.path("data/audit/audit.log")).expect("a log");
    let decided = |user: &str, resource: &str, decision: &str| {
        let records = log.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
        records.filter(|one| one["user"] == user && one["resource"] == resource && one["decision"] == decision).count()
    };
    assert_eq!(decided("eve", "events", "denied"), 1);
    assert_eq!(decided("alice", "events", "allowed"), 4, "{log}");
    assert_eq!(decided("lily", "pods", "denied"), 2);
    assert_eq!(decided("carl", "deploys", "allowed"), 2);
}

#[test]
fn t40_questions_count_for_the_quota_of_the_cluster_that_allows_them() {
    const QUOTAS: &str = "quotas:
  - {name: prod, per: user, users: [alice], clusters: [c2], requestsPerSecond: 1, burst: 1}
  - {name: shared, per: cluster, users: ['*'], clusters: [c1], requestsPerSecond: 1, burst: 1}\n";
    let stage = staged(&["eve", "alice", "ops"]);
    let of_team_a = "clusters: [c1], namespaces: [team-a], apiGroups: [events.k8s.io]";
    assert!(POLICY.contains(of_team_a));
    stage.edit(&format!("{}{QUOTAS}", POLICY.replace(of_team_a, &of_team_a.replace("c1", "c2"))));
    let limited_by = |user: &str, path: &str, quota: &str| {
        until("a quota to be used up", || {
            let (status, answer) = stage.json(user, path);
            assert!([200, 403, 429].contains(&status), "{answer}");
            let message = answer["message"].as_str().unwrap_or_default();
            (status == 429 && message.contains(&format!("quota {quota},"))).then_some(())
        });
    };
    // c1 is the first of those that she asks about, and has no part in it.
    limited_by("alice", "/-/v1/events", "prod");
    for page in ["/-/v1/events", "/-/v1/reports?cluster=c1", "/-/v1/clusters"] {
        for _ in 0..5 {
            let (status, answer) = stage.json("eve", page);
            assert_eq!(status, 403, "who is refused has no part in a quota: {answer}");
        }
    }
    assert_eq!(stage.page(Some("ops"), "/-/v1/events").0, 200, "nobody used it up; one request is one of it");
    limited_by("ops", "/-/v1/events", "shared");
    until("her own quota to have room", || {
        // Uses up what is shared, if there is any again.
        stage.page(Some("ops"), "/-/v1/events?cluster=c1");
        let (status, answer) = stage.json("alice", "/-/v1/events");
        assert!(!answer.to_string().contains("quota shared"), "{answer}");
        (status == 200).then_some(())
    });
}

#[test]
fn a_list_has_pages_and_filters_and_lines_have_no_end_but_that_of_the_store() {
    let stage = staged(&["ops"]);
    let list = |query: &str| stage.bodies("ops", &format!("/-/v1/reports?kind=deploys{query}"));
    assert_eq!(list("&limit=2"), ["d1", "d2"]);
    let (_, first) = stage.json("ops", "/-/v1/reports?kind=deploys&limit=2");
    assert_eq!(list(&format!("&after={}", first["after"])), ["d3"]);
    assert_eq!(list("&source=ci%2F"), ["d1", "d2"]);
    assert_eq!(list("&since=1970-01-01T00:00:02Z"), ["d2", "d3"]);
    assert_eq!(list("&since=1h"), Vec::<Value>::new());
    assert_eq!(list("&cluster=c2"), Vec::<Value>::new());
    let record = &first["items"][1];
    let expected = json!({
        "time": "1970-01-01T00:00:02.000000Z", "cluster": "c1", "kind": "deploys", "source": "ci/two", "number": 2,
        "position": 1, "body": {"note": "d2"},
    });
    assert_eq!(*record, expected);
    let mut lines = stage.follow("ops", "/-/v1/reports?kind=deploys");
    assert_eq!(lines.lines().len(), 3);
    assert_eq!(lines.piece().expect("a clean end"), None);

    let (status, document) = stage.json("ops", "/-/openapi.json");
    assert_eq!((status, &document["openapi"]), (200, &"3.1.0".into()));
    for (path, status) in [
        ("/-/v1/reports?kinds=deploys", 400),
        ("/-/v1/reports?kind=../x", 400),
        ("/-/v1/reports?after=1", 400),
        ("/-/v1/reports?limit=10001", 400),
        ("/-/v1/events?kind=deploys", 400),
        ("/-/v1/events?cluster=C1", 400),
        ("/-/v1/clusters?watch", 400),
        ("/-/v1/logs/c1/team-a/..", 400),
        ("/-/v1/logs/c1/team-a/nobody", 404),
        ("/-/v1/logs/c1/team-a", 404),
        ("/-/v1/nodes", 404),
    ] {
        let (got, answer) = stage.json("ops", path);
        assert_eq!(got, status, "{path}: {answer}");
    }
}

#[test]
fn who_watches_sees_what_comes_until_the_permission_goes() {
    let mut stage = Stage::new(&["alice"], &[]);
    let bundle = stage.hub.add("c1");
    let mut watching = stage.follow("alice", "/-/v1/events?cluster=c1&watch=true");
    assert_eq!(watching.status, 200, "there is nothing yet, and there may be");
    let events = [event("kube-system", "k1"), event("team-a", "a1"), event("team-a", "a2")];
    stage.reported_more("c1", &bundle, "first", &[("events", &events)]);
    let mut notes = Vec::new();
    while notes.len() < 2 {
        notes.extend(watching.lines().iter().map(|record| record["body"]["note"].clone()));
    }
    assert_eq!(notes, ["a1", "a2"]);
    stage.edit(&POLICY.replace("users: [alice]", "users: [nobody]"));
    assert!(watching.piece().is_err(), "a cut is never a clean end");
    assert_eq!(stage.json("alice", "/-/v1/events").0, 403);
}

#[test]
fn a_hub_that_stops_ends_what_goes_on_in_order() {
    let mut stage = staged(&["ops"]);
    let mut watching = stage.follow("ops", "/-/v1/reports?kind=deploys&watch=true");
    assert_eq!(watching.lines().len(), 3);
    let mut log = stage.follow("ops", "/-/v1/logs/c1/team-a/web?follow=true");
    assert_eq!(log.piece().expect("bytes"), Some(b"x\n".to_vec()));
    stage.hub.role.signal("TERM");
    assert_eq!((watching.piece().expect("a clean end"), log.piece().expect("a clean end")), (None, None));
    assert_eq!(stage.hub.role.wait().code(), Some(0));
}

#[test]
fn a_log_that_is_followed_ends_with_its_container() {
    let mut stage = Stage::new(&["lily"], &[]);
    let bundle = stage.hub.add("c1");
    stage.reported_more("c1", &bundle, "first", &[("logs", &[line("web", 0, "a"), line("other", 7, "no")])]);
    let mut log = stage.follow("lily", "/-/v1/logs/c1/team-a/web?follow");
    assert_eq!(log.piece().expect("bytes"), Some(b"a\n".to_vec()));
    let more = [line("web", 0, "b"), line("other", 8, "no"), line("web", 1, "restarted")];
    stage.reported_more("c1", &bundle, "second", &[("logs", &more)]);
    assert_eq!(log.piece().expect("bytes"), Some(b"b\n".to_vec()));
    assert_eq!(log.piece().expect("a clean end"), None);
    let read = |query: &str| stage.page(Some("lily"), &format!("/-/v1/logs/c1/team-a/web{query}"));
    assert_eq!(read(""), (200, b"restarted\n".to_vec()));
    assert_eq!(read("?previous=true"), (200, b"a\nb\n".to_vec()));
    assert_eq!(read("?container=nginx&timestamps").1, b"2023-11-14T22:13:20.000000000Z restarted\n");
}

/// A cluster judges the token that a client carries through the hub; what it reported, it cannot judge any more.
#[test]
fn reports_are_not_for_clients_that_nobody_knows() {
    let stage = Stage::new(&["ops"], &[OPEN]);
    for path in ["/-/v1/events", "/-/v1/reports", "/-/v1/clusters", "/-/v1/logs/c1/team-a/web"] {
        let (status, answer) = stage.page(None, path);
        let answer = String::from_utf8_lossy(&answer);
        assert!(status == 403 && answer.contains("send a credential"), "{path}: {status} {answer}");
        assert_ne!(stage.page(Some("ops"), path).0, 403, "{path}");
    }
}
