//! Who comes in at the hub, what they may do and where it is written down: the checkpoint of all ways in, made from the settings.

use crate::{
    can_i::page::CanIPage,
    cluster_labels::{self, KnownLabels},
    hub_api_keys::HubApiKeys,
    process,
    settings::TrustSettings,
    trust_events::TrustEvents,
    watched::Watched,
};
use mctunnel::{
    Checkpoint, ClusterFiles, ErrorCode, HubAuthority,
    core::{Access, Audit, Authorize, Decision, DynAuthenticate, Limit, PassThrough, Place, Unaudited},
    gateway::{SharedTls, http::SharedGuard},
    kube::{ClusterAccess, ClusterTokenReview},
};
use mctunnel_audit::AuditLog;
use mctunnel_authn::{AuthParts, ReviewToken, SharedChain, Wants};
use mctunnel_policy::{Quotas, ReloadingPolicy, Shadow};
use rustls_pki_types::CertificateDer;
use std::{
    path::{Path, PathBuf},
    sync::Arc,
};
use tokio_util::task::AbortOnDropHandle;
use tracing::{info, warn};

/// What the ways in need, and what must live as long as they do.
pub(crate) struct Trust {
    pub(crate) checkpoint: Checkpoint,
    /// The providers, if clients are asked who they are; the policies, and the record.
    watched: Watched,
    /// Answers what the policy would decide; without a policy nothing does.
    pub(crate) can_i: Option<CanIPage>,
    /// The labels of clusters, if there is a policy that could choose by them.
    pub(crate) labels: Option<Arc<KnownLabels>>,
    _following: Option<AbortOnDropHandle<()>>,
    /// Writes changes of all that down.
    _noting: Option<AbortOnDropHandle<()>>,
    /// Also the commands that change keys while the hub runs.
    api_keys: Option<HubApiKeys>,
}

impl Trust {
    /// Reads the files and starts to watch them. With `shared`, beside another hub that does.
    pub(crate) async fn start(
        settings: &TrustSettings,
        data_dir: &Path,
        shared: bool,
        clusters: &Arc<ClusterFiles>,
    ) -> anyhow::Result<Self> {
        let audit = settings.audit.open(data_dir, shared)?.map(Arc::new);
        let recorded = recorder_of(audit.as_ref());
        let Some(Files { providers, policy, next }) = &settings.files else {
            let open: (Arc<dyn DynAuthenticate>, Arc<dyn Authorize>) = (Arc::new(PassThrough), Arc::new(PassThrough));
            let checkpoint = Checkpoint::new(open.0, open.1, recorded);
            return Ok(Self {
                checkpoint,
                watched: Watched { audit, ..Watched::default() },
                can_i: None,
                labels: None,
                _following: None,
                _noting: None,
                api_keys: None,
            });
        };
        let api_keys = HubApiKeys::start(data_dir, shared).await?;
        let reviews = reviews(settings).await?;
        let parts = AuthParts { reviews, api_keys: Some(api_keys.store()), ..AuthParts::default() };
        let chain = SharedChain::watch(providers.clone(), parts).await?;
        let known = cluster_labels::read(clusters)?;
        let labels = known.labels.clone();
        let live = ReloadingPolicy::watch(policy.clone(), labels.clone()).await?;
        let quotas = live.quotas();
        let can_i = Some(CanIPage::new(live.clone()));
        let mut policies = vec![live.clone()];
        let mut watched =
            Watched { chain: Some(chain.clone()), policy: Some(live.clone()), audit, ..Watched::default() };
        let authorize: Arc<dyn Authorize> = match next {
            Some(next) => {
                info!(policy = %next.display(), "Decisions that the next policy would change are logged.");
                let next = ReloadingPolicy::watch(next.clone(), labels).await?;
                policies.push(next.clone());
                let shadow = Arc::new(Shadow::new(live, next.clone()));
                watched.next = Some((next, Arc::clone(&shadow)));
                shadow
            }
            None => Arc::new(live),
        };
        info!(providers = %providers.display(), policy = %policy.display(), "Clients are authenticated and authorised.");
        let authenticate = Arc::new(chain);
        let checkpoint = Checkpoint::new(authenticate, authorize, recorded).with_limit(Arc::new(ByPolicy(quotas)));
        let labels = Arc::new(KnownLabels::new(Arc::clone(clusters), policies, known));
        let _following = Some(process::owned(Arc::clone(&labels).follow()));
        let _noting = settings.files.as_ref().and_then(|files| TrustEvents::follow(&watched, files, api_keys.store()));
        Ok(Self { checkpoint, watched, can_i, labels: Some(labels), _following, _noting, api_keys: Some(api_keys) })
    }

