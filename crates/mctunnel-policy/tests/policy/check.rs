//! What a check finds: mistakes, and rules that can never decide.

use mctunnel_policy::{Severity, check, check_with_providers};

fn text(rules: &str, bindings: &str, deny: &str) -> String {
    format!(
        "version: 1\nclusters: {{c1: {{env: dev}}}}\nroles:\n  r:\n    rules:\n{rules}bindings:\n{bindings}deny: [{deny}]\n"
    )
}

const RULE: &str =
    "      - {clusters: [c1], namespaces: [a], apiGroups: [''], resources: [pods], names: ['*'], verbs: [get, list]}\n";
const BINDING: &str = "  - {name: b, role: r, users: [alice], providers: ['*']}\n";

fn findings(text: &str) -> Vec<String> {
    check(text).iter().map(ToString::to_string).collect()
}

#[test]
fn a_sound_policy_has_no_findings() {
    assert_eq!(findings(&text(RULE, BINDING, "")), [] as [&str; 0]);
}

#[test]
fn rules_that_can_never_decide_are_found_with_their_line() {
    for (rules, bindings, deny, told) in [
        (
            format!("{RULE}{}", RULE.replace("get, list", "get")),
            BINDING.to_owned(),
            "",
            "warning: line 7: role r, rule 2: it can never decide: rule 1 has all of it already",
        ),
        (
            RULE.to_owned(),
            BINDING.to_owned(),
            "{name: d, users: ['*'], providers: ['*'], rules: [{clusters: ['*'], namespaces: ['*'], apiGroups: ['*'], \
             resources: ['*/*'], names: ['*'], verbs: ['*']}]}",
            "warning: line 6: role r, rule 1: it can never allow anything: deny d has all of it, for everybody",
        ),
        (RULE.to_owned(), "  []\n".to_owned(), "", "warning: line 5: role r: no binding gives it to anybody"),
        (
            RULE.to_owned(),
            format!("{BINDING}{}", BINDING.replace("name: b", "name: c")),
            "",
            "warning: line 9: binding c: it changes nothing: binding b gives the role to the same users already",
        ),
        (
            RULE.to_owned(),
            BINDING.replace("}", ", notAfter: '2020-01-01T00:00:00Z'}"),
            "",
            "warning: line 8: binding b: it ended: notAfter has passed",
        ),
        (
            RULE.replace("clusters: [c1]", "clusterLabels: {env: prod}"),
            BINDING.to_owned(),
            "",
            "warning: line 6: role r, rule 1: no cluster in this file has these labels: without one that has them by its \
             join token it can never decide",
        ),
        (
            RULE.replace("[c1]", "[c2]"),
            BINDING.to_owned(),
            "",
            "warning: line 6: role r, rule 1: the cluster c2 is not among clusters",
        ),
        (
            RULE.replace("[pods]", "[pods/exec]").replace("get, list", "create"),
            BINDING.to_owned(),
            "",
            "warning: line 6: role r, rule 1: pods/exec is reached by the verb connect alone, which is not among verbs",
        ),
        (
            RULE.replace("[pods]", "[deployments]"),
            BINDING.to_owned(),
            "",
            "warning: line 6: role r, rule 1: deployments is in the API group \"apps\", which is not among apiGroups",
        ),
        (
            RULE.replace("[pods]", "[pod]"),
            BINDING.to_owned(),
            "",
            "warning: line 6: role r, rule 1: Kubernetes has no resource pod in these API groups; did you mean pods?",
        ),
        (
            RULE.to_owned(),
            BINDING.to_owned(),
            "{name: d, users: [bob], providers: ['*'], rules: [{clusters: ['*'], namespaces: ['*'], apiGroups: [''], \
             resources: [pods], names: ['*'], verbs: ['*']}]}",
            "warning: line 9: deny d, rule 1: it denies pods, but not pods/exec, pods/attach, pods/portforward, pods/proxy: a \
             resource never has its subresources; add pods/*",
        ),
    ] {
        let text = text(&rules, &bindings, deny);
        assert_eq!(findings(&text), [told], "{text}");
    }
}

