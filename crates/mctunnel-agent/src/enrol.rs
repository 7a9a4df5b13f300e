//! Enrolling: from evidence, such as a join token, to an identity of one's own. The hub must prove itself by the pin that comes with the
//! evidence before it is told anything.

mod evidence;

use crate::{
    agent::InvalidAgent,
    backoff::Backoff,
    connect::reach,
    dial::{Resolve, SystemResolver},
    hub_address::{ConnectError, HubAddress},
    proxy::ProxySettings,
    service_proxy::TokenSource,
};
use evidence::Evidence;
use mctunnel_core::{ClusterName, ErrorCode, Happening, observe::SharedObserver};
use mctunnel_identity::{
    AgentStore, CaPin, EnrolledAgent, EnrolledBy, HUB_SERVER_NAME, IdentityError, JoinToken,
    enrolment::wire::{self, ENROL_PATH, MOST_MESSAGE_BYTES},
};
use mctunnel_tunnel::{
    ReadAhead,
    grpc::{self, CallFailed},
};
use rustls_pki_types::ServerName;
use std::{io, sync::Arc, time::Duration};
use tokio_rustls::TlsConnector;

/// What agents call themselves.
pub(crate) const USER_AGENT: &str = concat!("mctunnel-agent/", env!("CARGO_PKG_VERSION"));

/// The longest that one try may take, once the hub is reached.
const TIMEOUT: Duration = Duration::from_secs(20);

// === Enroller ===

/// Enrols an agent, with a join token or as a ServiceAccount.
///
/// ```no_run
/// use mctunnel_agent::{Agent, enrol::Enroller};
/// use mctunnel_identity::{AgentStore, JoinToken};
/// use std::path::Path;
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let store = AgentStore::new(Path::new("/var/lib/mctunnel-agent"));
/// let enrolled = match store.load()? {
///     Some(enrolled) => enrolled,
///     None => Enroller::new(JoinToken::parse("mctj_...")?)?.enrol(&store).await?,
/// };
/// // Renews its certificate by itself from now on.
/// Agent::builder(&enrolled.bundle.clone()).renewing(store, enrolled).build()?.run().await;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Enroller {
    evidence: Evidence,
    hub: HubAddress,
    server_name: String,
    proxy: ProxySettings,
    resolver: Arc<dyn Resolve>,
}

impl Enroller {
    /// Enrols at the hub of the token.
    pub fn new(token: JoinToken) -> Result<Self, InvalidAgent> {
        Self::with(Evidence::JoinToken(token))
    }

    /// Enrols at that hub, `host[:port]`, as the ServiceAccount whose token this is. The token is asked for at each try. The hub must
    /// show a chain to a CA with one of the pins, as [`CaPin::read`] gives them; until then the token is not sent.
    ///
    /// Such evidence lasts, so an agent whose certificates do not count any more can be let enrol anew:
    /// [`Builder::renewing_or_enrolling`](crate::Builder::renewing_or_enrolling).
    pub fn of_service_account(
        token: impl TokenSource,
        pins: Vec<CaPin>,
        hub: impl Into<String>,
    ) -> Result<Self, InvalidAgent> {
        Self::with(Evidence::ServiceAccount { token: Box::new(token), pins, hub: hub.into() })
    }

    fn with(evidence: Evidence) -> Result<Self, InvalidAgent> {
        Ok(Self {
            hub: HubAddress::parse(evidence.hub())?,
            evidence,
            server_name: HUB_SERVER_NAME.to_owned(),
            proxy: ProxySettings::default(),
            resolver: Arc::new(SystemResolver),
        })
    }

    /// Dials the hub at `host[:port]` instead of the address that came with the evidence.
    pub fn hub(mut self, address: &str) -> Result<Self, InvalidAgent> {
        self.hub = HubAddress::parse(address)?;
        Ok(self)
    }

    /// Expects this name in the hub's certificate instead of the usual one.
    #[must_use]
    pub fn hub_server_name(mut self, name: impl Into<String>) -> Self {
        self.server_name = name.into();
        self
    }

