//! Tables of claims: which tokens count, when, for whom, and who they make.

use super::*;
use serde_json::json;

fn rules() -> ClaimRules {
    ClaimRules {
        audiences: vec!["hub".to_owned(), "hub2".to_owned()],
        other_audiences: vec!["account".to_owned()],
        user: "email".to_owned(),
        groups: Some("groups".to_owned()),
        facts: BTreeMap::new(),
        required: BTreeMap::new(),
        names: NameRules::default(),
    }
}

/// Claims of a good token, changed: what is null is left out.
fn claims(changes: &Value) -> Map<String, Value> {
    let good = json!({"aud": "hub", "sub": "s", "exp": 1000, "email": "a@b"});
    let mut claims = good.as_object().unwrap().clone();
    for (name, value) in changes.as_object().unwrap() {
        claims.insert(name.clone(), value.clone());
    }
    claims.retain(|_, value| !value.is_null());
    claims
}

#[test]
fn t27_a_token_counts_from_its_first_second_to_its_last() {
    let skew = SKEW.as_secs();
    let span = rules().check(&claims(&json!({"nbf": 500}))).unwrap();
    for (now, is_good) in
        [(0, false), (500 - skew - 1, false), (500 - skew, true), (999 + skew, true), (1000 + skew, false)]
    {
        assert_eq!(span.check(clock::moment(now).unwrap()).is_ok(), is_good, "{now}");
    }
    assert_eq!(span.ends(), clock::moment(1000 + skew));
    let always = rules().check(&claims(&json!({}))).unwrap();
    assert_eq!(always.check(SystemTime::UNIX_EPOCH), Ok(()), "without nbf it counts from the beginning");
}

#[test]
fn t27_a_token_is_for_us_and_for_nobody_we_do_not_know() {
    for (aud, is_good) in [
        (json!("hub"), true),
        (json!("hub2"), true),
        (json!(["hub"]), true),
        (json!(["account", "hub2"]), true),
        (json!("account"), false),
        (json!(["account"]), false),
        (json!(["hub", "other"]), false),
        (json!(["hub", 1]), false),
        (json!([]), false),
        (json!({"hub": true}), false),
        (Value::Null, false),
    ] {
        assert_eq!(rules().check(&claims(&json!({"aud": aud.clone()}))).is_ok(), is_good, "{aud}");
    }
}

#[test]
fn t27_what_a_token_must_have_is_there_and_proper() {
    let (longest, longer) = ("s".repeat(LONGEST_ID), "s".repeat(LONGEST_ID + 1));
    for (change, is_good) in [
        (json!({"sub": longest}), true),
        (json!({"sub": longer}), false),
        (json!({"sub": ""}), false),
        (json!({"sub": null}), false),
        (json!({"exp": null}), false),
        (json!({"exp": END_OF_TIME}), true),
        (json!({"exp": END_OF_TIME + 1}), false),
        (json!({"nbf": "0"}), false),
        (json!({"cnf": {}}), false),
    ] {
        assert_eq!(rules().check(&claims(&change)).is_ok(), is_good, "{change}");
    }
}

#[test]
fn a_date_is_a_number_whose_fraction_is_cut_off() {
    for (value, expected) in [
        (json!(0), Some(0)),
        (json!(5), Some(5)),
        (json!(5.0), Some(5)),
        (json!(5.999), Some(5)),
        (json!(0.5), Some(0)),
        (json!(0.0), Some(0)),
        (json!(-1), None),
        (json!(-0.5), None),
        (json!(1e30), None),
        (json!("5"), None),
        (json!(null), None),
    ] {
        assert_eq!(date(&value), expected, "{value}");
    }
}

