//! What a token claims, checked against what the issuer's configuration wants, and the user made of it.

use crate::{
    NameRules,
    clock::{self, SKEW},
};
use serde_json::{Map, Value};
use std::{collections::BTreeMap, sync::Arc, time::SystemTime};

/// The last second of the year 9999: what is said to end later has no proper date.
const END_OF_TIME: u64 = 253_402_300_799;

/// Longer texts are no ids.
const LONGEST_ID: usize = 256;

/// Which claims make a user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimRules {
    /// The audiences that mean us; a token must have one of them.
    pub audiences: Vec<String>,
    /// Audiences a token may have beside one of ours.
    pub other_audiences: Vec<String>,
    /// The claim that names the user.
    pub user: String,
    /// The claim that lists the groups.
    pub groups: Option<String>,
    /// Claims that must have a value, or have it in their list.
    pub required: BTreeMap<String, String>,
    /// How users and groups are called.
    pub names: NameRules,
}

/// From when to when a token counts, in seconds since 1970, with allowance for clocks that differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span {
    not_before: u64,
    end: u64,
}

impl Span {
    pub(crate) fn check(self, now: SystemTime) -> Result<(), &'static str> {
        let now = clock::unix(now);
        if now >= self.end {
            return Err("the token has expired");
        }
        if now < self.not_before {
            return Err("the token is not valid yet");
        }
        Ok(())
    }

    pub(crate) fn ends(self) -> Option<SystemTime> {
        clock::moment(self.end)
    }
}

/// What of a user comes from claims.
#[derive(Debug)]
pub(crate) struct Claimed {
    pub(crate) name: Arc<str>,
    pub(crate) groups: Vec<Arc<str>>,
    /// The token's own id.
    pub(crate) token_id: Option<String>,
}

impl ClaimRules {
    /// Checks what does not depend on who it is: for whom, from when, until when.
    pub(crate) fn check(&self, claims: &Map<String, Value>) -> Result<Span, &'static str> {
        self.check_audience(claims.get("aud"))?;
        let subject = claims.get("sub").and_then(Value::as_str).unwrap_or_default();
        if subject.is_empty() || subject.len() > LONGEST_ID {
            return Err("the token has no proper sub");
        }
        if claims.contains_key("cnf") {
            return Err("the token is bound to a key, and counts only with the proof of that key");
        }
        let end = claims.get("exp").and_then(date).ok_or("the token has no proper exp")?;
        let begin = claims.get("nbf").map_or(Some(0), date).ok_or("the token has no proper nbf")?;
        let skew = SKEW.as_secs();
        Ok(Span { not_before: begin.saturating_sub(skew), end: end.saturating_add(skew) })
    }

    /// One of ours must be there, and none that we do not know: a token for somebody else as well can be replayed by them.
    fn check_audience(&self, claim: Option<&Value>) -> Result<(), &'static str> {
        let wrong = "the token has not the aud of this hub";
        let audiences = match claim {
            Some(Value::String(one)) => vec![one.as_str()],
            Some(Value::Array(many)) => many.iter().map(Value::as_str).collect::<Option<_>>().ok_or(wrong)?,
            _ => return Err(wrong),
        };
        let ours = |one: &&str| self.audiences.iter().any(|audience| audience == one);
        let known = |one: &&str| ours(one) || self.other_audiences.iter().any(|audience| audience == one);
        if audiences.iter().any(ours) && audiences.iter().all(known) { Ok(()) } else { Err(wrong) }
    }

    /// Who it is.
    pub(crate) fn user(&self, claims: &Map<String, Value>) -> Result<Claimed, String> {
        for (claim, value) in &self.required {
            if !claims.get(claim).is_some_and(|found| has(found, value)) {
                return Err(format!("the token does not have the required value of the claim '{claim}'"));
            }
        }
        let found = claims.get(&self.user).and_then(Value::as_str);
        let found = found.ok_or_else(|| format!("the token has no text in the claim '{}'", self.user))?;
        if self.user == "email" && claims.get("email_verified").is_some_and(|verified| *verified != Value::Bool(true)) {
            return Err("the token's email was not verified".to_owned());
        }
        let name = self.names.user(found).map_err(|bad| format!("the token's user cannot be used: {bad}"))?;
        let groups = self.groups.as_ref().map_or(Ok(Vec::new()), |claim| self.group_names(claim, claims.get(claim)))?;
        let proper = |id: &&str| !id.is_empty() && id.len() <= LONGEST_ID && !id.contains(char::is_control);
        let token_id = claims.get("jti").and_then(Value::as_str).filter(proper).map(str::to_owned);
        Ok(Claimed { name, groups, token_id })
    }

    fn group_names(&self, claim: &str, found: Option<&Value>) -> Result<Vec<Arc<str>>, String> {
        let found = match found {
            None | Some(Value::Null) => Some(Vec::new()),
            Some(Value::String(one)) => Some(vec![one.as_str()]),
            Some(Value::Array(many)) => many.iter().map(Value::as_str).collect(),
            Some(Value::Bool(_) | Value::Number(_) | Value::Object(_)) => None,
        };
        let found = found.ok_or_else(|| format!("the token has no list of texts in the claim '{claim}'"))?;
        let named =
            |group: &str| self.names.group(group).map_err(|bad| format!("a group of the token cannot be used: {bad}"));
        found.into_iter().map(named).collect()
    }
}

fn has(found: &Value, wanted: &str) -> bool {
    match found {
        Value::String(text) => text == wanted,
        Value::Array(many) => many.iter().any(|one| one.as_str() == Some(wanted)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => false,
    }
}

/// Seconds since 1970. A fraction is cut off.
pub(crate) fn date(value: &Value) -> Option<u64> {
    let number = value.as_number()?;
    let seconds = match number.as_u64() {
        Some(seconds) => seconds,
        // Cut off as text, because no cast from a fraction is exact.
        None => {
            let fraction = number.as_f64().filter(|seconds| *seconds >= 0.0 && seconds.is_finite())?;
            format!("{:.0}", fraction.floor()).parse().ok()?
        }
    };
    (seconds <= END_OF_TIME).then_some(seconds)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn rules() -> ClaimRules {
        ClaimRules {
            audiences: vec!["hub".to_owned(), "hub2".to_owned()],
            other_audiences: vec!["account".to_owned()],
            user: "email".to_owned(),
            groups: Some("groups".to_owned()),
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
}
