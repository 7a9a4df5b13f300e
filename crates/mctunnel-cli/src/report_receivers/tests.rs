//! What collectors are sent.

use super::*;
use mctunnel::report::Record;
use std::time::Duration;

fn found(cluster: &str, position: u64, source: &str, body: &str) -> StoredRecord {
    let record = Record::new(1_000_001, source, body.to_owned()).unwrap();
    StoredRecord { cluster: ClusterName::parse(cluster).unwrap(), number: position + 1, position, received: 0, record }
}

#[test]
fn records_are_log_records_of_their_clusters() {
    let now = UNIX_EPOCH + Duration::from_secs(5);
    let kind = Kind::parse("events").unwrap();
    let records = [
        found("c2", 7, "team-a/Pod/web", r#"{"type":"Warning"}"#),
        found("c1", 8, "s", "plain"),
        found("c2", 9, "s", r#"{"type":"Normal"}"#),
    ];
    let request = exported(&kind, &records, now);
    let resources = request["resourceLogs"].as_array().unwrap();
    let names: Vec<_> = resources.iter().map(|one| &one["resource"]["attributes"][0]).collect();
    assert_eq!(names, [&attribute("k8s.cluster.name", "c1"), &attribute("k8s.cluster.name", "c2")]);
    let of_c2 = &resources[1]["scopeLogs"][0]["logRecords"];
    assert_eq!(of_c2.as_array().unwrap().len(), 2);
    let expected = json!({
        "timeUnixNano": "1000001000", "observedTimeUnixNano": "5000000000", "severityNumber": 13, "severityText": "WARN",
        "body": {"stringValue": r#"{"type":"Warning"}"#},
        "attributes": [
            attribute("mctunnel.kind", "events"), attribute("mctunnel.source", "team-a/Pod/web"),
            {"key": "mctunnel.position", "value": {"intValue": "7"}},
        ],
    });
    assert_eq!(of_c2[0], expected);
    assert_eq!(of_c2[1]["severityText"], "INFO");
}

#[test]
fn a_line_of_a_log_is_the_body_and_its_place_the_attributes() {
    let kind = Kind::parse("logs").unwrap();
    let line = found("c1", 0, "team-a/web/nginx", r#"{"uid":"u1","restart":0,"line":"hello"}"#);
    let record = log_record(&kind, &line, UNIX_EPOCH);
    assert_eq!(record["body"]["stringValue"], "hello");
    let attributes = record["attributes"].as_array().unwrap();
    for (key, value) in [
        ("k8s.namespace.name", "team-a"),
        ("k8s.pod.name", "web"),
        ("k8s.container.name", "nginx"),
        ("k8s.pod.uid", "u1"),
    ] {
        assert!(attributes.contains(&attribute(key, value)), "{key}: {record}");
    }
}
