//! Commands that run other programs: CI, the simulation, the hooks. They stop at the first that fails.

use anyhow::{Context, Result, bail};
use std::{
    env,
    path::Path,
    process::{Command, Stdio},
};

/// Everything CI checks after tidy, fastest first.
pub(crate) fn ci(root: &Path) -> Result<()> {
    cargo(root, &["fmt", "--all", "--check"], &[])?;
    cargo(root, &["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"], &[])?;
    cargo(root, &["test", "--workspace", "--locked"], &[])?;
    let strict = [("RUSTDOCFLAGS", "-D warnings")];
    cargo(root, &["doc", "--workspace", "--no-deps", "--locked"], &strict)?;
    if is_installed("cargo-deny") {
        cargo(root, &["deny", "--locked", "check"], &[])?;
    } else {
        println!("skipped: cargo deny check (`make install-tools` installs it)");
    }
    Ok(())
}

/// Replays one seed of the simulation.
pub(crate) fn sim(root: &Path, seed: u64) -> Result<()> {
    let arguments = ["test", "--package", "mctunnel-testkit", "--test", "simulation", "--locked", "--", "--nocapture"];
    cargo(root, &arguments, &[("MCTUNNEL_SIM_SEED", &seed.to_string())])
}

/// Points git at our hooks.
pub(crate) fn setup(root: &Path) -> Result<()> {
    run(Command::new("git").current_dir(root).args(["config", "core.hooksPath", ".githooks"]))
}

fn cargo(root: &Path, arguments: &[&str], variables: &[(&str, &str)]) -> Result<()> {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    run(Command::new(cargo).current_dir(root).args(arguments).envs(variables.iter().copied()))
}

fn run(command: &mut Command) -> Result<()> {
    let shown: Vec<_> = command.get_args().map(|word| word.to_string_lossy().into_owned()).collect();
    let program = Path::new(command.get_program()).file_name().unwrap_or_default().to_string_lossy().into_owned();
    let shown = format!("{program} {}", shown.join(" "));
    println!("+ {shown}");
    let status = command.status().with_context(|| format!("cannot start `{program}`"))?;
    if !status.success() {
        bail!("`{shown}` ended with {status}");
    }
    Ok(())
}

fn is_installed(program: &str) -> bool {
    let probe = Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    probe.is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_fails_is_named() {
        let error = run(Command::new("false").arg("on purpose")).unwrap_err().to_string();
        assert!(error.starts_with("`false on purpose` ended with"), "{error}");
        assert!(!is_installed("no-such-program-anywhere"));
    }
}
