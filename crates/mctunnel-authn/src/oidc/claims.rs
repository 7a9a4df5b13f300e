//! What a token claims, checked against what the issuer's configuration wants, and the user made of it.

#[cfg(test)]
mod tests;

use crate::{
    NameRules,
    clock::{self, SKEW},
};
use serde_json::{Map, Value};
use std::{collections::BTreeMap, sync::Arc, time::SystemTime};

/// The last second of the year 9999: what is said to end later has no proper date.
const END_OF_TIME: u64 = 253_402_300_799;

/// How many facts there are, how many texts in each, and how long one is.
const MOST_FACTS: usize = 16;
const MOST_TEXTS: usize = 64;
const LONGEST_FACT: usize = 256;

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
    /// Facts for policy: what they are called there, and the claims they are in.
    pub facts: BTreeMap<String, String>,
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
    pub(crate) facts: BTreeMap<String, Vec<String>>,
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
        Ok(Claimed { name, groups, facts: self.facts(claims)?, token_id })
    }

    /// A claim that is not there is no fact. One that cannot be a fact refuses the token: a deny rule may be about it.
    fn facts(&self, claims: &Map<String, Value>) -> Result<BTreeMap<String, Vec<String>>, String> {
        let mut facts = BTreeMap::new();
        for (name, claim) in &self.facts {
            let found = match claims.get(claim) {
                None | Some(Value::Null) => continue,
                Some(Value::String(one)) => Some(vec![one.as_str()]),
                Some(Value::Array(many)) => many.iter().map(Value::as_str).collect(),
                Some(Value::Bool(_) | Value::Number(_) | Value::Object(_)) => None,
            };
            let is_fact = |text: &&str| text.len() <= LONGEST_FACT && !text.contains(char::is_control);
            let found = found.filter(|texts| texts.len() <= MOST_TEXTS && texts.iter().all(is_fact));
            let found = found.ok_or_else(|| {
                format!("the claim '{claim}' is not a text or a list of at most {MOST_TEXTS}, each of at most {LONGEST_FACT} bytes")
            })?;
            facts.insert(name.clone(), found.into_iter().map(str::to_owned).collect());
        }
        Ok(facts)
    }

    /// What is wrong with the rules for facts.
    pub(crate) fn problem_of_facts(&self) -> Option<String> {
        if self.facts.len() > MOST_FACTS {
            return Some(format!("it has more than {MOST_FACTS} extra_claims"));
        }
        let is_word = |name: &str| {
            (1..=63).contains(&name.len())
                && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
                && !name.starts_with(|first: char| first.is_ascii_digit())
        };
        if let Some(name) = self.facts.keys().find(|name| !is_word(name)) {
            return Some(format!("'{}' cannot be asked for in a policy: take a-z, 0-9 and '_'", name.escape_debug()));
        }
        self.facts.values().any(String::is_empty).then(|| "an extra claim has no name".to_owned())
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
