//! Giving agents their certificates: the first for evidence, the next for the one before. It opens no sockets; hub and agent carry
//! the messages (`wire`).

mod error;
mod evidence;
pub mod wire;

pub use error::{EnrolError, RefusalKind, Why};
pub use evidence::{DynEnrolEvidence, EnrolEvidence, Presented, SharedEvidence, TokenEvidence, Vouched, VouchedFor};

use crate::{
    AgentIdentity, CaPin, HubAuthority, IdentityError, JoinTokens, RecordedCertificate, ServiceAccount, TokenId,
    authority::SignedAgent, clock::DAY, csr::AgentCsr,
};
use mctunnel_core::ClusterName;
use rustls_pki_types::CertificateDer;
use std::{collections::BTreeMap, fmt, net::IpAddr, sync::Arc, time::Duration};

// === ports ===

/// What a hub has issued to its clusters, so that it can be taken back.
///
/// Obligations: 1. what was acknowledged is there after any crash; 2. each call is one step: nothing is listed for a cluster that was
/// revoked or removed since it was promised, whatever happens at the same time.
pub trait ClusterLedger: fmt::Debug + Send + Sync + 'static {
    /// Lists the first certificate of an agent. Refuses unless the cluster is still in that epoch.
    fn enrolled(
        &self,
        cluster: &ClusterName,
        epoch: &str,
        issued: &RecordedCertificate,
        labels: &BTreeMap<String, String>,
    ) -> Result<(), EnrolError>;

    /// Lists the certificate that the one with this serial is renewed to. Refuses unless that one is listed.
    fn renewed(&self, cluster: &ClusterName, serial: &str, issued: &RecordedCertificate) -> Result<(), EnrolError>;

    /// Whether a certificate of that CA may still be in use.
    fn depends_on(&self, authority: &CaPin) -> Result<bool, IdentityError>;
}

/// Finds the cluster that a ServiceAccount of the hub's own Kubernetes may vouch for.
///
/// Obligations: 1. an account that nobody recorded finds nothing; 2. nor does one whose cluster was revoked since it was recorded;
/// 3. an account finds one cluster or none; 4. what cannot be looked up is an error, never an answer.
pub trait FindCluster: fmt::Debug + Send + Sync + 'static {
    /// The cluster, and the epoch it is in.
    fn vouched_for_by(&self, account: &ServiceAccount) -> Result<Option<(ClusterName, String)>, IdentityError>;
}

// === Enrolment ===

/// How long a certificate of an agent lives unless told otherwise.
pub const AGENT_CERTIFICATE_LIFETIME: Duration = Duration::from_secs(24 * 60 * 60);

/// Issues certificates to agents that may have them.
#[derive(Debug)]
pub struct Enrolment {
    authority: HubAuthority,
    ledger: Arc<dyn ClusterLedger>,
    tokens: Option<Arc<dyn JoinTokens>>,
    evidence: Vec<SharedEvidence>,
    lifetime: Duration,
    retires: bool,
}

/// A certificate that was issued, and what its agent is to trust.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Issued {
    /// The cluster it stands for.
    pub cluster: ClusterName,
    /// Its serial, lower-case hex.
    pub serial: String,
    /// When it ends, in seconds since 1970.
    pub not_after_unix: i64,
    /// The answer to the agent.
    pub answer: wire::IssuedCertificate,
}

impl Enrolment {
    /// Issues by this authority and lists what it issues. Nobody can vouch for an agent yet, so only renewing works.
    #[must_use]
    pub fn new(authority: &HubAuthority, ledger: Arc<dyn ClusterLedger>) -> Self {
        Self {
            authority: authority.clone(),
            ledger,
            tokens: None,
            evidence: Vec::new(),
            lifetime: AGENT_CERTIFICATE_LIFETIME,
            retires: false,
        }
    }

    /// Lets join tokens vouch for agents.
    #[must_use]
    pub fn with_join_tokens(mut self, tokens: Arc<dyn JoinTokens>) -> Self {
        self.tokens = Some(Arc::clone(&tokens));
        self.with_evidence(Arc::new(TokenEvidence::new(tokens)))
    }

    /// Lets somebody else vouch for agents, too. The first that knows the kind of evidence decides.
    #[must_use]
    pub fn with_evidence(mut self, evidence: SharedEvidence) -> Self {
        self.evidence.push(evidence);
        self
    }

    /// Certificates live this long, and none is given for longer.
    #[must_use]
    pub fn with_lifetime(mut self, lifetime: Duration) -> Self {
        self.lifetime = lifetime;
        self
    }

    /// A change of CAs ends by itself when no agent needs the old one. For hubs that are known by their CA to agents alone: clients get
    /// the new one from people, and of that nothing is seen here.
    #[must_use]
    pub fn retiring_by_itself(mut self) -> Self {
        self.retires = true;
        self
    }

    /// Gives an agent its first certificate, for evidence. Waits for the disk.
    pub async fn enrol(&self, request: wire::EnrolRequest) -> Result<(Issued, Vouched), EnrolError> {
        self.enrol_from(request, None).await
    }

