//! What the file of services may say, and that nothing else counts.

use super::*;

const GOOD: &str = "services:
  hub-apiserver:
    address: https://10.0.0.1:6443
    clusters: [cluster-a, cluster-b]
  otlp:
    address: http://collector.example.com
    labels: {env: prod}
  everybody:
    address: tcp://[fd00::1]:5432
    clusters: ['*']
  nobody:
    address: https://x
";

#[test]
fn a_service_is_for_whom_the_file_says() {
    let table = parse(GOOD).unwrap();
    let shown: Vec<_> = table
        .iter()
        .map(|(name, s)| format!("{name} {} {:?} {:?} {}", s.endpoint, s.clusters, s.labels, s.every_cluster))
        .collect();
    assert_eq!(
        shown,
        [
            "everybody [fd00::1]:5432 [] {} true",
            "hub-apiserver 10.0.0.1:6443 [\"cluster-a\", \"cluster-b\"] {} false",
            "nobody x:443 [] {} false",
            "otlp collector.example.com:80 [] {\"env\": \"prod\"} false",
        ]
    );
}

#[test]
fn t18_a_file_with_a_mistake_is_refused_as_a_whole() {
    for (mistake, text) in [
        ("empty", String::new()),
        ("no value", "services:\n".to_owned()),
        ("misspelt key", GOOD.replace("clusters: [cluster-a", "cluster: [cluster-a")),
        ("misspelt section", GOOD.replace("services:", "service:")),
        ("duplicate key", format!("{GOOD}  otlp:\n    address: https://y\n")),
        ("a name that is none", GOOD.replace("otlp:", "OTLP:")),
        ("a cluster that is none", GOOD.replace("cluster-b", "cluster_b")),
        ("a pattern", GOOD.replace("cluster-b", "'cluster-*'")),
        ("no port", GOOD.replace("tcp://[fd00::1]:5432", "tcp://[fd00::1]")),
        ("another scheme", GOOD.replace("http://collector", "ftp://collector")),
        ("a path", GOOD.replace("10.0.0.1:6443", "10.0.0.1:6443/api")),
        ("half written", GOOD[..GOOD.len() - 3].to_owned()),
    ] {
        assert!(parse(&text).is_err(), "{mistake}");
    }
    assert_eq!(parse("services: {}\n").unwrap(), ServiceTable::new());
}
