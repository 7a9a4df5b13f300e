//! HTTP: small requests on kept-alive connections, and the first one over a tunnel that is long.

use std::time::Duration;

use anyhow::Result;

use super::{
    Bench,
    rounds::{load, number},
};
use crate::{
    report::line,
    subject::{Mode, Subject, chain, http_target},
    verdict::{Figures, Metric},
};

pub(crate) fn measure(bench: &Bench<'_>, figures: &mut Figures) -> Result<()> {
    let (_target, address) = http_target(bench.haproxy, &bench.dir.join("http"))?;
    requests(bench, &address, figures)?;
    first_requests(bench, &address, figures)
}

/// The chain and mctunnel in front of `target`, with files under `name`.
fn proxies(bench: &Bench<'_>, target: &str, name: &str, delay: Option<Duration>) -> Result<Vec<Subject>> {
    let dir = bench.dir.join(name);
    let mut subjects = vec![chain(bench.haproxy, &dir, Mode::Http, target, delay)?];
    subjects.extend(bench.hub(name)?.map(|hub| hub.with_api(target, delay)).transpose()?);
    Ok(subjects)
}

fn requests(bench: &Bench<'_>, target: &str, figures: &mut Figures) -> Result<()> {
    let seconds = bench.plan.seconds.to_string();
    let mut subjects = proxies(bench, target, "http", None)?;
    subjects.insert(0, Subject::direct(target));
    for subject in &subjects {
        load(subject, &["--mode", "get", "--streams", "32", "--seconds", "0.2"])?;
    }
    for round in 1..=bench.plan.rounds {
        for subject in &subjects {
            let mut progress = Vec::new();
            for (connections, [rate, p50, p99]) in LOADS {
                let outcome = load(subject, &["--mode", "get", "--streams", connections, "--seconds", &seconds])?;
                let per_second = number(&outcome, "/per_s")?;
                figures.add(rate, subject.kind, per_second);
                figures.add(p50, subject.kind, number(&outcome, "/get/p50_us")?);
                figures.add(p99, subject.kind, number(&outcome, "/get/p99_us")?);
                progress.push(format!("{per_second:.0} GETs/s on {connections}"));
            }
            line(&format!("round {round}: {:<13} {}", subject.kind.title(), progress.join(", ")))?;
        }
        subjects.rotate_left(1);
    }
    Ok(())
}

const LOADS: [(&str, [Metric; 3]); 2] = [
    ("32", [Metric::Get32Rate, Metric::Get32P50, Metric::Get32P99]),
    ("1", [Metric::Get1Rate, Metric::Get1P50, Metric::Get1P99]),
];

/// Nothing can be the first twice, so every round has processes of its own.
fn first_requests(bench: &Bench<'_>, target: &str, figures: &mut Figures) -> Result<()> {
    for round in 1..=bench.plan.rounds {
        for subject in proxies(bench, target, &format!("first-{round}"), Some(ONE_WAY))? {
            let outcome = load(&subject, &["--mode", "get", "--seconds", "0"])?;
            let round_trips = number(&outcome, "/get/max_us")? / (2.0 * ONE_WAY.as_secs_f64() * 1e6);
            figures.add(Metric::FirstGet, subject.kind, round_trips);
            line(&format!("round {round}: {:<13} first GET in {round_trips:.2} round trips", subject.kind.title()))?;
        }
    }
    Ok(())
}

/// How long a byte takes from one proxy to the other. The rows and the method of the report name it.
const ONE_WAY: Duration = Duration::from_millis(25);
