//! mctunnel itself, through its command line only: a hub, one cluster, one agent.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use anyhow::{Context as _, Result, bail};
use serde_json::Value;
use tokio::time::Instant;

use super::{Kind, Subject};
use crate::{
    process::Process,
    relay::Relay,
    route::{Route, Via},
    scrape,
};

pub(super) const CLUSTER: &str = "c1";
const READY: Duration = Duration::from_secs(20);

/// A hub without agents yet.
#[derive(Debug)]
pub(crate) struct Tunnel {
    binary: PathBuf,
    dir: PathBuf,
    hub: Process,
    addresses: Value,
    is_guarded: bool,
}

/// Whether clients are asked who they are.
#[derive(Debug)]
pub(crate) enum Gate {
    /// They are not.
    Open,
    /// They are, as these files say.
    Guarded { auth: PathBuf, policy: PathBuf },
}

impl Tunnel {
    /// Starts a hub whose files go to `dir`.
    pub(crate) fn start(binary: &Path, dir: &Path, is_plain: bool, gate: &Gate) -> Result<Self> {
        fs::create_dir_all(dir)?;
        let ready = fresh(dir.join("hub.ready"));
        let mut command = Command::new(binary);
        command.arg("hub").arg("--data-dir").arg(dir.join("hub")).arg("--ready-file").arg(&ready);
        for listener in ["--tunnel-listen", "--gateway-listen", "--connect-listen", "--admin-listen"] {
            command.args([listener, "127.0.0.1:0"]);
        }
        if is_plain {
            command.arg("--gateway-plain");
        }
        match gate {
            Gate::Open => command.arg("--insecure-no-auth"),
            Gate::Guarded { auth, policy } => {
                command.arg("--auth-config").arg(auth).arg("--policy").arg(policy).args(["--audit-log", "off"])
            }
        };
        let mut hub = Process::start("mctunnel hub", command.stdout(Stdio::null()).stderr(log(dir, "hub")?))?;
        let addresses = ready_file(&mut hub, &ready)?;
        let is_guarded = matches!(gate, Gate::Guarded { .. });
        Ok(Self { binary: binary.to_owned(), dir: dir.to_owned(), hub, addresses, is_guarded })
    }

    /// The CA that signed its certificate.
    pub(crate) fn ca(&self) -> PathBuf {
        self.data_dir().join("pki").join("ca.pem")
    }

    /// Makes an API key.
    pub(crate) fn api_key(&self, user: &str, groups: &[String]) -> Result<String> {
        let mut command = Command::new(&self.binary);
        command.args(["api-key", "create", "bench", "--user", user]).arg("--data-dir").arg(self.data_dir());
        for group in groups {
            command.args(["--group", group]);
        }
        let output = command.output()?;
        if !output.status.success() {
            bail!("{command:?}: {}", String::from_utf8_lossy(&output.stderr));
        }
        Ok(String::from_utf8(output.stdout)?.trim().to_owned())
    }

    /// Adds a cluster and starts its agent, which may reach `sink` alone.
    pub(crate) fn with_agent(self, sink: &str) -> Result<Subject> {
        let (agent, _) = self.agent(&["--allow", &format!("tcp://{sink}")], self.address("tunnel")?)?;
        let route = Route::new(Via::Connect(self.address("connect")?.to_owned()), sink, Some(CLUSTER));
        Ok(Subject { kind: Kind::Tunnel, route, processes: vec![self.hub, agent] })
    }

    /// Adds a cluster whose kube-apiserver is an HTTP server at `target`, and starts its agent. With a delay, what hub and
    /// agent send each other takes that long.
    pub(crate) fn with_api(self, target: &str, delay: Option<Duration>) -> Result<Subject> {
        let relay = delay.map(|delay| Relay::start(self.address("tunnel")?, delay)).transpose()?;
        let hub = relay.as_ref().map_or_else(|| self.address("tunnel"), |relay| Ok(&relay.address))?;
        let api = format!("http://{target}");
        let mut reach = vec!["--kube-api", &api];
        let token = self.dir.join("agent-token").display().to_string();
        if self.is_guarded {
            fs::write(&token, "the agent's own token")?;
            reach.extend(["--impersonate", "--kube-token-file", &token]);
        }
        let (agent, _) = self.agent(&reach, hub)?;
        let route = Route::new(Via::Direct, self.address("gateway")?, Some(CLUSTER));
        let mut processes = vec![self.hub, agent];
        processes.extend(relay.map(|relay| relay.process));
        Ok(Subject { kind: Kind::Tunnel, route, processes })
    }

