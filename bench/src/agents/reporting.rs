//! Agents that report: each has a spool of its own on disk and what the product sends it with.

use std::{
    collections::BTreeMap,
    path::Path,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use anyhow::Result;
use mctunnel_agent::Agent;
use mctunnel_core::{Priority, Protocol};
use mctunnel_report::{Connect, Kind, LaneConfig, Record, Spool, send};
use mctunnel_tunnel::Stream;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::{post::KIND, records::Records};

/// Opens a spool for each agent, in a directory with its number, and begins to send what will be in it.
pub(super) fn prepare(agents: &[Agent], dir: &Path, tasks: &mut JoinSet<()>) -> Result<Vec<Spool>> {
    let kind = Kind::parse(KIND)?;
    let spool_of = |(index, agent): (usize, &Agent)| {
        let spool = Spool::open(&dir.join(index.to_string()), LaneConfig::default(), BTreeMap::new())?;
        // Makes the lane: once in the life of an agent, so not a part of reporting.
        spool.status(&kind)?;
        let to_hub = Arc::new(ToHub { agent: agent.clone() });
        tasks.spawn(send(spool.clone(), to_hub, CancellationToken::new()));
        anyhow::Ok(spool)
    };
    agents.iter().enumerate().map(spool_of).collect()
}

/// All report at the same time; returns when every record is on disk in its spool.
pub(super) async fn report(spools: Vec<Spool>, count: usize) -> Result<()> {
    let kind = Kind::parse(KIND)?;
    let time = i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH)?.as_micros())?;
    let mut appending = JoinSet::new();
    for (index, spool) in spools.into_iter().enumerate() {
        let (kind, records) = (kind.clone(), bodies(index, count)?);
        let records = records.into_iter().map(|body| Record::new(time, "source", body)).collect::<Result<_, _>>()?;
        appending.spawn(async move { spool.append(&kind, records).await });
    }
    while let Some(appended) = appending.join_next().await {
        appended??;
    }
    Ok(())
}

/// What an agent reports.
pub(crate) fn bodies(agent: usize, count: usize) -> Result<Vec<Vec<u8>>> {
    let mut records = Records::new(agent as u64 + 1);
    let body = |_| {
        let mut body = Vec::new();
        records.write(&mut body).map(|()| body)
    };
    (0..count).map(body).collect()
}

/// Streams for reports, as the product's agent opens them.
struct ToHub {
    agent: Agent,
}

impl Connect for ToHub {
    type Stream = Stream;

    async fn connect(&self) -> Result<Stream, String> {
        let opened = self.agent.open_at_hub(&Protocol::report(), None, Priority::Bulk, OPEN_TIMEOUT).await;
        opened.map_err(|error| error.to_string())
    }
}

const OPEN_TIMEOUT: Duration = Duration::from_secs(30);
