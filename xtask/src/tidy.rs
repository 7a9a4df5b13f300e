//! The rules that no compiler and no clippy checks. Each rule is a function from the repository to what it found; the tests
//! below each rule show it both silent and speaking, and one test here runs them all over this repository.

pub(crate) mod attacks;
mod banned;
mod budgets;
pub(crate) mod codes;
mod documents;
mod layers;
mod links;
mod names;

use crate::repo::Repo;
use std::fmt;

/// Runs every rule.
pub(crate) fn check(repo: &Repo) -> Vec<Finding> {
    const RULES: &[fn(&Repo) -> Vec<Finding>] = &[
        layers::edges,
        layers::mux_is_pure,
        layers::lints_are_inherited,
        names::files,
        names::items,
        budgets::headers,
        budgets::lengths,
        banned::words,
        banned::sleeps,
        documents::present,
        documents::decisions,
        documents::no_local_paths,
        links::resolve,
        codes::documented,
        attacks::listed,
    ];
    let mut findings: Vec<Finding> = RULES.iter().flat_map(|rule| rule(repo)).collect();
    findings.sort_by(|a, b| (&a.path, a.line, &a.message).cmp(&(&b.path, b.line, &b.message)));
    findings
}

/// Something a rule has to say about a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Finding {
    path: String,
    line: usize,
    rule: &'static str,
    message: String,
    is_error: bool,
}

impl Finding {
    fn error(path: &str, line: usize, rule: &'static str, message: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, rule, message: message.into(), is_error: true }
    }

    fn warning(path: &str, line: usize, rule: &'static str, message: impl Into<String>) -> Self {
        Self { is_error: false, ..Self::error(path, line, rule, message) }
    }

    /// Whether it fails the run; the rest is advice.
    pub(crate) fn is_error(&self) -> bool {
        self.is_error
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let level = if self.is_error { "" } else { "warning: " };
        write!(f, "{}:{}: {level}{}: {}", self.path, self.line, self.rule, self.message)
    }
}

/// The places a rule complained about, as `path:line`.
#[cfg(test)]
fn places(findings: &[Finding]) -> Vec<String> {
    findings.iter().map(|finding| format!("{}:{}", finding.path, finding.line)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_repository_is_tidy() {
        let repo = Repo::load(&crate::root()).unwrap();
        assert!(repo.rust().count() > 10, "the repository was not found");
        let errors: Vec<String> =
            check(&repo).iter().filter(|finding| finding.is_error()).map(Finding::to_string).collect();
        assert!(errors.is_empty(), "\n{}\n", errors.join("\n"));
    }

    #[test]
    fn a_finding_reads_like_a_compiler_message() {
        let finding = Finding::error("crates/a/src/lib.rs", 7, "names", "no `utils`");
        assert_eq!(finding.to_string(), "crates/a/src/lib.rs:7: names: no `utils`");
        let finding = Finding::warning("a.rs", 1, "budget", "long");
        assert_eq!(finding.to_string(), "a.rs:1: warning: budget: long");
    }
}
