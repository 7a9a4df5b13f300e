//! What the agent's service proxy is made of: who knows the cluster, what may be reached, whom to believe.

use crate::settings::ClusterSettings;
use mctunnel::{
    ErrorCode, PinnedTargets, ServiceProxy, ServiceProxyConfig, ServiceTarget,
    agent::{Impersonate, service_proxy::TokenFile},
    core::{
        PermitService, Roots,
        locate::{Changing, SharedLocator},
    },
    kube::{
        ClusterAccess, KubeLocator, LocatorConfig, OwnToken, ServiceAllowList, ServiceName, ServiceTls, SharedAllowList,
    },
};
use std::{fs, future::pending, io, path::PathBuf, sync::Arc};
use tracing::{info, warn};

/// The service proxy of an agent, and what may be reached through it.
pub(crate) async fn service_proxy(
    settings: &ClusterSettings,
) -> anyhow::Result<(Arc<ServiceProxy>, Arc<PermittedServices>)> {
    let mut pinned = PinnedTargets::new();
    if let Some(url) = &settings.kube_api {
        let roots = settings.kube_api_ca.as_ref().map(read_roots).transpose()?;
        pinned = pinned.pin_kube_api(url, roots)?;
    }
    for pin in &settings.pin_services {
        pinned = pinned.pin_service(pin)?;
    }
    if let Some(path) = &settings.service_ca.of_others {
        pinned = pinned.roots(read_roots(path)?);
    }
    for (service, path) in &settings.service_ca.of_one {
        pinned = pinned.roots_of(&service.namespace, &service.name, read_roots(path)?);
    }
    pinned = pinned.insecure(&settings.insecure_services)?;
    let mut knows_kube_api = settings.kube_api.is_some();
    let access = kubernetes(settings).await?;
    if let Some(access) = &access {
        pinned = pinned.or_else(locator(settings, access)?);
        knows_kube_api = true;
    }
    let permitted = Arc::new(PermittedServices::read(settings).await?);
    if !knows_kube_api && permitted.allows_some() {
        warn!("There is no Kubernetes to ask, so only pinned services are found. Give --kubeconfig, or --pin-service.");
    }
    let proxy = ServiceProxy::new(Arc::new(pinned), ServiceProxyConfig::default())
        .kube_api(knows_kube_api && !settings.deny_kube_api)
        .impersonate(impersonate(settings, access.as_ref())?)
        .services(Arc::clone(&permitted) as _);
    Ok((Arc::new(proxy), permitted))
}

/// For whom the agent speaks, if it is to.
fn impersonate(settings: &ClusterSettings, access: Option<&ClusterAccess>) -> Result<Option<Impersonate>, NoToken> {
    let (users, groups) = (&settings.impersonate_users, &settings.impersonate_groups);
    if !settings.impersonate {
        return if users.is_empty() && groups.is_empty() { Ok(None) } else { Err(NoToken::NotAsked) };
    }
    let own = access.and_then(ClusterAccess::token);
    let impersonate = match (&settings.kube_token_file, own) {
        (Some(path), _) => Impersonate::new(TokenFile::new(path)),
        (None, Some(OwnToken::File(path))) => Impersonate::new(TokenFile::new(path)),
        (None, Some(OwnToken::Fixed(token))) => Impersonate::new(token),
        (None, None) => return Err(NoToken::Missing),
    };
    Ok(Some(impersonate.only(users.iter().cloned(), groups.iter().cloned())))
}

/// The agent cannot speak for users as it was told to.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoToken {
    /// There is nothing to show the kube-apiserver.
    #[error("--impersonate needs a token of the agent's own for the kube-apiserver, and there is none")]
    Missing,
    /// A list of users without the switch.
    #[error("--impersonate-user and --impersonate-group mean nothing without --impersonate")]
    NotAsked,
}

impl NoToken {
    pub(crate) fn code(&self) -> ErrorCode {
        let remedy = match self {
            Self::Missing => {
                "give --kube-token-file, a kubeconfig with a token, or run the agent in a pod with a service account"
            }
            Self::NotAsked => "add --impersonate, or leave the lists out",
        };
        ErrorCode { code: "MCT-AGENT-IMPERSONATE", remedy }
    }
}

