//! Tables of expectations.

use mctunnel_policy::{Policy, Table};

const POLICY: &str = "{version: 1, roles: {r: {rules: [{clusters: ['*'], namespaces: [a], apiGroups: [''], resources: [pods], \
    names: ['*'], verbs: [get]}]}}, bindings: [{name: b, role: r, users: [alice], providers: ['*']}], deny: []}";

#[test]
fn each_row_is_met_or_not() {
    let table = Table::parse(
        "tests:
  - who: {user: alice}
    where: {cluster: c, namespace: a}
    what: {verb: get, resource: pods}
    expect: allow
  - {who: {user: alice}, where: {cluster: c, namespace: b}, what: {verb: get, resource: pods}, expect: allow}
  - {who: {user: alice}, where: {cluster: c, namespace: a}, what: {verb: get, resource: pods}, expect: allow, rule: another}
  - {who: {user: bob}, where: {cluster: c, namespace: a}, what: {verb: get, resource: pods}, expect: deny, rule: no rule allows it}
  - {who: {user: bob}, where: {cluster: c, namespace: a}, what: {verb: gte, resource: pods}, expect: deny}
",
    )
    .unwrap();
    let outcomes = table.run(&Policy::parse(POLICY).unwrap());
    let met: Vec<_> = outcomes.iter().map(|outcome| (outcome.line.unwrap(), outcome.is_met)).collect();
    assert_eq!(met, [(2, true), (6, false), (7, false), (8, true), (9, false)]);
    assert_eq!(outcomes[0].rule, "role r, rule 1, binding b");
    assert_eq!(outcomes[1].found, "deny");
    assert!(outcomes[4].found.contains("no verb"), "a row that cannot be asked is never met: {:?}", outcomes[4]);
}

#[test]
fn a_table_is_read_as_strictly_as_a_policy() {
    for text in [
        "",
        "tests: []",
        "tests:",
        "test: []",
        "tests: [{who: {user: a}, where: {cluster: c}, what: {verb: get, resource: pods}}]",
        "tests: [{who: {user: a}, where: {cluster: c}, what: {verb: get, resource: pods}, expect: yes}]",
        "tests: [{who: {user: a}, where: {cluster: c}, what: {verb: get, resource: pods}, expect: deny, expected: allow}]",
    ] {
        assert!(Table::parse(text).is_err(), "{text}");
    }
}
