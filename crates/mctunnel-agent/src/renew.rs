//! Keeping the agent's certificate from ending: by asking the hub for the next one, or by following files that somebody else renews.
//! The tunnel that is up is not touched; the next connection shows the new certificate.

use crate::{
    Agent,
    connect::{AttemptFailed, Io, reach},
    enrol::{EnrolFailed, Enroller, USER_AGENT},
};
use mctunnel_core::Happening;
use mctunnel_identity::{
    AgentKey, AgentStore, Clock, EnrolledAgent, OwnCertificate,
    enrolment::wire::{self, MOST_MESSAGE_BYTES, RENEW_PATH},
};
use mctunnel_tunnel::{ReadAhead, grpc};
use parking_lot::Mutex;
use std::{sync::Arc, time::Duration};
use tokio::{sync::Notify, task::spawn_blocking};

/// A clock that was set is noticed after this time at the latest.
const LONGEST_SLEEP: Duration = Duration::from_secs(60);

/// How often files are looked at.
const LOOK: Duration = Duration::from_secs(2);

/// Where the next certificate comes from.
#[derive(Debug)]
pub(crate) enum Renewal {
    /// From the hub; it is kept in the store.
    Hub {
        store: AgentStore,
        agent: Mutex<EnrolledAgent>,
        /// How to get one when none counts any more.
        again: Option<Arc<Enroller>>,
    },
    /// From files.
    Files(OwnCertificate),
}

impl Agent {
    /// Renews for as long as the agent runs; never ends.
    pub(crate) async fn keep_renewed(&self) {
        match &self.inner.renewal {
            None => std::future::pending().await,
            Some(Renewal::Files(files)) => self.follow(files).await,
            Some(Renewal::Hub { store, agent, again }) => {
                let first = agent.lock().clone();
                let next = |agent| self.next(store, agent, again.as_deref());
                let observe = |happening: &Happening| self.inner.observe(happening);
                keep_renewed(&**store.clock(), first, &self.inner.refused, next, observe).await;
            }
        }
    }

    /// A tunnel was refused. If that is for the certificate, an agent that can get another does not wait until it would renew.
    pub(crate) fn mind_refusal(&self, failed: &AttemptFailed) {
        let can_enrol = matches!(&self.inner.renewal, Some(Renewal::Hub { again: Some(_), .. }));
        if can_enrol && matches!(failed, AttemptFailed::Call(reason) if reason.contains(REVOKED)) {
            self.inner.refused.notify_one();
        }
    }

    /// Gets the next certificate: for the one there is, or if that does not count any more, for the evidence.
    async fn next(
        &self,
        store: &AgentStore,
        agent: EnrolledAgent,
        again: Option<&Enroller>,
    ) -> Result<EnrolledAgent, String> {
        let has_ended = self.certificate_not_after_unix() < store.clock().unix_now();
        let failed = match self.renew(store, agent).await {
            Ok(renewed) => return Ok(renewed),
            Err(failed) => failed,
        };
        match again {
            Some(again) if has_ended || failed.is_denied() => self.enrol_anew(store, again).await,
            _ => Err(failed.to_string()),
        }
    }

    /// Gets a first certificate once more, and shows it from now on.
    async fn enrol_anew(&self, store: &AgentStore, again: &Enroller) -> Result<EnrolledAgent, String> {
        let enrolled = again.enrol_as(store, Some(&self.inner.cluster)).await.map_err(|error| error.to_string())?;
        self.show(&enrolled.bundle).map_err(|error| error.to_string())?;
        Ok(enrolled)
    }

    /// Gets the next certificate with a new key, keeps it, and shows it from now on.
    async fn renew(&self, store: &AgentStore, agent: EnrolledAgent) -> Result<EnrolledAgent, EnrolFailed> {
        let key = AgentKey::generate()?;
        let csr = key.request(Some(&agent.bundle.cluster))?;
        let asking = self.ask_to_renew(wire::RenewRequest { csr, lifetime_seconds: 0 });
        let limit = self.inner.config.handshake_timeout;
        let answer = tokio::time::timeout(limit, asking).await.map_err(|_| EnrolFailed::Timeout(limit))??;
        let renewed = agent.renewed(&key, &answer, store.clock())?;
        let (store, kept) = (store.clone(), renewed.clone());
        let saved = spawn_blocking(move || store.save(&kept)).await;
        // It counts also when it cannot be kept: better until the next start than not at all.
        self.show(&renewed.bundle)?;
        match saved {
            Ok(Ok(())) => Ok(renewed),
            Ok(Err(error)) => Err(EnrolFailed::Broken(format!("the new certificate cannot be kept: {error}"))),
            Err(_) => Err(EnrolFailed::Broken("the new certificate could not be kept".to_owned())),
        }
    }

