//! `mctunnel join-token`: tokens with which agents enrol. Works on the hub's data directory; a running hub takes note at once.

mod manifest;

use crate::{
    cli::{DataDir, ListForm},
    cluster::{self, date},
    data_dir, output,
};
use clap::{Args, Subcommand, ValueEnum};
use mctunnel::{
    ClusterFiles, ClusterName, IdentityError,
    agent::hub_address::HubAddress,
    identity::{ClusterList, JoinToken, JoinTokenFiles, JoinTokenRecord, JoinTokens, NewJoinToken, TokenId},
};
use serde::Serialize;
use std::{
    collections::BTreeMap,
    path::Path,
    time::{SystemTime, UNIX_EPOCH},
};

/// Where an agent on the same machine finds the hub.
const LOCAL_HUB: &str = "127.0.0.1:8443";

/// What `mctunnel join-token` can do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Make a token and print what to paste where the agent is to run
    #[command(after_help = CREATE_EXAMPLE)]
    Create(Create),
    /// List the tokens, those that no longer count too
    #[command(after_help = "Example:\n  mctunnel join-token list --data-dir /var/lib/mctunnel -o json")]
    List {
        #[command(flatten)]
        hub: DataDir,
        /// The form of the list
        #[arg(short, long, value_name = "FORM", default_value = "table")]
        output: ListForm,
    },
    /// Take a token back; agents that have used it stay
    #[command(after_help = "Example:\n  mctunnel join-token revoke 0123456789abcdef --data-dir /var/lib/mctunnel")]
    Revoke {
        /// The token's id, as in the list
        id: String,
        #[command(flatten)]
        hub: DataDir,
    },
}

/// What `mctunnel join-token create` takes.
#[derive(Debug, Args)]
pub(crate) struct Create {
    /// The cluster whose agent may use it; added to the hub if it is not there
    #[arg(long, value_name = "NAME")]
    cluster: String,
    #[command(flatten)]
    data: DataDir,
    /// Where the agent reaches the hub [default: 127.0.0.1:8443]
    #[arg(long, value_name = "HOST:PORT")]
    hub: Option<String>,
    /// How long the token counts
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = some_time)]
    ttl: humantime::Duration,
    /// How many agents may use it
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    uses: u32,
    /// What is said about the cluster once it has enrolled; may be given many times
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = label)]
    labels: Vec<(String, String)>,
    /// What to print
    #[arg(short, long, value_name = "FORM", default_value = "command")]
    output: Form,
    /// The namespace for the agent, in a manifest
    #[arg(long, value_name = "NAME", default_value = "mctunnel")]
    namespace: String,
    /// The image of the agent, in a manifest or in values
    #[arg(long, value_name = "IMAGE", default_value = concat!("ghcr.io/mctunnel/mctunnel:", env!("CARGO_PKG_VERSION")))]
    image: String,
}

/// What `create` prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Form {
    /// The command that starts the agent
    Command,
    /// Objects for kubectl apply -f -
    Manifest,
    /// Values for the Helm chart of the agent
    Values,
    /// The token alone
    Token,
}

impl Command {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        match self {
            Self::Create(create) => create.run(),
            Self::List { hub, output } => list(&hub.data_dir, output),
            Self::Revoke { id, hub } => revoke(&id, &hub.data_dir),
        }
    }
}

impl Create {
    fn run(self) -> anyhow::Result<()> {
        let cluster = ClusterName::parse(&self.cluster)?;
        let hub = HubAddress::parse(self.hub.as_deref().unwrap_or(LOCAL_HUB))?;
        let data_dir = &self.data.data_dir;
        let authority = data_dir::authority_or_new(data_dir)?;
        let (epoch, pin) = (ClusterFiles::new(data_dir).ensure(&cluster)?, authority.pin());
        let labels: BTreeMap<_, _> = self.labels.iter().cloned().collect();
        let ttl = self.ttl.into();
        let new = NewJoinToken { cluster: cluster.clone(), epoch, ttl, uses: self.uses, labels: labels.clone(), pin };
        let tokens = JoinTokenFiles::new(data_dir);
        let (id, secret) = tokens.create(new)?;
        let token = JoinToken { id, secret, pin, hub: hub.to_string() }.text();
        let (namespace, image) = (&self.namespace, &self.image);
        output::say(&match self.output {
            Form::Token => token.expose().to_owned(),
            Form::Command => format!("mctunnel agent --join-token {} --data-dir {cluster}-agent", token.expose()),
            Form::Manifest => manifest::objects(&cluster, namespace, image, token.expose()),
            Form::Values => manifest::values(&cluster, image, &labels, token.expose()),
        });
        self.tell(&cluster, id);
        // Who makes tokens looks here now and then, and at the list perhaps never.
        if let Ok((_, unread)) = tokens.list_readable() {
            data_dir::warn_unread(unread);
        }
        Ok(())
    }

    fn tell(&self, cluster: &ClusterName, id: TokenId) {
        let agents = if self.uses == 1 { "one agent".to_owned() } else { format!("{} agents", self.uses) };
        let until = date(now().saturating_add(i64::try_from(self.ttl.as_secs()).unwrap_or(i64::MAX)));
        output::note(&format!(
            "Token {id} lets {agents} of {cluster} enrol until {until}. Until it is used it is worth a cluster: treat it like a \
             password."
        ));
        if self.output == Form::Command {
            output::note("Say with --allow, --allow-service or --kubeconfig what may be reached there.");
        }
        if self.hub.is_none() {
            output::note(&format!(
                "note: the token says that the hub is at {LOCAL_HUB}; for an agent on another machine give --hub HOST:PORT"
            ));
        }
    }
}

