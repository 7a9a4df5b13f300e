//! `mctunnel ca`: the hub's certificate authority, and changing it without shutting anybody out.

use crate::{cli::DataDir, cluster::date, data_dir, output};
use clap::Subcommand;
use mctunnel::{ClusterFiles, ClusterName, ErrorCode, identity::Rotation};
use std::path::Path;

/// What `mctunnel ca` can do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Show the hub's CA, and whether it is being changed
    #[command(after_help = "Example:\n  mctunnel ca status --data-dir /var/lib/mctunnel")]
    Status {
        #[command(flatten)]
        hub: DataDir,
    },
    /// Print the certificates that clients need to know the hub by, PEM
    #[command(after_help = "Example:\n  mctunnel ca show --data-dir /var/lib/mctunnel > hub-ca.pem")]
    Show {
        #[command(flatten)]
        hub: DataDir,
    },
    /// Make a new CA beside the one there is; agents get it when they renew
    #[command(after_help = ROTATE_EXAMPLE)]
    Rotate {
        #[command(flatten)]
        hub: DataDir,
    },
    /// End the change: the old CA is not trusted any more
    #[command(after_help = RETIRE_EXAMPLE)]
    Retire {
        #[command(flatten)]
        hub: DataDir,
        /// Also when that shuts agents out
        #[arg(long)]
        force: bool,
    },
}

impl Command {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        match self {
            Self::Status { hub } => status(&hub.data_dir),
            Self::Show { hub } => show(&hub.data_dir),
            Self::Rotate { hub } => rotate(&hub.data_dir),
            Self::Retire { hub, force } => retire(&hub.data_dir, force),
        }
    }
}

fn status(data_dir: &Path) -> anyhow::Result<()> {
    let authority = data_dir::authority(data_dir)?;
    let Some(Rotation { old, new, since_unix }) = authority.rotation() else {
        output::say(&format!("The hub's CA has the pin {}. It is not being changed.", authority.pin()));
        return Ok(());
    };
    output::say(&format!("The hub's CA is being changed since {}.\n  old: {old}\n  new: {new}", date(since_unix)));
    match in_need(data_dir, &old)?.as_slice() {
        [] => output::say("No agent needs the old one."),
        waiting => {
            output::say(&format!("Agents that have not renewed since, and need the old one: {}", names(waiting)))
        }
    }
    let own = of_own_ca(data_dir)?;
    if !own.is_empty() {
        output::say(&format!("Of your own CA, so they know the hub by the file of --hub-ca: {}", names(&own)));
    }
    output::say(HAND_OUT);
    Ok(())
}

fn show(data_dir: &Path) -> anyhow::Result<()> {
    output::say(data_dir::authority(data_dir)?.ca_pem().trim_end());
    Ok(())
}

fn rotate(data_dir: &Path) -> anyhow::Result<()> {
    let rotation = data_dir::authority(data_dir)?.rotate()?;
    output::say(&format!(
        "The hub has a new CA, {}, beside the old one, {}.\n\
         A running hub issues by it within seconds. Agents that enrolled get it when they renew; agents with join bundles need a new \
         bundle.\n{HAND_OUT}\n\n\
         Next: 'mctunnel ca status' until no agent needs the old one, then 'mctunnel ca retire'. A hub without TLS for clients does \
         that by itself once everything that the old one issued has ended.",
        rotation.new, rotation.old
    ));
    Ok(())
}

fn retire(data_dir: &Path, force: bool) -> anyhow::Result<()> {
    let authority = data_dir::authority(data_dir)?;
    if let (Some(rotation), false) = (authority.rotation(), force) {
        let waiting = in_need(data_dir, &rotation.old)?;
        if !waiting.is_empty() {
            return Err(StillNeeded(names(&waiting)).into());
        }
    }
    authority.retire()?;
    output::say(&format!("The old CA is not trusted any more. The hub's CA has the pin {}.", authority.pin()));
    Ok(())
}

fn in_need(data_dir: &Path, old: &mctunnel::identity::CaPin) -> anyhow::Result<Vec<ClusterName>> {
    Ok(ClusterFiles::new(data_dir).in_need_of(old)?)
}

/// Those whose agents the hub gives no CA.
fn of_own_ca(data_dir: &Path) -> anyhow::Result<Vec<ClusterName>> {
    let records = ClusterFiles::new(data_dir).list()?.into_iter();
    Ok(records.filter(|record| record.own_ca).map(|record| record.cluster).collect())
}

fn names(clusters: &[ClusterName]) -> String {
    clusters.iter().map(ClusterName::as_str).collect::<Vec<_>>().join(", ")
}

/// Agents would be shut out.
#[derive(Debug, thiserror::Error)]
#[error("these clusters would be shut out, their agents know only the old CA: {0}")]
pub(crate) struct StillNeeded(String);

impl StillNeeded {
    pub(crate) fn code(&self) -> ErrorCode {
        ErrorCode {
            code: "MCT-CA-STILL-NEEDED",
            remedy: "wait until they have renewed, give them new join bundles or tokens; to those of your own CA what 'mctunnel ca show' prints; or say --force",
        }
    }
}

const HAND_OUT: &str = "\
Clients of the gateway, and agents of your own CA, know the hub by a file. Before 'mctunnel ca retire', give them what 'mctunnel ca show' prints.";

const ROTATE_EXAMPLE: &str = "\
Example:
  mctunnel ca rotate --data-dir /var/lib/mctunnel

A running hub takes note within seconds. Until 'mctunnel ca retire' both CAs are trusted, and nobody is shut out.";

const RETIRE_EXAMPLE: &str = "\
Example:
  mctunnel ca retire --data-dir /var/lib/mctunnel

Tunnels that are up stay. An agent or a client that knows nothing but the old CA does not know the hub when it connects again.";
