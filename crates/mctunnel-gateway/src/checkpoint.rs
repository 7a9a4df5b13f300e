//! Steps 1 and 3 of a request's path, for every way in: who is it, may it, and where is that written down.
//!
//! ```text
//! checkpoint/permit.rs     what was allowed stays allowed only as long as the rules and the credential say so
//! checkpoint/recording.rs  one entry in the audit log for each request, taken before anything is opened for it
//! ```

mod permit;
mod recording;
#[cfg(test)]
mod tests;

pub use permit::{Admitted, Permit};
pub use recording::Recording;

use mctunnel_core::{
    Access, Audit, AuditFull, Authorize, Decision, DynAuthenticate, Evidence, Identity, Limit, PassThrough, Place,
    Unaudited, Unauthenticated, Unlimited,
};
use permit::{Extent, Permits};
use std::{net::IpAddr, sync::Arc};

/// Who a client is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identified {
    /// Who.
    pub identity: Identity,
    /// Which credentials counted then, as [`DynAuthenticate::generation`] says.
    pub as_of: u64,
}

/// Decides about requests and records them. Cheap to clone; all clones are the same checkpoint.
#[derive(Debug, Clone)]
pub struct Checkpoint {
    authenticate: Arc<dyn DynAuthenticate>,
    authorize: Arc<dyn Authorize>,
    limit: Arc<dyn Limit>,
    audit: Arc<dyn Audit>,
    permits: Arc<Permits>,
}

impl Default for Checkpoint {
    /// Asks nobody, allows everything, records nothing: what clients carry is between them and the targets.
    fn default() -> Self {
        Self::new(Arc::new(PassThrough), Arc::new(PassThrough), Arc::new(Unaudited))
    }
}

impl Checkpoint {
    /// A checkpoint of these three.
    pub fn new(authenticate: Arc<dyn DynAuthenticate>, authorize: Arc<dyn Authorize>, audit: Arc<dyn Audit>) -> Self {
        let permits = Permits::new(Arc::clone(&authenticate), Arc::clone(&authorize));
        Self { authenticate, authorize, limit: Arc::new(Unlimited), audit, permits }
    }

    /// The same, with limits on how much at once.
    #[must_use]
    pub fn with_limit(self, limit: Arc<dyn Limit>) -> Self {
        Self { limit, ..self }
    }

    /// The same, with somebody else who finds out who clients are.
    #[must_use]
    pub fn with_authenticate(self, authenticate: Arc<dyn DynAuthenticate>) -> Self {
        Self::new(authenticate, self.authorize, self.audit).with_limit(self.limit)
    }

    /// The same, with somebody else who decides.
    #[must_use]
    pub fn with_authorize(self, authorize: Arc<dyn Authorize>) -> Self {
        Self::new(self.authenticate, authorize, self.audit).with_limit(self.limit)
    }

    /// The same, with another record.
    #[must_use]
    pub fn with_audit(self, audit: Arc<dyn Audit>) -> Self {
        Self { audit, ..self }
    }

    /// Takes a place in the record; without one the request is not served.
    pub fn record(&self, gateway: &'static str, request_id: &str) -> Result<Recording, AuditFull> {
        self.record_from(gateway, request_id, None)
    }

    /// The same for a client at this address, which may have a share of the places and no more.
    pub fn record_from(
        &self,
        gateway: &'static str,
        request_id: &str,
        source: Option<IpAddr>,
    ) -> Result<Recording, AuditFull> {
        let recording = Recording::new(self.audit.begin_from(source)?, gateway, request_id);
        source.into_iter().for_each(|source| recording.came_from(source));
        Ok(recording)
    }

    /// Step 1.
    pub async fn identify(&self, evidence: &Evidence) -> Result<Identified, Unauthenticated> {
        // Looked at first: what is revoked while we find out makes it somebody of the old credentials.
        let as_of = self.as_of();
        Ok(Identified { identity: self.authenticate.authenticate(evidence).await?, as_of })
    }

    /// Which credentials count now.
    fn as_of(&self) -> u64 {
        self.authenticate.generation()
    }

    /// Step 3. What is allowed gets a permit, to be held as long as what is opened with it lives.
    pub fn admit(&self, admitted: Admitted, recording: &Recording) -> Result<Permit, Decision> {
        self.admit_as(Extent::Whole, admitted, recording)
    }

    /// The same for an answer that is decided object by object: some of what is asked about may be allowed. What may not be seen is
    /// left out by whoever answers, who asks [`Checkpoint::would_allow`].
    pub fn admit_some(&self, admitted: Admitted, recording: &Recording) -> Result<Permit, Decision> {
        self.admit_as(Extent::Part, admitted, recording)
    }

    fn admit_as(&self, extent: Extent, admitted: Admitted, recording: &Recording) -> Result<Permit, Decision> {
        // Looked at first: rules that change while we decide make the permit one of the old rules.
        let generations = self.permits.generations();
        let decision = self.permits.decide(&admitted, extent, generations);
        let place = if decision.is_allowed() { self.limit.take(&admitted.access()) } else { Err(decision.clone()) };
        recording.decided(&admitted, place.as_ref().err().unwrap_or(&decision));
        Ok(self.permits.issue((admitted, extent), generations, place?, recording))
    }

    /// Takes a place for what nobody has to allow. A refusal is recorded as the decision.
    pub(crate) fn within_limits(&self, admitted: &Admitted, recording: &Recording) -> Result<Box<dyn Place>, Decision> {
        let place = self.limit.take(&admitted.access());
        place.inspect_err(|full| recording.decided(admitted, full))
    }

    /// Asks policy a question, without a request behind it.
    #[must_use]
    pub fn would_allow(&self, access: &Access<'_>) -> Decision {
        self.authorize.authorize(access)
    }

    /// Asks policy whether some of it would be allowed.
    #[must_use]
    pub fn would_allow_some(&self, access: &Access<'_>) -> Decision {
        self.authorize.authorize_some(access)
    }
}
