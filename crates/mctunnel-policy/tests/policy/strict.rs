//! T18: what is misspelt, left out, given twice or empty is an error, never a wildcard.

use mctunnel_policy::Policy;

const GOOD: &str = r#"version: 1
clusters:
  c1: {env: dev}
roles:
  reader:
    rules:
      - clusters: [c1]
        namespaces: [team-a]
        apiGroups: [""]
        resources: [pods]
        names: ["*"]
        verbs: [get]
  visitor:
    rules:
      - clusterLabels: {env: dev}
        services: ["a/b:80"]
        methods: [GET]
        paths: ["/x/*"]
        protocols: [http]
      - clusters: ["*"]
        bytes: [kube-apiserver]
        protocols: [tcp]
      - clusters: ["*"]
        nonResourcePaths: [/version]
        verbs: [get]
bindings:
  - name: b
    role: reader
    users: [alice]
    groups: [devs]
    providers: [corp]
    when: "user.name == 'alice'"
    sources: [10.0.0.0/8]
    window: {days: [mon], from: "08:00", to: "18:00"}
    notBefore: "2026-01-01T00:00:00Z"
    notAfter: "2027-01-01T00:00:00Z"
  - name: c
    role: visitor
    users: ["*"]
    providers: ["*"]
deny:
  - name: d
    users: [bob]
    providers: ["*"]
    rules:
      - clusters: ["*"]
        nonResourcePaths: ["*"]
        verbs: ["*"]
quotas:
  - name: q
    per: user
    users: ["*"]
    clusters: ["*"]
    requestsPerSecond: 5
"#;

/// The mistakes of the good policy with one text in place of another; each must be there.
fn mistakes(from: &str, to: &str) -> String {
    assert!(GOOD.contains(from), "{from:?}");
    let changed = GOOD.replacen(from, to, 1);
    match Policy::parse(&changed) {
        Ok(_) => panic!("{from:?} -> {to:?} was taken"),
        Err(error) => error.problems().iter().map(|problem| format!("{problem}\n")).collect(),
    }
}

#[test]
fn the_good_policy_is_good() {
    Policy::parse(GOOD).unwrap();
}

#[test]
fn t18_misspelt_fields_are_errors_everywhere() {
    for line in GOOD.lines() {
        let Some((key, _)) = line.trim_start_matches([' ', '-']).split_once(':') else { continue };
        // The names of clusters and roles are the operator's own.
        if ["c1", "reader", "visitor"].contains(&key) {
            continue;
        }
        mistakes(&format!("{key}:"), &format!("{key}x:"));
        mistakes(&format!("{key}:"), &format!("{}:", key.to_uppercase()));
    }
}

#[test]
fn t18_a_key_without_a_value_is_not_a_key_left_out() {
    for line in GOOD.lines() {
        let Some((key, value)) = line.split_once(": ") else { continue };
        for nothing in ["", " ~", " null"] {
            let changed = GOOD.replacen(line, &format!("{key}:{nothing}"), 1);
            assert!(Policy::parse(&changed).is_err(), "{key}:{nothing} (it was {value})");
        }
    }
}

