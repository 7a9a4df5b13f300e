//! TLS with agents as it is at one moment: the configuration of a handshake, and afterwards by whose CA the certificate that was shown
//! counts. Both are of the same moment, so no change of the CAs in between makes one thing of the certificate here and another there.

use super::{HubAuthority, own_ca::leads, snapshot::Snapshot};
use crate::clock::{SharedClock, as_tls_time};
use rustls_pki_types::{CertificateDer, UnixTime};
use std::{fmt, sync::Arc};

/// The hub's side of one handshake with an agent.
pub struct AgentTls {
    snapshot: Arc<Snapshot>,
    clock: SharedClock,
}

/// By whose CA a certificate counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IssuedBy {
    /// By the hub's, which lists what it issued.
    Hub,
    /// By the operator's own.
    Own(OwnChain),
}

/// A chain that led to the operator's own CA.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnChain {
    certificates: Vec<CertificateDer<'static>>,
    /// When it did.
    at: UnixTime,
    /// The operator's CAs by which it did.
    by: Arc<[CertificateDer<'static>]>,
}

impl HubAuthority {
    /// TLS with agents as it is now.
    #[must_use]
    pub fn agent_tls(&self) -> AgentTls {
        AgentTls { snapshot: self.current(), clock: Arc::clone(&self.shared.clock) }
    }

    /// Whether a chain leads to one of the operator's CAs as they are now. The time is that of its handshake: when a certificate ends is
    /// for others to count.
    pub fn still_trusts(&self, chain: &mut OwnChain) -> bool {
        let current = self.current();
        let Some(own) = &current.own else { return false };
        // Nearly always: then there are no signatures to check.
        if own.certificates == chain.by {
            return true;
        }
        let leads = own.vouch_for(&chain.certificates, chain.at);
        if leads {
            chain.by = Arc::clone(&own.certificates);
        }
        leads
    }
}

impl AgentTls {
    /// See [`HubAuthority::server_config`].
    #[must_use]
    pub fn config(&self) -> Arc<rustls::ServerConfig> {
        Arc::clone(&self.snapshot.tunnel)
    }

    /// By whose CA a chain counts that passed the handshake, the first of which is the agent's own; the hub's goes first. `None` when it
    /// counts by none: it ended since.
    #[must_use]
    pub fn issuer_of(&self, chain: &[CertificateDer<'_>]) -> Option<IssuedBy> {
        let (snapshot, at) = (&*self.snapshot, as_tls_time(self.clock.unix_now()));
        if leads(&*snapshot.verifier, chain, at) {
            return Some(IssuedBy::Hub);
        }
        // That it is not the hub's makes it nobody else's.
        let own = snapshot.own.as_ref().filter(|own| own.vouch_for(chain, at))?;
        let certificates = chain.iter().map(|certificate| certificate.clone().into_owned()).collect();
        Some(IssuedBy::Own(OwnChain { certificates, at, by: Arc::clone(&own.certificates) }))
    }
}

impl fmt::Debug for AgentTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AgentTls").finish_non_exhaustive()
    }
}
