//! The commands and their help. The settings of the long-running roles are in `settings/table.rs`.

#[cfg(test)]
mod tests;

use crate::{
    agent, api_key, audit, ca, can_i, cluster, clusters, completion, demo, explain, hub, join_token, logs, output,
    policy, reports,
    settings::{AgentRole, Flags, HubRole},
};
use clap::{Args, Parser, Subcommand, ValueEnum, builder::FalseyValueParser};
use mctunnel::identity::ServiceAccount;
use std::{path::PathBuf, process::ExitCode};

/// Connects many clusters to one hub: an agent in each cluster dials out once, and every connection is a stream in that tunnel.
#[derive(Debug, Parser)]
#[command(name = "mctunnel", version, propagate_version = true, arg_required_else_help = true, after_help = EXAMPLE)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Accept tunnels from agents, and let clients in
    #[command(after_help = HUB_EXAMPLE)]
    Hub(Box<Flags<HubRole>>),
    /// Keep a tunnel to the hub up, and join its streams to allowed targets
    #[command(after_help = AGENT_EXAMPLE)]
    Agent(Box<Flags<AgentRole>>),
    /// Add, list, revoke and remove the clusters of a hub
    #[command(subcommand, after_help = CLUSTER_EXAMPLE)]
    Cluster(Cluster),
    /// Make, list and revoke the tokens with which agents join a hub
    #[command(subcommand, after_help = JOIN_TOKEN_EXAMPLE)]
    JoinToken(join_token::Command),
    /// Show and change the certificate authority of a hub
    #[command(subcommand, after_help = "Example:\n  mctunnel ca status --data-dir /var/lib/mctunnel")]
    Ca(ca::Command),
    /// Make, list and revoke the API keys of a hub
    #[command(subcommand, after_help = API_KEY_EXAMPLE)]
    ApiKey(api_key::Command),
    /// Verify and read the audit log of a hub
    #[command(subcommand, after_help = AUDIT_EXAMPLE)]
    Audit(audit::Command),
    /// Check and test policy files
    #[command(subcommand, after_help = "Example:\n  mctunnel policy check policy.yaml")]
    Policy(policy::PolicyCommand),
    /// Ask a policy, or a hub that runs, whether a user may do something, and which rule says so
    #[command(after_help = can_i::EXAMPLE)]
    CanI(Box<can_i::CanI>),
    /// Show what clusters reported
    #[command(
        after_help = "Examples:\n  mctunnel reports -k deploys --since 1h --data-dir /var/lib/mctunnel -w\n  mctunnel reports -k deploys --since 1h --hub https://hub.example.com:8080 --hub-ca ca.pem --token-file token"
    )]
    Reports(reports::Reports),
    /// Show the Kubernetes events that clusters reported
    #[command(
        after_help = "Examples:\n  mctunnel events -c cluster-a --since 1h --data-dir /var/lib/mctunnel -w\n  mctunnel events -c cluster-a --since 1h -w --hub https://hub.example.com:8080 --hub-ca ca.pem --token-file token"
    )]
    Events(reports::Events),
    /// Show the log of a container, as its agent reported it
    #[command(after_help = logs::EXAMPLE)]
    Logs(logs::Logs),
    /// Show each cluster as it reported itself last
    #[command(
        after_help = "Examples:\n  mctunnel clusters --data-dir /var/lib/mctunnel -w\n  mctunnel clusters -o wide --hub https://hub.example.com:8080 --hub-ca ca.pem --token-file token"
    )]
    Clusters(clusters::Clusters),
    /// Show a hub, two agents and requests through the tunnel, step by step
    #[command(after_help = "Example:\n  mctunnel demo --once")]
    Demo {
        /// End after the last step instead of waiting for Ctrl-C
        #[arg(long, env = "DEMO_ONCE", value_parser = FalseyValueParser::new())]
        once: bool,
    },
    /// Say what an error code means and what to do about it
    #[command(after_help = "Example:\n  mctunnel explain MCT-OPEN-NO-TUNNEL")]
    Explain {
        /// The code, as in a log or in a status line; without it all codes are listed
        code: Option<String>,
    },
    /// Write a completion script for a shell
    #[command(after_help = "Example:\n  mctunnel completion bash > /etc/bash_completion.d/mctunnel")]
    Completion {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Print the version
    Version,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Cluster {
    /// Add a cluster and write the join bundle for its agent
    #[command(after_help = ADD_EXAMPLE)]
    Add(Add),
    /// List the clusters that were added
    #[command(after_help = "Example:\n  mctunnel cluster list --data-dir /var/lib/mctunnel -o json")]
    List {
        #[command(flatten)]
        hub: DataDir,
        /// The form of the list
        #[arg(short, long, value_name = "FORM", default_value = "table")]
        output: ListForm,
    },
    /// Revoke a cluster: no certificate, no join token and no ServiceAccount that it has counts from now on
    #[command(after_help = REVOKE_EXAMPLE)]
    Revoke {
        /// The cluster's name
        name: String,
        #[command(flatten)]
        hub: DataDir,
    },
    /// Remove a cluster: its agent is refused from now on
    #[command(after_help = "Example:\n  mctunnel cluster remove cluster-a --data-dir /var/lib/mctunnel")]
    Remove {
        /// The cluster's name
        name: String,
        #[command(flatten)]
        hub: DataDir,
    },
}

/// What `mctunnel cluster add` takes.
#[derive(Debug, Args)]
pub(crate) struct Add {
    /// The cluster's name: 1 to 63 of a-z, 0-9 and '-', beginning and ending with a letter or digit
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) data: DataDir,
    /// Where the agent reaches the hub [default: 127.0.0.1:8443]
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) hub: Option<String>,
    /// The file to write the bundle to [default: NAME.join]
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// How long the agent's certificate is valid
    #[arg(long, value_name = "TIME", default_value = "365d")]
    pub(crate) ttl: humantime::Duration,
    /// Replace the certificate of a cluster that was added before; the old one and the old file no longer count
    #[arg(long)]
    pub(crate) reissue: bool,
    /// Write no bundle: the agent has a certificate of your own CA, which the hub knows by --agent-ca
    #[arg(long, conflicts_with_all = ["reissue", "out", "hub"])]
    pub(crate) own_ca: bool,
    /// Write no bundle: the agent enrols by tokens of this ServiceAccount of the hub's own cluster, which takes them by --enrol-audience
    #[arg(long, value_name = "NAMESPACE/ACCOUNT", conflicts_with_all = ["reissue", "out", "hub", "own_ca"])]
    pub(crate) service_account: Option<ServiceAccount>,
}

