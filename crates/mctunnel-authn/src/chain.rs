//! Several providers in order, and exactly one credential per request. A provider that does not know the form of a credential
//! passes it on; one that knows it has the last word. Nobody becomes anonymous here, unless the file says in so many words that
//! clients without a credential may come in; a credential that failed is never read as none.

use crate::{AuthnError, Credential, Provider, Shown, Verdict, Wants, shown::NOT_A_FRONT_PROXY};
use mctunnel_core::{Authenticate, Evidence, Identity, Unauthenticated};
use std::sync::Arc;

/// The providers of a gateway.
#[derive(Debug, Clone)]
pub struct Chain {
    providers: Arc<[Arc<dyn Provider>]>,
    /// `None`: who shows nothing is refused.
    anonymous: Option<Anonymous>,
}

/// Clients that come in without being known. What they may do is policy's to say, by `anonymous: true` in a binding.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Anonymous {
    /// Also those with a bearer token that no provider knows the form of: it goes on to the target, which judges it.
    pub unknown_tokens: bool,
}

impl Chain {
    /// Asks the providers in this order. There must be one at least, and no two of one name.
    pub fn new(providers: Vec<Arc<dyn Provider>>) -> Result<Self, AuthnError> {
        if providers.is_empty() {
            return Err(AuthnError::NoProvider);
        }
        for (index, provider) in providers.iter().enumerate() {
            if providers.iter().take(index).any(|earlier| earlier.name() == provider.name()) {
                return Err(AuthnError::provider(provider.name(), "another provider has the same name"));
            }
        }
        Ok(Self { providers: providers.into(), anonymous: None })
    }

    /// The same, with clients that nobody knows.
    #[must_use]
    pub fn with_anonymous(self, anonymous: Option<Anonymous>) -> Self {
        Self { anonymous, ..self }
    }

    /// What the gateway's listener has to collect.
    #[must_use]
    pub fn wants(&self) -> Wants {
        let mut wants = Wants::default();
        for provider in self.providers.iter() {
            wants.join(provider.wants());
        }
        wants
    }

    /// The names of the providers, in order.
    pub fn names(&self) -> impl Iterator<Item = &Arc<str>> {
        self.providers.iter().map(|provider| provider.name())
    }

    async fn judge(&self, shown: &Shown<'_>) -> Result<Identity, Unauthenticated> {
        for provider in self.providers.iter() {
            match provider.verify(shown).await {
                Verdict::NotMine => {}
                Verdict::Accepted(user) => return Ok(Identity::User(user)),
                Verdict::Refused(reason) => return Err(reason),
            }
        }
        if shown.bearer().is_some() && self.anonymous.is_some_and(|anonymous| anonymous.unknown_tokens) {
            return Ok(Identity::Anonymous);
        }
        Err(match shown.credential {
            Credential::Forwarded { .. } => Unauthenticated::Conflict(NOT_A_FRONT_PROXY.to_owned()),
            Credential::Bearer(_) => {
                Unauthenticated::Rejected("no configured provider knows this kind of token".to_owned())
            }
            Credential::Certificate(_) => {
                Unauthenticated::Rejected("no configured provider knows the issuer of the certificate".to_owned())
            }
        })
    }
}

impl Authenticate for Chain {
    async fn authenticate(&self, evidence: &Evidence) -> Result<Identity, Unauthenticated> {
        if self.anonymous.is_some() && shows_nothing(evidence) {
            return Ok(Identity::Anonymous);
        }
        let shown = Shown::of(evidence)?;
        self.judge(&shown).await
    }

    /// A user holds with the provider that vouched for it, a client that nobody knows as long as such come in at all.
    fn still_holds(&self, identity: &Identity) -> bool {
        let Some(user) = identity.user() else { return self.anonymous.is_some() };
        self.providers
            .iter()
            .find(|provider| *provider.name() == user.provider)
            .is_some_and(|one| one.still_holds(user))
    }

    fn generation(&self) -> u64 {
        self.providers.iter().fold(0, |sum, provider| sum.wrapping_add(provider.generation()))
    }
}

/// Whether there is not even something to refuse.
fn shows_nothing(evidence: &Evidence) -> bool {
    evidence.authorization.is_none() && evidence.certificate.is_none() && evidence.forwarded.is_empty()
}
