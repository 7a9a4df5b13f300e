//! `mctunnel agent`: the agent and its admin pages, wired together and ended in order.

use crate::{
    admin::{self, Admin, Kept, Probe, TunnelProbe},
    agent_identity::{self, AgentIdentity},
    agent_reports::{AgentReports, ReportCounts},
    allow_digest::AllowDigest,
    cluster_access::{self, PermittedServices},
    listen::{ListenError, listen},
    output,
    process::{self, ProcessError},
    ready_file,
    settings::{AgentRole, AgentSettings, Flags, ProcessSettings, mention_kept},
    signals::Signals,
    telemetry::Telemetry,
    watched,
};
use mctunnel::{
    Agent, ServiceProxy,
    agent::Config as AgentConfig,
    core::{observe::SharedObserver, target::Label},
};
use serde::Serialize;
use std::{
    collections::BTreeMap,
    net::SocketAddr,
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::net::TcpListener;
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};
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
    mention_kept(&settings.congestion_control);
    let listeners = Listeners::bind(&settings)?;
    let telemetry = Arc::new(Telemetry::new());
    let observer: SharedObserver = telemetry.clone();
    // First what may be wrong here: a join token is used once.
    let cluster = cluster_access::service_proxy(&settings.cluster).await?;
    let identity = tokio::select! {
        identity = agent_identity::obtain(&settings, &observer) => identity?,
        // An agent that waits for its hub has nothing to drain.
        signal = signals.next() => {
            info!(signal = signal.name(), "Ending before the agent has enrolled.");
            return Ok(signal.status());
        }
    };
    let (agent, permitted) = build(&settings, &identity, cluster, &telemetry)?;
    if settings.allow.is_empty() && settings.cluster.is_empty() {
        warn!(
            "No target is allowed, so every stream will be refused. Allow one with --allow tcp://db.default.svc:5432, \
             --allow-service default/web, or --kubeconfig"
        );
    }
    let ready = listeners.ready(&agent)?;
    info!(cluster = %agent.cluster(), allow = %settings.allow, admin = ready.admin, "The agent is starting.");
    let running = Running::start(&settings, (agent, permitted), &telemetry, listeners).await?;
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

// === Listeners ===

/// The sockets of an agent, open before anything is promised.
struct Listeners {
    admin: Option<TcpListener>,
    reports: Option<TcpListener>,
    exposed: Vec<(Label, TcpListener)>,
}

impl Listeners {
    fn bind(settings: &AgentSettings) -> Result<Self, ListenError> {
        let optional =
            |flag, address: Option<SocketAddr>| address.map(|address| listen(flag, address, false)).transpose();
        let exposed = settings.expose.iter();
        let exposed = exposed.map(|(service, address)| Ok((service.clone(), listen("--expose", *address, false)?)));
        Ok(Self {
            admin: optional("--admin-listen", settings.admin_listen)?,
            reports: optional("--report-listen", settings.report_listen)?,
            exposed: exposed.collect::<Result<_, ListenError>>()?,
        })
    }

    fn ready(&self, agent: &Agent) -> std::io::Result<Ready> {
        let address = |listener: &Option<TcpListener>| {
            listener.as_ref().map(|listener| listener.local_addr().map(|a| a.to_string())).transpose()
        };
        let exposed = self.exposed.iter();
        let exposed = exposed.map(|(service, listener)| Ok((service.to_string(), listener.local_addr()?.to_string())));
        Ok(Ready {
            role: "agent",
            pid: std::process::id(),
            cluster: agent.cluster().to_string(),
            admin: address(&self.admin)?,
            exposed: exposed.collect::<std::io::Result<_>>()?,
            reports: address(&self.reports)?,
        })
    }
}

fn build(
    settings: &AgentSettings,
    identity: &AgentIdentity,
    (proxy, permitted): (Arc<ServiceProxy>, Arc<PermittedServices>),
    telemetry: &Arc<Telemetry>,
) -> anyhow::Result<(Agent, Arc<PermittedServices>)> {
    let mut config = AgentConfig::default();
    config.congestion_control = settings.congestion_control.clone();
    let mut builder = identity
        .keep_current(Agent::builder(identity.bundle()))
        .config(config)
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
    Ok((builder.build()?, permitted))
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
    /// Where the hub's services are, by name.
    exposed: BTreeMap<String, String>,
    /// Where reports are taken.
    reports: Option<String>,
}

// === Running ===

/// An agent that keeps its tunnel up. Dropping it ends everything at once.
struct Running {
    agent: Agent,
    probe: Arc<AgentProbe>,
    keeping: AbortOnDropHandle<()>,
    /// No more connections to services of the hub.
    no_more_exposed: CancellationToken,
    reports: Option<AgentReports>,
    _background: Vec<AbortOnDropHandle<()>>,
}

impl Running {
    async fn start(
        settings: &AgentSettings,
        (agent, permitted): (Agent, Arc<PermittedServices>),
        telemetry: &Telemetry,
        listeners: Listeners,
    ) -> anyhow::Result<Self> {
        let Listeners { admin, reports, exposed } = listeners;
        let reports = match &settings.report {
            Some(report) => {
                let allow = AllowDigest::new(settings, Arc::clone(&permitted));
                Some(AgentReports::start(report, &settings.cluster, (&agent, allow), reports).await?)
            }
            None => None,
        };
        let probe = Arc::new(AgentProbe {
            agent: agent.clone(),
            reports: reports.as_ref().map(AgentReports::counts),
            permitted,
            draining: AtomicBool::new(false),
        });
        let mut background = vec![process::owned(admin::upkeep(telemetry.handle()))];
        if let Some(listener) = admin {
            background.push(process::owned(Admin::new(telemetry, probe.clone()).serve(listener)));
        }
        let no_more_exposed = CancellationToken::new();
        for (service, listener) in exposed {
            let (agent, stop) = (agent.clone(), no_more_exposed.clone());
            background.push(process::owned(async move { agent.expose(service, listener, stop).await }));
        }
        let kept = agent.clone();
        let keeping = process::owned(async move { kept.run().await });
        Ok(Self { agent, probe, keeping, no_more_exposed, reports, _background: background })
    }

    async fn end(self, grace: Duration) {
        let Self { agent, probe, keeping, no_more_exposed, reports, _background } = self;
        no_more_exposed.cancel();
        if let Some(reports) = reports {
            reports.end().await;
        }
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
    reports: Option<ReportCounts>,
    permitted: Arc<PermittedServices>,
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

    fn kept(&self) -> Vec<Kept> {
        let reports = self.reports.as_ref().map(ReportCounts::kept).unwrap_or_default();
        [reports, watched::files([("allow_service", self.permitted.file_status())])].concat()
    }
}