    /// Starts so many agents without targets, and returns when all are connected.
    pub(crate) fn agents(&self, count: usize) -> Result<Process> {
        self.agents_with(count, &[])
    }

    /// Starts so many agents that report so many records each, and returns when all are about to.
    pub(crate) fn reporting_agents(&self, count: usize, records: usize) -> Result<Process> {
        let spools = self.dir.join("spools").display().to_string();
        self.agents_with(count, &["--spools", &spools, "--records", &records.to_string()])
    }

    fn agents_with(&self, count: usize, more: &[&str]) -> Result<Process> {
        let data_dir = self.data_dir().display().to_string();
        let count = count.to_string();
        let mut args = vec!["agents", "--data-dir", &data_dir, "--hub", self.address("tunnel")?, "--count", &count];
        args.extend(more);
        let args: Vec<String> = args.into_iter().map(str::to_owned).collect();
        let mut agents = Process::start_self("agents", &args)?;
        agents.json()?;
        Ok(agents)
    }

    /// How many records of a kind it has on its disk.
    pub(crate) fn stored(&self, kind: &str) -> Result<f64> {
        scrape::sum(self.address("admin")?, "mctunnel_reports_stored_total", &format!("kind=\"{kind}\""))
    }

    /// Where it keeps reports.
    pub(crate) fn reports(&self) -> PathBuf {
        self.data_dir().join("reports")
    }

    /// Resident bytes of the hub.
    pub(crate) fn resident(&self) -> Result<f64> {
        self.hub.resident()
    }

    /// Adds the cluster and starts its agent, which dials `hub`; returns when its tunnel is up, with its ready file.
    pub(super) fn agent(&self, reach: &[&str], hub: &str) -> Result<(Process, Value)> {
        let (join, ready) = (self.dir.join("join"), fresh(self.dir.join("agent.ready")));
        self.add_cluster(CLUSTER, &join)?;
        let mut command = Command::new(&self.binary);
        command.arg("agent").arg("--join").arg(&join).args(["--hub", hub]).args(reach);
        command.args(["--admin-listen", "127.0.0.1:0"]).arg("--ready-file").arg(&ready);
        let mut agent =
            Process::start("mctunnel agent", command.stdout(Stdio::null()).stderr(log(&self.dir, "agent")?))?;
        let addresses = ready_file(&mut agent, &ready)?;
        Ok((agent, addresses))
    }

    fn data_dir(&self) -> PathBuf {
        self.dir.join("hub")
    }

    fn add_cluster(&self, name: &str, join: &Path) -> Result<()> {
        let mut command = Command::new(&self.binary);
        command.args(["cluster", "add", name, "--hub", self.address("tunnel")?]);
        command.arg("--data-dir").arg(self.data_dir()).arg("--out").arg(join);
        let output = command.output()?;
        if !output.status.success() {
            bail!("{command:?}: {}", String::from_utf8_lossy(&output.stderr));
        }
        Ok(())
    }

    pub(super) fn address(&self, listener: &str) -> Result<&str> {
        let address = self.addresses.get(listener).and_then(Value::as_str);
        address.with_context(|| format!("the ready file names no {listener} address: {}", self.addresses))
    }
}

/// What a process before may have written is not to be taken for what this one writes.
fn fresh(file: PathBuf) -> PathBuf {
    // It fails when there is none.
    drop(fs::remove_file(&file));
    file
}

fn log(dir: &Path, name: &str) -> Result<fs::File> {
    Ok(fs::File::create(dir.join(format!("{name}.log")))?)
}

fn ready_file(process: &mut Process, file: &Path) -> Result<Value> {
    let started = Instant::now();
    loop {
        process.check()?;
        if let Some(value) = fs::read_to_string(file).ok().and_then(|text| serde_json::from_str(&text).ok()) {
            return Ok(value);
        }
        if started.elapsed() > READY {
            bail!("{} was not written within {READY:?}", file.display());
        }
        thread::sleep(Duration::from_millis(20));
    }
}
