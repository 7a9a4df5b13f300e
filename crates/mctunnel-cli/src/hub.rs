//! `mctunnel hub`: listeners, the hub, the CONNECT gateway and the admin pages, wired together and ended in order.

use crate::{
    admin::{self, Admin, Kept, Probe, TunnelProbe},
    cluster_labels::LabelledLedger,
    hub_pages::HubPages,
    hub_reports::{HubReports, ReportAdapter},
    hub_services,
    listen::{ListenError, listen},
    output,
    process::{self, ProcessError},
    ready_file,
    report_api::ReportApi,
    settings::{Flags, HubRole, HubSettings, ProcessSettings, mention_kept},
    signals::Signals,
    telemetry::Telemetry,
    trust::{self, Collecting, Trust, UnclearTrust},
    watched::Watched,
};
use mctunnel::{
    ClusterFiles, ConnectAdapter, ConnectConfig, Gateway, HttpAdapter, HttpConfig, Hub, HubAdapter, HubAuthority,
    IdentityError, SniAdapter, SniConfig,
    core::clusters::SharedClusters,
    hub::{Config as HubConfig, HubServices},
    identity::{ClusterLedger, Enrolment, HUB_SERVER_NAME, JoinTokenFiles},
    kube::ServiceAccountEvidence,
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
    settings.asks_clients()?;
    settings.has_a_cluster_to_ask()?;
    process::run(process, |process| serve(process, settings))
}

