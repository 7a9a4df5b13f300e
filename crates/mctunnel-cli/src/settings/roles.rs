//! The settings of each role as the rest of the program uses them: typed and checked.

use super::{
    ConfigError, JoinBy, audit::audit_settings, congestion::congestion_control, effective::Effective,
    reports::ReportSettings, service_ca::ServiceCa,
};
use crate::{
    audit_sinks::AuditSettings,
    report_sinks::SinkSettings,
    trust::{self, Files, UnclearTrust},
};
use mctunnel::{AllowList, Host, ProxySettings, core::target::Label, report::Retention, tunnel::CongestionControl};
use std::{net::SocketAddr, num::NonZeroUsize, path::PathBuf, time::Duration};
use tracing_subscriber::EnvFilter;

/// What every role has.
#[derive(Debug)]
pub(crate) struct ProcessSettings {
    pub(crate) log_format: LogFormat,
    pub(crate) log_filter: EnvFilter,
    /// Worker threads; `None` is one for every two cores.
    pub(crate) threads: Option<NonZeroUsize>,
    pub(crate) grace: Duration,
    pub(crate) ready_file: Option<PathBuf>,
}

/// What log lines look like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LogFormat {
    /// Human on a terminal, else JSON.
    Auto,
    Human,
    Json,
}

impl ProcessSettings {
    fn read(effective: &Effective) -> Result<Self, ConfigError> {
        let log_format = match effective.required("log_format")? {
            "auto" => LogFormat::Auto,
            "human" => LogFormat::Human,
            "json" => LogFormat::Json,
            other => return Err(effective.bad_value("log_format", format!("{other:?} is not auto, human or json"))),
        };
        let level = effective.required("log_level")?;
        let log_filter = EnvFilter::builder().parse(level).map_err(|_| {
            let forms = "is not error, warn, info, debug, trace, off or a filter such as info,h2=debug";
            effective.bad_value("log_level", format!("{level:?} {forms}"))
        })?;
        let threads = match effective.required("threads")? {
            "auto" => None,
            text => Some(text.parse().map_err(|_| {
                effective.bad_value("threads", format!("{text:?} is not a number of threads, nor 'auto'"))
            })?),
        };
        let grace = effective.duration("grace")?;
        Ok(Self { log_format, log_filter, threads, grace, ready_file: effective.path("ready_file") })
    }
}

/// What a hub is told.
#[derive(Debug)]
pub(crate) struct HubSettings {
    pub(crate) data_dir: PathBuf,
    pub(crate) tunnel_listen: SocketAddr,
    pub(crate) gateway_listen: Option<SocketAddr>,
    pub(crate) sni_listen: Option<SocketAddr>,
    pub(crate) sni_suffix: String,
    pub(crate) gateway_plain: bool,
    pub(crate) gateway_wait: Duration,
    pub(crate) server_timing: bool,
    pub(crate) connect_listen: Option<SocketAddr>,
    pub(crate) connect_tls_listen: Option<SocketAddr>,
    pub(crate) admin_listen: Option<SocketAddr>,
    pub(crate) hub_names: Vec<String>,
    pub(crate) agent_cert_ttl: Duration,
    pub(crate) agent_ca: Option<PathBuf>,
    /// For whom tokens of ServiceAccounts must be that vouch for agents; without any, none do.
    pub(crate) enrol_audiences: Vec<String>,
    pub(crate) tunnel_wait: Duration,
    pub(crate) reuse_port: bool,
    /// What clusters are offered.
    pub(crate) services: Option<PathBuf>,
    /// How long reports are kept.
    pub(crate) reports: Retention,
    /// Where every report goes as well.
    pub(crate) report_sinks: SinkSettings,
    pub(crate) trust: TrustSettings,
    pub(crate) congestion_control: CongestionControl,
}

