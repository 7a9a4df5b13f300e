//! What an agent keeps between starts: the identity it got by enrolling, in one file that only it can read.

use crate::{
    AgentIdentity, AgentKey, CaPin, HUB_SERVER_NAME, IdentityError, JoinBundle, JoinToken, TokenId, certificate,
    clock::{SharedClock, SystemClock},
    enrolment::wire::IssuedCertificate,
    join_bundle::BundleFile,
    private_file::{self, GROUP_AND_OTHERS, IfExists},
    tls,
};
use mctunnel_core::{ClusterName, Secret};
use rustls_pki_types::CertificateDer;
use serde::{Deserialize, Serialize};
use std::{
    fmt, fs, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

// === AgentStore ===

/// An agent's data directory.
#[derive(Debug, Clone)]
pub struct AgentStore {
    dir: PathBuf,
    clock: SharedClock,
}

impl AgentStore {
    /// The store in `data_dir`; nothing is read or made yet.
    #[must_use]
    pub fn new(data_dir: &Path) -> Self {
        Self { dir: data_dir.to_owned(), clock: Arc::new(SystemClock) }
    }

    /// Takes the time from this clock instead of the machine's.
    #[must_use]
    pub fn with_clock(mut self, clock: SharedClock) -> Self {
        self.clock = clock;
        self
    }

    /// The clock.
    #[must_use]
    pub fn clock(&self) -> &SharedClock {
        &self.clock
    }

    /// The identity, if the agent has enrolled. One that has ended is an error.
    pub fn load(&self) -> Result<Option<EnrolledAgent>, IdentityError> {
        let Some(text) = self.read(IDENTITY)? else { return Ok(None) };
        let invalid = |reason: String| IdentityError::StoreInvalid { path: self.dir.join(IDENTITY), reason };
        let file: IdentityFile = serde_json::from_str(text.expose()).map_err(|error| invalid(explain(&error)))?;
        match file.into_agent(self.clock.unix_now()) {
            Err(IdentityError::BundleInvalid(reason)) => Err(invalid(reason)),
            agent => agent.map(Some),
        }
    }

    /// What the identity was got with, also when the identity has ended.
    pub fn enrolled_by(&self) -> Result<Option<EnrolledBy>, IdentityError> {
        let Some(text) = self.read(IDENTITY)? else { return Ok(None) };
        let file: Option<IdentityFile> = serde_json::from_str(text.expose()).ok();
        Ok(file.and_then(|file| EnrolledBy::parse(&file.token)))
    }

    /// The cluster that the identity is of, also when the identity has ended. Of one that is damaged nothing is known.
    pub fn cluster(&self) -> Result<Option<ClusterName>, IdentityError> {
        let Some(text) = self.read(IDENTITY)? else { return Ok(None) };
        let file: Option<IdentityFile> = serde_json::from_str(text.expose()).ok();
        Ok(file.and_then(|file| file.identity.cluster()))
    }

    /// The token that the identity was got with, if it was one, also when the identity has ended.
    pub fn token(&self) -> Result<Option<TokenId>, IdentityError> {
        Ok(self.enrolled_by()?.and_then(EnrolledBy::token))
    }

    /// Keeps the identity, with mode 0600, in place of the one before: whole or not at all.
    pub fn save(&self, agent: &EnrolledAgent) -> Result<(), IdentityError> {
        private_file::create_directory(&self.dir)?;
        let file = IdentityFile::from(agent);
        #[expect(clippy::expect_used, reason = "strings and numbers always serialise")]
        let text = Secret::new(serde_json::to_string_pretty(&file).expect("plain values"));
        private_file::write_kept(&self.dir.join(IDENTITY), text.expose(), IfExists::Replace)?;
        match fs::remove_file(self.dir.join(PENDING)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(IdentityError::file("remove", &self.dir.join(PENDING))(error))
            }
            _ => Ok(()),
        }
    }

    /// The key to enrol with. It is kept from the first try on, so that an agent whose answer was lost can ask for it again.
    pub fn pending_key(&self) -> Result<AgentKey, IdentityError> {
        if let Some(key) = self.read(PENDING)?.and_then(|pem| AgentKey::from_pem(&pem)) {
            return Ok(key);
        }
        private_file::create_directory(&self.dir)?;
        let key = AgentKey::generate()?;
        private_file::write_kept(&self.dir.join(PENDING), key.to_pem().expose(), IfExists::Replace)?;
        Ok(key)
    }

    fn read(&self, name: &str) -> Result<Option<Secret>, IdentityError> {
        match private_file::read(&self.dir.join(name), GROUP_AND_OTHERS) {
            Ok(text) => Ok(Some(Secret::new(text))),
            Err(IdentityError::File { source, .. }) if source.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }
}

const IDENTITY: &str = "identity.json";
const PENDING: &str = "enrol.key";

// === EnrolledAgent ===

/// An agent that has enrolled: what it needs for its hub, and when to renew it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnrolledAgent {
    /// All it needs to reach its hub and prove who it is.
    pub bundle: JoinBundle,
    /// What it enrolled with.
    pub by: EnrolledBy,
    /// When it got the certificate, in seconds since 1970 by its own clock.
    pub obtained_unix: i64,
    /// How long the certificate lives from then on.
    pub lifetime: Duration,
}

impl EnrolledAgent {
    /// The TLS configuration with which to enrol: the hub must show a chain to the CA that the token pins.
    pub fn enrol_config(token: &JoinToken, clock: &SharedClock) -> Result<Arc<rustls::ClientConfig>, IdentityError> {
        Self::enrol_config_for(&[token.pin], clock)
    }

