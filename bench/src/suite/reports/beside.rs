//! What an agent that catches up does to small exchanges on the same tunnel: paced pings meanwhile, and after it.

use std::{path::Path, thread, time::Duration};

use anyhow::Result;
use tokio::time::Instant;

use super::Bench;
use crate::{
    report::line,
    subject::{ASK_AGAIN, Kind, Reporting},
    suite::rounds::{load_process, number},
    verdict::{Figures, Metric},
};

/// A catch-up is short, and its p99 is to be more than its worst ping.
const PINGS_PER_SECOND: &str = "1000";
const QUIET: Duration = Duration::from_secs(1);

pub(super) fn measure(bench: &Bench<'_>, binary: &Path, figures: &mut Figures) -> Result<()> {
    let mut reporting = Reporting::start(binary, &bench.dir.join("report-beside"), &bench.sink)?;
    let count = bench.plan.report_catch_up;
    for round in 1..=bench.plan.rounds {
        reporting.stop_hub();
        reporting.post(count)?.json()?;
        reporting.start_hub()?;
        // It asks until the tunnel is there, which is when the agent begins to catch up.
        let mut pinger = load_process(&reporting.streams()?, &["--mode", "paced", "--rate", PINGS_PER_SECOND])?;
        reporting.lay_wire()?;
        reporting.await_stored((round * count) as f64)?;
        let beside = pinger.finish()?;
        thread::sleep(QUIET);
        let mut pinger = load_process(&reporting.streams()?, &["--mode", "paced", "--rate", PINGS_PER_SECOND])?;
        let started = Instant::now();
        // The hub is asked as often as before: that is not what is compared.
        while started.elapsed().as_secs_f64() < bench.plan.seconds {
            reporting.stored()?;
            thread::sleep(ASK_AGAIN);
        }
        let alone = pinger.finish()?;
        let [beside_p99, alone_p99] = [number(&beside, "/ping/p99_us")?, number(&alone, "/ping/p99_us")?];
        figures.add(Metric::CatchUpPing, Kind::Tunnel, beside_p99 / 1e3);
        figures.add(Metric::CaughtUpPing, Kind::Tunnel, alone_p99 / 1e3);
        figures.add(Metric::CatchUpPingRatio, Kind::Tunnel, beside_p99 / alone_p99);
        line(&format!(
            "round {round}: {count} reports caught up in {:.1} s; {} pings beside it p99 {:.2} ms, {} alone p99 {:.2} ms",
            number(&beside, "/seconds")?,
            number(&beside, "/ping/count")?,
            beside_p99 / 1e3,
            number(&alone, "/ping/count")?,
            alone_p99 / 1e3,
        ))?;
    }
    Ok(())
}
