//! The facts of the machine that a reader needs beside the figures.

use std::{fs, path::Path, process::Command, thread};

/// Name and value of each fact.
pub(crate) fn facts(haproxy: &Path, mctunnel: Option<&Path>) -> Vec<(&'static str, String)> {
    let cores = thread::available_parallelism().map_or(0, usize::from);
    let mut facts = vec![
        ("cores", cores.to_string()),
        ("processor", field("/proc/cpuinfo", "model name").unwrap_or_else(unknown)),
        ("memory", field("/proc/meminfo", "MemTotal").unwrap_or_else(unknown)),
        ("kernel", fs::read_to_string("/proc/sys/kernel/osrelease").map_or_else(|_| unknown(), |text| trimmed(&text))),
        ("haproxy", version(haproxy, "-v")),
    ];
    if let Some(mctunnel) = mctunnel {
        facts.push(("mctunnel", version(mctunnel, "--version")));
    }
    facts
}

fn field(file: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(file).ok()?;
    let line = text.lines().find(|line| line.starts_with(name))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

/// The first line a program prints of its version, up to any web address.
fn version(program: &Path, flag: &str) -> String {
    let output = Command::new(program).arg(flag).output().ok();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let first = text.as_deref().and_then(|text| text.lines().next());
    first.and_then(|line| line.split(" - http").next()).map_or_else(unknown, trimmed)
}

fn trimmed(text: &str) -> String {
    text.trim().to_owned()
}

fn unknown() -> String {
    "unknown".to_owned()
}
