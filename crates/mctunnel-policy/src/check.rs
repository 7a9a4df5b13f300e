//! What is wrong, or odd, in a policy: mistakes that keep it from being read, and rules that can never decide anything. For people; a
//! decision never depends on it.

mod oddities;

use crate::{error::Problem, file::PolicyText, policy::Policy};
use std::{fmt, time::SystemTime};

/// Something to say about a policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// Where and what.
    pub problem: Problem,
}

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The policy cannot be used.
    Error,
    /// The policy can be used, but probably does not say what was meant.
    Warning,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let severity = match self.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        write!(f, "{severity}: {}", self.problem)
    }
}

/// Checks the text of a policy; an empty list means that nothing was found.
#[must_use]
pub fn check(text: &str) -> Vec<Finding> {
    find(text, None)
}

/// The same, and finds providers in it that are not among these, which are all there are.
#[must_use]
pub fn check_with_providers(text: &str, providers: &[&str]) -> Vec<Finding> {
    find(text, Some(providers))
}

fn find(text: &str, providers: Option<&[&str]>) -> Vec<Finding> {
    match Policy::parse(text) {
        Err(error) => {
            let problems = error.problems().iter().cloned();
            problems.map(|problem| Finding { severity: Severity::Error, problem }).collect()
        }
        Ok(policy) => {
            let lines = PolicyText::parse(text).map(|text| oddities::Lines::of(&text)).unwrap_or_default();
            let mut warnings = oddities::find(&policy.rules, &lines, crate::circumstance::seconds(SystemTime::now()));
            if let Some(providers) = providers {
                warnings.extend(oddities::unknown_providers(&policy.rules, &lines, providers));
            }
            warnings.sort();
            warnings.into_iter().map(|problem| Finding { severity: Severity::Warning, problem }).collect()
        }
    }
}