    /// Reaches the hub through a proxy.
    #[must_use]
    pub fn proxy(mut self, proxy: ProxySettings) -> Self {
        self.proxy = proxy;
        self
    }

    /// Looks names up with this resolver instead of the system's.
    #[must_use]
    pub fn resolver(mut self, resolver: Arc<dyn Resolve>) -> Self {
        self.resolver = resolver;
        self
    }

    /// With what it enrols.
    #[must_use]
    pub fn by(&self) -> EnrolledBy {
        self.evidence.kind()
    }

    /// Tries once. The key is made and kept in the store before anything is sent; the identity is kept there before it is given.
    ///
    /// A join token was given to this agent by somebody who knows which cluster it is for. A ServiceAccount is asked for again and again,
    /// and may be recorded for another cluster meanwhile: an agent whose store has an identity, ended or not, stays in its cluster.
    pub async fn enrol(&self, store: &AgentStore) -> Result<EnrolledAgent, EnrolFailed> {
        let kept = match self.by() {
            EnrolledBy::ServiceAccount => store.cluster()?,
            EnrolledBy::JoinToken(_) => None,
        };
        self.enrol_as(store, kept.as_ref()).await
    }

    /// The same for this cluster and no other, if one is given. The hub is asked for that one, and what it gives for another is not kept.
    pub(crate) async fn enrol_as(
        &self,
        store: &AgentStore,
        cluster: Option<&ClusterName>,
    ) -> Result<EnrolledAgent, EnrolFailed> {
        let key = store.pending_key()?;
        let evidence = Some(self.evidence.shown()?);
        let request = wire::EnrolRequest { csr: key.request(cluster)?, lifetime_seconds: 0, evidence };
        let socket = reach(&self.hub, &self.proxy, &*self.resolver).await?;
        let answer = tokio::time::timeout(TIMEOUT, self.ask(socket, &request, store));
        let answer = answer.await.map_err(|_| EnrolFailed::Timeout(TIMEOUT))??;
        let mut enrolled = EnrolledAgent::enrolled_by(self.by(), self.evidence.hub(), &key, &answer, store.clock())?;
        enrolled.bundle.hub_server_name.clone_from(&self.server_name);
        if let Some(cluster) = cluster
            && enrolled.bundle.cluster != *cluster
        {
            return Err(EnrolFailed::AnotherCluster(enrolled.bundle.cluster));
        }
        store.save(&enrolled)?;
        Ok(enrolled)
    }

    /// Tries until it is done or the hub has said no for good, with growing pauses.
    pub async fn enrol_patiently(
        &self,
        store: &AgentStore,
        observer: &SharedObserver,
    ) -> Result<EnrolledAgent, EnrolFailed> {
        let mut backoff = Backoff::new();
        loop {
            match self.enrol(store).await {
                Err(failed) if failed.may_pass() => {
                    let retry_in = backoff.wait(Duration::ZERO, rand::random());
                    observer.observe(&Happening::Reconnecting { reason: failed.to_string(), retry_in });
                    tokio::time::sleep(retry_in).await;
                }
                ended => return ended,
            }
        }
    }

    async fn ask(
        &self,
        socket: tokio::net::TcpStream,
        request: &wire::EnrolRequest,
        store: &AgentStore,
    ) -> Result<wire::IssuedCertificate, EnrolFailed> {
        let tls_failed = |error| EnrolFailed::Tls { hub: self.hub.to_string(), error };
        let name = ServerName::try_from(self.server_name.clone());
        let name = name.map_err(|_| EnrolFailed::Broken("the hub's name is none".to_owned()))?;
        let tls = TlsConnector::from(EnrolledAgent::enrol_config_for(self.evidence.pins(), store.clock())?);
        let io = tls.connect(name, ReadAhead::new(socket)).await.map_err(tls_failed)?;
        let message = wire::encode(request).into();
        let answer = grpc::call(io, &self.server_name, ENROL_PATH, USER_AGENT, message, MOST_MESSAGE_BYTES).await?;
        wire::decode(&answer).map_err(|error| EnrolFailed::Broken(error.to_string()))
    }
}

