//! A table of what a policy is expected to decide, and how it does: the tests of a policy.

use crate::{
    error::PolicyError,
    file::{line_of, read},
    policy::Policy,
    question::{Deed, Origin, Place, Question, Who},
};
use mctunnel_core::Decision;
use serde::Deserialize;
use serde_saphyr::Spanned;

/// Expectations, in the order of their file.
///
/// ```yaml
/// tests:
///   - who: {user: alice, groups: [developers], provider: corp}
///     where: {cluster: cluster-prod, namespace: kube-system}
///     what: {verb: get, resource: pods}
///     expect: deny
///     rule: deny no-kube-system, rule 1   # may be left out
/// ```
#[derive(Debug)]
pub struct Table(Vec<Expectation>);

#[derive(Debug)]
struct Expectation {
    line: Option<u64>,
    question: Question,
    expected: Expected,
    rule: Option<String>,
}

/// How a row of the table came out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// The line of the row.
    pub line: Option<u64>,
    /// Who wants to do what, and where.
    pub question: String,
    /// What the table says: `allow` or `deny`.
    pub expected: &'static str,
    /// What the policy says: `allow` or `deny`, or why the row cannot be asked.
    pub found: String,
    /// The rule that decided.
    pub rule: String,
    /// Whether it came out as expected, with the rule that was expected.
    pub is_met: bool,
}

impl Table {
    /// Reads a table. A table without rows shows nothing and is an error.
    pub fn parse(text: &str) -> Result<Self, PolicyError> {
        let file: TableText = read(text).map_err(PolicyError::Syntax)?;
        if file.tests.is_empty() {
            let message = "the list of tests is empty".to_owned();
            return Err(PolicyError::Syntax(crate::Problem { line: None, place: String::new(), message }));
        }
        let rows = file.tests.into_iter().map(|row| {
            let line = line_of(&row);
            let RowText { who, place, what, from, expect, rule } = row.value;
            Expectation { line, question: Question { who, place, what, from }, expected: expect, rule }
        });
        Ok(Self(rows.collect()))
    }

    /// Asks the policy, row by row.
    #[must_use]
    pub fn run(&self, policy: &Policy) -> Vec<Outcome> {
        self.0.iter().map(|row| row.run(policy)).collect()
    }
}

impl Expectation {
    fn run(&self, policy: &Policy) -> Outcome {
        let expected = match self.expected {
            Expected::Allow => "allow",
            Expected::Deny => "deny",
        };
        let (found, rule) = match self.question.ask(policy) {
            Ok(decision @ Decision::Allowed { .. }) => ("allow".to_owned(), decision.rule().to_string()),
            Ok(decision @ (Decision::Denied { .. } | Decision::Limited { .. })) => {
                ("deny".to_owned(), decision.rule().to_string())
            }
            Err(error) => (error.to_string(), String::new()),
        };
        let is_met = found == expected && self.rule.as_ref().is_none_or(|wanted| *wanted == rule);
        Outcome { line: self.line, question: self.question.to_string(), expected, found, rule, is_met }
    }
}

// === The file ===

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct TableText {
    tests: Vec<Spanned<RowText>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RowText {
    who: Who,
    #[serde(rename = "where")]
    place: Place,
    what: Deed,
    #[serde(default)]
    from: Origin,
    expect: Expected,
    #[serde(default)]
    rule: Option<String>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Expected {
    Allow,
    Deny,
}
