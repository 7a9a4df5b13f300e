//! Speed, latency, opens, fairness and stalls: every round visits every subject, each round starting with another.

use anyhow::{Context as _, Result};
use serde_json::Value;

use super::Bench;
use crate::{
    process::Process,
    report::line,
    subject::{Kind, Subject},
    verdict::{Figures, Metric},
};

pub(crate) fn measure(bench: &Bench<'_>, figures: &mut Figures) -> Result<()> {
    let mut subjects = vec![Subject::direct(&bench.sink), bench.chain()?];
    subjects.extend(bench.tunnel("speed")?);
    for subject in &subjects {
        load(subject, &["--mode", "down", "--bytes", "50000000"])?;
        load(subject, &["--mode", "open", "--seconds", "0.2"])?;
    }
    for round in 1..=bench.plan.rounds {
        for subject in &subjects {
            let progress = visit(bench, subject, figures)?;
            line(&format!(
                "round {round}: {:<13} {progress}",
                subject.kind.title()
            ))?;
        }
        subjects.rotate_left(1);
    }
    Ok(())
}

/// Runs one load in a process of its own and returns its outcome.
pub(crate) fn load(subject: &Subject, args: &[&str]) -> Result<Value> {
    load_process(subject, args)?.json()
}

/// Starts one load and leaves it running.
pub(crate) fn load_process(subject: &Subject, args: &[&str]) -> Result<Process> {
    let route = &subject.route;
    let mut all = vec!["load".to_owned(), "--via".to_owned(), route.via.to_string()];
    all.extend(["--target".to_owned(), route.target.clone()]);
    if let Some(cluster) = &route.cluster {
        all.extend(["--cluster".to_owned(), cluster.clone()]);
    }
    all.extend(args.iter().map(|arg| (*arg).to_owned()));
    Process::start_self(subject.kind.title(), &all)
}

fn visit(bench: &Bench<'_>, subject: &Subject, figures: &mut Figures) -> Result<String> {
    let (plan, kind) = (bench.plan, subject.kind);
    let seconds = plan.seconds.to_string();
    let down = bulk(
        bench,
        subject,
        figures,
        "down",
        [Metric::DownRate, Metric::DownCpu],
    )?;
    let up = bulk(
        bench,
        subject,
        figures,
        "up",
        [Metric::UpRate, Metric::UpCpu],
    )?;

    let echo = load(subject, &["--mode", "echo", "--seconds", &seconds])?;
    let ping = number(&echo, "/ping/p50_us")?;
    figures.add(Metric::PingP50, kind, ping);
    figures.add(Metric::PingP99, kind, number(&echo, "/ping/p99_us")?);

    let mut failures = 0.0;
    for (metric, streams) in [(Metric::Open8, "8"), (Metric::Open64, "64")] {
        let open = load(
            subject,
            &[
                "--mode",
                "open",
                "--streams",
                streams,
                "--seconds",
                &seconds,
            ],
        )?;
        figures.add(metric, kind, number(&open, "/per_s")?);
        failures += number(&open, "/failures")?;
    }
    figures.add(Metric::OpenFailures, kind, failures);

    let mixed = load(
        subject,
        &["--mode", "mixed", "--streams", "16", "--seconds", &seconds],
    )?;
    figures.add(
        Metric::MixedIdlePing,
        kind,
        number(&mixed, "/idle/p99_us")? / 1e3,
    );
    figures.add(
        Metric::MixedPing,
        kind,
        number(&mixed, "/busy/p99_us")? / 1e3,
    );
    figures.add(Metric::MixedRate, kind, number(&mixed, "/mb_per_s")?);
    figures.add(Metric::Jain, kind, number(&mixed, "/jain")?);

    let pairs = plan.stall_pairs.to_string();
    let stall = load(
        subject,
        &[
            "--mode",
            "stall",
            "--streams",
            "4",
            "--pairs",
            &pairs,
            "--seconds",
            &seconds,
        ],
    )?;
    let change = |what: &str| -> Result<f64> {
        Ok(number(&stall, &format!("/with{what}"))? / number(&stall, &format!("/without{what}"))?)
    };
    figures.add(Metric::StallRate, kind, change("/mb_per_s")?);
    figures.add(Metric::StallPing, kind, change("/ping/p99_us")?);
    Ok(format!(
        "down {down:.0} MB/s, up {up:.0} MB/s, ping {ping:.0} us, {failures} failed opens"
    ))
}

fn bulk(
    bench: &Bench<'_>,
    subject: &Subject,
    figures: &mut Figures,
    mode: &str,
    [rate, cpu]: [Metric; 2],
) -> Result<f64> {
    let bytes = bench.plan.bytes;
    let before = subject.cpu_seconds()?;
    let outcome = load(subject, &["--mode", mode, "--bytes", &bytes.to_string()])?;
    let spent = subject.cpu_seconds()? - before;
    let speed = number(&outcome, "/mb_per_s")?;
    figures.add(rate, subject.kind, speed);
    if subject.kind != Kind::Direct {
        figures.add(cpu, subject.kind, spent / (bytes as f64 / 1e9));
    }
    Ok(speed)
}

fn number(outcome: &Value, pointer: &str) -> Result<f64> {
    outcome
        .pointer(pointer)
        .and_then(Value::as_f64)
        .with_context(|| format!("no {pointer} in {outcome}"))
}
