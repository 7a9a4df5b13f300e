//! Child processes that end with their owner, and what the kernel says of them.

use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    process::{Child, ChildStdin, Command, Stdio},
};

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

/// A child process; killed when dropped.
#[derive(Debug)]
pub(crate) struct Process {
    name: String,
    child: Child,
    // Closing it tells a holder of idle streams, and a pinger, to stop.
    stdin: Option<ChildStdin>,
}

impl Process {
    pub(crate) fn start(name: &str, command: &mut Command) -> Result<Self> {
        let mut child = command.spawn().with_context(|| format!("start {name} ({command:?})"))?;
        let stdin = child.stdin.take();
        Ok(Self { name: name.to_owned(), child, stdin })
    }

    /// Starts another instance of this program, its standard output readable by [`Process::line`].
    pub(crate) fn start_self(name: &str, args: &[String]) -> Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped());
        Self::start(name, &mut command)
    }

    /// The first line the process prints.
    pub(crate) fn line(&mut self) -> Result<String> {
        let stdout = self.child.stdout.as_mut().with_context(|| format!("{} has no readable output", self.name))?;
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line)?;
        if line.is_empty() {
            bail!("{} ended without a word: {}", self.name, self.child.wait()?);
        }
        Ok(line.trim_end().to_owned())
    }

    /// The first line the process prints, as JSON.
    pub(crate) fn json(&mut self) -> Result<Value> {
        let line = self.line()?;
        serde_json::from_str(&line).with_context(|| format!("{} printed {line:?}", self.name))
    }

    /// Gives the process its turn; gives the line it prints then, as JSON.
    pub(crate) fn turn(&mut self) -> Result<Value> {
        let stdin = self.stdin.as_mut().with_context(|| format!("{} cannot be told anything", self.name))?;
        stdin.write_all(b"\n").with_context(|| format!("{} ended", self.name))?;
        self.json()
    }

    /// Tells the process to stop; gives the first line it prints, as JSON.
    pub(crate) fn finish(&mut self) -> Result<Value> {
        self.stdin = None;
        self.json()
    }

    /// An error if the process has ended.
    pub(crate) fn check(&mut self) -> Result<()> {
        match self.child.try_wait()? {
            Some(status) => bail!("{} ended: {status}", self.name),
            None => Ok(()),
        }
    }

    /// CPU seconds spent so far, user and system, by all threads.
    pub(crate) fn cpu_seconds(&self) -> Result<f64> {
        cpu_seconds_of(&self.child.id().to_string())
    }

    /// CPU seconds spent so far by the threads it has now: in nanoseconds, where the other figure has hundredths of a second. A thread
    /// that ends takes its own with it, so a short time may seem too cheap: compare medians.
    pub(crate) fn cpu_seconds_of_threads(&self) -> Result<f64> {
        let mut nanoseconds = 0_u64;
        for thread in fs::read_dir(format!("/proc/{}/task", self.child.id()))? {
            let thread = thread?.path();
            let path = thread.join("schedstat");
            let text = match fs::read_to_string(&path) {
                Ok(text) => text,
                // It has ended since.
                Err(_) if !thread.exists() => continue,
                Err(error) => return Err(error).with_context(|| format!("read {}", path.display())),
            };
            let spent = text.split_ascii_whitespace().next().and_then(|first| first.parse::<u64>().ok());
            nanoseconds += spent.with_context(|| format!("unexpected {}", path.display()))?;
        }
        Ok(nanoseconds as f64 / 1e9)
    }

    /// Resident memory in bytes.
    pub(crate) fn resident(&self) -> Result<f64> {
        self.status_bytes("VmRSS:")
    }

    /// The most resident memory that it ever had, in bytes.
    pub(crate) fn peak_resident(&self) -> Result<f64> {
        self.status_bytes("VmHWM:")
    }

    fn status_bytes(&self, field: &str) -> Result<f64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let kib = status.lines().find_map(|line| line.strip_prefix(field)?.trim().strip_suffix(" kB"));
        Ok(kib.with_context(|| format!("{} has no {field}", self.name))?.parse::<f64>()? * 1024.0)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Both fail only when the process is gone already.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// CPU seconds of a process id, or of "self".
pub(crate) fn cpu_seconds_of(pid: &str) -> Result<f64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    parse_cpu(&stat).with_context(|| format!("unexpected /proc/{pid}/stat"))
}

fn parse_cpu(stat: &str) -> Option<f64> {
    // The name, in brackets, may hold anything; utime and stime are the 12th and 13th field after it.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_ascii_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some((user + system) as f64 / TICKS_PER_SECOND)
}

/// The unit of /proc times, the same on every Linux.
const TICKS_PER_SECOND: f64 = 100.0;

#[cfg(test)]
mod tests {
    use super::parse_cpu;

    #[test]
    fn cpu_is_user_plus_system_whatever_the_name() {
        let stat = "12 (a ) b) S 1 2 3 4 5 6 7 8 9 10 150 50 0 0 20 0 3 0 100 1 2";
        assert_eq!(parse_cpu(stat), Some(2.0));
        assert_eq!(parse_cpu("12 (short) S"), None);
    }
}
