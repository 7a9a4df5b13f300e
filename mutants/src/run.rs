//! Runs the tests, each once as it is, and then for each change those that come by it, the quick ones first.

#![expect(clippy::disallowed_types, reason = "other processes are waited for: their clock cannot be paused")]

use crate::{compile::Program, memory::Memory, mutant::Mutant};
use anyhow::{Context, Result, ensure};
use parking_lot::Mutex;
use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsStr,
    fs,
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

/// What the tests noticed.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    /// Changes that no test noticed.
    pub(crate) survivors: BTreeSet<usize>,
    /// Changes that some test came by.
    pub(crate) reached: BTreeSet<usize>,
    /// How many were noticed only because a test did not end.
    pub(crate) timeouts: usize,
    /// Changes that were not tried: there was no time left.
    pub(crate) left: BTreeSet<usize>,
}

/// How long things may take, and how many at once.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// Of one run of a program.
    pub(crate) each: Duration,
    /// Of all.
    pub(crate) all: Option<Duration>,
    pub(crate) jobs: usize,
}

/// How a program ended.
#[derive(Debug, PartialEq, Eq)]
enum Ended {
    Passed,
    Failed,
    Late,
}

/// Tests of one program that come by a change, in one run.
#[derive(Debug, Default)]
struct Batch<'p> {
    tests: Vec<&'p str>,
}

/// A test with what it costs and what it comes by.
#[derive(Debug)]
struct Test {
    name: String,
    took: Duration,
    reached: BTreeSet<usize>,
}

/// A test that takes longer is asked only if the quicker ones noticed nothing.
const QUICK: Duration = Duration::from_millis(100);

/// Tries every change that is not remembered as noticed.
pub(crate) fn all(mutants: &[Mutant], programs: &[Program], limits: Limits, memory: &mut Memory) -> Result<Outcome> {
    let end = limits.all.map(|all| Instant::now() + all);
    let tests = programs.iter().map(|program| baseline(program, limits)).collect::<Result<Vec<_>>>()?;
    let reached = tests.iter().flatten().flat_map(|test| test.reached.iter().copied()).collect();
    let outcome = Mutex::new(Outcome { reached, ..Outcome::default() });
    let (queue, memory) = (Mutex::new(mutants.iter()), Mutex::new(memory));
    let work = || -> Result<()> {
        loop {
            let Some(mutant) = queue.lock().next() else { return Ok(()) };
            if memory.lock().knows(mutant) {
                continue;
            }
            if end.is_some_and(|end| Instant::now() >= end) {
                outcome.lock().left.insert(mutant.id);
                continue;
            }
            let ended = try_one(mutant.id, programs, &tests, limits.each)?;
            if ended != Ended::Passed {
                memory.lock().learn(mutant)?;
            }
            let mut outcome = outcome.lock();
            match ended {
                Ended::Passed => drop(outcome.survivors.insert(mutant.id)),
                Ended::Late => outcome.timeouts += 1,
                Ended::Failed => {}
            }
        }
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..limits.jobs.max(1)).map(|_| scope.spawn(work)).collect();
        workers.into_iter().try_for_each(|worker| worker.join().unwrap_or_else(|_| Ok(())))
    })?;
    Ok(outcome.into_inner())
}

/// Runs each test of a program alone, with no change on.
fn baseline(program: &Program, limits: Limits) -> Result<Vec<Test>> {
    let listed = Command::new(&program.path).args(["--list", "--format", "terse"]).output()?;
    let listed = String::from_utf8(listed.stdout)?;
    let names: Vec<&str> = listed.lines().filter_map(|line| line.strip_suffix(": test")).collect();
    let tests = Mutex::new(BTreeMap::new());
    let queue = Mutex::new(names.iter().enumerate());
    let work = || -> Result<()> {
        loop {
            let Some((number, name)) = queue.lock().next() else { return Ok(()) };
            let trace = program.path.with_extension(format!("{number}.trace"));
            let began = Instant::now();
            let ended = run(program, &[name], "MUTANT_TRACE", trace.as_os_str(), limits.each * 6)?;
            ensure!(ended == Ended::Passed, "{}: {name} fails with no change on", program.name);
            let (took, reached) = (began.elapsed(), read(&trace)?);
            tests.lock().insert(number, Test { name: (*name).to_owned(), took, reached });
        }
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..limits.jobs.max(1)).map(|_| scope.spawn(work)).collect();
        workers.into_iter().try_for_each(|worker| worker.join().unwrap_or_else(|_| Ok(())))
    })?;
    println!("{}: {} tests", program.name, names.len());
    Ok(tests.into_inner().into_values().collect())
}

/// Reads what a test came by, and takes the note away.
fn read(trace: &Path) -> Result<BTreeSet<usize>> {
    // A test that comes by nothing writes nothing.
    let text = fs::read_to_string(trace).unwrap_or_default();
    let _ = fs::remove_file(trace);
    text.lines().map(|line| line.parse().context("a number in a trace")).collect()
}

fn try_one(id: usize, programs: &[Program], tests: &[Vec<Test>], timeout: Duration) -> Result<Ended> {
    for is_quick in [true, false] {
        for (program, tests) in programs.iter().zip(tests) {
            let chosen = tests.iter().filter(|test| test.reached.contains(&id) && (test.took <= QUICK) == is_quick);
            let batch = Batch { tests: chosen.map(|test| test.name.as_str()).collect() };
            if batch.tests.is_empty() {
                continue;
            }
            match run(program, &batch.tests, "MUTANT", id.to_string().as_ref(), timeout)? {
                Ended::Passed => {}
                noticed @ (Ended::Failed | Ended::Late) => return Ok(noticed),
            }
        }
    }
    Ok(Ended::Passed)
}

fn run(program: &Program, tests: &[&str], variable: &str, value: &OsStr, timeout: Duration) -> Result<Ended> {
    let mut command = Command::new(&program.path);
    command.current_dir(&program.directory).arg("--exact").args(tests).env(variable, value);
    // What a broken test found must not become a test of its own, and how small it can be made does not matter.
    command.env("PROPTEST_DISABLE_FAILURE_PERSISTENCE", "true").env("PROPTEST_MAX_SHRINK_ITERS", "0");
    command.env("CARGO_MANIFEST_DIR", &program.directory);
    let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    wait(child.with_context(|| program.path.display().to_string())?, timeout)
}

fn wait(mut child: Child, timeout: Duration) -> Result<Ended> {
    let end = Instant::now() + timeout;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(if status.success() { Ended::Passed } else { Ended::Failed });
        }
        if Instant::now() >= end {
            child.kill()?;
            child.wait()?;
            return Ok(Ended::Late);
        }
        // The standard library cannot wait for a process and a clock at once.
        thread::sleep(Duration::from_millis(2));
    }
}
