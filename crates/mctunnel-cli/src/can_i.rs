//! `mctunnel can-i`: may this user do that there? Asked of a policy file, or of a hub that runs; the question and who answers it are
//! the same.
//!
//! ```text
//! can_i/ask_hub.rs  puts the question to a hub, as the page takes it
//! can_i/page.rs     the page of the hub: POST /-/can-i
//! ```

pub(crate) mod ask_hub;
pub(crate) mod page;

use crate::{
    hub_client::{AskFailed, HubFlags},
    output,
    policy::read,
};
use anyhow::Context;
use clap::{Args, ValueEnum};
use mctunnel_policy::{InvalidQuestion, Policy, Question, question};
use serde::{Deserialize, Serialize};
use std::{net::IpAddr, path::PathBuf, process::ExitCode};

/// The answer is no.
const NO: u8 = 1;

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
    /// The user who would ask; without it a client that nobody knows, or with --hub whoever the token is of
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
    /// The policy to ask; this or --hub
    #[arg(long, value_name = "FILE", env = "MCTUNNEL_POLICY")]
    policy: Option<PathBuf>,
    #[command(flatten)]
    hub: HubFlags,
    /// The form of the answer
    #[arg(short, long, value_name = "FORM", default_value = "table")]
    output: AnswerForm,
}

/// The form of an answer.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum AnswerForm {
    /// A line for people
    Table,
    /// One JSON object
    Json,
}

/// Runs `mctunnel can-i`: 0 for yes, 1 for no.
pub(crate) fn run(asked: &CanI) -> anyhow::Result<ExitCode> {
    let question = asked.question();
    let answer = match (asked.hub.client()?, &asked.policy) {
        (Some(hub), _) => ask_hub::ask(&hub, &question)?,
        (None, Some(file)) => {
            let policy = Policy::parse(&read(file)?).with_context(|| file.display().to_string())?;
            Answer::of(&question, &policy)?
        }
        (None, None) => return Err(AskFailed::Nobody.into()),
    };
    match asked.output {
        AnswerForm::Json => output::say(&serde_json::to_string_pretty(&answer)?),
        AnswerForm::Table => {
            output::say(&format!("{} ({})", if answer.allowed { "yes" } else { "no" }, answer.rule));
            if let Some(note) = &answer.note {
                output::note(&format!("note: {note}"));
            }
        }
    }
    Ok(if answer.allowed { ExitCode::SUCCESS } else { ExitCode::from(NO) })
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

// === Answer ===

/// The answer for scripts, of the command and of the page. Its names are a promise.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Answer {
    allowed: bool,
    /// The rule that decided, or that there is none.
    rule: String,
    question: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    note: Option<String>,
}

impl Answer {
    fn of(question: &Question, policy: &Policy) -> Result<Self, InvalidQuestion> {
        let decision = question.ask(policy)?;
        let allowed = decision.is_allowed();
        let note = if allowed { None } else { other_provider(question, policy)? };
        Ok(Self { allowed, rule: decision.rule().to_string(), question: question.to_string(), note })
    }
}

/// Says so if the answer would be yes for a user of one of the providers that the policy names.
fn other_provider(question: &Question, policy: &Policy) -> Result<Option<String>, InvalidQuestion> {
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

/// Shown below the help of `mctunnel can-i`.
pub(crate) const EXAMPLE: &str = "\
Examples:
  mctunnel can-i get pods -n kube-system --cluster cluster-prod --as alice --policy policy.yaml
  mctunnel can-i connect pods --subresource exec -n team-a --cluster cluster-prod --as alice --as-group developers --policy policy.yaml
  mctunnel can-i get /healthz --cluster cluster-prod --as monitoring --policy policy.yaml
  mctunnel can-i GET --service monitoring/prometheus:9090 --path /api/v1/query --cluster cluster-prod --as alice --policy policy.yaml
  mctunnel can-i get pods -n kube-system --cluster cluster-prod --hub https://hub.example.com:8080 --hub-ca ca.pem --token-file token

The answer is yes or no with the rule that decides; the exit status is 0 or 1, and 2 if there is no answer. Without --as, a hub
answers for whoever the token is of; to ask it about others takes what Kubernetes takes for it: create subjectaccessreviews.";
