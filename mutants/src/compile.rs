//! Builds the tests of the copy. What the compiler does not take is left out, and the rest built again.

use crate::{copy::Broken, mutant::Mutant, plan::Part, render::around};
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::PathBuf,
    process::{Command, Stdio},
};

/// A test program.
#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) name: String,
    pub(crate) path: PathBuf,
    /// Where it is run, as cargo would.
    pub(crate) directory: PathBuf,
}

/// Errors come in phases: types first, then lifetimes. More rounds than this are a mistake of this program.
const ROUNDS: usize = 8;

/// The changes that compile, and the programs that have them.
pub(crate) fn until_it_builds(broken: &Broken, part: &Part) -> Result<(Vec<Mutant>, Vec<Program>)> {
    let mut without = BTreeSet::new();
    for _ in 0..ROUNDS {
        broken.write(&without)?;
        let messages = build(broken, part)?;
        let culprits = culprits(broken, &messages)?;
        if culprits.is_empty() {
            let programs = programs(broken, part, &messages)?;
            let mutants = broken.mutants.iter().filter(|mutant| !without.contains(&mutant.id)).cloned().collect();
            return Ok((mutants, programs));
        }
        without.extend(culprits);
    }
    bail!("the copy in {} does not build", broken.root.display())
}

fn build(broken: &Broken, part: &Part) -> Result<Vec<Value>> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.current_dir(&broken.root).env("CARGO_TARGET_DIR", &broken.target).stderr(Stdio::inherit());
    command.args(["test", "--no-run", "--offline", "--message-format=json"]);
    let packages: BTreeSet<&str> = part.tests.iter().map(|(package, _)| *package).collect();
    for package in packages {
        command.args(["--package", package]);
    }
    let targets: BTreeSet<&str> = part.tests.iter().map(|(_, target)| *target).collect();
    for target in targets {
        if target == "lib" {
            command.arg("--lib")
        } else {
            command.args(["--test", target])
        };
    }
    let output = command.output().context("cargo test --no-run")?;
    let lines = String::from_utf8(output.stdout)?;
    lines.lines().map(|line| serde_json::from_str(line).context("a message of cargo")).collect()
}

/// The changes that errors are in.
fn culprits(broken: &Broken, messages: &[Value]) -> Result<BTreeSet<usize>> {
    let mut texts: BTreeMap<&str, String> = BTreeMap::new();
    let mut culprits = BTreeSet::new();
    for message in messages.iter().map(|message| &message["message"]).filter(|message| message["level"] == "error") {
        let mut found = None;
        for span in message["spans"].as_array().into_iter().flatten() {
            let (Some(file), Some(start)) = (span["file_name"].as_str(), span["byte_start"].as_u64()) else { continue };
            if !texts.contains_key(file) {
                texts.insert(file, fs::read_to_string(broken.root.join(file)).unwrap_or_default());
            }
            let text = texts.get(file).map(String::as_str).unwrap_or_default();
            let around = around(text, usize::try_from(start)?);
            if span["is_primary"] == true || found.is_none() {
                found = around.or(found);
            }
        }
        match found {
            Some(id) => culprits.extend([id]),
            None if message["spans"].as_array().is_none_or(Vec::is_empty) => {}
            None => bail!("not of a change: {}", message["rendered"].as_str().unwrap_or_default()),
        }
    }
    Ok(culprits)
}

/// The programs of a part, in its order.
fn programs(broken: &Broken, part: &Part, messages: &[Value]) -> Result<Vec<Program>> {
    let built = |package: &str, target: &str| {
        let directory = broken.root.join("crates").join(package);
        let found = messages.iter().find(|message| {
            let is_of = message["manifest_path"].as_str().is_some_and(|path| directory.join("Cargo.toml") == *path);
            let own = &message["target"];
            let is_lib = own["kind"].as_array().is_some_and(|kinds| kinds.iter().any(|kind| kind == "lib"));
            let is_target = if target == "lib" { is_lib } else { own["name"] == target };
            is_of
                && is_target
                && message["executable"].is_string()
                && message.pointer("/profile/test").is_some_and(|is_test| is_test == true)
        });
        let path = found.and_then(|message| message["executable"].as_str());
        let path = path.with_context(|| format!("no program for {package} {target}"))?;
        Ok(Program { name: format!("{package} {target}"), path: path.into(), directory })
    };
    part.tests.iter().map(|(package, target)| built(package, target)).collect()
}
