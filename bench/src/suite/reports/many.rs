//! A hub with many agents that report at once: whether every record is in its store exactly once, how long that takes, and what an agent
//! costs the hub.

use std::{collections::BTreeSet, thread, time::Duration};

use anyhow::Result;
use mctunnel_report::{Query, StoreReader};
use tokio::time::Instant;

use super::Bench;
use crate::{
    agents::reporting::bodies,
    post::KIND,
    report::line,
    subject::{Kind, Tunnel},
    verdict::{Figures, Metric},
};

/// Records of each agent.
const EACH: usize = 100;
const PATIENCE: Duration = Duration::from_secs(120);
const QUIET: Duration = Duration::from_secs(1);

pub(super) fn measure(bench: &Bench<'_>, figures: &mut Figures) -> Result<()> {
    let Some(hub) = bench.hub("report-many")? else { return Ok(()) };
    let count = bench.plan.reporting_agents;
    let before = hub.resident()?;
    let agents = hub.reporting_agents(count, EACH)?;
    let started = Instant::now();
    let all = (count * EACH) as f64;
    // What does not come in time is missing.
    while hub.stored(KIND)? < all && started.elapsed() < PATIENCE {
        thread::sleep(Duration::from_millis(50));
    }
    let seconds = started.elapsed().as_secs_f64();
    thread::sleep(QUIET);
    let each = (hub.resident()? - before) / count as f64 / 1024.0;
    drop(agents);
    let wrong = missing(&hub, count)?;
    figures.add(Metric::ManyMissing, Kind::Tunnel, wrong as f64);
    figures.add(Metric::ManyRate, Kind::Tunnel, all / seconds);
    figures.add(Metric::ManyMemory, Kind::Tunnel, each);
    line(&format!(
        "{count} agents with {EACH} reports each: {wrong} missing or twice, {seconds:.2} s, {:.0}/s, {each:.1} KiB of the \
         hub each",
        all / seconds
    ))
}

/// How many records are not in the store, or are there once too often.
fn missing(hub: &Tunnel, count: usize) -> Result<usize> {
    let mut expected = BTreeSet::new();
    for agent in 0..count {
        expected.extend(bodies(agent, EACH)?);
    }
    let mut surplus = 0;
    let mut reader = StoreReader::new(&hub.reports(), Query::new(mctunnel_report::Kind::parse(KIND)?));
    while let Some(found) = reader.next_records()? {
        surplus += found.iter().filter(|found| !expected.remove(found.record.body.as_ref())).count();
    }
    Ok(expected.len() + surplus)
}
