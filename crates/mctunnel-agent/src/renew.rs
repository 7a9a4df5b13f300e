//! Keeping the agent's certificate from ending: by asking the hub for the next one, or by following files that somebody else renews.
//! The tunnel that is up is not touched; the next connection shows the new certificate.

use crate::{
    Agent,
    connect::{Io, reach},
    enrol::{EnrolFailed, USER_AGENT},
};
use mctunnel_core::Happening;
use mctunnel_identity::{
    AgentKey, AgentStore, Clock, EnrolledAgent, OwnCertificate,
    enrolment::wire::{self, MOST_MESSAGE_BYTES, RENEW_PATH},
};
use mctunnel_tunnel::{ReadAhead, grpc};
use parking_lot::Mutex;
use std::time::Duration;
use tokio::task::spawn_blocking;

/// A clock that was set is noticed after this time at the latest.
const LONGEST_SLEEP: Duration = Duration::from_secs(60);

/// How often files are looked at.
const LOOK: Duration = Duration::from_secs(5);

/// Where the next certificate comes from.
#[derive(Debug)]
pub(crate) enum Renewal {
    /// From the hub; it is kept in the store.
    Hub { store: AgentStore, agent: Mutex<EnrolledAgent> },
    /// From files.
    Files(OwnCertificate),
}

impl Agent {
    /// Renews for as long as the agent runs; never ends.
    pub(crate) async fn keep_renewed(&self) {
        match &self.inner.renewal {
            None => std::future::pending().await,
            Some(Renewal::Files(files)) => self.follow(files).await,
            Some(Renewal::Hub { store, agent }) => {
                let first = agent.lock().clone();
                let renew = |agent| self.renew(store, agent);
                keep_renewed(&**store.clock(), first, renew, |happening| self.inner.observe(happening)).await;
            }
        }
    }

    /// Gets the next certificate with a new key, keeps it, and shows it from now on.
    async fn renew(&self, store: &AgentStore, agent: EnrolledAgent) -> Result<EnrolledAgent, String> {
        let key = AgentKey::generate().map_err(|error| error.to_string())?;
        let csr = key.request(Some(&agent.bundle.cluster)).map_err(|error| error.to_string())?;
        let asking = self.ask_to_renew(wire::RenewRequest { csr, lifetime_seconds: 0 });
        let limit = self.inner.config.handshake_timeout;
        let answer = tokio::time::timeout(limit, asking).await.map_err(|_| format!("no answer within {limit:?}"))?;
        let answer = answer.map_err(|error| error.to_string())?;
        let renewed = agent.renewed(&key, &answer, store.clock()).map_err(|error| error.to_string())?;
        let (store, kept) = (store.clone(), renewed.clone());
        let saved = spawn_blocking(move || store.save(&kept)).await;
        // It counts also when it cannot be kept: better until the next start than not at all.
        self.show(&renewed.bundle).map_err(|error| error.to_string())?;
        match saved {
            Ok(Ok(())) => Ok(renewed),
            Ok(Err(error)) => Err(format!("the new certificate cannot be kept: {error}")),
            Err(_) => Err("the new certificate could not be kept".to_owned()),
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

/// Renews whenever it is due; never ends.
async fn keep_renewed<F>(
    clock: &dyn Clock,
    mut agent: EnrolledAgent,
    renew: impl Fn(EnrolledAgent) -> F,
    observe: impl Fn(&Happening),
) where
    F: Future<Output = Result<EnrolledAgent, String>>,
{
    // Drawn once for each certificate: a try that failed does not put it off.
    let mut due = agent.renew_at_unix(rand::random());
    loop {
        wait_until(clock, due).await;
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