// === EnrolFailed ===

/// The agent did not get an identity.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EnrolFailed {
    /// The hub cannot be reached.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// TLS with the hub failed; if it is another hub than the pinned one, nothing was sent to it.
    #[error("TLS with the hub at {hub}: {error}")]
    Tls {
        /// Where it is.
        hub: String,
        /// What TLS said.
        error: io::Error,
    },
    /// The hub took too long.
    #[error("the hub gave no answer within {0:?}")]
    Timeout(Duration),
    /// The hub said no.
    #[error("the hub refuses: {message}")]
    Refused {
        /// gRPC's number for the kind of no.
        status: u32,
        /// Why, beginning with the hub's code.
        message: String,
    },
    /// The call broke.
    #[error("{0}")]
    Broken(String),
    /// The hub takes it for the agent of another cluster than the one it is of.
    #[error("the hub takes this agent for that of {0} now")]
    AnotherCluster(ClusterName),
    /// There is no token of the ServiceAccount to show.
    #[error("{0}")]
    Token(String),
    /// Key or identity could not be made or kept.
    #[error(transparent)]
    Identity(#[from] IdentityError),
}

impl From<CallFailed> for EnrolFailed {
    fn from(failed: CallFailed) -> Self {
        match failed {
            CallFailed::Refused { status, message } => Self::Refused { status, message },
            CallFailed::Broken(reason) => Self::Broken(reason),
        }
    }
}

/// gRPC's numbers for: you may not; too much at once; not now.
const PERMISSION_DENIED: u32 = 7;
const RESOURCE_EXHAUSTED: u32 = 8;
const UNAVAILABLE: u32 = 14;

impl EnrolFailed {
    /// Whether another try may succeed without anybody changing anything.
    #[must_use]
    pub fn may_pass(&self) -> bool {
        match self {
            Self::Connect(_) | Self::Timeout(_) | Self::Broken(_) => true,
            Self::Tls { error, .. } => !is_another_hub(error),
            Self::Refused { status, .. } => [RESOURCE_EXHAUSTED, UNAVAILABLE].contains(status),
            Self::Identity(_) | Self::Token(_) | Self::AnotherCluster(_) => false,
        }
    }

    /// Whether what was shown does not count at the hub.
    pub(crate) fn is_denied(&self) -> bool {
        matches!(self, Self::Refused { status: PERMISSION_DENIED, .. })
    }

    /// The stable code and its remedy.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        let (code, remedy) = match self {
            Self::Tls { error, .. } if is_another_hub(error) => (
                "MCT-AGENT-ENROL-WRONG-HUB",
                "check the hub's address: whoever answers there is not the hub that the token or --hub-ca is of; or its CA was changed since",
            ),
            Self::Connect(_) | Self::Tls { .. } | Self::Timeout(_) | Self::Broken(_) => (
                "MCT-AGENT-ENROL-UNREACHABLE",
                "check the hub's address and the network to it, then start the agent again",
            ),
            Self::Refused { .. } => (
                "MCT-AGENT-ENROL-REFUSED",
                "look up the hub's code with 'mctunnel explain CODE'; as a rule, make a new token with 'mctunnel join-token create'",
            ),
            Self::AnotherCluster(_) => (
                "MCT-AGENT-ENROL-CLUSTER",
                "if it is to be the agent of that cluster, give it another data directory; else look at who vouches for which cluster",
            ),
            Self::Token(_) => (
                "MCT-AGENT-ENROL-TOKEN",
                "check the file of --enrol-service-account-token: one token, which Kubernetes or you keep fresh",
            ),
            Self::Identity(error) => return error.code(),
        };
        ErrorCode { code, remedy }
    }
}

fn is_another_hub(error: &io::Error) -> bool {
    let tls = error.get_ref().and_then(|error| error.downcast_ref::<rustls::Error>());
    matches!(tls, Some(rustls::Error::InvalidCertificate(_)))
}
