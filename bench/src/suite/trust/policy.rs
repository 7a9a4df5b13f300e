//! A policy of the size that the bar names: 100 roles of 10 rules, and 10,000 bindings, half of them of users and half of groups.

use std::fmt::Write as _;

use anyhow::Result;

/// The policy, as YAML.
pub(super) fn text() -> Result<String> {
    let mut text = String::from("version: 1\nroles:\n");
    for role in 0..100 {
        writeln!(text, "  r{role}:\n    rules:")?;
        for rule in 0..10 {
            let namespace = role * 10 + rule;
            writeln!(
                text,
                "      - {{clusters: [c1, c2], namespaces: [n{namespace}], apiGroups: ['', apps], resources: [pods, pods/log, \
                 deployments], names: ['*'], verbs: [get, list, watch]}}"
            )?;
        }
    }
    text.push_str("bindings:\n");
    for binding in 0..10_000 {
        // The names of one provider have a prefix, those of the others none.
        let who = match binding {
            ..5000 => format!("users: [u{binding}, 'jwt:u{binding}']"),
            _ => format!("groups: [g{0}, 'jwt:g{0}']", binding - 5000),
        };
        let role = binding / 10 % 100;
        writeln!(text, "  - {{name: b{binding}, role: r{role}, {who}, providers: ['*']}}")?;
    }
    text.push_str(
        "deny:\n  - name: system\n    users: ['*']\n    providers: ['*']\n    rules:\n      - {clusters: ['*'], namespaces: \
         [kube-system], apiGroups: ['*'], resources: ['*/*'], names: ['*'], verbs: ['*']}\n",
    );
    Ok(text)
}