    /// What listeners collect for the providers, as it is now.
    fn wants(&self) -> Wants {
        self.watched.chain.as_ref().map(SharedChain::wants).unwrap_or_default()
    }

    /// What a scrape reads.
    pub(crate) fn watched(&self) -> Watched {
        self.watched.clone()
    }

    /// Has the listeners collect what the providers want whenever their file changes.
    pub(crate) fn keep(&self, collecting: Collecting) -> Option<AbortOnDropHandle<()>> {
        Some(process::owned(collecting.follow(self.watched.chain.clone()?)))
    }

    /// Who may have signed clients' certificates.
    pub(crate) fn client_authorities(&self) -> Vec<CertificateDer<'static>> {
        authorities(self.wants())
    }

    /// The fields of a front proxy, and the beginnings of such.
    pub(crate) fn forwarded(&self) -> (Vec<String>, Vec<String>) {
        let wants = self.wants();
        (wants.fields, wants.field_prefixes)
    }

    /// Where streams that clusters open are written down.
    pub(crate) fn recorder(&self) -> Arc<dyn Audit> {
        recorder_of(self.watched.audit.as_ref())
    }

    /// Gives the keys up and writes the last records. Called when no request is left.
    pub(crate) async fn end(self) {
        // Another hub may wait for the keys, and the disk may be slow.
        if let Some(api_keys) = self.api_keys {
            api_keys.end().await;
        }
        if let Some(log) = &self.watched.audit
            && let Err(error) = log.close()
        {
            warn!(%error, "The last records of the audit log may be missing.");
        }
    }
}

fn recorder_of(audit: Option<&Arc<AuditLog>>) -> Arc<dyn Audit> {
    match audit {
        Some(log) => Arc::clone(log) as _,
        None => Arc::new(Unaudited),
    }
}

fn authorities(wants: Wants) -> Vec<CertificateDer<'static>> {
    wants.authorities.into_iter().map(CertificateDer::from).collect()
}

/// Where listeners are told what to collect.
pub(crate) struct Collecting {
    pub(crate) authority: HubAuthority,
    pub(crate) guard: SharedGuard,
    /// Of those ways in that have TLS.
    pub(crate) tls: Vec<SharedTls>,
}

impl Collecting {
    async fn follow(self, chain: SharedChain) {
        let mut changes = chain.changes();
        while changes.changed().await.is_ok() {
            self.set(chain.wants());
        }
    }

    fn set(&self, wants: Wants) {
        self.guard.set_forwarded(wants.fields.clone(), wants.field_prefixes.clone());
        match self.authority.gateway_config_for(authorities(wants)) {
            Ok(config) => self.tls.iter().for_each(|tls| tls.set(&config)),
            Err(error) => warn!(%error, "Clients' certificates are still checked against the CAs of before."),
        }
    }
}

/// Whether the hub can ask its own cluster about tokens.
pub(crate) fn has_a_cluster(settings: &TrustSettings) -> bool {
    settings.kubeconfig.is_some() || Path::new(crate::cluster_access::SERVICE_ACCOUNT).exists()
}