/// What a hub is told about its clients.
#[derive(Debug)]
pub(crate) struct TrustSettings {
    /// `None`: nobody is asked who they are.
    pub(crate) files: Option<Files>,
    pub(crate) audit: AuditSettings,
    pub(crate) kubeconfig: Option<PathBuf>,
    pub(crate) insecure_no_auth: bool,
}

impl TrustSettings {
    fn read(effective: &Effective) -> anyhow::Result<Self> {
        let half = |given, missing| Err(UnclearTrust::Half { given, missing });
        let next = effective.path("shadow_policy");
        let kubeconfig = effective.path("review_kubeconfig");
        let files = match (effective.path("auth_config"), effective.path("policy")) {
            (Some(providers), Some(policy)) => Some(Files { providers, policy, next }),
            (Some(_), None) => half("--auth-config", "--policy")?,
            (None, Some(_)) => half("--policy", "--auth-config")?,
            // What is asked for and would not be done is an error, and not silence.
            (None, None) if next.is_some() => half("--shadow-policy", "--policy")?,
            (None, None) if kubeconfig.is_some() && effective.texts("enrol_audience").is_empty() => {
                half("--review-kubeconfig", "--auth-config or --enrol-audience")?
            }
            (None, None) => None,
        };
        let insecure_no_auth = effective.switch("insecure_no_auth")?;
        if insecure_no_auth && files.is_some() {
            return Err(UnclearTrust::Both.into());
        }
        let audit = audit_settings(effective, files.is_some())?;
        Ok(Self { files, audit, kubeconfig, insecure_no_auth })
    }
}

impl HubSettings {
    pub(crate) fn read(effective: &Effective) -> anyhow::Result<(ProcessSettings, Self)> {
        let tunnel_listen = effective
            .listen("tunnel_listen")?
            .ok_or_else(|| effective.bad_value("tunnel_listen", "a hub without tunnels is of no use"))?;
        let settings = Self {
            trust: TrustSettings::read(effective)?,
            data_dir: effective.required("data_dir")?.into(),
            tunnel_listen,
            gateway_listen: effective.listen("gateway_listen")?,
            sni_listen: effective.listen("sni_listen")?,
            sni_suffix: effective.required("sni_suffix")?.to_owned(),
            gateway_plain: effective.switch("gateway_plain")?,
            gateway_wait: effective.duration("gateway_wait")?,
            server_timing: effective.switch("server_timing")?,
            connect_listen: effective.listen("connect_listen")?,
            connect_tls_listen: effective.listen("connect_tls_listen")?,
            admin_listen: effective.listen("admin_listen")?,
            hub_names: effective.texts("hub_name").to_vec(),
            agent_cert_ttl: agent_cert_ttl(effective)?,
            agent_ca: effective.path("agent_ca"),
            enrol_audiences: enrol_audiences(effective)?,
            tunnel_wait: effective.duration("tunnel_wait")?,
            congestion_control: congestion_control(effective)?,
            reuse_port: effective.switch("reuse_port")?,
            services: effective.path("services"),
            report_sinks: SinkSettings::read(effective)?,
            reports: Retention { age: effective.duration("report_keep")?, bytes: effective.size("report_size")? },
        };
        if settings.trust.insecure_no_auth {
            settings.stays_on_this_machine()?;
        }
        if let (Some(address), true, false) = (
            settings.connect_listen.filter(|address| !address.ip().is_loopback()),
            settings.trust.files.is_some(),
            effective.switch("insecure_connect_anywhere")?,
        ) {
            let setting = effective.name_of("connect_listen");
            return Err(ConfigError::ConnectExposed { setting, address: address.to_string() }.into());
        }
        Ok((ProcessSettings::read(effective)?, settings))
    }

    /// Whether clients know the hub by its CA.
    pub(crate) fn shows_clients_its_ca(&self) -> bool {
        self.gateway_listen.is_some() && !self.gateway_plain || self.connect_tls_listen.is_some()
    }

