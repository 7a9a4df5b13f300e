//! What stands in a record, and what never does.

use crate::rig::{Place, outcome, request, subject};
use mctunnel_core::{
    Action, Audit as _, AuditOutcome, AuditSubject, Decision, Destination, Endpoint, Identity, KubeRequest,
    ServiceTarget, Target, User, kube_request::Verb,
};
use serde_json::{Value, json};
use std::time::Duration;

/// The record of one request.
fn recorded(subject: &AuditSubject, outcome: &AuditOutcome) -> (String, Value) {
    let place = Place::new();
    let log = place.open();
    log.begin().expect("a slot").finish(subject, outcome);
    log.close().expect("it closes");
    let lines = place.lines();
    assert_eq!(lines.len(), 3, "start, the request, stop: {lines:#?}");
    (lines[1].clone(), serde_json::from_str(&lines[1]).expect("JSON"))
}

#[test]
fn a_request_is_one_line_with_who_where_what_and_how_it_went() {
    let (_, mut record) = recorded(&subject("4f1c"), &outcome());
    let fields = record.as_object_mut().expect("an object");
    for varying in ["time", "prev", "hash"] {
        assert!(fields.remove(varying).is_some_and(|value| value.is_string()), "{varying}");
    }
    let expected = json!({
        "seq": 2, "stage": "request", "id": "4f1c", "gateway": "http",
        "identity": "user", "user": "alice", "groups": ["devs", "ops"], "provider": "keys", "credential": "k-17",
        "source": "10.0.0.1", "cluster": "cluster-a", "target": "kube-apiserver",
        "action": "kube", "verb": "get", "api_group": "", "api_version": "v1", "resource": "pods", "subresource": "log",
        "namespace": "kube-system", "name": "dns-1",
        "decision": "allowed", "rule": "devs may look",
        "status": 200, "bytes_up": 3, "bytes_down": 4096, "duration_ms": 12, "end": "clean",
    });
    assert_eq!(record, expected);
}

#[test]
fn times_are_rfc_3339_in_utc() {
    let (_, record) = recorded(&subject("1"), &outcome());
    let time = record["time"].as_str().expect("a time");
    assert!(time.len() == "2026-11-16T04:40:00.123456Z".len() && time.ends_with('Z') && &time[10..11] == "T", "{time}");
}

#[test]
fn a_stream_has_a_line_when_it_begins_and_one_when_it_ends() {
    let place = Place::new();
    let log = place.open();
    let mut slot = log.begin().expect("a slot");
    slot.started(&subject("s"));
    slot.started(&subject("s"));
    log.flush();
    assert_eq!(place.lines().len(), 2, "it is there while the stream lives, and once");
    slot.finish(&subject("s"), &outcome());
    log.close().expect("it closes");
    let records = place.records();
    let stages: Vec<_> = records.iter().map(|record| record["stage"].as_str().expect("a stage")).collect();
    assert_eq!(stages, ["log", "started", "ended", "log"]);
    assert_eq!((&records[1]["id"], &records[1]["user"]), (&json!("s"), &json!("alice")));
    assert!(records[1].get("status").is_none());
    assert_eq!(records[2]["status"], 200);
}

#[test]
fn a_slot_that_is_dropped_is_recorded_as_cut() {
    let place = Place::new();
    let log = place.open();
    drop(log.begin().expect("a slot"));
    let mut slot = log.begin().expect("a slot");
    slot.started(&subject("s"));
    drop(slot);
    log.close().expect("it closes");
    let records = place.records();
    let short = |record: &Value| (record["stage"].clone(), record["end"].clone(), record["user"].clone());
    assert_eq!(short(&records[1]), (json!("request"), json!("cut"), Value::Null));
    assert_eq!(short(&records[2]), (json!("started"), Value::Null, json!("alice")));
    assert_eq!(short(&records[3]), (json!("ended"), json!("cut"), json!("alice")));
}