/// How the cluster is asked, if there is a way to.
pub(crate) async fn kubernetes(settings: &ClusterSettings) -> anyhow::Result<Option<ClusterAccess>> {
    let access = match &settings.kubeconfig {
        Some(path) => ClusterAccess::from_kubeconfig(path, settings.kube_context.as_deref()).await?,
        None if std::path::Path::new(SERVICE_ACCOUNT).exists() => ClusterAccess::in_cluster()?,
        None => return Ok(None),
    };
    info!(server = %access.api_server().endpoint, "The cluster's kube-apiserver is known.");
    Ok(Some(access))
}

/// Who watches the cluster.
fn locator(settings: &ClusterSettings, access: &ClusterAccess) -> anyhow::Result<SharedLocator> {
    let mut tls = ServiceTls::default();
    if let Some(path) = &settings.service_ca.of_others {
        tls.default_roots = Some(read(path)?.into());
    }
    for (service, path) in &settings.service_ca.of_one {
        tls.roots.insert(service.clone(), read(path)?.into());
    }
    for service in &settings.insecure_services {
        tls.insecure.insert(ServiceName::parse(service)?);
    }
    let config = LocatorConfig {
        zone: settings.zone.clone(),
        cluster_domain: Some(settings.cluster_domain.clone()),
        allow_external_names: settings.allow_external_names,
        tls,
        ..LocatorConfig::default()
    };
    Ok(Arc::new(KubeLocator::start(access, config)?))
}

/// Every pod with a service account has it.
pub(crate) const SERVICE_ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount/token";

fn read_roots(path: &PathBuf) -> Result<Roots, CaFileError> {
    Ok(Roots::Pem(read(path)?.into()))
}

fn read(path: &PathBuf) -> Result<String, CaFileError> {
    fs::read_to_string(path).map_err(|source| CaFileError { path: path.clone(), source })
}

/// A file with CA certificates cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("the CA certificates in {} cannot be read", path.display())]
pub(crate) struct CaFileError {
    path: PathBuf,
    source: io::Error,
}

impl CaFileError {
    pub(crate) fn code(&self) -> ErrorCode {
        ErrorCode { code: "MCT-AGENT-CA-FILE", remedy: "give a file with PEM certificates that the agent may read" }
    }
}

// === PermittedServices ===

/// The services of the flags and of the file.
pub(crate) struct PermittedServices {
    flags: ServiceAllowList,
    file: Option<SharedAllowList>,
}

impl PermittedServices {
    async fn read(settings: &ClusterSettings) -> anyhow::Result<Self> {
        let file = match &settings.allow_service_file {
            Some(path) => Some(SharedAllowList::watch(path.clone()).await?),
            None => None,
        };
        Ok(Self { flags: ServiceAllowList::parse(&settings.allow_services)?, file })
    }

    /// The rules that count now, as people write them.
    pub(crate) fn rules(&self) -> String {
        let file = self.file.as_ref().map(|file| file.list().to_string()).unwrap_or_default();
        format!("{}\n{file}", self.flags)
    }

    /// Whether the file as it is now does not count, and how often its rules were replaced; `None` without a file.
    pub(crate) fn file_status(&self) -> Option<(bool, u64)> {
        let status = self.file.as_ref()?.status();
        Some((status.problem.is_some(), status.replaced))
    }

    fn allows_some(&self) -> bool {
        !self.flags.is_empty() || self.file.is_some()
    }
}

impl PermitService for PermittedServices {
    fn permits(&self, service: &ServiceTarget) -> bool {
        self.flags.permits(service) || self.file.as_ref().is_some_and(|file| file.permits(service))
    }

    fn changed(&self) -> Changing<'_> {
        // Flags stay as they are.
        let Some(file) = &self.file else { return Box::pin(pending()) };
        let mut changes = file.changes();
        Box::pin(async move {
            if changes.changed().await.is_err() {
                pending::<()>().await;
            }
        })
    }
}
