//! Keeping the hub's CAs and its own certificate current while it runs: what another process changed, and what is about to end.

use crate::Hub;
use mctunnel_core::Happening;
use mctunnel_identity::IdentityError;
use std::{sync::Arc, time::Duration};
use tokio::{task::spawn_blocking, time::Instant};

/// How often the files are looked at. What somebody changed counts after that.
const LOOK: Duration = Duration::from_secs(2);

/// How often it is looked whether the old one of two CAs can go.
const LOOK_FOR_THE_OLD: Duration = Duration::from_secs(600);

impl Hub {
    /// Looks again and again; never ends.
    pub(crate) async fn keep_authority_current(&self) {
        let mut kept_for = None;
        let mut retire_at = Instant::now() + LOOK_FOR_THE_OLD;
        loop {
            tokio::time::sleep(LOOK).await;
            let retire = Instant::now() >= retire_at;
            if retire {
                retire_at = Instant::now() + LOOK_FOR_THE_OLD;
            }
            match self.look_at_authority(retire).await {
                Ok(false) => kept_for = None,
                Ok(true) => {
                    kept_for = None;
                    let authorities = self.inner.authority.authorities().len();
                    self.inner.observe(&Happening::AuthorityChanged { authorities });
                }
                Err(error) => {
                    let reason = error.to_string();
                    // Said once, not every other second.
                    if kept_for.as_ref() != Some(&reason) {
                        self.inner
                            .observe(&Happening::AuthorityKept { code: error.code().code, reason: reason.clone() });
                        kept_for = Some(reason);
                    }
                }
            }
        }
    }

    /// Gives whether anything changed.
    async fn look_at_authority(&self, retire: bool) -> Result<bool, IdentityError> {
        let (authority, enrolment) = (self.inner.authority.clone(), self.inner.enrolment.clone());
        let look = move || {
            let changed = authority.reload()?;
            let retired = match enrolment.filter(|_| retire) {
                Some(enrolment) => Arc::clone(&enrolment).retire_if_due()?,
                None => false,
            };
            Ok(changed || retired)
        };
        // A panic in there is not ours to pass on, and there is a next time.
        spawn_blocking(look).await.unwrap_or(Ok(false))
    }
}
