//! What an agent enrols with: who vouches for it, how it knows the hub, and where the hub is.

use super::EnrolFailed;
use crate::service_proxy::TokenSource;
use mctunnel_identity::{
    CaPin, EnrolledBy, JoinToken,
    enrolment::wire::{self, MOST_TOKEN_BYTES},
};

/// Who vouches for an agent.
#[derive(Debug)]
pub(super) enum Evidence {
    JoinToken(JoinToken),
    ServiceAccount {
        token: Box<dyn TokenSource>,
        /// The hub shows a CA with one of them.
        pins: Vec<CaPin>,
        hub: String,
    },
}

impl Evidence {
    /// The CAs that may be the hub's.
    pub(super) fn pins(&self) -> &[CaPin] {
        match self {
            Self::JoinToken(token) => std::slice::from_ref(&token.pin),
            Self::ServiceAccount { pins, .. } => pins,
        }
    }

    /// Where the hub is, as it was told.
    pub(super) fn hub(&self) -> &str {
        match self {
            Self::JoinToken(token) => &token.hub,
            Self::ServiceAccount { hub, .. } => hub,
        }
    }

    pub(super) fn kind(&self) -> EnrolledBy {
        match self {
            Self::JoinToken(token) => EnrolledBy::JoinToken(token.id),
            Self::ServiceAccount { .. } => EnrolledBy::ServiceAccount,
        }
    }

    /// What the hub is shown. The token of an account is taken anew each time: Kubernetes changes it now and then.
    pub(super) fn shown(&self) -> Result<wire::Evidence, EnrolFailed> {
        match self {
            Self::JoinToken(token) => {
                let (id, secret) = (token.id.as_bytes().to_vec(), token.secret.expose().to_vec());
                Ok(wire::Evidence::JoinToken(wire::JoinTokenProof { id, secret }))
            }
            Self::ServiceAccount { token, .. } => {
                let token = token.token().map_err(EnrolFailed::Token)?;
                if token.expose().len() > MOST_TOKEN_BYTES {
                    return Err(EnrolFailed::Token("the token of the ServiceAccount is longer than 16 KiB".to_owned()));
                }
                let token = wire::ServiceAccountToken { token: token.expose().to_owned() };
                Ok(wire::Evidence::ServiceAccountToken(token))
            }
        }
    }
}
