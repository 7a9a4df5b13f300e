//! What can be wrong with a policy file. Each situation has a stable code and a remedy; each mistake says where it is.

use mctunnel_core::ErrorCode;
use std::{fmt, io};

/// A policy cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PolicyError {
    /// The policy file cannot be read.
    #[error("the policy file cannot be read")]
    Unreadable(#[source] io::Error),
    /// The policy file is not YAML in the form of a policy.
    #[error("the policy cannot be read: {0}")]
    Syntax(Problem),
    /// The policy has mistakes.
    #[error("the policy has mistakes: {}", listed(.0))]
    Invalid(Vec<Problem>),
}

impl PolicyError {
    /// The mistakes, one by one.
    #[must_use]
    pub fn problems(&self) -> &[Problem] {
        match self {
            Self::Unreadable(_) => &[],
            Self::Syntax(problem) => std::slice::from_ref(problem),
            Self::Invalid(problems) => problems,
        }
    }

    /// The stable code and its remedy.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        let (code, remedy) = match self {
            Self::Unreadable(_) => {
                ("MCT-POLICY-FILE", "check that the policy file is there and that this user may read it")
            }
            Self::Syntax(_) => (
                "MCT-POLICY-SYNTAX",
                "correct the line that is named; the form of a policy is in docs/security/policy.md",
            ),
            Self::Invalid(_) => ("MCT-POLICY-INVALID", "correct what 'mctunnel policy check FILE' lists"),
        };
        ErrorCode { code, remedy }
    }
}

/// The first mistake, and how many more there are.
fn listed(problems: &[Problem]) -> String {
    match problems {
        [] => String::new(),
        [only] => only.to_string(),
        [first, rest @ ..] => format!("{first} (and {} more)", rest.len()),
    }
}

/// A mistake in a policy file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// The line, counted from 1, where the parser knows it.
    pub line: Option<u64>,
    /// Of which part, as in `role developers, rule 2`; empty for the file as a whole.
    pub place: String,
    /// What is wrong.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(line) = self.line {
            write!(f, "line {line}: ")?;
        }
        if !self.place.is_empty() {
            write!(f, "{}: ", self.place)?;
        }
        f.write_str(&self.message)
    }
}
