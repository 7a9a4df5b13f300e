//! `mctunnel policy` and `mctunnel can-i`: what a policy file says, without a hub.

use crate::{cli::ListForm, output};
use anyhow::Context;
use clap::{Args, Subcommand};
use mctunnel_policy::{Outcome, Policy, PolicyError, Question, Severity, Table, question};
use serde::Serialize;
use std::{
    fs,
    net::IpAddr,
    path::{Path, PathBuf},
    process::ExitCode,
};

/// The answer is no, or something was found.
const NO: u8 = 1;

#[derive(Debug, Subcommand)]
pub(crate) enum PolicyCommand {
    /// Find mistakes, rules that can never decide, and names that nothing is called by
    #[command(after_help = "Example:\n  mctunnel policy check policy.yaml")]
    Check {
        /// The policy
        file: PathBuf,
        /// Count warnings as mistakes
        #[arg(long)]
        strict: bool,
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
    pub(crate) policy: PathBuf,
}

/// What `mctunnel can-i` takes.
#[derive(Debug, Args)]
pub(crate) struct CanI {
    /// The verb (get, list, watch, create, update, patch, delete, deletecollection, connect), or the method for --service
    verb: Option<String>,
    /// The resource (pods, pods/log, deployments.apps), or a path that begins with '/'
    resource: Option<String>,
    /// The object's name
    name: Option<String>,
    /// The namespace; without it all of them
    #[arg(short, long, value_name = "NAMESPACE")]
    namespace: Option<String>,
    /// The cluster
    #[arg(long, value_name = "CLUSTER")]
    cluster: String,
    /// The user who would ask; without it a client that nobody knows
    #[arg(long = "as", value_name = "USER")]
    user: Option<String>,
    /// A group of the user; may be given several times
    #[arg(long = "as-group", value_name = "GROUP", requires = "user")]
    groups: Vec<String>,
    /// Who vouches for the user
    #[arg(long = "as-provider", value_name = "PROVIDER", requires = "user")]
    provider: Option<String>,
    /// Where the client would come from
    #[arg(long, value_name = "IP")]
    source: Option<IpAddr>,
    /// When, as in 2026-12-31T18:00:00Z; without it now
    #[arg(long, value_name = "TIME")]
    at: Option<String>,
    /// The subresource, as in log
    #[arg(long, value_name = "NAME")]
    subresource: Option<String>,
    /// An HTTP request to a service instead, as in monitoring/prometheus:9090
    #[arg(long, value_name = "NAMESPACE/NAME:PORT", conflicts_with = "resource")]
    service: Option<String>,
    /// The path of the HTTP request
    #[arg(long, value_name = "PATH", requires = "service")]
    path: Option<String>,
    /// Plain bytes instead: kube-apiserver, namespace/name:port, or host:port
    #[arg(long, value_name = "TARGET", conflicts_with_all = ["verb", "service"])]
    bytes: Option<String>,
    #[command(flatten)]
    policy: PolicyFlag,
    /// The form of the answer
    #[arg(short, long, value_name = "FORM", default_value = "table")]
    output: ListForm,
}

// === check ===

/// Runs `mctunnel policy`.
pub(crate) fn run(command: &PolicyCommand) -> anyhow::Result<ExitCode> {
    match command {
        PolicyCommand::Check { file, strict } => check(file, *strict),
        PolicyCommand::Test { file, policy } => test(file, &policy.policy),
    }
}

fn check(file: &Path, strict: bool) -> anyhow::Result<ExitCode> {
    let findings = mctunnel_policy::check(&read(file)?);
    for finding in &findings {
        output::say(&format!("{}: {finding}", file.display()));
    }
    let errors = findings.iter().filter(|finding| finding.severity == Severity::Error).count();
    let warnings = findings.len() - errors;
    output::say(&format!("{}: {errors} errors, {warnings} warnings", file.display()));
    let is_bad = errors > 0 || strict && warnings > 0;
    Ok(if is_bad { ExitCode::from(NO) } else { ExitCode::SUCCESS })
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

// === can-i ===

/// Runs `mctunnel can-i`: 0 for yes, 1 for no.
pub(crate) fn can_i(asked: &CanI) -> anyhow::Result<ExitCode> {
    let file = &asked.policy.policy;
    let policy = Policy::parse(&read(file)?).with_context(|| file.display().to_string())?;
    let question = asked.question();
    let decision = question.ask(&policy)?;
    let allowed = decision.is_allowed();
    let note = if allowed { None } else { other_provider(&question, &policy)? };
    match asked.output {
        ListForm::Json => {
            let rule = decision.rule();
            let answer = Answer { allowed, rule, question: question.to_string(), note: note.as_deref() };
            output::say(&serde_json::to_string_pretty(&answer)?);
        }
        ListForm::Table => {
            output::say(&format!("{} ({})", if allowed { "yes" } else { "no" }, decision.rule()));
            if let Some(note) = note {
                output::note(&format!("note: {note}"));
            }
        }
    }
    Ok(if allowed { ExitCode::SUCCESS } else { ExitCode::from(NO) })
}

/// The answer for scripts. Its names are a promise.
#[derive(Serialize)]
struct Answer<'a> {
    allowed: bool,
    rule: &'a str,
    question: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<&'a str>,
}

/// Says so if the answer would be yes for a user of one of the providers that the policy names.
fn other_provider(question: &Question, policy: &Policy) -> anyhow::Result<Option<String>> {
    if question.who.user.is_none() || question.who.provider.is_some() {
        return Ok(None);
    }
    for provider in policy.providers() {
        let mut with = question.clone();
        with.who.provider = Some(provider.to_owned());
        if with.ask(policy)?.is_allowed() {
            return Ok(Some(format!("yes for a user of the provider {provider}: ask with --as-provider {provider}")));
        }
    }
    Ok(None)
}

impl CanI {
    fn question(&self) -> Question {
        let resource = self.resource.as_deref();
        let mut what =
            question::Deed { name: self.name.clone(), bytes: self.bytes.clone(), ..question::Deed::default() };
        match (&self.service, resource) {
            (Some(service), _) => {
                what.service = Some(service.clone());
                what.method.clone_from(&self.verb);
                what.path.clone_from(&self.path);
            }
            (None, Some(path)) if path.starts_with('/') => {
                what.verb.clone_from(&self.verb);
                what.path = Some(path.to_owned());
            }
            (None, resource) => {
                what.verb.clone_from(&self.verb);
                what.resource = resource.map(|resource| match &self.subresource {
                    Some(subresource) => format!("{resource}/{subresource}"),
                    None => resource.to_owned(),
                });
            }
        }
        Question {
            who: question::Who {
                user: self.user.clone(),
                groups: self.groups.clone(),
                provider: self.provider.clone(),
                ..question::Who::default()
            },
            place: question::Place { cluster: self.cluster.clone(), namespace: self.namespace.clone() },
            what,
            from: question::Origin { source: self.source, time: self.at.clone() },
        }
    }
}

fn read(file: &Path) -> anyhow::Result<String> {
    fs::read_to_string(file).map_err(PolicyError::Unreadable).with_context(|| file.display().to_string())
}

const TEST_EXAMPLE: &str = "\
Example:
  mctunnel policy test expectations.yaml --policy policy.yaml

  tests:
    - who: {user: alice, groups: [developers], provider: corp}
      where: {cluster: cluster-prod, namespace: kube-system}
      what: {verb: get, resource: pods}
      expect: deny";

/// Shown below the help of `mctunnel can-i`.
pub(crate) const CAN_I_EXAMPLE: &str = "\
Examples:
  mctunnel can-i get pods -n kube-system --cluster cluster-prod --as alice --policy policy.yaml
  mctunnel can-i connect pods --subresource exec -n team-a --cluster cluster-prod --as alice --as-group developers
  mctunnel can-i get /healthz --cluster cluster-prod --as monitoring
  mctunnel can-i GET --service monitoring/prometheus:9090 --path /api/v1/query --cluster cluster-prod --as alice

The answer is yes or no with the rule that decides; the exit status is 0 or 1.";
