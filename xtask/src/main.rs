//! Project chores: `cargo xtask <command>`. Plain Rust that compiles in seconds; nothing here is shipped.

#![expect(clippy::print_stdout, reason = "a command-line program for developers")]

mod adr;
mod masked;
mod repo;
mod steps;
mod tidy;

use anyhow::{Context, Result, bail};
use repo::Repo;
use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};
use tidy::{attacks, codes};

const HELP: &str = "\
cargo xtask <command>

  tidy              check layers, names, file budgets, banned words, documents and error codes
  ci                everything CI checks, fastest first
  sim --seed N      replay one seed of the simulation
  errors            write the table of docs/errors.md from the codes in the source
  attacks           write the last column of docs/security/tests.md from the names of the tests
  adr new TITLE     start the next decision record in docs/adr
  setup             use the git hooks of .githooks (optional)
";

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let root = root();
    match *words.as_slice() {
        [] | ["help" | "--help" | "-h"] => println!("{HELP}"),
        ["tidy"] => tidy_up(&root)?,
        ["ci"] => {
            tidy_up(&root)?;
            steps::ci(&root)?;
        }
        ["sim", "--seed", seed] => steps::sim(&root, seed.parse().context("the seed is a number from 0 to 2^64-1")?)?,
        ["errors"] => write_errors(&root)?,
        ["attacks"] => {
            let text = attacks::rewritten(&Repo::load(&root)?)?;
            std::fs::write(root.join(attacks::TABLE), text).context(attacks::TABLE)?;
        }
        ["adr", "new", ref title @ ..] if !title.is_empty() => {
            println!("{}", adr::create(&root, &title.join(" "))?.display());
        }
        ["setup"] => steps::setup(&root)?,
        _ => bail!("unknown command: {}\n\n{HELP}", words.join(" ")),
    }
    Ok(())
}

/// The repository this program was built from.
fn root() -> PathBuf {
    let xtask = Path::new(env!("CARGO_MANIFEST_DIR"));
    xtask.parent().unwrap_or(xtask).to_path_buf()
}

fn tidy_up(root: &Path) -> Result<()> {
    let findings = tidy::check(&Repo::load(root)?);
    for finding in &findings {
        println!("{finding}");
    }
    let errors = findings.iter().filter(|finding| finding.is_error()).count();
    if errors > 0 {
        bail!("tidy: {errors} to mend");
    }
    println!("tidy: fine, {} to think about", findings.len());
    Ok(())
}

fn write_errors(root: &Path) -> Result<()> {
    let text = codes::rewritten(&Repo::load(root)?)?;
    std::fs::write(root.join(codes::TABLE), text).context(codes::TABLE)
}
