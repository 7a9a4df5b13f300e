//! The whole comparison: one run, one machine, the subjects in turn in every round.

mod http;
mod idle;
mod reports;
mod rounds;
mod trust;

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

use crate::{
    machine,
    process::Process,
    report::{self, line},
    subject::{Gate, Mode, Subject, Tunnel, chain},
    verdict::Figures,
};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Small amounts and one round: shows that everything works, not how fast it is
    #[arg(long)]
    quick: bool,
    /// Rounds to take the medians of
    #[arg(long)]
    rounds: Option<usize>,
    /// Also write the report to this file, as Markdown
    #[arg(long)]
    out: Option<PathBuf>,
    /// The mctunnel program; the one beside this program unless given
    #[arg(long)]
    mctunnel: Option<PathBuf>,
    /// The haproxy program (Debian package haproxy)
    #[arg(long, default_value = "/usr/sbin/haproxy")]
    haproxy: PathBuf,
    /// Measure one part alone
    #[arg(long, value_enum)]
    only: Option<Part>,
    /// End with an error if a bar is missed
    #[arg(long)]
    assert: bool,
}

/// A part of the comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    /// Plain bytes: speed, latency, opens, fairness
    Bytes,
    /// HTTP requests
    Http,
    /// Authentication and authorisation
    Trust,
    /// Memory of what is idle
    Idle,
    /// Reports from clusters to the hub
    Reports,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let plan = Plan::of(args);
    let mctunnel = find_mctunnel(args)?;
    let mctunnel = mctunnel.as_deref();
    let dir = tempfile::tempdir()?;
    let mut sink = Process::start_self("sink", &["sink".to_owned()])?;
    let bench = Bench { plan, haproxy: &args.haproxy, mctunnel, dir: dir.path(), sink: sink.line()? };

    let mut figures = Figures::default();
    for (part, measure) in PARTS {
        if args.only.is_none_or(|only| only == part) {
            measure(&bench, &mut figures)?;
        }
    }

    let facts = machine::facts(&args.haproxy, mctunnel);
    line(&report::text(&figures))?;
    if let Some(out) = &args.out {
        std::fs::write(out, report::markdown(&figures, &facts, bench.plan.rounds))?;
        line(&format!("written to {}", out.display()))?;
    }
    if args.assert && (mctunnel.is_none() || figures.missed() > 0) {
        bail!("{} bars missed, mctunnel measured: {}", figures.missed(), mctunnel.is_some());
    }
    Ok(())
}

type Measure = fn(&Bench<'_>, &mut Figures) -> Result<()>;

const PARTS: [(Part, Measure); 5] = [
    (Part::Bytes, rounds::measure),
    (Part::Http, http::measure),
    (Part::Trust, trust::measure),
    (Part::Idle, idle::measure),
    (Part::Reports, reports::measure),
];

fn find_mctunnel(args: &Args) -> Result<Option<PathBuf>> {
    if let Some(given) = &args.mctunnel {
        return Ok(Some(given.clone()));
    }
    let beside = std::env::current_exe()?.with_file_name("mctunnel");
    if beside.exists() {
        return Ok(Some(beside));
    }
    line("mctunnel is not built (cargo build --release -p mctunnel-cli): measuring the others alone")?;
    Ok(None)
}

/// What the parts of the comparison share.
struct Bench<'a> {
    plan: Plan,
    haproxy: &'a Path,
    mctunnel: Option<&'a Path>,
    dir: &'a Path,
    /// The address of the sink.
    sink: String,
}

impl Bench<'_> {
    fn chain(&self) -> Result<Subject> {
        chain(self.haproxy, self.dir, Mode::Tcp, &self.sink, None)
    }

    /// A hub and an agent of its own, with files under `name`.
    fn tunnel(&self, name: &str) -> Result<Option<Subject>> {
        self.hub(name)?.map(|hub| hub.with_agent(&self.sink)).transpose()
    }

    /// A hub without agents, with files under `name`.
    fn hub(&self, name: &str) -> Result<Option<Tunnel>> {
        self.mctunnel.map(|binary| Tunnel::start(binary, &self.dir.join(name), true, &Gate::Open)).transpose()
    }
}

/// How much of everything.
#[derive(Debug, Clone, Copy)]
struct Plan {
    rounds: usize,
    bytes: u64,
    /// Length of a phase of pings, opens or requests.
    seconds: f64,
    stall_pairs: usize,
    idle_streams: usize,
    idle_agents: usize,
    /// Records of a round in which reports are timed.
    report_records: usize,
    /// Records that are reported while the hub is away, for the agent's memory.
    report_backlog: usize,
    /// And for the pings beside an agent that catches up.
    report_catch_up: usize,
    reporting_agents: usize,
}

impl Plan {
    fn of(args: &Args) -> Self {
        let full = Self {
            rounds: 5,
            bytes: 1_000_000_000,
            seconds: 2.0,
            stall_pairs: 2,
            idle_streams: 10_000,
            idle_agents: 9_000,
            report_records: 500_000,
            report_backlog: 2_000_000,
            report_catch_up: 200_000,
            reporting_agents: 1_000,
        };
        let quick = Self {
            rounds: 1,
            bytes: 200_000_000,
            seconds: 0.5,
            stall_pairs: 1,
            idle_streams: 1_000,
            idle_agents: 500,
            report_records: 100_000,
            report_backlog: 200_000,
            report_catch_up: 100_000,
            reporting_agents: 100,
        };
        let plan = if args.quick { quick } else { full };
        Self { rounds: args.rounds.unwrap_or(plan.rounds).max(1), ..plan }
    }
}
