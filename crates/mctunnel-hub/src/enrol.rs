//! Agents that ask for a certificate: the first one without any, the next one with the one before. One call, one answer, and the
//! connection ends. Each is recorded; what cannot be is not issued.

use crate::{
    Hub,
    admit::{GOODBYE, Io, TurnedAway, broken},
    codes,
    entry::{ENROL, Entry},
    standing::Peer,
};
use mctunnel_core::{ClusterName, Happening};
use mctunnel_identity::{
    EnrolError, TokenId,
    enrolment::{
        Enrolment, Issued, RefusalKind,
        wire::{self, ENROL_PATH, MOST_MESSAGE_BYTES},
    },
};
use mctunnel_tunnel::grpc::{Accepting, Call, Status, UnaryCall};
use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
};
use tokio::{runtime::Handle, task::spawn_blocking, time::timeout};

/// What is known of one who was refused.
struct Asker<'a> {
    peer: &'a str,
    cluster: Option<ClusterName>,
    /// Who should have vouched.
    evidence: String,
}

impl Asker<'_> {
    fn source(&self) -> Option<IpAddr> {
        self.peer.parse::<SocketAddr>().ok().map(|address| address.ip())
    }
}

impl Hub {
    /// Serves a peer that showed no certificate. Whatever it asks for, it gets a certificate or nothing.
    pub(crate) async fn enrol(&self, io: Io, enrolment: &Arc<Enrolment>, peer: &str) -> Result<(), TurnedAway> {
        let accepting = Accepting::handshake_with_stranger(io).await;
        let accepting = accepting.map_err(|end| broken(codes::ENROL_CALL.code, end))?;
        let call = accepting.call_of(&[ENROL_PATH]).await.map_err(|end| broken(codes::ENROL_CALL.code, end))?;
        let call = self.read(call).await?;
        let mut asker = Asker { peer, cluster: None, evidence: "nothing".to_owned() };
        let decoded = wire::decode::<wire::EnrolRequest>(call.message());
        if let Ok(request) = &decoded {
            asker.evidence = name_of(request.evidence.as_ref());
        }
        let Some(mut entry) = self.entry_of(&asker) else { return self.refuse_unrecorded(call, &asker).await };
        let request = match decoded {
            Ok(request) => request,
            Err(error) => {
                record(entry, &asker.evidence, Some(&error));
                return self.refuse_to_issue(call, &asker, &error).await;
            }
        };
        let _turn = self.inner.enrolments.acquire().await;
        let (issuing, evidence, source) = (Arc::clone(enrolment), asker.evidence.clone(), asker.source());
        let token = token_of(request.evidence.as_ref());
        let runtime = Handle::current();
        // Waits for the disk, and perhaps for somebody who has to be asked. It is recorded there: the peer may be gone meanwhile.
        let answer = spawn_blocking(move || {
            let answer = runtime.block_on(issuing.enrol_from(request, source));
            match &answer {
                Ok((issued, vouched)) => {
                    entry.by(&issued.cluster, ENROL, &vouched.by);
                    entry.about(Some(issued.cluster.clone()));
                }
                // Only what proved to have a secret of a cluster names it: the log tells it from strangers by that.
                Err(refusal) => entry.about(issuing.cluster_of_refused(token, refusal)),
            }
            record(entry, &evidence, answer.as_ref().err());
            answer
        });
        let answer = answer.await;
        match answer.unwrap_or_else(|_| Err(broken_off())) {
            Ok((Issued { cluster, serial, answer, .. }, vouched)) => {
                let peer = peer.to_owned();
                self.inner.observe(&Happening::AgentEnrolled { cluster, serial, evidence: vouched.by, peer });
                let _ = timeout(GOODBYE, call.answer(wire::encode(&answer).into())).await;
                Ok(())
            }
            Err(error) => self.refuse_to_issue(call, &asker, &error).await,
        }
    }