    /// As [`Enrolment::enrol`], for an agent at this address: who vouches may have a share of work for each source.
    pub async fn enrol_from(
        &self,
        request: wire::EnrolRequest,
        source: Option<IpAddr>,
    ) -> Result<(Issued, Vouched), EnrolError> {
        let csr = AgentCsr::parse(&request.csr)?;
        let lifetime = self.lifetime(request.lifetime_seconds)?;
        let presented = Presented::read(request.evidence)?;
        let vouched = self.vouch(&presented, &csr, source).await?;
        // Evidence is told what is asked for; that it looked is not taken on trust.
        if csr.cluster.as_ref().is_some_and(|asked| *asked != vouched.cluster) {
            return Err(EnrolError::TokenOfAnotherCluster);
        }
        let signed = self.authority.sign_agent(&vouched.cluster, &csr.public_key, lifetime)?;
        self.ledger.enrolled(&vouched.cluster, &vouched.epoch, &signed.recorded(), &vouched.labels)?;
        Ok((self.issued(&vouched.cluster, &signed, lifetime), vouched))
    }

    /// Gives an agent its next certificate. `agent` is who TLS says it is, by a certificate of this hub. Waits for the disk.
    pub fn renew(&self, agent: &AgentIdentity, request: &wire::RenewRequest) -> Result<Issued, EnrolError> {
        let csr = AgentCsr::parse(&request.csr)?;
        let lifetime = self.lifetime(request.lifetime_seconds)?;
        if csr.cluster.is_some_and(|asked| asked != agent.cluster) {
            return Err(EnrolError::RenewalForAnother);
        }
        let signed = self.authority.sign_agent(&agent.cluster, &csr.public_key, lifetime)?;
        self.ledger.renewed(&agent.cluster, &agent.serial, &signed.recorded())?;
        Ok(self.issued(&agent.cluster, &signed, lifetime))
    }

    /// The cluster of somebody who was refused, for the record: of a token that does not count, if its secret was right. Others have
    /// proven nothing.
    #[must_use]
    pub fn cluster_of_refused(&self, token: Option<TokenId>, refusal: &EnrolError) -> Option<ClusterName> {
        match refusal {
            EnrolError::ClusterRevoked(cluster) => Some(cluster.clone()),
            // Only who has the secret is told so.
            EnrolError::TokenExpired
            | EnrolError::TokenUsed
            | EnrolError::TokenRevoked
            | EnrolError::TokenOfAnotherCluster => {
                let (token, tokens) = (token?, self.tokens.as_ref()?.list().ok()?);
                tokens.into_iter().find(|known| known.id == token).map(|known| known.cluster)
            }
            EnrolError::TokenUnknown
            | EnrolError::Csr(_)
            | EnrolError::LifetimeTooLong
            | EnrolError::RenewalForAnother
            | EnrolError::NotOurs
            | EnrolError::Message(_)
            | EnrolError::EvidenceNotTaken
            | EnrolError::EvidenceUnchecked(_)
            | EnrolError::EvidenceRefused(_)
            | EnrolError::Hub(_) => None,
        }
    }

    /// Ends a change of CAs when nothing of the old one is in use any more, if told [`Enrolment::retiring_by_itself`]. Gives whether it
    /// did.
    pub fn retire_if_due(&self) -> Result<bool, IdentityError> {
        let Some(rotation) = self.authority.rotation().filter(|_| self.retires) else { return Ok(false) };
        let now = self.authority.unix_now();
        // Hubs that share the data directory may issue by the old one until they have looked.
        let settled = now.saturating_sub(rotation.since_unix) > SETTLED;
        let pinned = match &self.tokens {
            Some(tokens) => tokens.list()?.iter().any(|token| token.pin == rotation.old && token.counts(now)),
            None => false,
        };
        if !settled || pinned || self.ledger.depends_on(&rotation.old)? {
            return Ok(false);
        }
        self.authority.retire()?;
        Ok(true)
    }

    async fn vouch(
        &self,
        presented: &Presented,
        csr: &AgentCsr,
        source: Option<IpAddr>,
    ) -> Result<Vouched, EnrolError> {
        let asked = VouchedFor { cluster: csr.cluster.clone(), key: csr.key.clone(), source };
        for evidence in &self.evidence {
            if let Some(vouched) = evidence.vouch(presented, &asked).await? {
                return Ok(vouched);
            }
        }
        Err(EnrolError::EvidenceNotTaken)
    }

    fn lifetime(&self, asked_seconds: u64) -> Result<Duration, EnrolError> {
        match Duration::from_secs(asked_seconds) {
            Duration::ZERO => Ok(self.lifetime),
            asked if asked <= self.lifetime => Ok(asked),
            _ => Err(EnrolError::LifetimeTooLong),
        }
    }

    fn issued(&self, cluster: &ClusterName, signed: &SignedAgent, lifetime: Duration) -> Issued {
        let answer = wire::IssuedCertificate {
            certificate: signed.certificate.to_vec(),
            authorities: self.authority.authorities().iter().map(|ca: &CertificateDer<'_>| ca.to_vec()).collect(),
            lifetime_seconds: lifetime.as_secs(),
        };
        let (serial, not_after_unix) = (signed.serial.clone(), signed.not_after_unix);
        Issued { cluster: cluster.clone(), serial, not_after_unix, answer }
    }
}

/// How long after its beginning a change of CAs may end by itself at the earliest.
const SETTLED: i64 = DAY / 24;
