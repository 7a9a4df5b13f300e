//! Changing the CA without shutting anybody out: a new one beside the old, then the old one goes.

use super::{
    HubAuthority, issue,
    pki_files::{self, CA_KEY, CA_PEM, NEXT_KEY, NEXT_PEM, PkiChange, SERVER_PEM},
    snapshot::{Occasion, Snapshot},
};
use crate::{CaPin, IdentityError, certificate};
use mctunnel_core::Secret;
use std::sync::Arc;

/// A change of CAs that is under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rotation {
    /// The one that goes. It still issues the hub's own certificate.
    pub old: CaPin,
    /// The one that comes. It issues for agents.
    pub new: CaPin,
    /// When the change began, in seconds since 1970.
    pub since_unix: i64,
}

impl HubAuthority {
    /// The change of CAs that is under way, if one is.
    #[must_use]
    pub fn rotation(&self) -> Option<Rotation> {
        let current = self.current();
        let next = current.next.as_ref()?;
        let since = certificate::parse(&next.certificate).map_or(i64::MAX, |ca| ca.validity().not_before.timestamp());
        Some(Rotation { old: current.serving.pin, new: next.pin, since_unix: since.saturating_add(issue::CLOCK_SKEW) })
    }

    /// Makes a new CA beside the one there is. It issues for agents from now on; both are trusted and given to agents. The old one
    /// issues the hub's own certificate until [`HubAuthority::retire`].
    pub fn rotate(&self) -> Result<Rotation, IdentityError> {
        let fresh = self.change(|current| {
            if current.next.is_some() {
                return Err(IdentityError::RotationUnderWay);
            }
            let (pem, issuer) = issue::authority(self.shared.clock.unix_now())?;
            // Clients are given this file, and will need both.
            let both = format!("{}{pem}", current.serving.pem);
            let write = vec![
                (CA_PEM, Secret::new(both)),
                (NEXT_KEY, Secret::new(issuer.key().serialize_pem())),
                (NEXT_PEM, Secret::new(pem)),
            ];
            Ok(PkiChange { write, remove: Vec::new() })
        })?;
        fresh.rotation().ok_or(IdentityError::NoRotation)
    }

    /// Ends a change of CAs: the new one issues the hub's own certificate, too, and the old one is not trusted any more. Tunnels
    /// that are up stay; agents that know nothing but the old one are shut out when they come again.
    pub fn retire(&self) -> Result<(), IdentityError> {
        self.change(|current| {
            let next = current.next.as_ref().ok_or(IdentityError::NoRotation)?;
            let now = self.shared.clock.unix_now();
            // Whoever retires need not know the names that the hub was started with.
            let names = self.shared.names.with_those_of(&current.server);
            let server = issue::server(&next.issuer, &current.server_key, &names, now)?;
            let write = vec![
                (CA_KEY, Secret::new(next.issuer.key().serialize_pem())),
                (CA_PEM, Secret::new(next.pem.clone())),
                (SERVER_PEM, Secret::new(server.pem())),
            ];
            Ok(PkiChange { write, remove: vec![NEXT_KEY, NEXT_PEM] })
        })?;
        Ok(())
    }

    /// Changes the files as they are at this moment, whoever changed them last, and takes what they say then.
    fn change(
        &self,
        change: impl FnOnce(&Snapshot) -> Result<PkiChange, IdentityError>,
    ) -> Result<Self, IdentityError> {
        let shared = &self.shared;
        // Loading takes the lock for itself. What happens between that and ours is found by looking again.
        let current = shared.load(Occasion::Running)?;
        {
            let _lock = pki_files::lock(&shared.data_dir)?;
            if shared.stamp() != current.stamp {
                return Err(IdentityError::RotationUnderWay);
            }
            pki_files::commit(&shared.pki_dir(), &change(&current)?)?;
        }
        *shared.current.write() = Arc::new(shared.load(Occasion::Running)?);
        Ok(self.clone())
    }
}
