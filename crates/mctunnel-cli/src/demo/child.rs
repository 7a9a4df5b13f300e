//! This very program, started again as a child that does not outlive the demo.

use super::DemoFailed;
use crate::output::say;
use anyhow::Context;
use serde_json::Value;
use std::{
    ffi::OsString,
    fs::{self, File},
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};
use tokio::{process::Command, time::Instant};

/// How long a child may take until it serves.
const READY: Duration = Duration::from_secs(30);
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// A role that serves. Dropping it kills the process.
pub(super) struct Child {
    name: &'static str,
    process: tokio::process::Child,
    log: PathBuf,
    ready: Value,
}

impl Child {
    /// Shows the command, starts it and waits until it serves. Its log goes to a file in `dir`.
    pub(super) async fn start(name: &'static str, mut arguments: Vec<OsString>, dir: &Path) -> anyhow::Result<Self> {
        show(&arguments);
        let ready_file = dir.join(format!("{name}.ready"));
        arguments.extend(["--ready-file".into(), ready_file.clone().into()]);
        let log = dir.join(format!("{name}.log"));
        let mut command = command(&arguments)?;
        command.stderr(File::create(&log)?);
        let process = command.spawn().context("cannot start a process")?;
        let mut child = Self { name, process, log, ready: Value::Null };
        child.ready = child.wait_until_ready(&ready_file).await?;
        Ok(child)
    }

    /// A field of the ready file.
    pub(super) fn ready(&self, field: &str) -> anyhow::Result<String> {
        let text = self.ready.get(field).and_then(Value::as_str).map(str::to_owned);
        Ok(text.ok_or_else(|| DemoFailed(format!("the ready file of {} names no {field}", self.name)))?)
    }

    async fn wait_until_ready(&mut self, file: &Path) -> anyhow::Result<Value> {
        let deadline = Instant::now() + READY;
        loop {
            if let Ok(text) = fs::read_to_string(file) {
                return Ok(serde_json::from_str(&text)?);
            }
            if let Some(status) = self.process.try_wait()? {
                return Err(self.failed(&format!("ended with {status}")).into());
            }
            if Instant::now() > deadline {
                return Err(self.failed(&format!("was not ready within {READY:?}")).into());
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    fn failed(&self, problem: &str) -> DemoFailed {
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        DemoFailed(format!("{} {problem}. Its log:\n{}", self.name, log.trim_end()))
    }
}

/// Shows a command and runs it to its end.
pub(super) async fn run(arguments: Vec<OsString>) -> anyhow::Result<()> {
    show(&arguments);
    let output = command(&arguments)?.stderr(Stdio::piped()).output().await?;
    if !output.status.success() {
        return Err(DemoFailed(String::from_utf8_lossy(&output.stderr).trim_end().to_owned()).into());
    }
    Ok(())
}

fn command(arguments: &[OsString]) -> anyhow::Result<Command> {
    let own = std::env::current_exe().context("cannot find this program's own file")?;
    let mut command = Command::new(own);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).kill_on_drop(true);
    // Settings of the person who looks are not settings of the demo; a cluster of theirs is given as a flag.
    command.env_remove("KUBECONFIG");
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("MCTUNNEL_") {
            command.env_remove(name);
        }
    }
    Ok(command)
}

fn show(arguments: &[OsString]) {
    let words: Vec<_> = arguments.iter().map(|word| word.to_string_lossy()).collect();
    say(&format!("     $ mctunnel {}", words.join(" ")));
}