#[test]
fn t18_wildcards_are_written_and_never_left_out() {
    for line in GOOD.lines().filter(|line| line.starts_with("        ") && line.contains('[')) {
        let key = line.trim_start_matches([' ', '-']).split(':').next().unwrap();
        let without = GOOD.replacen(&format!("{line}\n"), "", 1);
        assert!(Policy::parse(&without).is_err(), "without {key}");
        mistakes(line, &format!("        {key}: []"));
        mistakes(line, &format!("        {key}: [\"*\", more]"));
        mistakes(line, &format!("        {key}: [\"\", \"*\"]"));
        mistakes(line, &format!("        {key}: \"*\""));
    }
    for (from, to) in [
        ("clusters: [c1]", "clusters: []"),
        ("clusters: [c1]", "clusters: [c*]"),
        ("clusters: [c1]", "clusters: [C1]"),
        ("clusters: [c1]", "clusters: c1"),
        ("clusters: [c1]", "clusters: [~]"),
        ("clusters: [c1]", "clusters: [*]"),
        ("clusterLabels: {env: dev}", "clusterLabels: {}"),
        ("clusterLabels: {env: dev}", "clusterLabels: {env: dev}\n        clusters: [c1]"),
        ("namespaces: [team-a]", "namespaces: [team-*]"),
        ("namespaces: [team-a]", "namespaces: ['..']"),
        ("namespaces: [team-a]", "namespaces: [Team-A]"),
        ("namespaces: [team-a]", "namespaces: ['']"),
        ("resources: [pods]", "resources: [Pods]"),
        ("resources: [pods]", "resources: [pods/]"),
        ("resources: [pods]", "resources: [pods.apps/v1/x]"),
        ("apiGroups: [\"\"]", "apiGroups: [apps/v1]"),
        ("verbs: [get]", "verbs: [gett]"),
        ("verbs: [get]", "verbs: [GET]"),
        ("verbs: [get]", "verbs: [use]"),
        ("names: [\"*\"]", "names: [a*]"),
        ("names: [\"*\"]", "names: [a/b]"),
        ("users: [alice]", "users: [al*]"),
        ("users: [alice]", "users: []"),
        ("groups: [devs]", "groups: [\"*\"]"),
        ("providers: [corp]\n", "\n"),
        ("services: [\"a/b:80\"]", "services: [a/b]"),
        ("methods: [GET]", "methods: [get]"),
        ("paths: [\"/x/*\"]", "paths: [x]"),
        ("protocols: [http]", "protocols: [HTTP]"),
        ("bytes: [kube-apiserver]", "bytes: [\"*\"]"),
        ("sources: [10.0.0.0/8]", "sources: [10.0.0.1/8]"),
        ("sources: [10.0.0.0/8]", "sources: [10.0.0.1]"),
        ("sources: [10.0.0.0/8]", "sources: [\"::ffff:10.0.0.0/104\"]"),
        ("days: [mon], ", ""),
        ("from: \"08:00\", ", ""),
        ("notAfter: \"2027-01-01T00:00:00Z\"", "notAfter: \"2025-01-01T00:00:00Z\""),
        ("notAfter: \"2027-01-01T00:00:00Z\"", "notAfter: tomorrow"),
        ("when: \"user.name == 'alice'\"", "when: \"user.nam == 'alice'\""),
        ("when: \"user.name == 'alice'\"", "when: \"\""),
    ] {
        mistakes(from, to);
    }
}

#[test]
fn a_rule_has_the_keys_of_its_kind_and_no_others() {
    for (from, to, told) in [
        ("resources: [pods]\n", "resources: [pods]\n        paths: [\"*\"]\n", "paths has no place"),
        (
            "nonResourcePaths: [/version]\n",
            "nonResourcePaths: [/version]\n        names: [\"*\"]\n",
            "names has no place",
        ),
        ("services: [\"a/b:80\"]\n", "services: [\"a/b:80\"]\n        verbs: [get]\n", "verbs has no place"),
        ("bytes: [kube-apiserver]\n", "bytes: [kube-apiserver]\n        methods: [GET]\n", "methods has no place"),
        ("bytes: [kube-apiserver]\n", "bytes: [kube-apiserver]\n        services: [\"a/b:1\"]\n", "exactly one of"),
        ("resources: [pods]\n", "\n", "exactly one of"),
        ("verbs: [get]\n  visitor", "verbs: [get, head]\n  visitor", "no verb \"head\""),
    ] {
        let mistakes = mistakes(from, to);
        assert!(mistakes.contains(told), "{to}: {mistakes}");
    }
}

/// What is told of the good policy with one text in place of another; empty if nothing is wrong.
fn told(from: &str, to: &str) -> String {
    assert!(GOOD.contains(from), "{from:?}");
    Policy::parse(&GOOD.replacen(from, to, 1)).map_or_else(|error| error.to_string(), |_| String::new())
}