#[test]
fn who_is_not_known_and_who_is_nobody_are_two_things() {
    let mut unknown = subject("1");
    (unknown.identity, unknown.destination, unknown.action, unknown.decision, unknown.source) =
        (None, None, None, None, None);
    let refused =
        AuditOutcome { status: 401, error: Some("MCT-AUTHN-REJECTED: no credential".to_owned()), ..outcome() };
    let (_, record) = recorded(&unknown, &refused);
    assert_eq!((&record["identity"], &record["end"]), (&json!("unknown"), &json!("error")));
    assert_eq!(record["error"], "MCT-AUTHN-REJECTED: no credential");
    for absent in ["user", "cluster", "action", "decision", "source"] {
        assert!(record.get(absent).is_none(), "{absent}");
    }
    let (_, record) = recorded(&AuditSubject { identity: Some(Identity::Anonymous), ..subject("1") }, &outcome());
    assert_eq!((&record["identity"], record.get("user")), (&json!("anonymous"), None));
}

#[test]
fn every_kind_of_target_action_and_decision_has_its_form() {
    let destination = |target: Target| subject("1").destination.map(|known| Destination { target, ..known });
    let service = Target::Service(ServiceTarget::parse("default", "https:web:443").expect("a service"));
    let endpoint = Target::Endpoint(Endpoint::parse("db.internal:5432").expect("an endpoint"));
    let case = AuditSubject {
        action: Some(Action::of_http(&service, "POST", "/buy?card=canary").expect("a path")),
        destination: destination(service),
        decision: Some(Decision::denied("no rule allows it")),
        ..subject("1")
    };
    let (_, record) = recorded(&case, &outcome());
    assert_eq!(
        (&record["action"], &record["method"], &record["path"], &record["target"], &record["decision"]),
        (&json!("http"), &json!("POST"), &json!("/buy"), &json!("https://default/web:443"), &json!("denied")),
    );
    let limited = Decision::Limited { rule: "10/s".into(), retry_after: Duration::from_secs(1) };
    let case = AuditSubject {
        action: Some(Action::Bytes),
        destination: destination(endpoint),
        decision: Some(limited),
        ..subject("1")
    };
    let (_, record) = recorded(&case, &outcome());
    assert_eq!(
        (&record["action"], &record["target"], &record["decision"], &record["rule"]),
        (&json!("bytes"), &json!("db.internal:5432"), &json!("limited"), &json!("10/s")),
    );
    let version = KubeRequest::NonResource { path: "/version".to_owned(), verb: Verb::Get };
    let (_, record) = recorded(&AuditSubject { action: Some(Action::Kube(version)), ..subject("1") }, &outcome());
    assert_eq!((&record["verb"], &record["path"]), (&json!("get"), &json!("/version")));
}

#[test]
fn t36_no_secret_reaches_the_record() {
    const CANARY: &str = "c4n4ry";
    let mut user = User::new("alice", "oidc");
    user.extra.insert("token".to_owned(), vec![CANARY.to_owned()]);
    user.extra.insert(CANARY.to_owned(), vec!["x".to_owned()]);
    let kube = |path: &str| Action::of_http(&Target::KubeApi, "GET", path).expect("a path");
    let actions = [
        kube(&format!("/api/v1/pods?token={CANARY}&watch=true")),
        kube(&format!("/api/v1/namespaces/x/pods?fieldSelector=spec.nodeName%3D{CANARY}")),
        kube(&format!("/healthz?key={CANARY}")),
        kube(&format!("/healthz%3Fkey={CANARY}")),
        Action::Http { method: "GET".to_owned(), path: format!("/in?sig={CANARY}") },
        Action::Http { method: "GET".to_owned(), path: format!("/login/eyJhbGciOiJIUzI1NiJ9.{CANARY}.sig/x") },
    ];
    let errors = [
        format!("MCT-OPEN-TARGET-UNREACHABLE: GET https://host/p?token={CANARY}: refused"),
        format!("https://user:{CANARY}@proxy:3128/ refused"),
        format!("bad header Authorization: Bearer {CANARY}"),
        format!("bad header authorization: basic {CANARY}"),
        format!("token eyJhbGciOiJIUzI1NiJ9.{CANARY}.sig is expired"),
        format!("password={CANARY} was wrong"),
    ];
    for (action, error) in actions.into_iter().zip(errors) {
        let case = AuditSubject { identity: Some(user.clone().into()), action: Some(action), ..subject("1") };
        let (line, record) = recorded(&case, &AuditOutcome { error: Some(error), ..outcome() });
        assert!(!line.contains(CANARY), "{line}");
        assert!(record["error"].as_str().is_some_and(|error| error.len() > 10), "it still says something: {line}");
    }
}

