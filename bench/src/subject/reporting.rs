//! A hub and an agent that reports, with a wire between them that counts and can be cut. The hub may be away.

use std::{
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use anyhow::{Context as _, Result, bail};
use serde_json::Value;
use tokio::time::Instant;

use super::{
    Kind, Subject,
    tunnel::{CLUSTER, Gate, Tunnel},
};
use crate::{
    post::{self, KIND},
    process::Process,
    route::{Route, Via},
    wire::Wire,
};

/// A hub and an agent that reports to it.
#[derive(Debug)]
pub(crate) struct Reporting {
    binary: PathBuf,
    dir: PathBuf,
    pub(crate) wire: Wire,
    hub: Option<Tunnel>,
    pub(crate) agent: Process,
    /// Where the agent takes reports.
    endpoint: String,
    /// What streams may reach.
    sink: String,
}

impl Reporting {
    /// Starts both; their files go to `dir`. Streams may reach `sink` at the agent.
    pub(crate) fn start(binary: &Path, dir: &Path, sink: &str) -> Result<Self> {
        let hub = Tunnel::start(binary, dir, true, &Gate::Open)?;
        let wire = Wire::start()?;
        wire.lay(hub.address("tunnel")?);
        let (spool, allow) = (dir.join("spool").display().to_string(), format!("tcp://{sink}"));
        let limit = format!("{KIND}={SPOOL}");
        let reach = ["--spool", &spool, "--spool-limit", &limit, "--report-listen", "127.0.0.1:0", "--allow", &allow];
        let (agent, addresses) = hub.agent(&reach, &wire.address)?;
        let endpoint = addresses.get("reports").and_then(Value::as_str).context("the agent takes no reports")?;
        Ok(Self {
            binary: binary.to_owned(),
            dir: dir.to_owned(),
            wire,
            hub: Some(hub),
            agent,
            endpoint: endpoint.to_owned(),
            sink: sink.to_owned(),
        })
    }

    /// Kills the hub.
    pub(crate) fn stop_hub(&mut self) {
        self.hub = None;
        self.wire.cut();
    }

    /// Starts the hub again, on what it had on disk. The agent does not reach it before [`Reporting::lay_wire`].
    pub(crate) fn start_hub(&mut self) -> Result<()> {
        self.hub = Some(Tunnel::start(&self.binary, &self.dir, true, &Gate::Open)?);
        Ok(())
    }

    pub(crate) fn lay_wire(&self) -> Result<()> {
        self.wire.lay(self.hub()?.address("tunnel")?);
        Ok(())
    }

    /// Starts to report so many records.
    pub(crate) fn post(&self, records: usize) -> Result<Process> {
        post::start(&self.endpoint, records)
    }

    /// How many records the hub has on its disk.
    pub(crate) fn stored(&self) -> Result<f64> {
        self.hub()?.stored(KIND)
    }

    /// Returns when the hub has exactly so many records on its disk.
    pub(crate) fn await_stored(&self, count: f64) -> Result<()> {
        let started = Instant::now();
        loop {
            let stored = self.stored()?;
            if stored > count || started.elapsed() > PATIENCE {
                bail!("the hub has {stored} records after {:?}, not {count}", started.elapsed());
            }
            if stored == count {
                return Ok(());
            }
            thread::sleep(ASK_AGAIN);
        }
    }

    /// Where the hub keeps reports.
    pub(crate) fn reports(&self) -> Result<PathBuf> {
        Ok(self.hub()?.reports())
    }

    /// The way through the same tunnel to the sink.
    pub(crate) fn streams(&self) -> Result<Subject> {
        let connect = self.hub()?.address("connect")?.to_owned();
        let route = Route::new(Via::Connect(connect), &self.sink, Some(CLUSTER));
        Ok(Subject { kind: Kind::Tunnel, route, processes: Vec::new() })
    }

    fn hub(&self) -> Result<&Tunnel> {
        self.hub.as_ref().context("the hub is away")
    }
}

/// Room for any backlog of a measurement.
const SPOOL: &str = "4GiB";
/// How often the hub is asked what it has.
pub(crate) const ASK_AGAIN: Duration = Duration::from_millis(20);
const PATIENCE: Duration = Duration::from_secs(300);
