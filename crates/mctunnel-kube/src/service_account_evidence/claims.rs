//! What a token says of itself. Nothing here is verified: anybody can write it.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use mctunnel_core::Secret;
use serde::Deserialize;

/// How far the hub's clock may be off from the cluster's, in seconds. The cluster has the last word.
const LEEWAY: i64 = 300;

/// The claims that every token of a ServiceAccount has that is for an audience.
#[derive(Deserialize)]
pub(super) struct Claims {
    pub(super) sub: String,
    aud: Audiences,
    exp: i64,
}

/// A list, or the one there is.
#[derive(Deserialize)]
#[serde(untagged)]
enum Audiences {
    One(String),
    All(Vec<String>),
}

impl Claims {
    /// Reads three parts with dots between them, the second of them an object in base64url.
    pub(super) fn unverified(token: &Secret) -> Option<Self> {
        let mut parts = token.expose().split('.');
        let (_header, claims, _signature) = (parts.next()?, parts.next()?, parts.next()?);
        if parts.next().is_some() {
            return None;
        }
        serde_json::from_slice(&URL_SAFE_NO_PAD.decode(claims).ok()?).ok()
    }

    pub(super) fn is_for_one_of(&self, audiences: &[String]) -> bool {
        match &self.aud {
            Audiences::One(audience) => audiences.contains(audience),
            Audiences::All(all) => all.iter().any(|audience| audiences.contains(audience)),
        }
    }

    pub(super) fn has_ended(&self, now: i64) -> bool {
        self.exp.saturating_add(LEEWAY) < now
    }
}