/// Whose clusters.
#[derive(Debug, Args)]
pub(crate) struct DataDir {
    /// The data directory of the hub
    #[arg(long, value_name = "DIR", env = "MCTUNNEL_DATA_DIR")]
    pub(crate) data_dir: PathBuf,
}

/// The form of a list.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum ListForm {
    /// Columns for people
    Table,
    /// One JSON array
    Json,
}

impl Cli {
    /// Does what was asked for.
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        match self.command {
            Command::Hub(flags) => return hub::run(*flags),
            Command::Agent(flags) => return agent::run(*flags),
            Command::Cluster(Cluster::Add(add)) => cluster::add(&add)?,
            Command::Cluster(Cluster::List { hub, output }) => cluster::list(&hub.data_dir, output)?,
            Command::Cluster(Cluster::Remove { name, hub }) => cluster::remove(&name, &hub.data_dir)?,
            Command::Cluster(Cluster::Revoke { name, hub }) => cluster::revoke(&name, &hub.data_dir)?,
            Command::JoinToken(command) => command.run()?,
            Command::Ca(command) => command.run()?,
            Command::ApiKey(command) => command.run()?,
            Command::Audit(command) => command.run()?,
            Command::Policy(command) => return policy::run(&command),
            Command::CanI(asked) => return can_i::run(&asked),
            Command::Reports(reports) => reports.run()?,
            Command::Events(events) => events.run()?,
            Command::Logs(logs) => logs.run()?,
            Command::Clusters(clusters) => clusters.run()?,
            Command::Demo { once } => return demo::run(once),
            Command::Explain { code } => explain::run(code.as_deref())?,
            Command::Completion { shell } => completion::run(shell),
            Command::Version => output::say(concat!("mctunnel ", env!("CARGO_PKG_VERSION"))),
        }
        Ok(ExitCode::SUCCESS)
    }
}

