//! Port: somebody who can tell who a client is, by one kind of credential. A [`Chain`](crate::Chain) asks several.

use crate::Shown;
use mctunnel_core::{Unauthenticated, User};
use std::{fmt, pin::Pin, sync::Arc};

/// Knows clients by one kind of credential.
///
/// Obligations: 1. [`Verdict::NotMine`] is for credentials of another form or of another issuer, never for one that failed; 2. what
/// cannot be decided now is `Unavailable`; 3. no message has anything of a secret in it.
pub trait Provider: Send + Sync + 'static {
    /// The name it was configured with. Users it accepts carry this very allocation as [`User::provider`].
    fn name(&self) -> &Arc<str>;

    /// Verifies what was shown.
    fn verify<'a>(&'a self, shown: &'a Shown<'a>) -> Verifying<'a>;

    /// Whether a user that carries its name may go on.
    ///
    /// As a rule a user holds with the provider that accepted it: one that was configured anew is another.
    fn still_holds(&self, user: &User) -> bool {
        Arc::ptr_eq(&user.provider, self.name())
    }

    /// Another number whenever an answer of [`still_holds`](Self::still_holds) may have changed. It only grows.
    fn generation(&self) -> u64 {
        0
    }

    /// What the listener has to collect for it.
    fn wants(&self) -> Wants {
        Wants::default()
    }
}

/// A verdict under way.
pub type Verifying<'a> = Pin<Box<dyn Future<Output = Verdict> + Send + 'a>>;

/// What a provider says to a credential.
#[derive(Debug)]
pub enum Verdict {
    /// It is not one that this provider could judge: the next one is asked.
    NotMine,
    /// It is this user's.
    Accepted(Arc<User>),
    /// It is one for this provider, and it does not count. Nobody else is asked.
    Refused(Unauthenticated),
}

impl Verdict {
    pub(crate) fn rejected(reason: impl Into<String>) -> Self {
        Self::Refused(Unauthenticated::Rejected(reason.into()))
    }
}

/// What the gateway's listener has to collect, so that providers have something to judge.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wants {
    /// CA certificates, DER: a client whose certificate ends in one of them is let in to be judged.
    pub authorities: Vec<Vec<u8>>,
    /// Names of fields a front proxy writes, in lower case.
    pub fields: Vec<String>,
    /// Beginnings of such names, in lower case.
    pub field_prefixes: Vec<String>,
}

impl Wants {
    /// Whether a field, its name in lower case, is one a front proxy writes. Such a field is evidence; it must never be passed on.
    #[must_use]
    pub fn field(&self, name: &str) -> bool {
        self.fields.iter().any(|one| one == name) || self.field_prefixes.iter().any(|prefix| name.starts_with(prefix))
    }

    pub(crate) fn join(&mut self, other: Self) {
        let Self { authorities, fields, field_prefixes } = other;
        add(&mut self.authorities, authorities);
        add(&mut self.fields, fields);
        add(&mut self.field_prefixes, field_prefixes);
    }
}

fn add<T: PartialEq>(to: &mut Vec<T>, more: Vec<T>) {
    for one in more {
        if !to.contains(&one) {
            to.push(one);
        }
    }
}

impl fmt::Debug for dyn Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Provider({})", self.name())
    }
}
