//! `mctunnel agent`: the agent and its admin pages, wired together and ended in order.

use crate::{
    admin::{self, Admin, Probe, TunnelProbe},
    agent_identity::{self, AgentIdentity},
    cluster_access,
    listen::listen,
    output,
    process::{self, ProcessError},
    ready_file,
    settings::{AgentRole, AgentSettings, Flags, ProcessSettings},
    signals::Signals,
    telemetry::Telemetry,
};
use mctunnel::{Agent, core::observe::SharedObserver};
use serde::Serialize;
use std::{
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::net::TcpListener;
use tokio_util::task::AbortOnDropHandle;
use tracing::{info, warn};

pub(crate) fn run(flags: Flags<AgentRole>) -> anyhow::Result<ExitCode> {
    let effective = flags.load(std::env::vars_os())?;
    let (process, settings) = AgentSettings::read(&effective)?;
    if effective.switch("print_config")? {
        output::say(effective.to_yaml().trim_end());
        return Ok(ExitCode::SUCCESS);
    }
    process::run(process, |process| serve(process, settings))
}

async fn serve(process: ProcessSettings, settings: AgentSettings) -> anyhow::Result<ExitCode> {
    let mut signals = Signals::listen().map_err(ProcessError::Signals)?;
    ready_file::clear(process.ready_file.as_deref())?;
    let admin = settings.admin_listen.map(|address| listen("--admin-listen", address, false)).transpose()?;
    let admin_address = admin.as_ref().map(TcpListener::local_addr).transpose()?.map(|a| a.to_string());
    let telemetry = Arc::new(Telemetry::new());
    let observer: SharedObserver = telemetry.clone();
    let identity = tokio::select! {
        identity = agent_identity::obtain(&settings, &observer) => identity?,
        // An agent that waits for its hub has nothing to drain.
        signal = signals.next() => {
            info!(signal = signal.name(), "Ending before the agent has enrolled.");
            return Ok(signal.status());
        }
    };
    let agent = build(&settings, &identity, &telemetry).await?;
    if settings.allow.is_empty() && settings.cluster.is_empty() {
        warn!(
            "No target is allowed, so every stream will be refused. Allow one with --allow tcp://db.default.svc:5432, \
             --allow-service default/web, or --kubeconfig"
        );
    }
    info!(cluster = %agent.cluster(), allow = %settings.allow, admin = admin_address, "The agent is starting.");
    let running = Running::start(agent, &telemetry, admin);
    let ready = Ready {
        role: "agent",
        pid: std::process::id(),
        cluster: running.agent.cluster().to_string(),
        admin: admin_address,
    };
    let first = tokio::select! {
        signal = signals.next() => signal,
        error = write_ready(&process, &telemetry, &ready) => return Err(error),
    };
    info!(signal = first.name(), "Ending; a second signal ends at once.");
    tokio::select! {
        () = running.end(process.grace) => Ok(ExitCode::SUCCESS),
        second = signals.next() => {
            warn!(signal = second.name(), "Ending at once.");
            Ok(second.status())
        }
    }
}

async fn build(
    settings: &AgentSettings,
    identity: &AgentIdentity,
    telemetry: &Arc<Telemetry>,
) -> anyhow::Result<Agent> {
    let proxy = cluster_access::service_proxy(&settings.cluster).await?;
    let mut builder = identity
        .keep_current(Agent::builder(identity.bundle()))
        .allow(settings.allow.clone())
        .adapter(proxy.http())
        .adapter(proxy.grpc())
        .proxy(settings.proxy.clone())
        .observer(telemetry.clone());
    if let Some(locator) = proxy.kube_api_locator() {
        builder = builder.kube_api(locator);
    }
    if let Some(hub) = &settings.hub {
        builder = builder.hub(hub);
    }
    if let Some(name) = &settings.hub_server_name {
        builder = builder.hub_server_name(name);
    }
    Ok(builder.build()?)
}

/// Writes the ready file once the first tunnel is up; ends only with an error.
async fn write_ready(process: &ProcessSettings, telemetry: &Telemetry, ready: &Ready) -> anyhow::Error {
    telemetry.tunnel_was_up().await;
    match ready_file::write(process.ready_file.as_deref(), ready) {
        Ok(()) => std::future::pending().await,
        Err(error) => error.into(),
    }
}

/// The ready file. Its names are a promise to scripts.
#[derive(Debug, Serialize)]
struct Ready {
    role: &'static str,
    pid: u32,
    cluster: String,
    admin: Option<String>,
}

// === Running ===

/// An agent that keeps its tunnel up. Dropping it ends everything at once.
struct Running {
    agent: Agent,
    probe: Arc<AgentProbe>,
    keeping: AbortOnDropHandle<()>,
    _background: Vec<AbortOnDropHandle<()>>,
}

impl Running {
    fn start(agent: Agent, telemetry: &Telemetry, admin: Option<TcpListener>) -> Self {
        let probe = Arc::new(AgentProbe { agent: agent.clone(), draining: AtomicBool::new(false) });
        let mut background = vec![process::owned(admin::upkeep(telemetry.handle()))];
        if let Some(listener) = admin {
            background.push(process::owned(Admin::new(telemetry, probe.clone()).serve(listener)));
        }
        let kept = agent.clone();
        let keeping = process::owned(async move { kept.run().await });
        Self { agent, probe, keeping, _background: background }
    }

    async fn end(self, grace: Duration) {
        let Self { agent, probe, keeping, _background } = self;
        probe.draining.store(true, Ordering::Relaxed);
        agent.drain(grace).await;
        agent.stop();
        let _ = keeping.await;
        info!("The agent has ended.");
    }
}

// === AgentProbe ===

struct AgentProbe {
    agent: Agent,
    draining: AtomicBool,
}

impl Probe for AgentProbe {
    fn readiness(&self) -> Result<(), String> {
        if self.draining.load(Ordering::Relaxed) {
            return Err("the agent is draining".to_owned());
        }
        match self.agent.status() {
            Some(_) => Ok(()),
            None => Err("no tunnel to the hub is up".to_owned()),
        }
    }

    fn tunnels(&self) -> Vec<TunnelProbe> {
        let cluster = || self.agent.cluster().to_string();
        self.agent.status().map(|tunnel| TunnelProbe { cluster: cluster(), rtt: tunnel.rtt }).into_iter().collect()
    }
}
