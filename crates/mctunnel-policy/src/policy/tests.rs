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

/// Bindings of user `a`, with further keys.
fn bindings(keys: &[&str]) -> Policy {
    let list: Vec<String> = keys
        .iter()
        .enumerate()
        .map(|(number, keys)| format!("{{name: b{number}, role: r, users: [a], {keys}}}"))
        .collect();
    let rule = "{clusters: ['*'], nonResourcePaths: ['*'], verbs: ['*']}";
    let list = list.join(", ");
    Policy::parse(&format!("{{version: 1, roles: {{r: {{rules: [{rule}]}}}}, bindings: [{list}], deny: []}}")).unwrap()
}

#[test]
fn every_minute_and_every_date_is_another_age() {
    // One of them depends on the hour, the other does not.
    let window = "providers: ['*'], window: {days: ['*'], from: '08:00', to: '09:00'}";
    let policy = bindings(&["providers: ['*']", window]);
    let minutes = ["08:00", "08:01", "08:02", "08:03", "08:04"].map(|time| at(&format!("2026-11-16T{time}:00Z")));
    let mut ages: Vec<u64> = minutes.iter().map(|time| policy.age(*time)).collect();
    ages.dedup();
    assert_eq!(ages.len(), 5);
    assert!(ages.iter().enumerate().all(|(n, age)| !ages[..n].contains(age)), "{ages:?}");
    assert!(policy.generation() > 1, "it is the age of now");
    // Dates that are not in order.
    let policy = bindings(&[
        "providers: ['*'], notBefore: '2026-11-20T00:00:00Z'",
        "providers: ['*'], notBefore: '2026-11-18T00:00:00Z'",
        "providers: ['*'], notBefore: '2026-11-19T00:00:00Z'",
    ]);
    let days = [17, 18, 19, 20].map(|day| policy.age(at(&format!("2026-11-{day}T12:00:00Z"))));
    assert_eq!(days, [0, 1, 2, 3]);
}

#[test]
fn the_age_stays_below_2_to_the_40_whatever_the_clock_says() {
    let policy = policy(", when: \"time.hour == 8\"");
    for minutes in [1_u64 << 40, (1 << 41) - 1] {
        let now = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(minutes * 60);
        assert!(policy.age(now) < 1 << 40, "{minutes}");
    }
}

#[test]
fn providers_are_named_once_and_in_order() {
    let policy = bindings(&["providers: [ci]", "providers: [corp, ci]", "providers: ['*']", "providers: [acme]"]);
    assert_eq!(policy.providers(), ["acme", "ci", "corp"]);
}

/// What alice may do with events and logs, as a whole and in part.
fn decided(policy: &str, verb: &str, resource: &str, namespace: Option<&str>) -> (bool, bool) {
    let policy = Policy::parse(policy).unwrap();
    let mut question = crate::Question::resource("alice", "c1", verb, resource);
    question.place.namespace = namespace.map(str::to_owned);
    let decide = |some| {
        question.with_access(|access| if some { policy.authorize_some(access) } else { policy.authorize(access) })
    };
    (decide(false).unwrap().is_allowed(), decide(true).unwrap().is_allowed())
}

#[test]
fn some_may_be_allowed_where_the_whole_is_not() {
    let policy = |rules: &str, deny: &str| {
        format!(
            "{{version: 1, roles: {{r: {{rules: [{rules}]}}}}, bindings: [{{name: b, role: r, users: [alice], providers: ['*']}}], \
             deny: [{deny}]}}"
        )
    };
    let rule = |namespaces: &str| {
        format!(
            "{{clusters: ['*'], namespaces: [{namespaces}], apiGroups: ['*'], resources: ['*/*'], names: ['*'], verbs: ['*']}}"
        )
    };
    let deny = |namespaces: &str| format!("{{name: d, users: ['*'], providers: ['*'], rules: [{}]}}", rule(namespaces));
    for (verb, resource) in [("list", "events.events.k8s.io"), ("get", "pods/log")] {
        let decided = |policy: &str, namespace| decided(policy, verb, resource, namespace);
        assert_eq!(decided(&policy(&rule("'*'"), ""), None), (true, true));
        assert_eq!(decided(&policy(&rule("a"), ""), None), (false, true), "one namespace is some: {verb} {resource}");
        assert_eq!(decided(&policy(&rule("a"), ""), Some("b")), (false, false), "but not of another");
        assert_eq!(decided(&policy(&rule("'*'"), &deny("a")), None), (false, true), "all but one");
        assert_eq!(decided(&policy(&rule("'*'"), &deny("a")), Some("a")), (false, false));
        assert_eq!(decided(&policy(&rule("'*'"), &deny("'*'")), None), (false, false), "all is denied");
        let paths = "{clusters: ['*'], nonResourcePaths: ['*'], verbs: ['*']}";
        assert_eq!(decided(&policy(paths, ""), None), (false, false));
    }
    let custom = |policy: &str| decided(policy, "list", "deploys.reports.mctunnel.io", None);
    assert_eq!(custom(&policy(&rule("'*'"), &deny("a"))), (true, true), "reports are in no namespace");
}
