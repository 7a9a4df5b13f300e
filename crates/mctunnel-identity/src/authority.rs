//! The hub's own certificate authority: made once, kept in `<data_dir>/pki`, and replaced only when somebody says so.
//!
//! It issues the hub's server certificate and the agents' certificates. It does not decide which clusters exist
//! (see [`crate::ClusterFiles`]) and keeps no list of what it issued.

mod agent_tls;
mod issue;
mod own_ca;
mod pki_files;
mod rotation;
mod server_names;
mod snapshot;

pub use agent_tls::{AgentTls, IssuedBy, OwnChain};
pub use rotation::Rotation;

use crate::{
    CaPin, IdentityError, RecordedCertificate,
    clock::{SharedClock, SystemClock},
    private_file, tls,
};
use mctunnel_core::{ClusterName, Secret};
use parking_lot::RwLock;
use rcgen::SubjectPublicKeyInfo;
use rustls_pki_types::CertificateDer;
use server_names::ServerNames;
use snapshot::{Occasion, Snapshot};
use std::{
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

/// The name in every hub's certificate, which agents check unless told another.
pub const HUB_SERVER_NAME: &str = "mctunnel-hub";

// === HubAuthority ===

/// The CA of one hub, with its key, and the hub's server certificate. Cheap to clone; all clones see the same.
///
/// What it says and the TLS configurations it gives are of the moment: after [`HubAuthority::reload`] they are what the files say.
#[derive(Clone)]
pub struct HubAuthority {
    shared: Arc<Shared>,
    /// What [`HubAuthority::ca_pem`] gives.
    opened_with: Arc<str>,
}

pub(crate) struct Shared {
    data_dir: PathBuf,
    names: ServerNames,
    agent_ca: Option<PathBuf>,
    clock: SharedClock,
    current: RwLock<Arc<Snapshot>>,
}

impl HubAuthority {
    /// Loads the authority of `data_dir`, or makes it when there is none.
    ///
    /// The server certificate is issued anew, with the same key, when it ends within 30 days or lacks one of
    /// `extra_names` (DNS names or IP addresses). The CA is made once: when its files are incomplete, unreadable or do not
    /// belong together, that is an error. Processes that open the same directory at once wait for each other.
    pub fn open_or_create(data_dir: &Path, extra_names: &[String]) -> Result<Self, IdentityError> {
        Self::at(data_dir).names(extra_names).open_or_create()
    }

    /// Begins to open the authority of `data_dir`, for those who have more to say than names.
    pub fn at(data_dir: &Path) -> Opening {
        Opening { data_dir: data_dir.to_owned(), names: Vec::new(), agent_ca: None, clock: Arc::new(SystemClock) }
    }

    /// The CAs' certificates as they were when the authority was opened, for those who verify the hub.
    #[must_use]
    pub fn ca_pem(&self) -> &str {
        &self.opened_with
    }

    /// The certificates of the hub's CAs, that of its own certificate first: two while they change.
    #[must_use]
    pub fn authorities(&self) -> Vec<CertificateDer<'static>> {
        self.current().authorities().cloned().collect()
    }

    /// The CA of the hub's own certificate, as join tokens name it.
    #[must_use]
    pub fn pin(&self) -> CaPin {
        self.current().serving.pin
    }

    /// The hub's TLS configuration: TLS 1.3, ALPN `h2`, and a client certificate of its CAs or no connection.
    pub fn server_config(&self) -> Result<Arc<rustls::ServerConfig>, IdentityError> {
        Ok(Arc::clone(&self.current().tunnel))
    }

    /// The TLS configuration for agents that have no certificate yet: TLS 1.3, ALPN [`crate::ENROL_ALPN`], no client certificate.
    /// Nothing but enrolment may be served on it.
    #[must_use]
    pub fn enrol_config(&self) -> Arc<rustls::ServerConfig> {
        Arc::clone(&self.current().enrol)
    }

    /// The TLS configuration for clients of the hub: TLS 1.3 or 1.2, ALPN `h2` and `http/1.1`, no client certificate.
    /// It shows the hub's certificate of the moment of each handshake.
    pub fn gateway_config(&self) -> Result<Arc<rustls::ServerConfig>, IdentityError> {
        tls::gateway(Arc::new(Showing(Arc::clone(&self.shared))))
    }

    /// The same for clients that may show a certificate: one that ends in `authorities` is let in to be judged, one that does not
    /// is refused at once, and none at all is as good as before.
    pub fn gateway_config_for(
        &self,
        authorities: Vec<CertificateDer<'static>>,
    ) -> Result<Arc<rustls::ServerConfig>, IdentityError> {
        if authorities.is_empty() {
            return self.gateway_config();
        }
        tls::gateway_for(Arc::new(Showing(Arc::clone(&self.shared))), authorities)
    }

    /// Whether a chain leads to the operator's own CA and not to the hub's. For one that was shown in a handshake, ask the [`AgentTls`] of
    /// that handshake.
    #[must_use]
    pub fn is_of_own_ca(&self, certificates: &[CertificateDer<'_>]) -> bool {
        matches!(self.agent_tls().issuer_of(certificates), Some(IssuedBy::Own(_)))
    }

    /// Issues a certificate with a new key for the agent of a cluster.
    pub fn issue_agent(&self, cluster: &ClusterName, lifetime: Duration) -> Result<IssuedAgent, IdentityError> {
        let snapshot = self.current();
        let key = issue::new_key()?;
        let signed = snapshot.sign_agent(cluster, &key, lifetime, self.shared.clock.unix_now())?;
        Ok(IssuedAgent {
            certificate_pem: signed.certificate_pem.clone(),
            key_pem: Secret::new(key.serialize_pem()),
            recorded: signed.recorded(),
            serial: signed.serial,
            not_after_unix: signed.not_after_unix,
        })
    }

    /// Signs the key of an agent.
    pub(crate) fn sign_agent(
        &self,
        cluster: &ClusterName,
        key: &SubjectPublicKeyInfo,
        lifetime: Duration,
    ) -> Result<SignedAgent, IdentityError> {
        self.current().sign_agent(cluster, key, lifetime, self.shared.clock.unix_now())
    }

    /// The time, by the clock that certificates are issued and verified with: seconds since 1970.
    #[must_use]
    pub fn unix_now(&self) -> i64 {
        self.shared.clock.unix_now()
    }

    fn current(&self) -> Arc<Snapshot> {
        Arc::clone(&self.shared.current.read())
    }

    /// Looks whether the files have changed or the hub's certificate is to be renewed, and if so takes what they say now.
    /// Gives whether anything changed. Files that cannot be used are an error, and what was read before still counts.
    pub fn reload(&self) -> Result<bool, IdentityError> {
        let shared = &*self.shared;
        let now = shared.clock.unix_now();
        let current = self.current();
        if shared.stamp() == current.stamp && !current.ends_soon(now) {
            return Ok(false);
        }
        let fresh = shared.load(Occasion::Running)?;
        let differs = !fresh.is_same(&current);
        *shared.current.write() = Arc::new(fresh);
        Ok(differs)
    }
}

impl fmt::Debug for HubAuthority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (data_dir, pin) = (&self.shared.data_dir, self.pin());
        f.debug_struct("HubAuthority").field("data_dir", data_dir).field("pin", &pin).finish_non_exhaustive()
    }
}