#[test]
fn t37_every_record_is_one_line_of_printable_ascii() {
    let evil =
        "a\r\nb\u{1b}[2J\u{9b}31m\u{2028}c\u{2029}\u{85}\u{202e}\"\\\t\0{\"seq\":1}\n{\"seq\":2,\"user\":\"mallory\"}";
    let mut user = User::new(evil, evil);
    (user.groups, user.credential, user.uid) = (vec![evil.into(), evil.into()], evil.into(), Some(evil.into()));
    let name = || evil.to_owned();
    let action = Action::of_http(&Target::KubeApi, "GET", "/api/v1/namespaces/a/pods/b/log").expect("a path");
    let Action::Kube(KubeRequest::Resource(mut request)) = action else { panic!("{action:?}") };
    (request.api_group, request.api_version, request.resource) = (name(), name(), name());
    (request.subresource, request.namespace, request.name) = (Some(name()), Some(name()), Some(name()));
    for action in [
        Action::Kube(KubeRequest::Resource(request)),
        Action::Kube(KubeRequest::NonResource { path: name(), verb: Verb::Get }),
        Action::Http { method: name(), path: name() },
    ] {
        let case = AuditSubject {
            request_id: evil.into(),
            identity: Some(user.clone().into()),
            action: Some(action),
            decision: Some(Decision::denied(evil)),
            ..subject("1")
        };
        let (line, record) = recorded(&case, &AuditOutcome { error: Some(name()), ..outcome() });
        assert!(line.bytes().all(|byte| (b' '..=b'~').contains(&byte)), "{line}");
        assert_eq!(record["user"], evil, "and it reads back");
        assert_eq!(record["seq"], 2);
    }
}

#[test]
fn fields_have_bounds_and_say_when_they_were_cut() {
    let mut user = User::new("é".repeat(10_000), "keys");
    user.groups = (0..10_000).map(|number| format!("group-{number}").into()).collect();
    let case = AuditSubject {
        identity: Some(user.into()),
        action: Some(Action::Http { method: "GET".to_owned(), path: format!("/{}", "x".repeat(100_000)) }),
        ..subject("1")
    };
    let (line, record) = recorded(&case, &outcome());
    assert!(line.len() < 16_384, "{}", line.len());
    assert_eq!(record["cut"], true);
    assert_eq!(record["groups"].as_array().map(Vec::len), Some(64));
    let (_, record) = recorded(&subject("1"), &outcome());
    assert!(record.get("cut").is_none());
}

#[test]
fn numbers_are_in_the_order_of_the_file_whoever_records() {
    let place = Place::new();
    let log = place.open();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let log = &log;
            scope.spawn(move || (0..500).for_each(|number| request(log, &format!("{thread}-{number}"))));
        }
    });
    log.close().expect("it closes");
    let records = place.records();
    let numbers: Vec<_> = records.iter().map(|record| record["seq"].as_u64().expect("a number")).collect();
    assert_eq!(numbers, (1..=2_002).collect::<Vec<_>>());
    for thread in 0..4 {
        let own: Vec<_> =
            records.iter().filter_map(|record| record["id"].as_str()?.strip_prefix(&format!("{thread}-"))).collect();
        assert!(own.iter().enumerate().all(|(index, number)| *number == index.to_string()) && own.len() == 500);
    }
}
