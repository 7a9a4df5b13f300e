//! Port: who a client is. Asked for every request, however many came on the same connection.

use crate::{Access, Authorization, Authorize, Decision};
use std::{collections::BTreeMap, fmt, net::SocketAddr, pin::Pin, sync::Arc, time::SystemTime};

/// What a client showed. Nothing of it is believed yet.
#[derive(Debug, Default)]
pub struct Evidence {
    /// The value of `Authorization`, if there was exactly one.
    pub authorization: Option<Authorization>,
    /// The certificate of its TLS connection.
    pub certificate: Option<Arc<ClientCertificate>>,
    /// Fields that a front proxy may have written about its own client, with names in lower case; only those the gateway was told
    /// to look for.
    pub forwarded: Vec<(String, String)>,
    /// Where the connection comes from.
    pub peer: Option<SocketAddr>,
}

/// A client's certificate. The listener saw the proof that the client has its key; whose word it is worth is not decided yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientCertificate {
    /// DER, the client's own first.
    pub chain: Vec<Vec<u8>>,
}

/// Who a client is, after verification.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Identity {
    /// Nobody in particular: the gateway was told not to ask. What the client carries is between it and the target.
    Anonymous,
    /// A user: a person, a program, a service account.
    User(Arc<User>),
}

/// A verified user, as policy, audit and the cluster see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// The name, with the provider's prefix.
    pub name: Arc<str>,
    /// Its groups, with the provider's prefix.
    pub groups: Vec<Arc<str>>,
    /// What tells two users of one name apart, if the provider knows.
    pub uid: Option<Arc<str>>,
    /// Further facts, as Kubernetes' `extra`: keys in lower case.
    pub extra: BTreeMap<String, Vec<String>>,
    /// Facts of the same form for policy alone: no cluster is told of them.
    pub facts: BTreeMap<String, Vec<String>>,
    /// Who vouches for it: the name of the configured provider.
    pub provider: Arc<str>,
    /// Which of its credentials it showed: a key's id, a token's `jti`, a certificate's serial. Never the secret itself.
    pub credential: Arc<str>,
    /// When the credential ends. What was opened with it ends then as well.
    pub expires: Option<SystemTime>,
}

impl User {
    /// A user with a name and nothing else.
    pub fn new(name: impl Into<Arc<str>>, provider: impl Into<Arc<str>>) -> Self {
        Self {
            name: name.into(),
            groups: Vec::new(),
            uid: None,
            extra: BTreeMap::new(),
            facts: BTreeMap::new(),
            provider: provider.into(),
            credential: "".into(),
            expires: None,
        }
    }
}

impl Identity {
    /// The user, if it is one.
    #[must_use]
    pub fn user(&self) -> Option<&User> {
        match self {
            Self::Anonymous => None,
            Self::User(user) => Some(user),
        }
    }
}

impl From<User> for Identity {
    fn from(user: User) -> Self {
        Self::User(Arc::new(user))
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Anonymous => f.write_str("anonymous"),
            Self::User(user) => f.write_str(&user.name),
        }
    }
}

/// A client's identity could not be established.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unauthenticated {
    /// It showed nothing, or nothing valid: 401.
    #[error("{0}")]
    Rejected(String),
    /// It showed two credentials, and which one counts must not be guessed: 400.
    #[error("{0}")]
    Conflict(String),
    /// It tried too often: 429.
    #[error("{0}")]
    TooMany(String),
    /// Who could tell is not there: 503. Never to be read as "anonymous".
    #[error("{0}")]
    Unavailable(String),
}

/// Establishes who a client is.
///
/// Obligations: 1. an error is never an identity; 2. it takes every request anew, however many came on the same connection.
pub trait Authenticate: Send + Sync + 'static {
    /// Verifies the evidence.
    fn authenticate(&self, evidence: &Evidence) -> impl Future<Output = Result<Identity, Unauthenticated>> + Send;

    /// Whether what it said of a user still holds: its key was not revoked, its provider not removed. The end of a credential's
    /// time is the caller's to watch.
    fn still_holds(&self, identity: &Identity) -> bool {
        let _ = identity;
        true
    }

    /// Another number whenever an answer of [`still_holds`](Self::still_holds) may have changed.
    fn generation(&self) -> u64 {
        0
    }
}

// === Defaults ===

/// Asks nobody who they are, and leaves every decision to the agent's allow-list and to the target's own authentication.
#[derive(Debug, Clone, Copy, Default)]
pub struct PassThrough;

impl Authenticate for PassThrough {
    async fn authenticate(&self, _: &Evidence) -> Result<Identity, Unauthenticated> {
        Ok(Identity::Anonymous)
    }
}

impl Authorize for PassThrough {
    fn authorize(&self, _: &Access<'_>) -> Decision {
        Decision::allowed("no policy is configured")
    }
}

// === DynAuthenticate ===

/// An answer under way.
pub type Authenticating<'a> = Pin<Box<dyn Future<Output = Result<Identity, Unauthenticated>> + Send + 'a>>;

/// The object-safe twin of [`Authenticate`].
pub trait DynAuthenticate: Send + Sync + 'static {
    /// See [`Authenticate::authenticate`].
    fn authenticate<'a>(&'a self, evidence: &'a Evidence) -> Authenticating<'a>;

    /// See [`Authenticate::still_holds`].
    fn still_holds(&self, identity: &Identity) -> bool;

    /// See [`Authenticate::generation`].
    fn generation(&self) -> u64;
}

impl<T: Authenticate> DynAuthenticate for T {
    fn authenticate<'a>(&'a self, evidence: &'a Evidence) -> Authenticating<'a> {
        Box::pin(Authenticate::authenticate(self, evidence))
    }

    fn still_holds(&self, identity: &Identity) -> bool {
        Authenticate::still_holds(self, identity)
    }

    fn generation(&self) -> u64 {
        Authenticate::generation(self)
    }
}

impl fmt::Debug for dyn DynAuthenticate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Authenticate")
    }
}