// === Opening ===

/// Opens a [`HubAuthority`].
#[derive(Debug)]
#[must_use = "nothing is opened until open_or_create() is called"]
pub struct Opening {
    data_dir: PathBuf,
    names: Vec<String>,
    agent_ca: Option<PathBuf>,
    clock: SharedClock,
}

impl Opening {
    /// Further DNS names or IP addresses for the hub's certificate.
    pub fn names(mut self, names: &[String]) -> Self {
        self.names = names.to_vec();
        self
    }

    /// Also verifies agents by the CAs in this PEM file, which is looked at again when it changes.
    pub fn agent_ca(mut self, file: &Path) -> Self {
        self.agent_ca = Some(file.to_owned());
        self
    }

    /// Takes the time from this clock instead of the machine's.
    pub fn clock(mut self, clock: SharedClock) -> Self {
        self.clock = clock;
        self
    }

    /// See [`HubAuthority::open_or_create`].
    pub fn open_or_create(self) -> Result<HubAuthority, IdentityError> {
        private_file::create_directory(&self.data_dir)?;
        self.load(Occasion::Opening)
    }

    /// Whether there is no authority yet, so that [`Opening::open_or_create`] would make one.
    pub fn is_new(&self) -> Result<bool, IdentityError> {
        let dir = pki_files::dir(&self.data_dir);
        Ok(!dir.try_exists().map_err(IdentityError::file("read", &dir))?)
    }