#[test]
fn providers_that_are_not_there_are_found() {
    let deny = "{name: d, users: [bob], providers: [nowhere, corp], rules: [{clusters: ['*'], nonResourcePaths: ['*'], verbs: ['*']}]}";
    let text = text(RULE, &BINDING.replace("['*']}", "[crop]}"), deny);
    let found =
        |providers: &[&str]| check_with_providers(&text, providers).iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(
        found(&["keys", "corp"]),
        [
            "warning: line 8: binding b: there is no provider \"crop\"; did you mean corp?",
            "warning: line 9: deny d: there is no provider \"nowhere\"",
        ]
    );
    assert_eq!(found(&["crop", "corp", "nowhere"]), [] as [&str; 0]);
    assert_eq!(findings(&text), [] as [&str; 0], "without a list nothing is known of them");
}

#[test]
fn mistakes_are_errors() {
    let broken = text(&RULE.replace("get, list", "gett"), &BINDING.replace("role: r", "role: q"), "");
    let found = check(&broken);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(
        found.iter().all(|finding| finding.severity == Severity::Error && finding.problem.line.is_some()),
        "{found:?}"
    );
    assert!(!check("").is_empty() && !check("{").is_empty());
}

#[test]
fn names_of_others_are_not_judged() {
    for rule in [
        RULE.replace("['']", "[example.com]").replace("[pods]", "[widgets]"),
        RULE.replace("['']", "['*']").replace("[pods]", "[anything]"),
        RULE.replace("[pods]", "['*']"),
    ] {
        assert_eq!(findings(&text(&rule, BINDING, "")), [] as [&str; 0], "{rule}");
    }
}

#[test]
fn a_rule_has_all_of_another_only_if_each_of_its_lists_has() {
    for kind in [
        &[
            ("clusters", "[c1]", "['*']"),
            ("namespaces", "[a]", "[a, b]"),
            ("apiGroups", "['']", "['', apps]"),
            ("resources", "[pods]", "[pods, services]"),
            ("names", "[x]", "[x, y]"),
            ("verbs", "[get]", "[get, list]"),
        ][..],
        &[("clusters", "[c1]", "['*']"), ("nonResourcePaths", "[/a]", "[/a, /b]"), ("verbs", "[get]", "[get, post]")],
        &[
            ("clusters", "[c1]", "['*']"),
            ("services", "['a/b:80']", "['a/b:80', 'a/c:80']"),
            ("methods", "[GET]", "[GET, PUT]"),
            ("paths", "[/a]", "[/a, /b]"),
            ("protocols", "[http]", "[http, grpc]"),
        ],
        &[
            ("clusters", "[c1]", "['*']"),
            ("bytes", "['db:1']", "['db:1', 'db:2']"),
            ("protocols", "[tcp]", "[tcp, http]"),
        ],
    ] {
        // A rule that is wide in these keys, and narrow in the others.
        let rule = |wide: &dyn Fn(&str) -> bool| {
            let lists: Vec<String> =
                kind.iter().map(|(key, few, many)| format!("{key}: {}", if wide(key) { many } else { few })).collect();
            format!("      - {{{}}}\n", lists.join(", "))
        };
        let is_superfluous = |first: &str, second: &str| {
            let found = findings(&text(&format!("{first}{second}"), BINDING, ""));
            found.iter().any(|finding| finding.contains("rule 2: it can never decide: rule 1 has all of it already"))
        };
        let (narrow, wide) = (rule(&|_| false), rule(&|_| true));
        assert!(is_superfluous(&narrow, &narrow) && is_superfluous(&wide, &narrow) && !is_superfluous(&narrow, &wide));
        for (key, ..) in kind {
            let wider = rule(&|own| own == *key);
            assert!(!is_superfluous(&narrow, &wider) && is_superfluous(&wider, &narrow), "{wider}");
        }
    }
}
