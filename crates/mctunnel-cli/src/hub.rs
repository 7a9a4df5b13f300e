//! `mctunnel hub`: listeners, the hub, the CONNECT gateway and the admin pages, wired together and ended in order.

use crate::{
    admin::{self, Admin, Probe, TunnelProbe},
    listen::{ListenError, listen},
    output,
    process::{self, ProcessError},
    ready_file,
    settings::{Flags, HubRole, HubSettings, ProcessSettings},
    signals::Signals,
    telemetry::Telemetry,
    trust::Trust,
};
use mctunnel::{
    ClusterFiles, ConnectAdapter, ConnectConfig, Gateway, HttpAdapter, HttpConfig, Hub, HubAdapter, HubAuthority,
    IdentityError, SniAdapter, SniConfig,
    identity::{Enrolment, JoinTokenFiles},
};
use serde::Serialize;
use std::{
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

pub(crate) fn run(flags: Flags<HubRole>) -> anyhow::Result<ExitCode> {
    let effective = flags.load(std::env::vars_os())?;
    let (process, settings) = HubSettings::read(&effective)?;
    if effective.switch("print_config")? {
        output::say(effective.to_yaml().trim_end());
        return Ok(ExitCode::SUCCESS);
    }
    process::run(process, |process| serve(process, settings))
}

async fn serve(process: ProcessSettings, settings: HubSettings) -> anyhow::Result<ExitCode> {
    let mut signals = Signals::listen().map_err(ProcessError::Signals)?;
    ready_file::clear(process.ready_file.as_deref())?;
    let listeners = Listeners::bind(&settings)?;
    let ready = listeners.ready()?;
    let running = Running::start(&settings, listeners).await?;
    let Ready { tunnel, gateway, sni, connect, connect_tls, admin, .. } = &ready;
    if gateway.is_some() && settings.trust.insecure_no_auth {
        warn!(
            "Nobody is asked who they are: whoever reaches the gateway on this machine is let in. For trying out only."
        );
    } else if gateway.is_some() && settings.trust.files.is_none() {
        warn!(
            "The gateway does not authenticate clients: a kube-apiserver does so itself, and services are open to whoever \
             reaches the gateway, as far as the agents' lists go. Give --auth-config and --policy."
        );
    }
    info!(%tunnel, gateway, sni, connect, connect_tls, admin, "The hub is serving.");
    ready_file::write(process.ready_file.as_deref(), &ready)?;

    let first = signals.next().await;
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

/// The sockets of a hub, open before anything is promised.
struct Listeners {
    tunnel: TcpListener,
    gateway: Option<TcpListener>,
    sni: Option<TcpListener>,
    connect: Option<TcpListener>,
    connect_tls: Option<TcpListener>,
    admin: Option<TcpListener>,
}

impl Listeners {
    fn bind(settings: &HubSettings) -> Result<Self, ListenError> {
        let shared = settings.reuse_port;
        let optional =
            |flag, address: Option<SocketAddr>| address.map(|address| listen(flag, address, shared)).transpose();
        Ok(Self {
            tunnel: listen("--tunnel-listen", settings.tunnel_listen, shared)?,
            gateway: optional("--gateway-listen", settings.gateway_listen)?,
            sni: optional("--sni-listen", settings.sni_listen)?,
            connect: optional("--connect-listen", settings.connect_listen)?,
            connect_tls: optional("--connect-tls-listen", settings.connect_tls_listen)?,
            admin: optional("--admin-listen", settings.admin_listen)?,
        })
    }

    fn ready(&self) -> std::io::Result<Ready> {
        let address = |listener: &Option<TcpListener>| {
            listener.as_ref().map(|listener| listener.local_addr().map(|a| a.to_string())).transpose()
        };
        Ok(Ready {
            role: "hub",
            pid: std::process::id(),
            tunnel: self.tunnel.local_addr()?.to_string(),
            connect: address(&self.connect)?,
            connect_tls: address(&self.connect_tls)?,
            admin: address(&self.admin)?,
            gateway: address(&self.gateway)?,
            sni: address(&self.sni)?,
        })
    }
}

/// The ready file. Its names are a promise to scripts.
#[derive(Debug, Serialize)]
struct Ready {
    role: &'static str,
    pid: u32,
    tunnel: String,
    connect: Option<String>,
    connect_tls: Option<String>,
    admin: Option<String>,
    gateway: Option<String>,
    sni: Option<String>,
}

// === Running ===

/// A hub that serves. Dropping it ends everything at once.
struct Running {
    hub: Hub,
    ways: Ways,
    trust: Trust,
    probe: Arc<HubProbe>,
    no_more_tunnels: CancellationToken,
    no_more_clients: CancellationToken,
    tunnels: AbortOnDropHandle<()>,
    clients: Vec<AbortOnDropHandle<()>>,
    _background: Vec<AbortOnDropHandle<()>>,
}

impl Running {
    async fn start(settings: &HubSettings, listeners: Listeners) -> anyhow::Result<Self> {
        let telemetry = Arc::new(Telemetry::new());
        let authority = open_authority(settings)?;
        let clusters = Arc::new(ClusterFiles::new(&settings.data_dir));
        let enrolment = Enrolment::new(&authority, clusters.clone())
            .with_join_tokens(Arc::new(JoinTokenFiles::new(&settings.data_dir)))
            .with_lifetime(settings.agent_cert_ttl);
        let hub = Hub::builder(&authority, clusters).enrolment(enrolment).observer(telemetry.clone()).build()?;
        let trust = Trust::start(&settings.trust, &settings.data_dir).await?;
        let ways = Ways::make(settings, &trust, &authority, &hub, &telemetry)?;
        let probe = Arc::new(HubProbe { hub: hub.clone(), draining: AtomicBool::new(false) });

        let (no_more_tunnels, no_more_clients) = (CancellationToken::new(), CancellationToken::new());
        let tunnels = {
            let (hub, stop) = (hub.clone(), no_more_tunnels.clone());
            process::owned(async move { hub.serve_tunnels(listeners.tunnel, stop).await })
        };
        let client_listeners = [listeners.gateway, listeners.sni, listeners.connect, listeners.connect_tls];
        let clients = ways.serve(client_listeners, &no_more_clients);
        let mut background = vec![process::owned(admin::upkeep(telemetry.handle()))];
        if let Some(listener) = listeners.admin {
            background.push(process::owned(Admin::new(&telemetry, probe.clone()).serve(listener)));
        }
        let _background = background;
        Ok(Self { hub, ways, trust, probe, no_more_tunnels, no_more_clients, tunnels, clients, _background })
    }

    /// Ends in the order that loses nobody, also when another hub has taken over the ports: first nobody is told to come here,
    /// then agents are told to move while clients that were accepted are still served.
    async fn end(self, grace: Duration) {
        let Self { hub, ways, trust, probe, no_more_tunnels, no_more_clients, tunnels, clients, _background } = self;
        probe.draining.store(true, Ordering::Relaxed);
        no_more_tunnels.cancel();
        let _ = tunnels.await;
        let finish_clients = async {
            no_more_clients.cancel();
            for accepting in clients {
                let _ = accepting.await;
            }
            let _ = tokio::time::timeout(grace, ways.drained()).await;
        };
        tokio::join!(hub.drain(grace), finish_clients);
        match ways.connections() {
            0 => {}
            cut => warn!(cut, "The grace is over; the clients that are left are cut."),
        }
        ways.cut();
        hub.stop().await;
        drop(ways);
        trust.end();
        info!("The hub has ended.");
    }
}

fn open_authority(settings: &HubSettings) -> Result<HubAuthority, IdentityError> {
    let opening = HubAuthority::at(&settings.data_dir).names(&settings.hub_names);
    match &settings.agent_ca {
        Some(file) => opening.agent_ca(file).open_or_create(),
        None => opening.open_or_create(),
    }
}

// === Ways ===

/// The ways in for clients.
struct Ways {
    http: Arc<Gateway<HttpAdapter<Hub>>>,
    sni: Arc<Gateway<SniAdapter<Hub>>>,
    connect: Arc<Gateway<ConnectAdapter<Hub>>>,
    connect_tls: Arc<Gateway<ConnectAdapter<Hub>>>,
}

impl Ways {
    fn make(
        settings: &HubSettings,
        trust: &Trust,
        authority: &HubAuthority,
        hub: &Hub,
        telemetry: &Arc<Telemetry>,
    ) -> anyhow::Result<Self> {
        let mut config = HttpConfig::default();
        config.wait_for_tunnel = settings.gateway_wait;
        config.server_timing = settings.server_timing;
        let mut http = HttpAdapter::new(hub.clone(), config, telemetry.clone());
        let (fields, prefixes) = trust.forwarded();
        http = http.checkpoint(trust.checkpoint.clone()).forwarded(fields, prefixes);
        if !settings.gateway_plain {
            http = http.tls(authority.gateway_config_for(trust.client_authorities())?);
        }
        let mut config = ConnectConfig::default();
        config.wait_for_tunnel = settings.tunnel_wait;
        let connect_with =
            |config| ConnectAdapter::new(hub.clone(), config, telemetry.clone()).checkpoint(trust.checkpoint.clone());
        let tls = authority.gateway_config_for(trust.client_authorities())?;
        let (connect, connect_tls) = (connect_with(config.clone()), connect_with(config).tls(&tls));
        let mut config = SniConfig::new(&settings.sni_suffix);
        config.wait_for_tunnel = settings.gateway_wait;
        let sni = SniAdapter::new(hub.clone(), config, telemetry.clone()).checkpoint(trust.checkpoint.clone());
        Ok(Self {
            http: Arc::new(Gateway::new(http)),
            sni: Arc::new(Gateway::new(sni)),
            connect: Arc::new(Gateway::new(connect)),
            connect_tls: Arc::new(Gateway::new(connect_tls)),
        })
    }

    fn serve(
        &self,
        [http, sni, connect, connect_tls]: [Option<TcpListener>; 4],
        stop: &CancellationToken,
    ) -> Vec<AbortOnDropHandle<()>> {
        let accepting = [
            accept(&self.http, http, stop),
            accept(&self.sni, sni, stop),
            accept(&self.connect, connect, stop),
            accept(&self.connect_tls, connect_tls, stop),
        ];
        accepting.into_iter().flatten().collect()
    }

    async fn drained(&self) {
        let (http, sni) = (self.http.drained(), self.sni.drained());
        tokio::join!(http, sni, self.connect.drained(), self.connect_tls.drained());
    }

    fn connections(&self) -> usize {
        let connect = self.connect.connections() + self.connect_tls.connections();
        self.http.connections() + self.sni.connections() + connect
    }

    fn cut(&self) {
        self.http.cut();
        self.sni.cut();
        self.connect.cut();
        self.connect_tls.cut();
    }
}

fn accept<A: HubAdapter>(
    gateway: &Arc<Gateway<A>>,
    listener: Option<TcpListener>,
    stop: &CancellationToken,
) -> Option<AbortOnDropHandle<()>> {
    let (listener, gateway, stop) = (listener?, Arc::clone(gateway), stop.clone());
    Some(process::owned(async move { gateway.serve(listener, stop).await }))
}

// === HubProbe ===

struct HubProbe {
    hub: Hub,
    draining: AtomicBool,
}

impl Probe for HubProbe {
    fn readiness(&self) -> Result<(), String> {
        if self.draining.load(Ordering::Relaxed) { Err("the hub is draining".to_owned()) } else { Ok(()) }
    }

    fn tunnels(&self) -> Vec<TunnelProbe> {
        let tunnels = self.hub.tunnels().into_iter();
        tunnels.map(|tunnel| TunnelProbe { cluster: tunnel.cluster.to_string(), rtt: tunnel.rtt }).collect()
    }
}