    /// Where clients come in, each with its flag.
    fn ways_in(&self) -> impl Iterator<Item = (&'static str, SocketAddr)> {
        let ways = [
            ("--gateway-listen", self.gateway_listen),
            ("--sni-listen", self.sni_listen),
            ("--connect-listen", self.connect_listen),
            ("--connect-tls-listen", self.connect_tls_listen),
        ];
        ways.into_iter().filter_map(|(flag, address)| Some((flag, address?)))
    }

    /// A hub whose clients nobody asks who they are is for its own machine alone.
    fn stays_on_this_machine(&self) -> Result<(), UnclearTrust> {
        match self.ways_in().find(|(_, address)| !address.ip().is_loopback()) {
            Some((flag, address)) => Err(UnclearTrust::Exposed { flag, address }),
            None => Ok(()),
        }
    }

    /// Nobody comes in unasked, unless somebody said in so many words that they may. Asked before anything is started.
    pub(crate) fn asks_clients(&self) -> Result<(), UnclearTrust> {
        if self.trust.files.is_some() || self.trust.insecure_no_auth {
            return Ok(());
        }
        let ways: Vec<String> = self.ways_in().map(|(flag, address)| format!("{flag} {address}")).collect();
        if ways.is_empty() { Ok(()) } else { Err(UnclearTrust::Nobody { ways: ways.join(", ") }) }
    }

    /// Who is to take tokens of ServiceAccounts has a cluster to ask about them. Asked before anything is started.
    pub(crate) fn has_a_cluster_to_ask(&self) -> Result<(), UnclearTrust> {
        let is_needed = !self.enrol_audiences.is_empty();
        if is_needed && !trust::has_a_cluster(&self.trust) { Err(UnclearTrust::NoCluster) } else { Ok(()) }
    }
}

/// What an agent is told.
#[derive(Debug)]
pub(crate) struct AgentSettings {
    pub(crate) join: JoinBy,
    pub(crate) hub: Option<String>,
    pub(crate) hub_server_name: Option<String>,
    pub(crate) allow: AllowList,
    pub(crate) admin_listen: Option<SocketAddr>,
    /// Services of the hub, and where to listen for each.
    pub(crate) expose: Vec<(Label, SocketAddr)>,
    /// Where reports wait, if there are any.
    pub(crate) report: Option<ReportSettings>,
    pub(crate) report_listen: Option<SocketAddr>,
    pub(crate) proxy: ProxySettings,
    pub(crate) cluster: ClusterSettings,
    pub(crate) congestion_control: CongestionControl,
}

/// A certificate has to live long enough to be used.
fn agent_cert_ttl(effective: &Effective) -> Result<Duration, ConfigError> {
    let life = effective.duration("agent_cert_ttl")?;
    if life < Duration::from_secs(1) {
        return Err(effective.bad_value("agent_cert_ttl", "a certificate lives for at least 1s"));
    }
    Ok(life)
}

/// An audience without a name would be anybody's.
fn enrol_audiences(effective: &Effective) -> Result<Vec<String>, ConfigError> {
    let audiences = effective.texts("enrol_audience");
    if audiences.iter().any(|audience| audience.trim().is_empty()) {
        return Err(effective.bad_value("enrol_audience", "an audience has a name, such as mctunnel-enrol"));
    }
    Ok(audiences.to_vec())
}

/// Which service of the hub is reached where.
fn exposed(effective: &Effective) -> Result<Vec<(Label, SocketAddr)>, ConfigError> {
    let read = |text: &String| {
        let (name, address) = text.split_once('=')?;
        Some((Label::parse(name).ok()?, address.parse().ok()?))
    };
    let all = effective.texts("expose").iter().map(|text| {
        let forms = "is not a service and an address such as hub-apiserver=127.0.0.1:16443";
        read(text).ok_or_else(|| effective.bad_value("expose", format!("{text:?} {forms}")))
    });
    all.collect()
}