    async fn ask_to_renew(&self, request: wire::RenewRequest) -> Result<wire::IssuedCertificate, EnrolFailed> {
        let inner = &self.inner;
        let socket = reach(&inner.hub, &inner.proxy, &*inner.resolver).await?;
        let tls_failed = |error| EnrolFailed::Tls { hub: inner.hub.to_string(), error };
        let authority = inner.server_name.to_str();
        let connector = inner.tls.read().clone();
        let io: Io = connector.connect(inner.server_name.clone(), ReadAhead::new(socket)).await.map_err(tls_failed)?;
        let message = wire::encode(&request).into();
        let answer = grpc::call(io, &authority, RENEW_PATH, USER_AGENT, message, MOST_MESSAGE_BYTES).await?;
        wire::decode(&answer).map_err(|error| EnrolFailed::Broken(error.to_string()))
    }

    /// Takes what the files say whenever they change.
    async fn follow(&self, files: &OwnCertificate) {
        let mut seen = files.stamp();
        loop {
            tokio::time::sleep(LOOK).await;
            let stamp = files.stamp();
            if stamp == seen {
                continue;
            }
            let taken = files.read().map_err(|error| error.to_string()).and_then(|bundle| {
                if bundle.cluster != self.inner.cluster {
                    return Err(format!("the certificate is of {} now", bundle.cluster));
                }
                self.show(&bundle).map_err(|error| error.to_string())?;
                bundle.certificate().map_err(|error| error.to_string())
            });
            match taken {
                Ok(shown) => {
                    seen = stamp;
                    self.inner.observe(&renewed(&shown));
                }
                // The files may be just being written.
                Err(reason) => self.inner.observe(&Happening::RenewalFailed { reason, retry_in: LOOK }),
            }
        }
    }
}

/// With this code a hub refuses tunnels of a cluster that was revoked, or whose certificate was replaced.
const REVOKED: &str = "MCT-ADMIT-REVOKED";

/// Renews whenever it is due, or the certificate was refused; never ends.
async fn keep_renewed<F>(
    clock: &dyn Clock,
    mut agent: EnrolledAgent,
    refused: &Notify,
    renew: impl Fn(EnrolledAgent) -> F,
    observe: impl Fn(&Happening),
) where
    F: Future<Output = Result<EnrolledAgent, String>>,
{
    // Drawn once for each certificate: a try that failed does not put it off.
    let mut due = agent.renew_at_unix(rand::random());
    loop {
        tokio::select! {
            () = wait_until(clock, due) => {}
            () = refused.notified() => {}
        }
        match renew(agent.clone()).await {
            Ok(next) => {
                agent = next;
                due = agent.renew_at_unix(rand::random());
                if let Ok(shown) = agent.bundle.certificate() {
                    observe(&renewed(&shown));
                }
            }
            Err(reason) => {
                let retry_in = pause_after_failure(&agent, rand::random());
                observe(&Happening::RenewalFailed { reason, retry_in });
                tokio::time::sleep(retry_in).await;
            }
        }
    }
}

fn renewed(shown: &mctunnel_identity::AgentIdentity) -> Happening {
    Happening::CertificateRenewed {
        cluster: shown.cluster.clone(),
        serial: shown.serial.clone(),
        not_after_unix: shown.not_after_unix,
    }
}

/// Some ten tries before the certificate ends, and none sooner than after a second or later than after five minutes.
fn pause_after_failure(agent: &EnrolledAgent, random: f64) -> Duration {
    let pause = (agent.lifetime / 30).clamp(Duration::from_secs(1), Duration::from_secs(300));
    pause.mul_f64(0.75 + random.clamp(0.0, 1.0) / 2.0)
}

async fn wait_until(clock: &dyn Clock, unix: i64) {
    loop {
        let left = unix.saturating_sub(clock.unix_now());
        let Ok(left @ 1..) = u64::try_from(left) else { return };
        tokio::time::sleep(Duration::from_secs(left).min(LONGEST_SLEEP)).await;
    }
}

#[cfg(test)]
mod tests;