async fn serve(process: ProcessSettings, settings: HubSettings) -> anyhow::Result<ExitCode> {
    let mut signals = Signals::listen().map_err(ProcessError::Signals)?;
    ready_file::clear(process.ready_file.as_deref())?;
    mention_kept(&settings.congestion_control);
    // First what only one hub can have: one that shares its ports and cannot go on must not take a client from the other.
    let parts = Parts::make(&settings).await?;
    let listeners = Listeners::bind(&settings)?;
    let ready = listeners.ready(settings.trust.insecure_no_auth)?;
    let running = Running::start(&settings, parts, listeners)?;
    let Ready { tunnel, gateway, sni, connect, connect_tls, admin, insecure_no_auth, .. } = &ready;
    if *insecure_no_auth {
        warn!(
            "INSECURE: nobody is asked who they are (--insecure-no-auth). Every user and every program of this machine \
             reaches whatever the agents' lists allow, and nothing is refused here. For trying out only."
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

    fn ready(&self, insecure_no_auth: bool) -> std::io::Result<Ready> {
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
            insecure_no_auth,
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
    /// Whether clients come in without being asked who they are.
    insecure_no_auth: bool,
}

// === Running ===

/// A hub that serves. Dropping it ends everything at once.
struct Running {
    hub: Hub,
    ways: Ways,
    trust: Trust,
    reports: HubReports,
    probe: Arc<HubProbe>,
    no_more_tunnels: CancellationToken,
    no_more_clients: CancellationToken,
    tunnels: AbortOnDropHandle<()>,
    clients: Vec<AbortOnDropHandle<()>>,
    _background: Vec<AbortOnDropHandle<()>>,
}

/// A hub before it serves.
struct Parts {
    telemetry: Arc<Telemetry>,
    authority: HubAuthority,
    trust: Trust,
    hub: Hub,
    reports: HubReports,
    watched: Watched,
    background: Vec<AbortOnDropHandle<()>>,
}

impl Parts {
    async fn make(settings: &HubSettings) -> anyhow::Result<Self> {
        let telemetry = Arc::new(Telemetry::new());
        telemetry.set_insecure(settings.trust.insecure_no_auth);
        let authority = open_authority(settings)?;
        let clusters = Arc::new(ClusterFiles::new(&settings.data_dir));
        let trust = Trust::start(&settings.trust, &settings.data_dir, settings.reuse_port, &clusters).await?;
        let (ledger, admitted): (Arc<dyn ClusterLedger>, SharedClusters) = match &trust.labels {
            Some(labels) => {
                let labelled = Arc::new(LabelledLedger::new(Arc::clone(&clusters), Arc::clone(labels)));
                (Arc::clone(&labelled) as _, labelled)
            }
            None => (Arc::clone(&clusters) as _, Arc::clone(&clusters) as _),
        };
        let mut enrolment = Enrolment::new(&authority, ledger)
            .with_join_tokens(Arc::new(JoinTokenFiles::new(&settings.data_dir)))
            .with_lifetime(settings.agent_cert_ttl);
        if let Some(accounts) = service_accounts(settings, &clusters).await? {
            enrolment = enrolment.with_evidence(Arc::new(accounts));
        }
        if !settings.shows_clients_its_ca() {
            enrolment = enrolment.retiring_by_itself();
        }
        let mut background = vec![process::owned(admin::upkeep(telemetry.handle()))];
        let mut config = HubConfig::default();
        config.congestion_control = settings.congestion_control.clone();
        let mut builder =
            Hub::builder(&authority, admitted).config(config).enrolment(enrolment).observer(telemetry.clone());
        builder = builder.audit(trust.recorder());
        let mut watched = trust.watched();
        if let Some(path) = &settings.services {
            let (table, text) = hub_services::read(path)?;
            let services = Arc::new(HubServices::new(table, clusters).audit(trust.recorder()));
            let status = Arc::clone(watched.services.insert(Arc::default()));
            background.push(process::owned(hub_services::follow(path.clone(), text, Arc::clone(&services), status)));
            builder = builder.cluster_adapter(services);
        }
        let reports = HubReports::start(&settings.data_dir, settings.reports, &settings.report_sinks)?;
        let hub = builder.cluster_adapter(reports.adapter.clone()).build()?;
        Ok(Self { telemetry, authority, trust, hub, reports, watched, background })
    }
}

impl Running {
    fn start(settings: &HubSettings, parts: Parts, listeners: Listeners) -> anyhow::Result<Self> {
        let Parts { telemetry, authority, trust, hub, reports, watched, mut background } = parts;
        let pages = ReportApi::new(Arc::clone(&reports.adapter), hub.clone(), &settings.data_dir);
        let ways = Ways::make(settings, &trust, &authority, &hub, &telemetry, pages)?;
        let probe = Arc::new(HubProbe {
            hub: hub.clone(),
            reports: Arc::clone(&reports.adapter),
            watched,
            draining: AtomicBool::new(false),
        });

        let (no_more_tunnels, no_more_clients) = (CancellationToken::new(), CancellationToken::new());
        let tunnels = {
            let (hub, stop) = (hub.clone(), no_more_tunnels.clone());
            process::owned(async move { hub.serve_tunnels(listeners.tunnel, stop).await })
        };
        let client_listeners = [listeners.gateway, listeners.sni, listeners.connect, listeners.connect_tls];
        let clients = ways.serve(client_listeners, &no_more_clients);
        if let Some(listener) = listeners.admin {
            background.push(process::owned(Admin::new(&telemetry, probe.clone()).serve(listener)));
        }
        let _background = background;
        Ok(Self { hub, ways, trust, reports, probe, no_more_tunnels, no_more_clients, tunnels, clients, _background })
    }

    /// Ends in the order that loses nobody, also when another hub has taken over the ports: first nobody is told to come here,
    /// then agents are told to move while clients that were accepted are still served.
    async fn end(self, grace: Duration) {
        let Self { hub, ways, trust, reports, probe, no_more_tunnels, no_more_clients, tunnels, clients, _background } =
            self;
        probe.draining.store(true, Ordering::Relaxed);
        reports.stop();
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
        trust.end().await;
        info!("The hub has ended.");
    }
}

/// Lets ServiceAccounts of the hub's own cluster vouch for agents, if that was asked for.
async fn service_accounts(
    settings: &HubSettings,
    clusters: &Arc<ClusterFiles>,
) -> anyhow::Result<Option<ServiceAccountEvidence>> {
    let audiences = settings.enrol_audiences.clone();
    if audiences.is_empty() {
        return Ok(None);
    }
    let reviews = trust::reviews(&settings.trust).await?.ok_or(UnclearTrust::NoCluster)?;
    info!(?audiences, "ServiceAccounts of the hub's own cluster may vouch for agents.");
    Ok(Some(ServiceAccountEvidence::new(reviews, audiences, Arc::clone(clusters) as _)))
}

fn open_authority(settings: &HubSettings) -> Result<HubAuthority, IdentityError> {
    let mut opening = HubAuthority::at(&settings.data_dir).names(&settings.hub_names);
    if let Some(file) = &settings.agent_ca {
        opening = opening.agent_ca(file);
    }
    let is_new = opening.is_new()?;
    let authority = opening.open_or_create()?;
    if is_new {
        info!(data_dir = %settings.data_dir.display(), "There was no CA, so a new one was made.");
    }
    Ok(authority)
}

// === Ways ===

/// The ways in for clients.
struct Ways {
    http: Arc<Gateway<HttpAdapter<Hub>>>,
    sni: Arc<Gateway<SniAdapter<Hub>>>,
    connect: Arc<Gateway<ConnectAdapter<Hub>>>,
    connect_tls: Arc<Gateway<ConnectAdapter<Hub>>>,
    /// Follows the file of the providers.
    _following: Option<AbortOnDropHandle<()>>,
}

impl Ways {
    fn make(
        settings: &HubSettings,
        trust: &Trust,
        authority: &HubAuthority,
        hub: &Hub,
        telemetry: &Arc<Telemetry>,
        reports: ReportApi,
    ) -> anyhow::Result<Self> {
        let mut config = HttpConfig::default();
        config.wait_for_tunnel = settings.gateway_wait;
        config.server_timing = settings.server_timing;
        let mut http = HttpAdapter::new(hub.clone(), config, telemetry.clone());
        let (fields, prefixes) = trust.forwarded();
        http = http.checkpoint(trust.checkpoint.clone()).forwarded(fields, prefixes);
        http = http.own_pages(Arc::new(HubPages { can_i: trust.can_i.clone(), reports }));
        // Who comes in as nobody may be a web page that got here by a name of its own.
        http = http.hosts(settings.hub_names.iter().cloned().chain([HUB_SERVER_NAME.to_owned()]));
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
        let tls = [http.shared_tls(), connect_tls.shared_tls()].into_iter().flatten().collect();
        let following = trust.keep(Collecting { authority: authority.clone(), guard: http.guard(), tls });
        Ok(Self {
            _following: following,
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
    reports: Arc<ReportAdapter>,
    watched: Watched,
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

    fn kept(&self) -> Vec<Kept> {
        let pending = u64::try_from(self.hub.pending_opens()).unwrap_or(u64::MAX);
        let pending = Kept {
            name: "mctunnel_opens_pending",
            help: "Opens that have no answer yet, those that wait for a tunnel included",
            form: "gauge",
            values: vec![(String::new(), pending)],
        };
        [self.reports.kept(), self.watched.kept(), vec![pending]].concat()
    }
}
