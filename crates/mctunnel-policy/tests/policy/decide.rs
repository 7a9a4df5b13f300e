//! What policies decide, and by which rule.

use mctunnel_policy::{Policy, Question};

/// Reads a policy with one rule for alice, and a deny rule for everybody if there is one.
fn policy(allow: &str, deny: &str) -> Policy {
    let deny = if deny.is_empty() {
        String::new()
    } else {
        format!("{{name: d, users: ['*'], providers: ['*'], rules: [{{{deny}}}]}}")
    };
    let binding = "{name: b, role: r, users: [alice], providers: ['*'], anonymous: true}";
    let text = format!("{{version: 1, roles: {{r: {{rules: [{{{allow}}}]}}}}, bindings: [{binding}], deny: [{deny}]}}");
    Policy::parse(&text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// Asks as alice; `what` is `verb resource [namespace|-] [name|-]`.
fn may(policy: &Policy, what: &str) -> bool {
    let mut words = what.split(' ');
    let mut word = || words.next().filter(|word| *word != "-").map(str::to_owned);
    let (verb, resource) = (word().unwrap(), word().unwrap());
    let mut question = Question::resource("alice", "c1", &verb, &resource);
    question.place.namespace = word();
    question.what.name = word();
    question.ask(policy).unwrap().is_allowed()
}

fn asked(policy: &Policy, what: &str) -> String {
    let question =
        Question::parse(&format!("{{who: {{user: alice}}, where: {{cluster: c1}}, what: {{{what}}}}}")).unwrap();
    let decision = question.ask(policy).unwrap();
    format!("{}{}", if decision.is_allowed() { "+" } else { "" }, decision.rule())
}

const ALL: &str =
    "clusters: ['*'], namespaces: ['*'], apiGroups: ['*'], resources: ['*/*'], names: ['*'], verbs: ['*']";

fn rule(changed: &[(&str, &str)]) -> String {
    let mut rule = ALL.to_owned();
    for (key, value) in changed {
        let at = rule.find(&format!("{key}: [")).unwrap();
        let end = at + rule[at..].find(']').unwrap() + 1;
        rule.replace_range(at..end, &format!("{key}: [{value}]"));
    }
    rule
}

#[test]
fn an_allow_rule_has_what_it_certainly_names() {
    for (changed, what, expected) in [
        (&[][..], "get pods team-a x", true),
        (&[], "list nodes", true),
        (&[("namespaces", "team-a")], "get pods team-a x", true),
        (&[("namespaces", "team-a")], "get pods team-b x", false),
        (&[("namespaces", "team-a")], "list pods -", false),
        (&[("namespaces", "team-a")], "get nodes - n", false),
        (&[("names", "x")], "get pods team-a x", true),
        (&[("names", "x")], "get pods team-a y", false),
        (&[("names", "x")], "list pods team-a", false),
        (&[("names", "x")], "create pods team-a", false),
        (&[("names", "x")], "connect services/proxy team-a x:80", false),
        (&[("names", "'x:80'")], "connect services/proxy team-a x:80", true),
        (&[("verbs", "get")], "get pods team-a x", true),
        (&[("verbs", "get")], "list pods team-a", false),
        (&[("apiGroups", "''")], "get pods team-a x", true),
        (&[("apiGroups", "''")], "get deployments team-a x", false),
        (&[("apiGroups", "apps")], "get deployments.apps team-a x", true),
        (&[("resources", "pods")], "get pods team-a x", true),
        (&[("resources", "pods")], "get pods/log team-a x", false),
        (&[("resources", "'*'")], "get pods/log team-a x", false),
        (&[("resources", "'*'")], "connect pods/exec team-a x", false),
        (&[("resources", "'pods/*'")], "connect pods/exec team-a x", true),
        (&[("clusters", "c1")], "get pods team-a x", true),
        (&[("clusters", "c2")], "get pods team-a x", false),
    ] {
        assert_eq!(may(&policy(&rule(changed), ""), what), expected, "{changed:?} {what}");
    }
}

#[test]
fn a_deny_rule_has_what_may_be_what_it_names() {
    for (changed, what, denied) in [
        (&[("namespaces", "kube-system")][..], "get pods kube-system x", true),
        (&[("namespaces", "kube-system")], "get pods team-a x", false),
        // Across all namespaces this one is among them.
        (&[("namespaces", "kube-system")], "list pods -", true),
        (&[("namespaces", "kube-system")], "watch pods -", true),
        (&[("namespaces", "kube-system")], "deletecollection pods -", true),
        (&[("namespaces", "kube-system")], "list widgets.example.com -", true),
        // What lives in no namespace does not live in this one either.
        (&[("namespaces", "kube-system")], "list nodes -", false),
        (&[("namespaces", "kube-system")], "get nodes - n", false),
        (&[("namespaces", "kube-system")], "list namespaces -", false),
        (&[("namespaces", "kube-system")], "get namespaces kube-system kube-system", true),
        (&[("names", "x")], "get secrets team-a x", true),
        (&[("names", "x")], "get secrets team-a y", false),
        (&[("names", "x")], "list secrets team-a", true),
        (&[("names", "x")], "create secrets team-a", true),
        // The kube-apiserver's proxy takes scheme and port together with the name.
        (&[("names", "x")], "connect services/proxy team-a x", true),
        (&[("names", "x")], "connect services/proxy team-a x:80", true),
        (&[("names", "x")], "connect services/proxy team-a https:x:8443", true),
        (&[("names", "x")], "connect services/proxy team-a https:y:8443", false),
        (&[("names", "x")], "get secrets team-a a:x", false),
        (&[("resources", "pods")], "get pods team-a x", true),
        (&[("resources", "pods")], "connect pods/exec team-a x", false),
        (&[("verbs", "delete")], "delete pods team-a x", true),
        (&[("verbs", "delete")], "deletecollection pods team-a", false),
        (&[("clusters", "c2")], "get pods team-a x", false),
    ] {
        assert_eq!(may(&policy(ALL, &rule(changed)), what), !denied, "{changed:?} {what}");
    }
}

#[test]
fn paths_are_denied_unless_they_are_listed() {
    let policy = policy("clusters: ['*'], nonResourcePaths: [/version, /apis/*], verbs: [get]", "");
    for (what, expected) in [
        ("verb: get, path: /version", "+role r, rule 1, binding b"),
        ("verb: get, path: /apis/apps/v1", "+role r, rule 1, binding b"),
        ("verb: head, path: /version", "no rule allows it"),
        ("verb: get, path: /apis", "no rule allows it"),
        ("verb: get, path: /metrics", "no rule allows it"),
        ("verb: get, path: /version/../metrics", "the path can be read in two ways"),
        ("verb: get, path: //version", "the path can be read in two ways"),
        ("verb: get, resource: pods", "no rule allows it"),
    ] {
        assert_eq!(asked(&policy, what), expected, "{what}");
    }
    assert_eq!(asked(&self::policy(ALL, ""), "verb: get, path: /version"), "no rule allows it");
}

#[test]
fn services_are_allowed_by_target_method_path_and_protocol() {
    let allow = "clusters: ['*'], services: ['monitoring/prometheus:9090'], endpoints: ['db.a.svc:80'], methods: [GET], \
        paths: ['/api/*', /metrics], protocols: [http]";
    let policy = policy(allow, "");
    for (what, is_allowed) in [
        ("service: 'monitoring/prometheus:9090', path: /api/v1/query", true),
        ("service: 'monitoring/https:prometheus:9090', path: /metrics", true),
        ("endpoint: 'db.a.svc:80', path: /metrics", true),
        ("service: 'monitoring/prometheus:9090', path: /admin", false),
        ("service: 'monitoring/prometheus:9090', path: /api", false),
        ("service: 'monitoring/prometheus:9090', path: /metrics/", false),
        ("service: 'monitoring/prometheus:9090', path: /%61pi/v1", false),
        ("service: 'monitoring/prometheus:9090', path: /api/../admin", false),
        ("service: 'monitoring/prometheus:9090', path: /api/v1, method: POST", false),
        ("service: 'monitoring/prometheus:9090', path: /api/v1, protocol: grpc", false),
        ("service: 'monitoring/prometheus', path: /api/v1", false),
        ("service: 'monitoring/prometheus:web', path: /api/v1", false),
        ("service: 'default/prometheus:9090', path: /api/v1", false),
        ("endpoint: 'db.a.svc:81', path: /metrics", false),
        ("bytes: 'monitoring/prometheus:9090'", false),
        ("bytes: 'db.a.svc:80'", false),
    ] {
        assert_eq!(asked(&policy, what).starts_with('+'), is_allowed, "{what}");
    }
}

#[test]
fn a_denied_path_is_denied_however_it_is_spelt() {
    let all = "clusters: ['*'], services: ['*/*:*'], methods: ['*'], paths: ['*'], protocols: ['*']";
    let deny = "clusters: ['*'], services: ['a/b:80'], methods: ['*'], paths: ['/admin', '/admin/*'], protocols: ['*']";
    let policy = policy(all, deny);
    for path in ["/admin", "/admin/", "/admin/x", "/%61dmin", "/%61dmin/x", "/admin/%78"] {
        for service in ["a/b:80", "a/b:http", "a/b"] {
            assert_eq!(
                asked(&policy, &format!("service: '{service}', path: {path}")),
                "deny d, rule 1",
                "{service} {path}"
            );
        }
        assert!(asked(&policy, &format!("service: 'a/b:81', path: {path}")).starts_with('+'), "{path}");
    }
    for path in ["/./admin", "/x/../admin", "//admin", "/x%2fadmin", "/%2e/admin", "/admin;x"] {
        assert_eq!(
            asked(&policy, &format!("service: 'a/b:80', path: '{path}'")),
            "the path can be read in two ways",
            "{path}"
        );
    }
    assert!(asked(&policy, "service: 'a/b:80', path: /administrator").starts_with('+'));
}

#[test]
fn plain_bytes_need_a_grant_of_their_own() {
    let everything_else = policy(ALL, "");
    assert_eq!(asked(&everything_else, "bytes: kube-apiserver"), "no rule allows it");
    let wide = policy("clusters: ['*'], bytes: ['*:*', '*/*:*'], protocols: ['*']", "");
    assert!(asked(&wide, "bytes: 'db:1'").starts_with('+') && asked(&wide, "bytes: 'a/b:1'").starts_with('+'));
    assert_eq!(asked(&wide, "bytes: kube-apiserver"), "no rule allows it");
    let named = policy("clusters: ['*'], bytes: [kube-apiserver], protocols: [tcp]", "");
    assert!(asked(&named, "bytes: kube-apiserver").starts_with('+'));
    assert_eq!(asked(&named, "bytes: kube-apiserver, protocol: own"), "no rule allows it");
    assert_eq!(asked(&named, "verb: get, resource: pods"), "no rule allows it");
    // Nobody sees what bytes say, so what is denied inside may be what they say.
    for deny in [
        "clusters: ['*'], namespaces: [kube-system], apiGroups: [''], resources: [secrets], names: ['*'], verbs: [get]",
        "clusters: ['*'], nonResourcePaths: [/metrics], verbs: [get]",
    ] {
        let denied = policy("clusters: ['*'], bytes: [kube-apiserver], protocols: ['*']", deny);
        assert_eq!(asked(&denied, "bytes: kube-apiserver"), "deny d, rule 1", "{deny}");
    }
    let deny = "clusters: ['*'], services: ['a/b:80'], methods: [POST], paths: [/x], protocols: [http]";
    let denied = policy("clusters: ['*'], bytes: ['*/*:*'], protocols: ['*']", deny);
    assert_eq!(asked(&denied, "bytes: 'a/b:80'"), "deny d, rule 1");
    assert!(asked(&denied, "bytes: 'a/c:80'").starts_with('+'));
}

const MANY: &str = r#"
version: 1
clusters:
  c1: {env: dev}
  c2: {env: prod, region: eu}
  c4: {env: prod, region: us}
roles:
  reader:
    description: looks, and touches nothing
    rules:
      - {clusters: [c1], namespaces: ["*"], apiGroups: ["*"], resources: ["*"], names: ["*"], verbs: [get, list, watch]}
      - {clusterLabels: {env: prod, region: eu}, namespaces: [team-a], apiGroups: [""], resources: [pods], names: ["*"], verbs: [get]}
  admin:
    rules:
      - {clusters: ["*"], namespaces: ["*"], apiGroups: ["*"], resources: ["*/*"], names: ["*"], verbs: ["*"]}
bindings:
  - {name: late, role: admin, groups: [admins], providers: [corp], sources: [10.0.0.0/8]}
  - {name: devs, role: reader, groups: [devs], providers: ["*"]}
  - {name: alice, role: admin, users: [alice], providers: [corp], when: "cluster.labels.env == 'dev'"}
  - {name: everybody, role: reader, users: ["*"], providers: [corp], notAfter: "2026-12-01T00:00:00Z"}
  - {name: visitors, role: reader, anonymous: true, window: {days: [mon], from: "08:00", to: "18:00"}}
deny:
  - name: frozen
    users: ["*"]
    providers: ["*"]
    when: "user.extra.frozen[0] == 'yes'"
    rules:
      - {clusters: [c2], namespaces: ["*"], apiGroups: ["*"], resources: ["*/*"], names: ["*"], verbs: [delete]}
"#;

/// Who, where, what, from where, and the answer, with `+` in front if it is yes.
const ANSWERS: &str = "
user: alice, provider: corp | cluster: c1 | verb: get, resource: pods | | +role admin, rule 1, binding alice
user: alice, provider: keys | cluster: c1 | verb: get, resource: pods | | no rule allows it
user: alice, provider: corp | cluster: c2 | verb: create, resource: pods | | no rule allows it
# A label that is not there is no answer, and no answer is no.
user: alice, provider: corp | cluster: c3 | verb: create, resource: pods | | no rule allows it
user: bob, groups: [devs], provider: keys | cluster: c1 | verb: list, resource: pods | | +role reader, rule 1, binding devs
user: bob, groups: [devs], provider: keys | cluster: c2, namespace: team-a | verb: get, resource: pods | | +role reader, rule 2, binding devs
# A cluster has all of the labels or it is not meant.
user: bob, groups: [devs], provider: keys | cluster: c4, namespace: team-a | verb: get, resource: pods | | no rule allows it
user: bob, groups: [devs], provider: keys | cluster: c2, namespace: team-b | verb: get, resource: pods | | no rule allows it
user: bob, provider: corp | cluster: c1 | verb: list, resource: pods | time: '2026-11-30T23:59:59Z' | +role reader, rule 1, binding everybody
user: bob, provider: corp | cluster: c1 | verb: list, resource: pods | time: '2026-12-01T00:00:00Z' | no rule allows it
user: eve, groups: [admins], provider: corp | cluster: c2 | verb: create, resource: pods | source: 10.9.9.9 | +role admin, rule 1, binding late
user: eve, groups: [admins], provider: corp | cluster: c2 | verb: create, resource: pods | source: '::ffff:10.9.9.9' | +role admin, rule 1, binding late
user: eve, groups: [admins], provider: corp | cluster: c2 | verb: create, resource: pods | source: 11.0.0.1 | no rule allows it
user: eve, groups: [admins], provider: corp | cluster: c2 | verb: create, resource: pods | | no rule allows it
# The first binding of the file, whatever the order of groups.
user: eve, groups: [devs, admins], provider: corp | cluster: c1 | verb: get, resource: pods | source: 10.0.0.1 | +role admin, rule 1, binding late
# A condition that fails denies.
user: eve, groups: [admins], provider: corp | cluster: c2 | verb: delete, resource: pods | source: 10.9.9.9 | deny frozen, rule 1
user: eve, groups: [admins], provider: corp, extra: {frozen: ['no']} | cluster: c2 | verb: delete, resource: pods | source: 10.9.9.9 | +role admin, rule 1, binding late
user: eve, groups: [admins], provider: corp, extra: {frozen: ['yes']} | cluster: c2 | verb: delete, resource: pods | source: 10.9.9.9 | deny frozen, rule 1
# Nobody in particular has what is for nobody in particular, and not what is for every user.
 | cluster: c1 | verb: get, resource: pods | time: '2026-11-16T08:00:00Z' | +role reader, rule 1, binding visitors
 | cluster: c1 | verb: get, resource: pods | time: '2026-11-17T08:00:00Z' | no rule allows it
 | cluster: c2 | verb: delete, resource: pods | | deny frozen, rule 1
";

#[test]
fn the_rule_that_decides_is_named() {
    let policy = Policy::parse(MANY).unwrap();
    for row in ANSWERS.lines().filter(|row| row.contains('|')) {
        let [who, place, what, from, expected] = row.split('|').map(str::trim).collect::<Vec<_>>()[..] else {
            panic!("{row}")
        };
        let text = format!("{{who: {{{who}}}, where: {{{place}}}, what: {{{what}}}, from: {{{from}}}}}");
        let decision = Question::parse(&text).unwrap().ask(&policy).unwrap();
        let sign = if decision.is_allowed() { "+" } else { "" };
        assert_eq!(format!("{sign}{}", decision.rule()), expected, "{text}");
    }
    assert_eq!(policy.size(), (2, 5, 1));
    assert_eq!(policy.providers(), ["corp"]);
}

#[test]
fn names_of_kubernetes_own_users_are_only_names() {
    let policy = policy(ALL, "");
    for user in ["system:admin", "system:masters", "kubernetes-admin", "Alice", "alice "] {
        let mut question = Question::resource(user, "c1", "get", "pods");
        question.who.groups = vec!["system:masters".to_owned()];
        assert!(!question.ask(&policy).unwrap().is_allowed(), "{user}");
    }
}

#[test]
fn no_policy_allows_nothing() {
    for policy in [Policy::deny_all(), Policy::parse("{version: 1, roles: {}, bindings: [], deny: []}").unwrap()] {
        assert!(!may(&policy, "get pods team-a x"));
        assert_eq!(asked(&policy, "verb: get, path: /healthz"), "no rule allows it");
    }
}