const EXAMPLE: &str = "\
Start here:
  mctunnel demo                                    a hub, two agents and a request, step by step
  mctunnel hub --data-dir D --auth-config auth.yaml --policy policy.yaml
                                                   the hub; quickstart/ has the two files
  mctunnel join-token create --cluster cluster-a --hub HOST:PORT --data-dir D
                                                   prints the command that starts the agent of a cluster";

const HUB_EXAMPLE: &str = "\
Examples:
  mctunnel hub --data-dir /var/lib/mctunnel --auth-config auth.yaml --policy policy.yaml
  mctunnel hub --data-dir /tmp/hub --insecure-no-auth --gateway-listen 127.0.0.1:8080
  mctunnel hub --config hub.yaml --print-config

Send a request to a cluster with any client that knows CONNECT:
  curl -p -x http://127.0.0.1:8081 --proxy-header 'x-mctunnel-cluster: cluster-a' http://HOST:PORT/

The first SIGTERM or SIGINT drains: no new clients, agents are told to move, open streams finish within the grace.
The second ends at once.";

const AGENT_EXAMPLE: &str = "\
Examples:
  mctunnel agent --join-token mctj_... --data-dir /var/lib/mctunnel-agent --allow tcp://db.default.svc:5432
  mctunnel agent --join cluster-a.join --allow 'tcp://*.svc.cluster.local:443' --allow tcp://10.0.0.0/8:8000-8999
  mctunnel agent --enrol-service-account-token token --hub-ca ca.pem --hub hub.example.com:8443 --data-dir agent --allow-service default/web

HTTPS_PROXY and NO_PROXY are honoured when the hub is dialled.

The first SIGTERM or SIGINT drains: the hub opens nothing more, open streams finish within the grace.
The second ends at once.";

const JOIN_TOKEN_EXAMPLE: &str = "\
Example:
  mctunnel join-token create --cluster cluster-a --hub hub.example.com:8443 --data-dir /var/lib/mctunnel";

const REVOKE_EXAMPLE: &str = "\
Example:
  mctunnel cluster revoke cluster-a --data-dir /var/lib/mctunnel

A running hub takes note without a restart and cuts the tunnel within 5 seconds. A new join token lets the cluster in again.";

const CLUSTER_EXAMPLE: &str = "\
Example:
  mctunnel cluster add cluster-a --data-dir /var/lib/mctunnel --hub hub.example.com:8443 --out cluster-a.join";

const API_KEY_EXAMPLE: &str = "\
Example:
  mctunnel api-key create ci-runner --user ci --group builders --ttl 90d --data-dir /var/lib/mctunnel";

const AUDIT_EXAMPLE: &str = "\
Example:
  mctunnel audit tail --data-dir /var/lib/mctunnel -f";

const ADD_EXAMPLE: &str = "\
Example:
  mctunnel cluster add cluster-a --data-dir /var/lib/mctunnel --hub hub.example.com:8443 --out cluster-a.join
  mctunnel agent --join cluster-a.join --allow tcp://db.default.svc:5432
  mctunnel cluster add cluster-a --data-dir /var/lib/mctunnel --service-account fleet/cluster-a

A running hub takes note without a restart. The bundle holds a private key: treat it like a password.";
