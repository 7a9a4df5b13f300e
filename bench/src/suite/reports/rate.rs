//! Records a second from the first POST at the agent until the last is on the hub's disk, and the bytes that takes on the wire.

use std::{
    iter::{once, repeat_n},
    path::Path,
};

use anyhow::Result;
use tokio::time::Instant;

use super::{Bench, stored};
use crate::{
    post::{CONNECTIONS, records_of},
    records,
    report::line,
    subject::{Kind, Reporting},
    suite::rounds::number,
    verdict::{Figures, Metric},
};

/// What every process allocates and makes once is not the price of a record.
const WARM_UP: usize = 20_000;

pub(super) fn measure(bench: &Bench<'_>, binary: &Path, figures: &mut Figures) -> Result<()> {
    let reporting = Reporting::start(binary, &bench.dir.join("report-rate"), &bench.sink)?;
    let count = bench.plan.report_records;
    let mut packed = 0;
    for source in 0..CONNECTIONS {
        packed += records::packed_bytes(records_of(source), count / CONNECTIONS)?;
    }
    reporting.post(WARM_UP)?.json()?;
    let mut stored = WARM_UP as f64;
    reporting.await_stored(stored)?;
    for round in 1..=bench.plan.rounds {
        let (before, started) = (reporting.wire.bytes(), Instant::now());
        let posted = reporting.post(count)?.json()?;
        stored += count as f64;
        reporting.await_stored(stored)?;
        let seconds = started.elapsed().as_secs_f64();
        let rate = count as f64 / seconds;
        let wire = (reporting.wire.bytes() - before) as f64 / packed as f64;
        figures.add(Metric::ReportRate, Kind::Tunnel, rate);
        figures.add(Metric::ReportWire, Kind::Tunnel, wire);
        line(&format!(
            "round {round}: {count} reports in {seconds:.2} s ({:.2} s until the agent had them), {rate:.0}/s, {:.0} MB \
             on the wire, {wire:.2}x of what they are compressed",
            number(&posted, "/seconds")?,
            (reporting.wire.bytes() - before) as f64 / 1e6,
        ))?;
    }
    let runs: Vec<usize> = once(WARM_UP).chain(repeat_n(count, bench.plan.rounds)).collect();
    stored::check(&reporting.reports()?, &runs)
}