/// Names of services are completed with it, so it has to be a name itself.
fn cluster_domain(effective: &Effective) -> Result<String, ConfigError> {
    let domain = effective.required("cluster_domain")?;
    match Host::parse_alone(domain) {
        Ok(Host::Name(name)) => Ok(name.trim_end_matches('.').to_owned()),
        Ok(Host::Ip(_)) | Err(_) => Err(effective.bad_value("cluster_domain", "not a DNS name")),
    }
}

/// What an agent is told about its cluster.
#[derive(Debug)]
pub(crate) struct ClusterSettings {
    pub(crate) allow_services: Vec<String>,
    pub(crate) allow_service_file: Option<PathBuf>,
    pub(crate) kubeconfig: Option<PathBuf>,
    pub(crate) kube_context: Option<String>,
    pub(crate) kube_api: Option<String>,
    pub(crate) kube_api_ca: Option<PathBuf>,
    pub(crate) deny_kube_api: bool,
    pub(crate) impersonate: bool,
    pub(crate) kube_token_file: Option<PathBuf>,
    pub(crate) impersonate_users: Vec<String>,
    pub(crate) impersonate_groups: Vec<String>,
    pub(crate) pin_services: Vec<String>,
    pub(crate) service_ca: ServiceCa,
    pub(crate) insecure_services: Vec<String>,
    pub(crate) zone: Option<String>,
    pub(crate) cluster_domain: String,
    pub(crate) allow_external_names: bool,
}

impl ClusterSettings {
    /// Whether nothing in the cluster can be reached by these.
    pub(crate) fn is_empty(&self) -> bool {
        self.allow_services.is_empty()
            && self.allow_service_file.is_none()
            && self.kubeconfig.is_none()
            && self.kube_api.is_none()
    }

    fn read(effective: &Effective) -> Result<Self, ConfigError> {
        let text = |key| effective.text(key).map(str::to_owned);
        Ok(Self {
            allow_services: effective.texts("allow_service").to_vec(),
            allow_service_file: effective.path("allow_service_file"),
            kubeconfig: effective.path("kubeconfig"),
            kube_context: text("kube_context"),
            kube_api: text("kube_api"),
            kube_api_ca: effective.path("kube_api_ca"),
            deny_kube_api: effective.switch("deny_kube_api")?,
            impersonate: effective.switch("impersonate")?,
            kube_token_file: effective.path("kube_token_file"),
            impersonate_users: effective.texts("impersonate_user").to_vec(),
            impersonate_groups: effective.texts("impersonate_group").to_vec(),
            pin_services: effective.texts("pin_service").to_vec(),
            service_ca: ServiceCa::read(effective)?,
            insecure_services: effective.texts("insecure_service").to_vec(),
            zone: text("zone"),
            cluster_domain: cluster_domain(effective)?,
            allow_external_names: effective.switch("allow_external_names")?,
        })
    }
}

impl AgentSettings {
    pub(crate) fn read(effective: &Effective) -> anyhow::Result<(ProcessSettings, Self)> {
        let hub_server_name = effective.text("hub_server_name").map(str::to_owned);
        if hub_server_name.as_deref().is_some_and(|name| Host::parse_alone(name).is_err()) {
            return Err(effective.bad_value("hub_server_name", "neither a DNS name nor an IP address").into());
        }
        let settings = Self {
            join: JoinBy::read(effective)?,
            hub: effective.text("hub").map(str::to_owned),
            hub_server_name,
            allow: AllowList::parse(effective.texts("allow"))?,
            admin_listen: effective.listen("admin_listen")?,
            expose: exposed(effective)?,
            report: ReportSettings::read(effective)?,
            report_listen: effective.listen("report_listen")?,
            proxy: ProxySettings::parse(effective.text("https_proxy"), effective.text("no_proxy"))?,
            cluster: ClusterSettings::read(effective)?,
            congestion_control: congestion_control(effective)?,
        };
        Ok((ProcessSettings::read(effective)?, settings))
    }
}