    /// The TLS configuration with which to enrol: the hub must show a chain to a CA with one of these pins.
    pub fn enrol_config_for(pins: &[CaPin], clock: &SharedClock) -> Result<Arc<rustls::ClientConfig>, IdentityError> {
        tls::enrol_client(pins, clock)
    }

    /// What the hub's answer to `Enrol` with a join token makes of the agent.
    pub fn enrolled(
        token: &JoinToken,
        key: &AgentKey,
        answer: &IssuedCertificate,
        clock: &SharedClock,
    ) -> Result<Self, IdentityError> {
        Self::enrolled_by(EnrolledBy::JoinToken(token.id), &token.hub, key, answer, clock)
    }

    /// What the hub's answer to `Enrol` makes of the agent. `hub` is where it listens for tunnels, `host:port`.
    pub fn enrolled_by(
        by: EnrolledBy,
        hub: &str,
        key: &AgentKey,
        answer: &IssuedCertificate,
        clock: &SharedClock,
    ) -> Result<Self, IdentityError> {
        let shown = [CertificateDer::from(answer.certificate.as_slice())];
        let identity = AgentIdentity::from_certificates(&shown)?;
        let bundle = JoinBundle {
            version: JoinBundle::VERSION,
            cluster: identity.cluster,
            hub: hub.to_owned(),
            hub_server_name: HUB_SERVER_NAME.to_owned(),
            ca_pem: String::new(),
            certificate_pem: String::new(),
            key_pem: Secret::new(""),
        };
        let beginning = Self { bundle, by, obtained_unix: 0, lifetime: Duration::ZERO };
        beginning.renewed(key, answer, clock)
    }

    /// What the hub's answer to `Renew` makes of the agent. Only dates, key and CAs may change.
    pub fn renewed(
        &self,
        key: &AgentKey,
        answer: &IssuedCertificate,
        clock: &SharedClock,
    ) -> Result<Self, IdentityError> {
        let now = clock.unix_now();
        let certificate = CertificateDer::from(answer.certificate.as_slice());
        let authorities: Vec<_> = answer.authorities.iter().map(|ca| CertificateDer::from(ca.as_slice())).collect();
        for authority in &authorities {
            let is_ca = certificate::parse(authority).is_ok_and(|authority| authority.is_ca());
            if !is_ca {
                return Err(IdentityError::BundleInvalid("the hub sent a CA that is none".to_owned()));
            }
        }
        let agent = Self {
            bundle: JoinBundle {
                ca_pem: authorities.iter().map(certificate::to_pem).collect(),
                certificate_pem: certificate::to_pem(&certificate),
                key_pem: key.to_pem(),
                ..self.bundle.clone()
            },
            by: self.by,
            obtained_unix: now,
            lifetime: Duration::from_secs(answer.lifetime_seconds),
        };
        agent.bundle.check(now)?;
        Ok(agent)
    }

    /// When to renew, by the agent's own clock: at two thirds of the life, 5 % of it sooner or later. `random` is in 0..1.
    #[must_use]
    pub fn renew_at_unix(&self, random: f64) -> i64 {
        let share = 2.0 / 3.0 + (random.clamp(0.0, 1.0) - 0.5) / 10.0;
        let wait = self.lifetime.mul_f64(share).as_secs();
        self.obtained_unix.saturating_add(i64::try_from(wait).unwrap_or(i64::MAX))
    }
}

// === EnrolledBy ===

/// With what an agent enrolled. Nothing secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EnrolledBy {
    /// A join token.
    JoinToken(TokenId),
    /// A token of a ServiceAccount.
    ServiceAccount,
}

/// Stands in the file where else the id of a join token does.
const BY_ACCOUNT: &str = "service-account";

impl EnrolledBy {
    /// Reads what it prints.
    fn parse(text: &str) -> Option<Self> {
        if text == BY_ACCOUNT { Some(Self::ServiceAccount) } else { TokenId::parse(text).map(Self::JoinToken) }
    }

    /// The join token, if it was one.
    #[must_use]
    pub fn token(self) -> Option<TokenId> {
        match self {
            Self::JoinToken(id) => Some(id),
            Self::ServiceAccount => None,
        }
    }
}

impl fmt::Display for EnrolledBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::JoinToken(id) => fmt::Display::fmt(id, f),
            Self::ServiceAccount => f.write_str(BY_ACCOUNT),
        }
    }
}

// === IdentityFile ===

/// The format of the file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct IdentityFile {
    version: u32,
    /// The id of the join token, or that it was a ServiceAccount.
    token: String,
    obtained: i64,
    lifetime: u64,
    identity: BundleFile,
}

const VERSION: u32 = 1;

impl From<&EnrolledAgent> for IdentityFile {
    fn from(agent: &EnrolledAgent) -> Self {
        Self {
            version: VERSION,
            token: agent.by.to_string(),
            obtained: agent.obtained_unix,
            lifetime: agent.lifetime.as_secs(),
            identity: BundleFile::from(&agent.bundle),
        }
    }
}

impl IdentityFile {
    fn into_agent(self, now: i64) -> Result<EnrolledAgent, IdentityError> {
        if self.version != VERSION {
            return Err(IdentityError::BundleInvalid(format!("its version is {}", self.version)));
        }
        let by = EnrolledBy::parse(&self.token);
        Ok(EnrolledAgent {
            by: by.ok_or_else(|| IdentityError::BundleInvalid("its token is none".to_owned()))?,
            obtained_unix: self.obtained,
            lifetime: Duration::from_secs(self.lifetime),
            bundle: self.identity.into_bundle(now)?,
        })
    }
}

/// What serde found, without the values: the file holds a key.
fn explain(error: &serde_json::Error) -> String {
    format!("it is damaged at line {} column {}", error.line(), error.column())
}