#[test]
fn t18_each_word_of_a_rule_is_spelt_as_requests_spell_it() {
    let (longest, longer) = ("a".repeat(253), "a".repeat(254));
    let (method, longer_method) = ("M".repeat(32), "M".repeat(33));
    for (line, key, good, bad) in [
        (
            "apiGroups: [\"\"]",
            "apiGroups",
            &["apps", "my-group.example.com", "v2", &longest][..],
            &["Apps", "apps/v1", "a_b", "a b", "é", &longer][..],
        ),
        (
            "resources: [pods]",
            "resources",
            &["my-things", "things.example", "pods2/log", &longest],
            &["a_b", "é", &longer],
        ),
        (
            "names: [\"*\"]",
            "names",
            &["web-0", "system:node", "a..b", "..."],
            &["", ".", "..", "a/b", "a%2fb", " a", "a ", "a\\tb"],
        ),
        ("methods: [GET]", "methods", &["M-SEARCH", "X", &method], &["", "get", "Get", "G3T", "GET ", &longer_method]),
    ] {
        for word in good {
            assert_eq!(told(line, &format!("{key}: [\"{word}\"]")), "", "{key} {word:?}");
        }
        for word in bad {
            let told = told(line, &format!("{key}: [\"{word}\"]"));
            assert!(told.contains(&format!("{key}: ")), "{key} {word:?}: {told:?}");
        }
    }
}

#[test]
fn nobody_vouches_for_clients_without_an_identity() {
    let told =
        told("    users: [\"*\"]\n    providers: [\"*\"]\ndeny:", "    anonymous: true\n    providers: [\"*\"]\ndeny:");
    assert!(told.contains("providers has no place"), "{told}");
}

#[test]
fn t18_keys_and_names_are_given_once() {
    for (from, to) in [
        ("version: 1\n", "version: 1\nversion: 1\n"),
        ("deny:\n", "deny: []\ndeny:\n"),
        ("        verbs: [get]\n  visitor", "        verbs: [get]\n        verbs: ['*']\n  visitor"),
        ("  visitor:", "  reader:"),
        ("  c1: {env: dev}", "  c1: {env: dev, env: prod}"),
        ("  - name: c\n", "  - name: b\n"),
        ("    users: [alice]\n", "    users: [alice]\n    users: ['*']\n"),
        ("      - clusters: [c1]\n", "      - <<: {clusters: [c1]}\n"),
        ("version: 1\n", "version: 1\n---\nversion: 1\n"),
        ("version: 1\n", "version: !odd 1\n"),
    ] {
        mistakes(from, to);
    }
}

#[test]
fn names_that_do_not_exist_are_errors_with_their_line() {
    for (from, to, told) in [
        ("role: reader", "role: readr", "line 27: binding b: there is no role \"readr\"; did you mean reader?"),
        (
            "verbs: [get]",
            "verbs: [gett]",
            "line 7: role reader, rule 1: verbs: there is no verb \"gett\"; did you mean get?",
        ),
        ("version: 1", "version: 3", "version 3 is not known"),
        ("version: 1", "", "version is missing"),
        ("name: d", "name: d d", "is not a name"),
        ("per: user", "per: person", "none of user, cluster, userAndCluster"),
        ("    role: reader\n    users", "    role: reader\n    usrs", "line 29"),
    ] {
        let mistakes = mistakes(from, to);
        assert!(mistakes.contains(told), "{to}: {mistakes}");
    }
}

#[test]
fn every_mistake_is_told_at_once() {
    let changed =
        GOOD.replace("verbs: [get]", "verbs: [gte]").replace("role: reader", "role: x").replace("per: user", "per: x");
    let error = Policy::parse(&changed).unwrap_err();
    assert_eq!(error.problems().len(), 4, "{:?}", error.problems());
    assert!(error.to_string().ends_with("(and 3 more)"), "{error}");
    assert_eq!(error.code().code, "MCT-POLICY-INVALID");
    assert_eq!(Policy::parse("{").unwrap_err().code().code, "MCT-POLICY-SYNTAX");
}

