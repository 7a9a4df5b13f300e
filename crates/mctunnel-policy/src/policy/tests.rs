//! When time alone may have changed a decision.

use super::*;

fn at(text: &str) -> SystemTime {
    humantime::parse_rfc3339(text).unwrap()
}

fn policy(circumstances: &str) -> Policy {
    let binding = format!("{{name: b, role: r, users: [a], providers: ['*']{circumstances}}}");
    let rule = "{clusters: ['*'], nonResourcePaths: ['*'], verbs: ['*']}";
    Policy::parse(&format!("{{version: 1, roles: {{r: {{rules: [{rule}]}}}}, bindings: [{binding}], deny: []}}"))
        .unwrap()
}

#[test]
fn the_age_changes_when_a_window_or_a_date_may_have_changed_a_decision() {
    let times = ["2026-11-16T08:00:00Z", "2026-11-16T08:00:59Z", "2026-11-16T08:01:00Z", "2026-11-17T08:00:00Z"];
    for (circumstances, changes) in [
        ("", [false, false, false]),
        (", when: \"user.name == 'a'\"", [false, false, false]),
        (", when: \"time.hour == 8\"", [false, true, true]),
        (", window: {days: ['*'], from: '08:00', to: '09:00'}", [false, true, true]),
        (", notAfter: '2026-11-16T08:00:30Z'", [true, false, false]),
        (", notBefore: '2026-11-16T08:00:59Z', notAfter: '2026-11-17T00:00:00Z'", [true, false, true]),
    ] {
        let policy = policy(circumstances);
        let ages = times.map(|time| policy.age(at(time)));
        let changed: Vec<bool> = ages.windows(2).map(|pair| pair[0] != pair[1]).collect();
        assert_eq!(changed, changes, "{circumstances}");
        assert!(ages.iter().all(|age| *age < 1 << 40));
    }
}
