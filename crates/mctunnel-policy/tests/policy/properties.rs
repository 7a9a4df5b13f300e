//! What holds for every policy: deny wins, and nothing that is taken away allows more.

use crate::generate::{Random, ask, binding, deny, policy, request, rule};
use mctunnel_policy::Policy;
use proptest::prelude::*;
use serde_json::{Value, json};

const REQUESTS: usize = 40;

fn read(policy: &Value) -> Policy {
    Policy::parse(&policy.to_string()).expect("a generated policy is valid")
}

fn requests(random: &mut Random) -> Vec<Value> {
    (0..REQUESTS).map(|_| request(random)).collect()
}

/// Whether `narrow` allows nothing that `wide` does not.
fn assert_no_wider(narrow: &Value, wide: &Value, random: &mut Random) {
    let (narrow_policy, wide_policy) = (read(narrow), read(wide));
    for request in requests(random) {
        if ask(&narrow_policy, &request).is_allowed() {
            assert!(ask(&wide_policy, &request).is_allowed(), "{request}\n{narrow}\n{wide}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn deny_wins_over_the_same_rule_allowed(seed in any::<u64>()) {
        let mut random = Random(seed);
        let rule = rule(&mut random);
        let everybody = json!({"name": "x", "users": ["*"], "providers": ["*"]});
        let (mut allow, mut never) = (everybody.clone(), everybody);
        allow["role"] = json!("r");
        never["rules"] = json!([rule]);
        let labels = json!({"c-dev": {"env": "dev"}, "c-prod": {"env": "prod"}});
        let policy = read(&json!({
            "version": 1, "clusters": labels, "roles": {"r": {"rules": [rule]}}, "bindings": [allow], "deny": [never],
        }));
        for request in requests(&mut random) {
            prop_assert!(!ask(&policy, &request).is_allowed(), "{request}\n{rule}");
        }
    }

    #[test]
    fn a_further_deny_rule_never_allows_more(seed in any::<u64>()) {
        let mut random = Random(seed);
        let before = policy(&mut random);
        let mut after = before.clone();
        let at = random.below(after["deny"].as_array().expect("a list").len() + 1);
        after["deny"].as_array_mut().expect("a list").insert(at, deny(&mut random, 99));
        assert_no_wider(&after, &before, &mut random);
    }

    #[test]
    fn a_binding_or_a_rule_less_never_allows_more(seed in any::<u64>()) {
        let mut random = Random(seed);
        let before = policy(&mut random);
        let mut after = before.clone();
        let bindings = after["bindings"].as_array_mut().expect("a list");
        let at = random.below(bindings.len());
        bindings.remove(at);
        assert_no_wider(&after, &before, &mut random);
        let rules = after["roles"]["r0"]["rules"].as_array_mut().expect("a list");
        if rules.len() > 1 {
            let at = random.below(rules.len());
            rules.remove(at);
        }
        assert_no_wider(&after, &before, &mut random);
    }

    #[test]
    fn a_further_binding_never_takes_anything_away(seed in any::<u64>()) {
        let mut random = Random(seed);
        let before = policy(&mut random);
        let mut after = before.clone();
        let roles: Vec<String> = before["roles"].as_object().expect("roles").keys().cloned().collect();
        let bindings = after["bindings"].as_array_mut().expect("a list");
        let at = random.below(bindings.len() + 1);
        bindings.insert(at, binding(&mut random, 99, &roles));
        assert_no_wider(&before, &after, &mut random);
    }

    #[test]
    fn the_order_of_groups_changes_nothing(seed in any::<u64>()) {
        let mut random = Random(seed);
        let policy = read(&policy(&mut random));
        for mut request in requests(&mut random) {
            let decision = ask(&policy, &request);
            request["groups"].as_array_mut().expect("a list").reverse();
            prop_assert_eq!(decision, ask(&policy, &request));
        }
    }

    #[test]
    fn any_text_is_read_or_refused(text in "\\PC{0,200}") {
        let _ = Policy::parse(&text);
        let when = serde_json::to_string(&text).expect("JSON");
        let _ = Policy::parse(&format!(
            "{{version: 1, roles: {{}}, bindings: [{{name: b, role: r, users: [a], providers: ['*'], when: {when}}}], deny: []}}"
        ));
    }
}
