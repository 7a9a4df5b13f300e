//! `mctunnel policy`: what a policy file says, without a hub.

use crate::output;
use anyhow::Context;
use clap::{Args, Subcommand};
use mctunnel_authn::{AuthConfig, AuthnError};
use mctunnel_policy::{Outcome, Policy, PolicyError, Severity, Table};
use std::{
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

/// Something was found, or is not as expected.
const NO: u8 = 1;

#[derive(Debug, Subcommand)]
pub(crate) enum PolicyCommand {
    /// Find mistakes, rules that can never decide, and names that nothing is called by
    #[command(after_help = CHECK_EXAMPLE)]
    Check {
        /// The policy
        file: PathBuf,
        /// Count warnings as mistakes
        #[arg(long)]
        strict: bool,
        /// The authentication file of the same hub: finds providers in the policy that it does not have
        #[arg(long, value_name = "FILE")]
        auth_config: Option<PathBuf>,
    },
    /// Compare what a policy decides with a table of expectations
    #[command(after_help = TEST_EXAMPLE)]
    Test {
        /// The table
        file: PathBuf,
        #[command(flatten)]
        policy: PolicyFlag,
    },
}

/// Which policy.
#[derive(Debug, Args)]
pub(crate) struct PolicyFlag {
    /// The policy
    #[arg(long, value_name = "FILE", env = "MCTUNNEL_POLICY")]
    policy: PathBuf,
}

// === check ===

/// Runs `mctunnel policy`.
pub(crate) fn run(command: &PolicyCommand) -> anyhow::Result<ExitCode> {
    match command {
        PolicyCommand::Check { file, strict, auth_config } => check(file, *strict, auth_config.as_deref()),
        PolicyCommand::Test { file, policy } => test(file, &policy.policy),
    }
}

fn check(file: &Path, strict: bool, auth_config: Option<&Path>) -> anyhow::Result<ExitCode> {
    let text = read(file)?;
    let findings = match auth_config {
        Some(path) => {
            let config = authentication(path)?;
            mctunnel_policy::check_with_providers(&text, &config.provider_names().collect::<Vec<_>>())
        }
        None => mctunnel_policy::check(&text),
    };
    for finding in &findings {
        output::say(&format!("{}: {finding}", file.display()));
    }
    let errors = findings.iter().filter(|finding| finding.severity == Severity::Error).count();
    let warnings = findings.len() - errors;
    output::say(&format!("{}: {errors} errors, {warnings} warnings", file.display()));
    let is_bad = errors > 0 || strict && warnings > 0;
    Ok(if is_bad { ExitCode::from(NO) } else { ExitCode::SUCCESS })
}

/// The authentication file as far as it says who is called what: what it names is not read.
fn authentication(path: &Path) -> Result<AuthConfig, AuthnError> {
    let unreadable = |source| AuthnError::File { path: path.to_owned(), source };
    let text = fs::read_to_string(path).map_err(unreadable)?;
    AuthConfig::parse(&text).map_err(|reason| AuthnError::Syntax { path: path.to_owned(), reason })
}

// === test ===

fn test(file: &Path, policy: &Path) -> anyhow::Result<ExitCode> {
    let policy = Policy::parse(&read(policy)?).with_context(|| policy.display().to_string())?;
    let table = Table::parse(&read(file)?).with_context(|| file.display().to_string())?;
    let outcomes = table.run(&policy);
    let width = outcomes.iter().map(|outcome| outcome.question.chars().count()).max().unwrap_or_default();
    for outcome in &outcomes {
        output::say(&row(outcome, width));
    }
    let unmet = outcomes.iter().filter(|outcome| !outcome.is_met).count();
    output::say(&format!("{} of {} as expected", outcomes.len() - unmet, outcomes.len()));
    Ok(if unmet > 0 { ExitCode::from(NO) } else { ExitCode::SUCCESS })
}

fn row(outcome: &Outcome, width: usize) -> String {
    let Outcome { line, question, expected, found, rule, is_met } = outcome;
    let line = line.map(|line| line.to_string()).unwrap_or_default();
    let question = question.escape_debug();
    if *is_met {
        format!("ok    {line:>4}  {question:<width$}  {expected:<5}  {rule}")
    } else {
        format!("FAIL  {line:>4}  {question:<width$}  {expected:<5}  is: {found} ({rule})")
    }
}

pub(crate) fn read(file: &Path) -> anyhow::Result<String> {
    fs::read_to_string(file).map_err(PolicyError::Unreadable).with_context(|| file.display().to_string())
}

const CHECK_EXAMPLE: &str = "\
Examples:
  mctunnel policy check policy.yaml
  mctunnel policy check --strict policy.yaml --auth-config auth.yaml";

const TEST_EXAMPLE: &str = "\
Example:
  mctunnel policy test expectations.yaml --policy policy.yaml

  tests:
    - who: {user: alice, groups: [developers], provider: corp}
      where: {cluster: cluster-prod, namespace: kube-system}
      what: {verb: get, resource: pods}
      expect: deny";
