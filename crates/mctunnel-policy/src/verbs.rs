//! The verbs of a rule, as a set of bits. A method without a meaning is in no set, not even in `*`.

use crate::nearest::suggestion;
use mctunnel_core::Verb;

/// What can be done to objects of the API.
pub(crate) const RESOURCE_VERBS: &[Verb] = &[
    Verb::Get,
    Verb::List,
    Verb::Watch,
    Verb::Create,
    Verb::Update,
    Verb::Patch,
    Verb::Delete,
    Verb::DeleteCollection,
    Verb::Connect,
];

/// What can be done to other paths.
pub(crate) const PATH_VERBS: &[Verb] =
    &[Verb::Get, Verb::Head, Verb::Post, Verb::Put, Verb::Patch, Verb::Delete, Verb::Options];

/// A set of verbs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Verbs(u16);

impl Verbs {
    /// Reads a list; `known` are the verbs that make sense there.
    pub(crate) fn parse(list: &[String], known: &[Verb]) -> Result<Self, String> {
        if list.iter().any(|item| item == "*") {
            return match list {
                [_] => Ok(Self::of(known)),
                _ => Err("'*' stands alone: it has every verb already".to_owned()),
            };
        }
        let mut verbs = Self(0);
        for item in list {
            let verb = known.iter().find(|verb| verb.as_str() == item).ok_or_else(|| unknown(item, known))?;
            verbs.0 |= bit(*verb);
        }
        Ok(verbs)
    }

    fn of(verbs: &[Verb]) -> Self {
        Self(verbs.iter().fold(0, |set, verb| set | bit(*verb)))
    }

    /// Whether it has the verb.
    pub(crate) fn covers(self, verb: Verb) -> bool {
        self.0 & bit(verb) != 0
    }

    /// Whether it has all that the other one has.
    pub(crate) fn includes(self, other: Self) -> bool {
        other.0 & !self.0 == 0
    }
}

fn unknown(item: &str, known: &[Verb]) -> String {
    let names = || known.iter().map(|verb| verb.as_str());
    let listed = names().collect::<Vec<_>>().join(", ");
    format!("there is no verb {item:?}{}; the verbs are {listed}", suggestion(item, names()))
}

/// The verb's place in a set; none for a method that means nothing.
fn bit(verb: Verb) -> u16 {
    match verb {
        Verb::Get => 1,
        Verb::List => 1 << 1,
        Verb::Watch => 1 << 2,
        Verb::Create => 1 << 3,
        Verb::Update => 1 << 4,
        Verb::Patch => 1 << 5,
        Verb::Delete => 1 << 6,
        Verb::DeleteCollection => 1 << 7,
        Verb::Connect => 1 << 8,
        Verb::Head => 1 << 9,
        Verb::Post => 1 << 10,
        Verb::Put => 1 << 11,
        Verb::Options => 1 << 12,
        Verb::Unknown => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verbs(list: &[&str], known: &[Verb]) -> Result<Verbs, String> {
        Verbs::parse(&list.iter().map(|item| (*item).to_owned()).collect::<Vec<_>>(), known)
    }

    #[test]
    fn a_set_has_its_verbs_and_no_others() {
        let all = [RESOURCE_VERBS, PATH_VERBS].concat();
        for known in [RESOURCE_VERBS, PATH_VERBS] {
            let star = verbs(&["*"], known).unwrap();
            for verb in &all {
                assert_eq!(star.covers(*verb), known.contains(verb), "{verb}");
            }
            for verb in known {
                let one = verbs(&[verb.as_str()], known).unwrap();
                assert_eq!(one, Verbs::of(&[*verb]));
                assert!(all.iter().all(|other| one.covers(*other) == (other == verb)), "{verb}");
                assert!(star.includes(one) && !one.includes(star));
            }
            assert!(!star.covers(Verb::Unknown));
        }
    }

    #[test]
    fn a_misspelt_verb_is_an_error() {
        for bad in [&["gett"][..], &["GET"], &[""], &["get", "*"], &["g*"], &["head"], &["use"]] {
            assert!(verbs(bad, RESOURCE_VERBS).is_err(), "{bad:?}");
        }
        assert!(verbs(&["get", "*"], RESOURCE_VERBS).unwrap_err().contains("stands alone"));
        assert!(verbs(&["lsit"], RESOURCE_VERBS).unwrap_err().contains("did you mean list?"));
    }
}