    /// Serves an agent that wants its next certificate.
    pub(crate) async fn renew(
        &self,
        call: Call<Io>,
        enrolment: &Arc<Enrolment>,
        agent: &Peer,
        peer: &str,
    ) -> Result<(), TurnedAway> {
        let call = self.read(call).await?;
        let cluster = Some(agent.agent.cluster.clone());
        let asker = Asker { peer, cluster, evidence: format!("certificate {}", agent.agent.serial) };
        let Some(entry) = self.entry_of(&asker) else { return self.refuse_unrecorded(call, &asker).await };
        let decoded = wire::decode::<wire::RenewRequest>(call.message());
        let request = match decoded
            .and_then(|request| if agent.own.is_some() { Err(EnrolError::NotOurs) } else { Ok(request) })
        {
            Ok(request) => request,
            Err(error) => {
                record(entry, &asker.evidence, Some(&error));
                return self.refuse_to_issue(call, &asker, &error).await;
            }
        };
        let _turn = self.inner.enrolments.acquire().await;
        let (issuing, identity, evidence) = (Arc::clone(enrolment), agent.agent.clone(), asker.evidence.clone());
        let answer = spawn_blocking(move || {
            let answer = issuing.renew(&identity, &request);
            record(entry, &evidence, answer.as_ref().err());
            answer
        });
        let answer = answer.await;
        match answer.unwrap_or_else(|_| Err(broken_off())) {
            Ok(Issued { cluster, serial, not_after_unix, answer, .. }) => {
                self.inner.observe(&Happening::CertificateRenewed { cluster, serial, not_after_unix });
                let _ = timeout(GOODBYE, call.answer(wire::encode(&answer).into())).await;
                Ok(())
            }
            Err(error) => self.refuse_to_issue(call, &asker, &error).await,
        }
    }

    async fn read(&self, call: Call<Io>) -> Result<UnaryCall<Io>, TurnedAway> {
        call.read_message(MOST_MESSAGE_BYTES).await.map_err(|end| broken(codes::ENROL_CALL.code, end))
    }

    /// A place in the audit log; `None` when there is none.
    fn entry_of(&self, asker: &Asker<'_>) -> Option<Entry> {
        let mut entry = Entry::begin(&*self.inner.audit, ENROL, asker.source()).ok()?;
        if let Some(cluster) = &asker.cluster {
            entry.by(cluster, "tunnel", &asker.evidence);
            entry.about(Some(cluster.clone()));
        }
        Some(entry)
    }

    async fn refuse_unrecorded(&self, call: UnaryCall<Io>, asker: &Asker<'_>) -> Result<(), TurnedAway> {
        let (code, reason) = (codes::ENROL_UNRECORDED.code, "the audit log cannot take another record");
        self.note_refusal(asker, code, reason.to_owned());
        let _ = timeout(GOODBYE, call.refuse(Status::Unavailable, &format!("{code}: {reason}"))).await;
        Ok(())
    }

    fn note_refusal(&self, asker: &Asker<'_>, code: &'static str, reason: String) {
        self.inner.observe(&Happening::EnrolRefused {
            peer: asker.peer.to_owned(),
            cluster: asker.cluster.clone(),
            evidence: asker.evidence.clone(),
            code,
            reason,
        });
    }

    /// Says no to the peer, and takes note.
    async fn refuse_to_issue(
        &self,
        call: UnaryCall<Io>,
        asker: &Asker<'_>,
        error: &EnrolError,
    ) -> Result<(), TurnedAway> {
        let code = error.code().code;
        self.note_refusal(asker, code, with_causes(error));
        let status = match error.kind() {
            RefusalKind::Denied => Status::PermissionDenied,
            RefusalKind::Wrong => Status::InvalidArgument,
            RefusalKind::Later => Status::Unavailable,
        };
        // What broke inside the hub is not for strangers.
        let _ = timeout(GOODBYE, call.refuse(status, &format!("{code}: {error}"))).await;
        Ok(())
    }
}

/// Writes down what was decided of whoever brought this evidence.
fn record(entry: Entry, evidence: &str, refusal: Option<&EnrolError>) {
    match refusal {
        None => entry.granted(evidence),
        Some(error) => entry.denied(evidence, error.code(), &with_causes(error)),
    }
}

/// What a request brought as evidence, without anything secret.
fn name_of(evidence: Option<&wire::Evidence>) -> String {
    match evidence {
        Some(wire::Evidence::JoinToken(_)) => {
            token_of(evidence).map_or_else(|| "a join token without an id".to_owned(), |id| format!("join token {id}"))
        }
        Some(wire::Evidence::ServiceAccountToken(_)) => "a ServiceAccount token".to_owned(),
        None => "nothing".to_owned(),
    }
}

/// Which join token a request brought, if it is one.
fn token_of(evidence: Option<&wire::Evidence>) -> Option<TokenId> {
    match evidence {
        Some(wire::Evidence::JoinToken(token)) => TokenId::from_bytes(&token.id),
        Some(wire::Evidence::ServiceAccountToken(_)) | None => None,
    }
}

/// The error with what caused it, for our own log.
fn with_causes(error: &EnrolError) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        text.push_str(&format!(": {error}"));
        cause = error.source();
    }
    text
}

fn broken_off() -> EnrolError {
    EnrolError::EvidenceUnchecked("the hub broke off".into())
}
