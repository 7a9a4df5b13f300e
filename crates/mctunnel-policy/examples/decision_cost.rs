//! What a decision costs with 1,000 rules and 10,000 bindings: `cargo run --release -p mctunnel-policy --example decision_cost`.

#![expect(clippy::print_stdout, reason = "it is a program that prints")]

use mctunnel_core::{Access, Action, Destination, Identity, Protocol, Target, User};
use mctunnel_policy::Policy;
use std::{error::Error, fmt::Write, hint::black_box, time::SystemTime};
use tokio::time::Instant;

const ROUNDS: u32 = 200_000;

fn main() -> Result<(), Box<dyn Error>> {
    let begun = Instant::now();
    let policy = Policy::parse(&text(100, 10, "")?)?;
    println!("reading 100 roles x 10 rules, 10,000 bindings: {:?}", begun.elapsed());
    // User u7 is bound by itself, and by 3 of its 20 groups.
    let groups: Vec<String> = (0..20).map(|number| format!("g{}", number * 1000 + 7)).collect();
    measure("100 roles of 10 rules, allowed", &policy, "u7", &groups, "n7")?;
    measure("100 roles of 10 rules, denied", &policy, "u7", &groups, "elsewhere")?;
    measure("100 roles of 10 rules, unknown user", &policy, "nobody", &[], "n7")?;

    let policy = Policy::parse(&text(1, 1000, "")?)?;
    measure("one role of 1,000 rules, allowed by the last", &policy, "u7", &[], "n999")?;
    measure("one role of 1,000 rules, denied", &policy, "u7", &[], "elsewhere")?;

    let condition = ", when: \"user.groups.exists(g, g.startsWith('g')) && cluster.name == 'c1'\"";
    let policy = Policy::parse(&text(100, 10, condition)?)?;
    measure("the same with a condition on each binding, allowed", &policy, "u7", &groups, "n7")?;
    Ok(())
}

/// A policy with so many roles of so many rules each, and 10,000 bindings: half of them for users, half for groups.
fn text(roles: usize, rules: usize, condition: &str) -> Result<String, std::fmt::Error> {
    let mut text = String::from("version: 1\nroles:\n");
    for role in 0..roles {
        writeln!(text, "  r{role}:\n    rules:")?;
        for rule in 0..rules {
            let namespace = role * rules + rule;
            writeln!(
                text,
                "      - {{clusters: [c1, c2], namespaces: [n{namespace}], apiGroups: ['', apps], resources: [pods, pods/log, \
                 deployments], names: ['*'], verbs: [get, list, watch]}}"
            )?;
        }
    }
    text.push_str("bindings:\n");
    for binding in 0..10_000 {
        let who =
            if binding < 5000 { format!("users: [u{binding}]") } else { format!("groups: [g{}]", binding - 5000) };
        let role = binding / 10 % roles;
        writeln!(text, "  - {{name: b{binding}, role: r{role}, {who}, providers: ['*']{condition}}}")?;
    }
    text.push_str(
        "deny:\n  - name: system\n    users: ['*']\n    providers: ['*']\n    rules:\n      - {clusters: ['*'], namespaces: \
         [kube-system], apiGroups: ['*'], resources: ['*/*'], names: ['*'], verbs: ['*']}\n",
    );
    Ok(text)
}

fn measure(what: &str, policy: &Policy, user: &str, groups: &[String], namespace: &str) -> Result<(), Box<dyn Error>> {
    let mut user = User::new(user, "corp");
    user.groups = groups.iter().map(|group| group.as_str().into()).collect();
    let identity = Identity::from(user);
    let destination = Destination { cluster: "c1".parse()?, target: Target::KubeApi };
    let path = format!("/api/v1/namespaces/{namespace}/pods/web");
    let action = Action::of_http(&destination.target, "GET", &path)?;
    let access = Access {
        identity: &identity,
        destination: &destination,
        action: &action,
        protocol: &Protocol::http(),
        source: None,
    };
    let now = SystemTime::now();
    let begun = Instant::now();
    for _ in 0..ROUNDS {
        black_box(policy.decide(black_box(&access), now));
    }
    let each = begun.elapsed() / ROUNDS;
    println!("{what:<55} {each:>10?}  ({})", policy.decide(&access, now).rule());
    Ok(())
}