#[test]
fn t18_the_empty_file_and_other_things_are_not_policies() {
    for text in [
        "",
        "\n",
        "# nothing\n",
        "---\n",
        "{}",
        "[]",
        "policy",
        "1",
        "null",
        "version: 1",
        "version: 1\nroles: {}\nbindings: []\n",
    ] {
        assert!(Policy::parse(text).is_err(), "{text:?}");
    }
    // Half a file, cut at any line, is never a policy, unless only the quotas are cut off, which must be whole too.
    let lines: Vec<&str> = GOOD.lines().collect();
    let quotas = lines.iter().position(|line| *line == "quotas:").unwrap();
    for end in 0..lines.len() - 1 {
        let half = lines[..end].join("\n");
        let is_whole = end == quotas;
        let is_cut_in_deny = (lines.iter().position(|line| *line == "deny:").unwrap() + 1..quotas).contains(&end);
        if !is_whole && !is_cut_in_deny {
            assert!(Policy::parse(&half).is_err(), "{half}");
        }
    }
}

/// A policy of one role and one binding, with these names.
fn named(role: &str, rules: &str, binding: &str) -> Result<Policy, mctunnel_policy::PolicyError> {
    Policy::parse(&format!(
        "{{version: 1, roles: {{'{role}': {{rules: [{rules}]}}}}, bindings: [{{name: '{binding}', role: '{role}', users: [a], \
         providers: ['*']}}], deny: []}}"
    ))
}

#[test]
fn t18_a_name_is_short_and_plain() {
    const RULE: &str = "{clusters: ['*'], nonResourcePaths: ['*'], verbs: ['*']}";
    let longest = "x".repeat(63);
    for good in ["a", "a-b_c.d:e9", &longest] {
        assert!(named(good, RULE, good).is_ok(), "{good}");
    }
    let long = format!("{longest}x");
    for bad in ["a b", "a/b", "a\u{e9}", &long, ""] {
        assert!(named(bad, RULE, "b").is_err(), "role {bad:?}");
        assert!(named("r", RULE, bad).is_err(), "binding {bad:?}");
    }
    assert!(named("r", "", "b").is_err(), "a role without rules");
}

#[test]
fn t18_what_must_be_there_is_there() {
    let all = [("version", "1"), ("roles", "{}"), ("bindings", "[]"), ("deny", "[]")];
    let without = |left_out: &str| {
        let parts: Vec<String> =
            all.iter().filter(|(key, _)| *key != left_out).map(|(key, value)| format!("{key}: {value}")).collect();
        Policy::parse(&parts.join("\n"))
    };
    assert!(without("nothing").is_ok());
    for (key, _) in all {
        let error = without(key).expect_err(key).to_string();
        assert!(error.contains(key), "{error}");
    }
}

#[test]
fn t18_dates_are_in_order_and_count_to_the_second() {
    let dated = |from: &str, to: &str| {
        Policy::parse(&format!(
            "{{version: 1, roles: {{r: {{rules: [{{clusters: ['*'], nonResourcePaths: ['*'], verbs: ['*']}}]}}}}, bindings: [{{name: b, \
             role: r, users: [a], providers: ['*'], notBefore: '{from}', notAfter: '{to}'}}], deny: []}}"
        ))
    };
    let (first, second) = ("2026-11-16T08:00:00Z", "2026-11-16T08:00:01Z");
    assert!(dated(first, first).is_err() && dated(second, first).is_err());
    let policy = dated(first, second).unwrap();
    let may = |time: &str| {
        let text = format!(
            "{{who: {{user: a}}, where: {{cluster: c}}, what: {{verb: get, path: /x}}, from: {{time: '{time}'}}}}"
        );
        mctunnel_policy::Question::parse(&text).unwrap().ask(&policy).unwrap().is_allowed()
    };
    assert_eq!([may("2026-11-16T07:59:59Z"), may(first), may(second)], [false, true, false]);
}