/// Who can ask the hub's own cluster about tokens, if there is a way to.
pub(crate) async fn reviews(settings: &TrustSettings) -> anyhow::Result<Option<Arc<dyn ReviewToken>>> {
    let access = match &settings.kubeconfig {
        Some(path) => ClusterAccess::from_kubeconfig(path, None).await?,
        None if has_a_cluster(settings) => ClusterAccess::in_cluster()?,
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

/// The settings about clients contradict each other.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UnclearTrust {
    /// Who they are is asked, but not what they may do, or the other way round.
    #[error("{given} is given without {missing}")]
    Half { given: &'static str, missing: &'static str },
    /// Something is said about a webhook that there is not.
    #[error("{given} is given without --audit-webhook")]
    NoWebhook { given: &'static str },
    /// Both.
    #[error("--insecure-no-auth contradicts --auth-config")]
    Both,
    /// Clients of a network would come in unasked.
    #[error("--insecure-no-auth is for this machine alone, and {flag} {address} is not loopback")]
    Exposed { flag: &'static str, address: std::net::SocketAddr },
    /// Tokens would be taken that nobody can be asked about.
    #[error("--enrol-audience is given, and this hub has no cluster to ask about tokens of ServiceAccounts")]
    NoCluster,
    /// Clients would come in, and nothing says who they are.
    #[error("nothing says who clients are that come in at {ways}")]
    Nobody { ways: String },
}

impl UnclearTrust {
    pub(crate) fn code(&self) -> ErrorCode {
        let remedy = match self {
            Self::Half { .. } => "give both --auth-config and --policy: who clients are, and what they may do",
            Self::NoWebhook { .. } => "say with --audit-webhook where records are sent to",
            Self::Both => "leave out --insecure-no-auth",
            Self::Exposed { .. } => {
                "give --auth-config and --policy; or listen on 127.0.0.1 for all clients, or 'off', as in --gateway-listen 127.0.0.1:8080"
            }
            Self::NoCluster => {
                return ErrorCode {
                    code: "MCT-HUB-NO-CLUSTER",
                    remedy: "give --review-kubeconfig FILE, with the right to create tokenreviews, or run the hub in a pod with a service account",
                };
            }
            Self::Nobody { .. } => {
                return ErrorCode {
                    code: "MCT-HUB-NO-AUTH",
                    remedy: "add --auth-config FILE and --policy FILE, as in quickstart/; to try out on this machine alone, --insecure-no-auth with --gateway-listen 127.0.0.1:8080",
                };
            }
        };
        ErrorCode { code: "MCT-HUB-UNCLEAR-TRUST", remedy }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mctunnel::gateway::http::GuardConfig;

    #[tokio::test]
    async fn t01_the_names_of_a_front_proxys_fields_follow_the_file() {
        let temporary = tempfile::tempdir().unwrap();
        let dir = temporary.path();
        let authority = HubAuthority::open_or_create(&dir.join("hub"), &[]).unwrap();
        std::fs::write(dir.join("proxy-ca.pem"), authority.ca_pem()).unwrap();
        let providers = |field: &str| {
            let text = format!(
                "providers:\n  - name: front\n    front_proxy: {{ca_file: proxy-ca.pem, allowed_names: [proxy], user_header: {field}}}\n"
            );
            std::fs::write(dir.join("auth.yaml"), text).unwrap();
        };
        providers("X-Remote-User");
        let chain = SharedChain::watch(dir.join("auth.yaml"), AuthParts::default()).await.unwrap();
        let guard = SharedGuard::from(GuardConfig::default());
        let collecting = Collecting { authority, guard: guard.clone(), tls: Vec::new() };
        collecting.set(chain.wants());
        assert!(guard.now().is_forwarded("X-Remote-User") && !guard.now().is_forwarded("X-Corp-User"));
        let _following = process::owned(collecting.follow(chain));
        providers("X-Corp-User");
        let changed = async {
            while !guard.now().is_forwarded("X-Corp-User") {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(std::time::Duration::from_secs(10), changed).await.expect("it follows");
        assert!(!guard.now().is_forwarded("X-Remote-User"));
    }
}