#[test]
fn a_user_is_what_the_claims_say_and_nothing_that_they_do_not() {
    let required = ClaimRules {
        required: [("hd".to_owned(), "x".to_owned()), ("team".to_owned(), "y".to_owned())].into(),
        ..rules()
    };
    let plain = rules();
    let by_subject = ClaimRules { user: "sub".to_owned(), ..rules() };
    let without_groups = ClaimRules { groups: None, ..rules() };
    let both = json!({"hd": ["w", "x"], "team": "y"});
    for (rules, change, name, groups) in [
        (&plain, json!({}), Some("a@b"), &[][..]),
        (&plain, json!({"email": null}), None, &[]),
        (&plain, json!({"email": ["a@b"]}), None, &[]),
        (&plain, json!({"email": "system:admin"}), None, &[]),
        (&plain, json!({"email_verified": true}), Some("a@b"), &[]),
        (&plain, json!({"email_verified": false}), None, &[]),
        (&plain, json!({"email_verified": "true"}), None, &[]),
        (&by_subject, json!({"email_verified": false}), Some("s"), &[]),
        (&plain, json!({"groups": "g"}), Some("a@b"), &["g"]),
        (&plain, json!({"groups": ["g", "h"]}), Some("a@b"), &["g", "h"]),
        (&plain, json!({"groups": ["g", 1]}), None, &[]),
        (&plain, json!({"groups": ["g", "system:masters"]}), None, &[]),
        (&plain, json!({"groups": {}}), None, &[]),
        (&without_groups, json!({"groups": ["g", 1]}), Some("a@b"), &[]),
        (&required, both, Some("a@b"), &[]),
        (&required, json!({"hd": "x"}), None, &[]),
        (&required, json!({"hd": "x", "team": ["z"]}), None, &[]),
        (&required, json!({"hd": "x", "team": true}), None, &[]),
    ] {
        let user = rules.user(&claims(&change)).ok();
        assert_eq!(user.as_ref().map(|user| &*user.name), name, "{change}");
        let found = user.iter().flat_map(|user| &user.groups).map(|group| &**group);
        assert_eq!(found.collect::<Vec<_>>(), groups, "{change}");
    }
}

#[test]
fn the_id_of_a_token_is_short_and_plain_or_none() {
    let longest = "i".repeat(LONGEST_ID);
    for (jti, is_id) in [
        (json!("i"), true),
        (json!(longest), true),
        (json!(format!("{longest}i")), false),
        (json!(""), false),
        (json!("a\nb"), false),
        (json!(5), false),
        (Value::Null, false),
    ] {
        let id = rules().user(&claims(&json!({"jti": jti.clone()}))).unwrap().token_id;
        assert_eq!(id.as_deref(), jti.as_str().filter(|_| is_id), "{jti}");
    }
}

#[test]
fn claims_that_policy_asks_for_are_facts() {
    let facts =
        BTreeMap::from([("team".to_owned(), "department".to_owned()), ("area".to_owned(), "org.areas".to_owned())]);
    let asked = ClaimRules { facts, ..rules() };
    let found = |changes: Value| asked.user(&claims(&changes)).map(|claimed| format!("{:?}", claimed.facts));
    for (changes, expected) in [
        (json!({}), "{}"),
        (json!({"department": "red"}), r#"{"team": ["red"]}"#),
        (
            json!({"department": ["red", "blue"], "org.areas": [], "team": "green"}),
            r#"{"area": [], "team": ["red", "blue"]}"#,
        ),
        (json!({"department": vec!["x".repeat(256); 64]}), ""),
    ] {
        let found = found(changes).unwrap();
        assert!(expected.is_empty() || found == expected, "{found}");
    }
    for bad in [
        json!(1),
        json!(true),
        json!({"a": "b"}),
        json!(["a", 1]),
        json!("x".repeat(257)),
        json!("a\nb"),
        json!(vec!["x"; 65]),
        json!([["a"]]),
    ] {
        assert!(found(json!({"department": bad.clone()})).is_err(), "{bad}");
    }
    let (longest, longer) = ("t".repeat(63), "t".repeat(64));
    for (name, claim, is_good) in [
        ("team", "t", true),
        ("t", "t", true),
        (longest.as_str(), "t", true),
        (longer.as_str(), "t", false),
        ("team_1", "https://example.com/team", true),
        ("", "t", false),
        ("1team", "t", false),
        ("Team", "t", false),
        ("a-b", "t", false),
        ("team", "", false),
    ] {
        let rules = ClaimRules { facts: BTreeMap::from([(name.to_owned(), claim.to_owned())]), ..rules() };
        assert_eq!(rules.problem_of_facts().is_none(), is_good, "{name} {claim}");
    }
    let many = |count: u32| (0..count).map(|n| (format!("f{n}"), "t".to_owned())).collect();
    assert!(ClaimRules { facts: many(16), ..rules() }.problem_of_facts().is_none());
    assert!(ClaimRules { facts: many(17), ..rules() }.problem_of_facts().is_some());
}
