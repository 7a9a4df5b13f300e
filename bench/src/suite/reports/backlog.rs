//! What a backlog costs the agent's memory: the hub is away while much is reported, and then comes back.

use std::path::Path;

use anyhow::Result;
use tokio::time::Instant;

use super::{Bench, stored};
use crate::{
    report::line,
    subject::{Kind, Reporting},
    suite::rounds::number,
    verdict::{Figures, Metric},
};

pub(super) fn measure(bench: &Bench<'_>, binary: &Path, figures: &mut Figures) -> Result<()> {
    let mut reporting = Reporting::start(binary, &bench.dir.join("report-backlog"), &bench.sink)?;
    let count = bench.plan.report_backlog;
    let idle = mib(reporting.agent.resident()?);
    reporting.stop_hub();
    let posted = reporting.post(count)?.json()?;
    let behind = mib(reporting.agent.peak_resident()?);
    reporting.start_hub()?;
    reporting.lay_wire()?;
    let started = Instant::now();
    reporting.await_stored(count as f64)?;
    let seconds = started.elapsed().as_secs_f64();
    // The kernel's own maximum over the whole life of the process, which it knows to some pages only.
    let peak = mib(reporting.agent.peak_resident()?).max(behind);
    stored::check(&reporting.reports()?, &[count])?;
    figures.add(Metric::ReportMemory, Kind::Tunnel, peak);
    figures.add(Metric::CatchUpRate, Kind::Tunnel, count as f64 / seconds);
    line(&format!(
        "{count} reports without a hub in {:.1} s, caught up in {seconds:.1} s: agent {idle:.1} MiB before, at most \
         {behind:.1} MiB until the hub was back, {peak:.1} MiB in all",
        number(&posted, "/seconds")?
    ))
}

fn mib(bytes: f64) -> f64 {
    bytes / f64::from(1 << 20)
}
