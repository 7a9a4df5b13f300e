//! Speed, latency, opens, fairness and stalls: every round visits every subject, each round starting with another.

use anyhow::{Context as _, Result};
use serde_json::Value;

use super::{Bench, Plan};
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
            let progress = Visit { plan: bench.plan, subject, figures: &mut *figures }.all()?;
            line(&format!("round {round}: {:<13} {progress}", subject.kind.title()))?;
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

// === Visit ===

/// One subject in one round.
struct Visit<'a> {
    plan: Plan,
    subject: &'a Subject,
    figures: &'a mut Figures,
}

impl Visit<'_> {
    fn all(&mut self) -> Result<String> {
        let down = self.bulk("down", [Metric::DownRate, Metric::DownCpu])?;
        let up = self.bulk("up", [Metric::UpRate, Metric::UpCpu])?;
        let ping = self.ping()?;
        let opens = self.opens()?;
        self.mixed()?;
        self.stall()?;
        Ok(format!("down {down:.0} MB/s, up {up:.0} MB/s, ping {ping:.0} us, opens {opens:.0}/s"))
    }

    fn bulk(&mut self, mode: &str, [rate, cpu]: [Metric; 2]) -> Result<f64> {
        let bytes = self.plan.bytes;
        let before = self.subject.cpu_seconds()?;
        let outcome = self.load(mode, &["--bytes", &bytes.to_string()])?;
        let spent = self.subject.cpu_seconds()? - before;
        if self.subject.kind != Kind::Direct {
            self.add(cpu, spent / (bytes as f64 / 1e9));
        }
        Ok(self.add(rate, number(&outcome, "/mb_per_s")?))
    }

    fn ping(&mut self) -> Result<f64> {
        let outcome = self.load("echo", &[])?;
        self.add(Metric::PingP99, number(&outcome, "/ping/p99_us")?);
        Ok(self.add(Metric::PingP50, number(&outcome, "/ping/p50_us")?))
    }

    fn opens(&mut self) -> Result<f64> {
        let mut failures = 0.0;
        let mut rate = 0.0;
        for (metric, streams) in [(Metric::Open1, "1"), (Metric::Open8, "8"), (Metric::Open64, "64")] {
            let outcome = self.load("open", &["--streams", streams])?;
            failures += number(&outcome, "/failures")?;
            rate = self.add(metric, number(&outcome, "/per_s")?);
        }
        self.add(Metric::OpenFailures, failures);
        Ok(rate)
    }

    fn mixed(&mut self) -> Result<()> {
        let outcome = self.load("mixed", &["--streams", "16"])?;
        self.add(Metric::MixedIdlePing, number(&outcome, "/idle/p99_us")? / 1e3);
        self.add(Metric::MixedPing, number(&outcome, "/busy/p99_us")? / 1e3);
        self.add(Metric::MixedRate, number(&outcome, "/mb_per_s")?);
        self.add(Metric::Jain, number(&outcome, "/jain")?);
        Ok(())
    }

    fn stall(&mut self) -> Result<()> {
        let pairs = self.plan.stall_pairs.to_string();
        let outcome = self.load("stall", &["--streams", "4", "--pairs", &pairs])?;
        let change = |what: &str| -> Result<f64> {
            Ok(number(&outcome, &format!("/with{what}"))? / number(&outcome, &format!("/without{what}"))?)
        };
        self.add(Metric::StallRate, change("/mb_per_s")?);
        self.add(Metric::StallPing, change("/ping/p99_us")?);
        Ok(())
    }

    fn load(&self, mode: &str, args: &[&str]) -> Result<Value> {
        let seconds = self.plan.seconds.to_string();
        let mut all = vec!["--mode", mode, "--seconds", &seconds];
        all.extend(args);
        load(self.subject, &all)
    }

    fn add(&mut self, metric: Metric, value: f64) -> f64 {
        self.figures.add(metric, self.subject.kind, value);
        value
    }
}

/// One figure of an outcome.
pub(crate) fn number(outcome: &Value, pointer: &str) -> Result<f64> {
    outcome.pointer(pointer).and_then(Value::as_f64).with_context(|| format!("no {pointer} in {outcome}"))
}