fn revoke(id: &str, data_dir: &Path) -> anyhow::Result<()> {
    data_dir::existing(data_dir)?;
    let id = TokenId::parse(id).ok_or(IdentityError::TokenInvalid("an id has 16 of 0-9 and a-f"))?;
    JoinTokenFiles::new(data_dir).revoke(id)?;
    output::say(&format!(
        "Join token {id} is revoked. Agents that have used it stay; 'mctunnel cluster revoke' ends those."
    ));
    Ok(())
}

fn list(data_dir: &Path, form: ListForm) -> anyhow::Result<()> {
    data_dir::existing(data_dir)?;
    let (tokens, unread) = JoinTokenFiles::new(data_dir).list_readable()?;
    // After the tokens: so the cluster of each is among them, unless it was removed.
    let clusters = ClusterFiles::new(data_dir).list_readable()?;
    let lines: Vec<_> = tokens.iter().map(|token| Line::of(token, &clusters)).collect();
    match form {
        ListForm::Json => output::say(&serde_json::to_string_pretty(&lines)?),
        ListForm::Table => {
            let width = lines.iter().map(|line| line.cluster.len()).max().unwrap_or_default().max("CLUSTER".len());
            output::say(&format!(
                "{:<16}  {:<width$}  {:<8}  {:<8}  {:<20}  LABELS",
                "ID", "CLUSTER", "STATE", "USED", "ENDS"
            ));
            for Line { id, cluster, state, used, uses, ends, labels, .. } in &lines {
                let (used, labels) = (format!("{used}/{uses}"), cluster::labels(labels));
                output::say(&format!("{id}  {cluster:<width$}  {state:<8}  {used:<8}  {ends:<20}  {labels}"));
            }
        }
    }
    data_dir::warn_unread(unread.into_iter().chain(clusters.unread.into_iter().map(|(_, error)| error)));
    Ok(())
}

/// Whether an agent can enrol with a token.
fn state(token: &JoinTokenRecord, clusters: &ClusterList) -> &'static str {
    let cluster = clusters.clusters.iter().find(|cluster| cluster.cluster == token.cluster);
    let is_unread = || clusters.unread.iter().any(|(cluster, _)| *cluster == token.cluster);
    if token.revoked {
        "revoked"
    } else if token.expires_unix <= now() {
        "expired"
    } else if token.used >= token.uses {
        "used"
    } else {
        match cluster {
            Some(cluster) if cluster.epoch == token.epoch => "open",
            // What it promised was taken back with the cluster.
            Some(_) => "void",
            None if is_unread() => "unknown",
            None => "void",
        }
    }
}

/// One token in a list. Its names are a promise to scripts.
#[derive(Serialize)]
struct Line<'a> {
    id: String,
    cluster: &'a str,
    /// `open`, `used`, `expired`, `revoked`; `void` when the cluster was revoked or removed since; `unknown` when that cannot be read.
    state: &'static str,
    used: u32,
    uses: u32,
    created: String,
    ends: String,
    labels: &'a BTreeMap<String, String>,
}

impl<'a> Line<'a> {
    fn of(token: &'a JoinTokenRecord, clusters: &ClusterList) -> Self {
        Self {
            id: token.id.to_string(),
            cluster: token.cluster.as_str(),
            state: state(token, clusters),
            used: token.used,
            uses: token.uses,
            created: date(token.created_unix),
            ends: date(token.expires_unix),
            labels: &token.labels,
        }
    }
}

fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

/// A time that lasts.
fn some_time(text: &str) -> Result<humantime::Duration, String> {
    let time: humantime::Duration = text.parse().map_err(|_| "give a time such as 10m, 1h or 2d".to_owned())?;
    if time.as_secs() == 0 { Err("give at least 1s".to_owned()) } else { Ok(time) }
}

/// A label as Kubernetes has them.
fn label(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("give KEY=VALUE")?;
    let is_name = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let is_good = |part: &str, more: &str| part.len() <= 63 && part.chars().all(|c| is_name(c) || more.contains(c));
    if key.is_empty() || !is_good(key, "/") || !is_good(value, "") {
        return Err("a key is 1 to 63 of a-z, A-Z, 0-9 and '-_./', a value up to 63 of the same without '/'".to_owned());
    }
    Ok((key.to_owned(), value.to_owned()))
}

const CREATE_EXAMPLE: &str = "\
Examples:
  mctunnel join-token create --cluster cluster-a --hub hub.example.com:8443 --data-dir /var/lib/mctunnel
  mctunnel join-token create --cluster cluster-a --hub hub.example.com:8443 --data-dir D -o manifest | kubectl apply -f -

A running hub takes note without a restart. The token pins the hub's CA, so the agent knows its hub from the first connection on.
The agent makes its own key, gets a certificate that lives for a day, and renews it by itself.";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_as_kubernetes_has_them() {
        for (text, key, value) in [("env=prod", "env", "prod"), ("a.b/c=", "a.b/c", ""), ("x=1.2_3-4", "x", "1.2_3-4")]
        {
            assert_eq!(label(text).unwrap(), (key.to_owned(), value.to_owned()));
        }
        for bad in ["", "env", "=x", "a=b=c", "a=b c", "ä=x", "a=b/c", "a\n=b", &format!("{}=x", "k".repeat(64))] {
            assert!(label(bad).is_err(), "{bad:?}");
        }
    }
}
