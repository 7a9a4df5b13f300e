//! Many agents in one process, to see what each costs the hub. Every one is a real tunnel with a certificate of its own.

pub(crate) mod reporting;

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context as _, Result, bail};
use mctunnel_agent::Agent;
use mctunnel_core::ClusterName;
use mctunnel_identity::{ClusterFiles, HUB_SERVER_NAME, HubAuthority, JoinBundle};
use serde_json::json;
use tokio::{
    io::AsyncReadExt as _,
    task::JoinSet,
    time::{Instant, sleep},
};

use crate::report;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The hub's data directory: the clusters are added there
    #[arg(long)]
    data_dir: PathBuf,
    /// Where the hub listens for tunnels
    #[arg(long)]
    hub: String,
    /// How many agents
    #[arg(long, default_value_t = 1_000)]
    count: usize,
    /// Records that each of them reports once all are up
    #[arg(long, default_value_t = 0)]
    records: usize,
    /// Where each has a spool of its own
    #[arg(long, requires = "records")]
    spools: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let bundles = add_clusters(&args.data_dir, &args.hub, args.count)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let started = Instant::now();
        let mut tasks = JoinSet::new();
        let mut agents = Vec::with_capacity(bundles.len());
        for batch in bundles.chunks(BATCH) {
            agents.extend(connect(batch, &mut tasks).await?);
        }
        let seconds = started.elapsed().as_secs_f64();
        let reporters = args.spools.as_ref().map(|dir| reporting::prepare(&agents, dir, &mut tasks)).transpose()?;
        report::line(&json!({ "agents": agents.len(), "seconds": seconds }).to_string())?;
        if let Some(reporters) = reporters {
            reporting::report(reporters, args.records).await?;
        }
        tokio::io::stdin().read_to_end(&mut Vec::new()).await?;
        Ok(())
    })
}

/// So many dial at a time: this is about agents that are connected, not about how they came.
const BATCH: usize = 50;
const PATIENCE: Duration = Duration::from_secs(60);

async fn connect(bundles: &[JoinBundle], tasks: &mut JoinSet<()>) -> Result<Vec<Agent>> {
    let mut agents = Vec::with_capacity(bundles.len());
    for bundle in bundles {
        let agent = Agent::builder(bundle).build()?;
        agents.push(agent.clone());
        tasks.spawn(async move { agent.run().await });
    }
    let started = Instant::now();
    while !agents.iter().all(|agent| agent.status().is_some()) {
        if started.elapsed() > PATIENCE {
            bail!("{} agents were not all connected within {PATIENCE:?}", agents.len());
        }
        sleep(Duration::from_millis(5)).await;
    }
    Ok(agents)
}

fn add_clusters(data_dir: &Path, hub: &str, count: usize) -> Result<Vec<JoinBundle>> {
    let authority = HubAuthority::open_or_create(data_dir, &[])?;
    let clusters = ClusterFiles::new(data_dir);
    (1..=count)
        .map(|index| {
            let cluster = ClusterName::parse(&format!("bench-{index}")).context("the cluster's name")?;
            let issued = authority.issue_agent(&cluster, LIFETIME)?;
            clusters.add(&cluster, &issued.serial, true)?;
            Ok(JoinBundle {
                version: JoinBundle::VERSION,
                cluster,
                hub: hub.to_owned(),
                hub_server_name: HUB_SERVER_NAME.to_owned(),
                ca_pem: authority.ca_pem().to_owned(),
                certificate_pem: issued.certificate_pem,
                key_pem: issued.key_pem,
            })
        })
        .collect()
}

const LIFETIME: Duration = Duration::from_secs(24 * 60 * 60);
