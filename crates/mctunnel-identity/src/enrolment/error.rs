//! Why an agent gets no certificate. Each reason has a stable code and a remedy; those that a stranger may cause tell it nothing.

use crate::IdentityError;
use mctunnel_core::{ClusterName, ErrorCode};

/// No certificate is issued.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EnrolError {
    /// The join token is not one of this hub, or its secret is wrong.
    #[error("no such join token")]
    TokenUnknown,
    /// The join token has run out.
    #[error("the join token has expired")]
    TokenExpired,
    /// The join token was used by as many agents as it was made for.
    #[error("the join token was used already")]
    TokenUsed,
    /// The join token was taken back.
    #[error("the join token was revoked")]
    TokenRevoked,
    /// The request is for another cluster than its evidence.
    #[error("the evidence is for another cluster than the request")]
    TokenOfAnotherCluster,
    /// The cluster was revoked or removed since the token was made or the certificate was issued.
    #[error("cluster {0} was revoked or removed")]
    ClusterRevoked(ClusterName),
    /// The certificate request asks for something that no agent gets.
    #[error("the certificate request is refused: {0}")]
    Csr(&'static str),
    /// The request asks for a certificate that lives longer than the hub's do.
    #[error("the request asks for a certificate that lives longer than this hub's do")]
    LifetimeTooLong,
    /// A renewal is for another cluster than the certificate it was asked with.
    #[error("the renewal is for another cluster than the certificate")]
    RenewalForAnother,
    /// The certificate to be renewed is not the hub's own.
    #[error("only certificates that this hub issued are renewed here")]
    NotOurs,
    /// The message is not one of enrolment, or lacks its parts.
    #[error("the message cannot be read: {0}")]
    Message(&'static str),
    /// Nobody here takes that kind of evidence.
    #[error("this hub takes no such evidence")]
    EvidenceNotTaken,
    /// Whoever had to be asked about the evidence gave no answer.
    #[error("the evidence could not be checked just now")]
    EvidenceUnchecked(#[source] Why),
    /// The evidence does not count.
    #[error("the evidence does not count here")]
    EvidenceRefused(#[source] Why),
    /// The hub could not sign, or not write down what it signed.
    #[error("the hub could not issue a certificate")]
    Hub(#[from] IdentityError),
}

/// Why, for the hub's own log: the asker, who may be a stranger, is not told. Nothing secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Why(String);

impl<T: Into<String>> From<T> for Why {
    fn from(text: T) -> Self {
        Self(text.into())
    }
}

/// What the asker can do about a refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefusalKind {
    /// Nothing with this evidence or certificate.
    Denied,
    /// Ask for something else.
    Wrong,
    /// Ask again.
    Later,
}

impl EnrolError {
    /// The stable code and its remedy.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        let (code, remedy) = match self {
            Self::TokenUnknown => (
                "MCT-ENROL-TOKEN-UNKNOWN",
                "check that the token is whole and of this hub; 'mctunnel join-token create' makes a new one",
            ),
            Self::TokenExpired => (
                "MCT-ENROL-TOKEN-EXPIRED",
                "make a new one at the hub with 'mctunnel join-token create --cluster NAME'",
            ),
            Self::TokenUsed => (
                "MCT-ENROL-TOKEN-USED",
                "if it was not you who used it, 'mctunnel cluster revoke NAME'; then make a new token",
            ),
            Self::TokenRevoked => {
                ("MCT-ENROL-TOKEN-REVOKED", "ask who revoked it; 'mctunnel join-token create' makes a new one")
            }
            Self::TokenOfAnotherCluster => (
                "MCT-ENROL-TOKEN-CLUSTER",
                "use evidence of that cluster, as a token from 'mctunnel join-token create --cluster NAME'",
            ),
            Self::ClusterRevoked(_) => (
                "MCT-ENROL-CLUSTER-REVOKED",
                "if the cluster is to come back, make a new token with 'mctunnel join-token create --cluster NAME'",
            ),
            Self::Csr(_) => (
                "MCT-ENROL-CSR",
                "ask for nothing but the key to be signed, as 'mctunnel agent' does; if it was, report this",
            ),
            Self::LifetimeTooLong => ("MCT-ENROL-LIFETIME", "ask for less, or raise '--agent-cert-ttl' at the hub"),
            Self::RenewalForAnother => {
                ("MCT-ENROL-RENEW-CLUSTER", "look for who uses that cluster's certificate; agents never ask for this")
            }
            Self::NotOurs => {
                ("MCT-ENROL-NOT-OURS", "renew it where it was issued; the agent takes the new one from its files")
            }
            Self::Message(_) => ("MCT-ENROL-MESSAGE", "check that the agent's version fits the hub's"),
            Self::EvidenceNotTaken => (
                "MCT-ENROL-NO-EVIDENCE",
                "use a join token: 'mctunnel join-token create'; for ServiceAccount tokens give the hub --enrol-audience",
            ),
            Self::EvidenceUnchecked(_) => {
                ("MCT-ENROL-UNCHECKED", "none needed if it is rare: the agent tries again; else look at the hub's log")
            }
            Self::EvidenceRefused(_) => (
                "MCT-ENROL-EVIDENCE",
                "the hub's log says why; a ServiceAccount is recorded with 'mctunnel cluster add NAME --service-account NAMESPACE/ACCOUNT'",
            ),
            Self::Hub(_) => ("MCT-ENROL-HUB", "look at the hub's log; the agent tries again by itself"),
        };
        ErrorCode { code, remedy }
    }

    /// What the asker can do about it.
    #[must_use]
    pub fn kind(&self) -> RefusalKind {
        match self {
            Self::Csr(_) | Self::LifetimeTooLong | Self::Message(_) | Self::EvidenceNotTaken => RefusalKind::Wrong,
            Self::EvidenceUnchecked(_) | Self::Hub(_) => RefusalKind::Later,
            Self::TokenUnknown
            | Self::TokenExpired
            | Self::TokenUsed
            | Self::TokenRevoked
            | Self::TokenOfAnotherCluster
            | Self::ClusterRevoked(_)
            | Self::RenewalForAnother
            | Self::NotOurs
            | Self::EvidenceRefused(_) => RefusalKind::Denied,
        }
    }
}
