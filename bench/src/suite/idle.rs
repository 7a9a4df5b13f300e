//! What idle things cost: resident memory before and after many idle streams, in processes that did nothing before.

use std::{thread, time::Duration};

use anyhow::Result;

use super::{
    Bench,
    rounds::{load, load_process},
};
use crate::{
    report::line,
    subject::{CHAIN_CONNECTIONS, Kind, Subject, Tunnel},
    verdict::{Figures, Metric},
};

pub(crate) fn measure(bench: &Bench<'_>, figures: &mut Figures) -> Result<()> {
    let room = CHAIN_CONNECTIONS - 100;
    idle_streams(&bench.chain()?, bench.plan.idle_streams.min(room), figures)?;
    if let Some(subject) = bench.tunnel("idle")? {
        idle_streams(&subject, bench.plan.idle_streams, figures)?;
    }
    if let Some(hub) = bench.hub("agents")? {
        idle_agents(&hub, bench.plan.idle_agents, figures)?;
    }
    Ok(())
}

fn idle_agents(hub: &Tunnel, count: usize, figures: &mut Figures) -> Result<()> {
    let before = hub.resident()?;
    let agents = hub.agents(count)?;
    thread::sleep(QUIET);
    let each = (hub.resident()? - before) / count as f64 / 1024.0;
    drop(agents);
    figures.add(Metric::IdleAgent, Kind::Tunnel, each);
    line(&format!("{count} idle agents: {each:.2} KiB of the hub each"))
}

fn idle_streams(subject: &Subject, count: usize, figures: &mut Figures) -> Result<()> {
    // What every process allocates once, at its first streams, is not the cost of a stream.
    load(subject, &["--mode", "open", "--streams", "8", "--seconds", "0.5"])?;
    thread::sleep(QUIET);
    let before = subject.resident()?;
    let mut holder = load_process(subject, &["--mode", "hold", "--streams", &count.to_string()])?;
    holder.json()?;
    thread::sleep(QUIET);
    let after = subject.resident()?;
    let metrics = [Metric::IdleStreamNear, Metric::IdleStreamFar];
    for (metric, (before, after)) in metrics.into_iter().zip(before.into_iter().zip(after)) {
        let each = (after - before) / count as f64 / 1024.0;
        figures.add(metric, subject.kind, each);
        line(&format!("{count} idle streams: {} {each:.2} KiB each ({})", subject.kind.title(), metric.title()))?;
    }
    Ok(())
}

const QUIET: Duration = Duration::from_secs(1);
