//! Mutation testing: breaks code in every small way, one at a time, and looks whether a test notices.
//!
//! All changes are compiled into one copy of the workspace, each behind a switch that an environment variable turns; so there is
//! one build and then one run of the tests for each change, instead of one build for each. `docs/security/mutation.md` says what is
//! broken, and why some changes may go unnoticed.

#![expect(clippy::print_stdout, reason = "a command-line program for developers")]

mod accepted;
mod compile;
mod copy;
mod memory;
mod mutant;
mod plan;
mod render;
mod run;
mod sites;

use anyhow::{Result, bail};
use clap::Parser;
use memory::Memory;
use mutant::Mutant;
use run::Limits;
use std::{
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

/// Breaks code, and fails if no test notices
#[derive(Debug, Parser)]
struct Args {
    /// Which parts of the plan; all without
    parts: Vec<String>,
    /// Only changes in files whose path has this in it
    #[arg(long)]
    file: Option<String>,
    /// Say which changes there are, and run nothing
    #[arg(long)]
    list: bool,
    /// How many changes are tried at a time
    #[arg(long, default_value_t = 2)]
    jobs: usize,
    /// How long tests may take, in seconds, before that counts as having noticed
    #[arg(long, default_value_t = 20)]
    timeout: u64,
    /// How long each part may take, in seconds; the rest is left for the next time
    #[arg(long)]
    seconds: Option<u64>,
    /// Do not try again what was noticed the last time
    #[arg(long)]
    resume: bool,
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> Result<()> {
    let root = root();
    let mut failed = false;
    for part in plan::chosen(&args.parts)? {
        let broken = copy::make(&root, part, args.file.as_deref())?;
        if args.list {
            broken.mutants.iter().for_each(|mutant| println!("{mutant}"));
            continue;
        }
        let (mutants, programs) = compile::until_it_builds(&broken, part)?;
        println!("{}: {} changes, {} test programs", part.name, mutants.len(), programs.len());
        let mut memory = if args.resume {
            Memory::open(&broken.root.with_extension("noticed"), &broken.files)?
        } else {
            Memory::none()
        };
        let limits = Limits {
            each: Duration::from_secs(args.timeout),
            all: args.seconds.map(Duration::from_secs),
            jobs: args.jobs,
        };
        let outcome = run::all(&mutants, &programs, limits, &mut memory)?;
        failed |= !report(&root, part.name, &mutants, &outcome, args.file.is_none())?;
    }
    if failed {
        bail!("a change went unnoticed, or was not tried: write a test, or a reason in {}", accepted::DOCUMENT)
    }
    Ok(())
}

/// Prints what came out; gives whether it is as it should be.
fn report(root: &Path, part: &str, mutants: &[Mutant], outcome: &run::Outcome, is_whole: bool) -> Result<bool> {
    let accepted = accepted::read(root, part)?;
    let mut survivors = 0;
    let mut is_fine = true;
    for mutant in mutants.iter().filter(|mutant| outcome.survivors.contains(&mutant.id)) {
        survivors += 1;
        if !accepted.contains(&mutant.key()) {
            is_fine = false;
            let reached = if outcome.reached.contains(&mutant.id) { "" } else { " (no test comes here)" };
            println!("unnoticed{reached}: {mutant}");
        }
    }
    let is_open = |mutant: &Mutant| outcome.survivors.contains(&mutant.id) || outcome.left.contains(&mutant.id);
    let noticed = |key: &String| mutants.iter().any(|mutant| mutant.key() == **key && !is_open(mutant));
    for key in accepted.iter().filter(|key| is_whole && (noticed(key) || !mutants.iter().any(|m| m.key() == **key))) {
        is_fine = false;
        println!("accepted, but noticed or not there any more: {key}");
    }
    let left = outcome.left.len();
    println!(
        "{part}: {} of {} noticed ({} of them by not ending), {survivors} not, {left} left to try",
        mutants.len() - survivors - left,
        mutants.len(),
        outcome.timeouts
    );
    Ok(is_fine && left == 0)
}

/// The repository this program was built from.
fn root() -> PathBuf {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    own.parent().unwrap_or(own).to_path_buf()
}