    /// Opens the authority there is and makes none: for those who say something about a hub, and may have mistyped where it is. The
    /// hub's certificate keeps the names it has.
    pub fn open(self) -> Result<HubAuthority, IdentityError> {
        if self.is_new()? {
            return Err(IdentityError::NoAuthority { data_dir: self.data_dir });
        }
        self.load(Occasion::Running)
    }

    fn load(self, occasion: Occasion) -> Result<HubAuthority, IdentityError> {
        let names = ServerNames::parse(&self.names)?;
        let Self { data_dir, agent_ca, clock, .. } = self;
        let snapshot = Snapshot::load(&data_dir, agent_ca.as_deref(), &names, &clock, occasion)?;
        let opened_with = snapshot.authorities_pem().into();
        let current = RwLock::new(Arc::new(snapshot));
        let shared = Shared { data_dir, names, agent_ca, clock, current };
        Ok(HubAuthority { shared: Arc::new(shared), opened_with })
    }
}

impl Shared {
    fn load(&self, occasion: Occasion) -> Result<Snapshot, IdentityError> {
        Snapshot::load(&self.data_dir, self.agent_ca.as_deref(), &self.names, &self.clock, occasion)
    }

    fn stamp(&self) -> pki_files::Stamp {
        pki_files::Stamp::read(&self.data_dir, self.agent_ca.as_deref())
    }

    fn pki_dir(&self) -> PathBuf {
        pki_files::dir(&self.data_dir)
    }
}

/// The hub's certificate of the moment.
struct Showing(Arc<Shared>);

impl tls::ShownCertificate for Showing {
    fn shown(&self) -> Arc<rustls::sign::CertifiedKey> {
        Arc::clone(&self.0.current.read().certified)
    }
}

impl fmt::Debug for Showing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Showing").finish_non_exhaustive()
    }
}

// === IssuedAgent, SignedAgent ===

/// What the agent of a cluster needs to prove who it is.
#[derive(Debug, Clone)]
pub struct IssuedAgent {
    /// Its certificate.
    pub certificate_pem: String,
    /// The key of the certificate.
    pub key_pem: Secret,
    /// The certificate's serial number, lower-case hex.
    pub serial: String,
    /// When the certificate ends, in seconds since 1970.
    pub not_after_unix: i64,
    /// The certificate as `ClusterFiles` lists it.
    pub recorded: RecordedCertificate,
}

/// A certificate for a key that stays with its agent.
pub(crate) struct SignedAgent {
    pub(crate) certificate: CertificateDer<'static>,
    pub(crate) certificate_pem: String,
    pub(crate) serial: String,
    pub(crate) not_after_unix: i64,
    pub(crate) authority: CaPin,
}

impl SignedAgent {
    pub(crate) fn recorded(&self) -> RecordedCertificate {
        RecordedCertificate {
            serial: self.serial.clone(),
            not_after_unix: self.not_after_unix,
            authority: self.authority,
        }
    }
}
