//! Who comes in at the hub, what they may do and where it is written down: the checkpoint of all ways in, made from the settings.

use crate::{control, settings::TrustSettings, stored_api_keys::StoredApiKeys};
use mctunnel::{
    Checkpoint, ErrorCode,
    core::{Access, Audit, Authorize, Decision, DynAuthenticate, Limit, PassThrough, Place, Store, Unaudited},
    kube::{ClusterAccess, ClusterTokenReview},
};
use mctunnel_audit::{AuditConfig, AuditLog, FileConfig};
use mctunnel_authn::{ApiKeyStore, AuthParts, ReviewToken, SharedChain, Wants};
use mctunnel_policy::{ClusterLabels, Quotas, ReloadingPolicy, Shadow};
use mctunnel_store::FileStore;
use rustls_pki_types::CertificateDer;
use std::{
    path::{Path, PathBuf},
    sync::Arc,
};
use tracing::{info, warn};

/// What the ways in need, and what must live as long as they do.
pub(crate) struct Trust {
    pub(crate) checkpoint: Checkpoint,
    /// What listeners collect for the providers.
    wants: Wants,
    audit: Option<Arc<AuditLog>>,
    /// Commands that change keys while the hub runs.
    _control: Option<control::Control>,
}

impl Trust {
    /// Reads the files and starts to watch them.
    pub(crate) async fn start(settings: &TrustSettings, data_dir: &Path) -> anyhow::Result<Self> {
        let audit = settings.audit.open(data_dir)?.map(Arc::new);
        let recorded: Arc<dyn Audit> = match &audit {
            Some(log) => Arc::clone(log) as _,
            None => Arc::new(Unaudited),
        };
        let Some(Files { providers, policy, next }) = &settings.files else {
            let open: (Arc<dyn DynAuthenticate>, Arc<dyn Authorize>) = (Arc::new(PassThrough), Arc::new(PassThrough));
            let checkpoint = Checkpoint::new(open.0, open.1, recorded);
            return Ok(Self { checkpoint, wants: Wants::default(), audit, _control: None });
        };
        let store: Arc<dyn Store> = Arc::new(FileStore::open(data_dir)?);
        let api_keys: Arc<dyn ApiKeyStore> = Arc::new(StoredApiKeys::open(Arc::clone(&store))?);
        let control = control::serve(data_dir, store)?;
        let parts = AuthParts { reviews: reviews(settings).await?, api_keys: Some(api_keys), ..AuthParts::default() };
        let chain = SharedChain::watch(providers.clone(), parts).await?;
        let labels = ClusterLabels::new();
        let live = ReloadingPolicy::watch(policy.clone(), labels.clone()).await?;
        let quotas = live.quotas();
        let authorize: Arc<dyn Authorize> = match next {
            Some(next) => {
                info!(policy = %next.display(), "Decisions that the next policy would change are logged.");
                Arc::new(Shadow::new(live, ReloadingPolicy::watch(next.clone(), labels).await?))
            }
            None => Arc::new(live),
        };
        info!(providers = %providers.display(), policy = %policy.display(), "Clients are authenticated and authorised.");
        let wants = chain.wants();
        let checkpoint = Checkpoint::new(Arc::new(chain), authorize, recorded).with_limit(Arc::new(ByPolicy(quotas)));
        Ok(Self { checkpoint, wants, audit, _control: Some(control) })
    }

    /// Who may have signed clients' certificates.
    pub(crate) fn client_authorities(&self) -> Vec<CertificateDer<'static>> {
        self.wants.authorities.iter().cloned().map(CertificateDer::from).collect()
    }

    /// The fields of a front proxy, and the beginnings of such.
    pub(crate) fn forwarded(&self) -> (Vec<String>, Vec<String>) {
        (self.wants.fields.clone(), self.wants.field_prefixes.clone())
    }

    /// Writes the last records. Called when no request is left.
    pub(crate) fn end(&self) {
        if let Some(log) = &self.audit
            && let Err(error) = log.close()
        {
            warn!(%error, "The last records of the audit log may be missing.");
        }
    }
}

/// Who can ask the hub's own cluster about tokens, if there is a way to.
async fn reviews(settings: &TrustSettings) -> anyhow::Result<Option<Arc<dyn ReviewToken>>> {
    let access = match &settings.kubeconfig {
        Some(path) => ClusterAccess::from_kubeconfig(path, None).await?,
        None if Path::new(crate::cluster_access::SERVICE_ACCOUNT).exists() => ClusterAccess::in_cluster()?,
        None => return Ok(None),
    };
    Ok(Some(Arc::new(ClusterTokenReview::new(&access)?)))
}

/// The quotas of the policy as the gateway asks for them.
#[derive(Debug)]
struct ByPolicy(Arc<Quotas>);

impl Limit for ByPolicy {
    fn take(&self, access: &Access<'_>) -> Result<Box<dyn Place>, Decision> {
        Ok(Box::new(Taken(self.0.admit(access)?)))
    }
}

struct Taken(mctunnel_policy::Permit);

impl Place for Taken {
    fn moved(&self, bytes: u64) -> std::time::Duration {
        self.0.take_bytes(bytes)
    }
}

// === Settings ===

/// The files that say who comes in and what they may do.
#[derive(Debug, Clone)]
pub(crate) struct Files {
    pub(crate) providers: PathBuf,
    pub(crate) policy: PathBuf,
    /// The policy that is being tried out.
    pub(crate) next: Option<PathBuf>,
}

/// Where requests are written down.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum AuditTo {
    Off,
    DataDir,
    Stdout,
    File(PathBuf),
}

impl AuditTo {
    fn open(&self, data_dir: &Path) -> anyhow::Result<Option<AuditLog>> {
        let mut config = AuditConfig::default();
        match self {
            Self::Off => return Ok(None),
            Self::DataDir => config.file = Some(FileConfig::in_data_dir(data_dir)),
            Self::Stdout => config.stdout = true,
            Self::File(path) => config.file = Some(FileConfig::new(path)),
        }
        Ok(Some(AuditLog::open(config)?))
    }
}

/// The settings about clients contradict each other.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UnclearTrust {
    /// Who they are is asked, but not what they may do, or the other way round.
    #[error("{given} is given without {missing}")]
    Half { given: &'static str, missing: &'static str },
    /// Both.
    #[error("--insecure-no-auth contradicts --auth-config")]
    Both,
    /// Clients of a network would come in unasked.
    #[error("--insecure-no-auth is for loopback, and --gateway-listen is {0}")]
    Exposed(std::net::SocketAddr),
}

impl UnclearTrust {
    pub(crate) fn code(&self) -> ErrorCode {
        let remedy = match self {
            Self::Half { .. } => "give both --auth-config and --policy: who clients are, and what they may do",
            Self::Both => "leave out --insecure-no-auth",
            Self::Exposed(_) => "give --auth-config and --policy, or listen on 127.0.0.1",
        };
        ErrorCode { code: "MCT-HUB-UNCLEAR-TRUST", remedy }
    }
}
