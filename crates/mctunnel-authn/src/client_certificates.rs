//! Users by the certificate of their TLS connection: the common name is the user and each organisation a group, as Kubernetes has it.

use crate::{
    AuthnError, Clock, Credential, NameRules, Provider, Shown, Verdict, Verifying, Wants, clock,
    pool::{Leaf, NotVerified, Pool},
};
use mctunnel_core::User;
use std::sync::Arc;

/// What certificates count, and how users are called.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClientCertificateSettings {
    /// The CAs of this provider alone, PEM.
    pub ca_pem: Vec<u8>,
    /// Which part of the certificate is the user.
    pub user_from: UserFrom,
    /// How users and groups are called.
    pub names: NameRules,
}

/// Which part of a certificate is the user.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum UserFrom {
    /// The subject's one common name.
    #[default]
    CommonName,
    /// The one URI among its subject alternative names.
    UriSan,
}

/// Knows users by their certificates.
#[derive(Debug)]
pub struct ClientCertificates {
    name: Arc<str>,
    pool: Pool,
    user_from: UserFrom,
    names: NameRules,
    clock: Clock,
}

impl ClientCertificates {
    /// A provider with CAs of its own.
    pub fn new(name: &str, settings: ClientCertificateSettings, clock: Clock) -> Result<Self, AuthnError> {
        let ClientCertificateSettings { ca_pem, user_from, names } = settings;
        if let Some(problem) = names.problem() {
            return Err(AuthnError::provider(name, problem));
        }
        let pool = Pool::from_pem(&ca_pem).map_err(|reason| AuthnError::provider(name, reason))?;
        Ok(Self { name: name.into(), pool, user_from, names, clock })
    }

    fn judge(&self, shown: &Shown<'_>) -> Verdict {
        let Credential::Certificate(certificate) = shown.credential else { return Verdict::NotMine };
        let leaf = match self.pool.verify(certificate, self.clock.now()) {
            Ok(leaf) => leaf,
            Err(NotVerified::NotOurs) => return Verdict::NotMine,
            Err(NotVerified::Bad(reason)) => return Verdict::rejected(reason),
        };
        // One user for all connections and requests of a certificate: what others make of it they need to make once.
        let user = leaf.user.get_or_init(|| self.user(&leaf).map(Arc::new));
        user.clone().map_or_else(Verdict::rejected, Verdict::Accepted)
    }

    fn user(&self, leaf: &Leaf) -> Result<User, String> {
        let found = match self.user_from {
            UserFrom::CommonName => the_one(&leaf.common_names, "common name")?,
            UserFrom::UriSan => the_one(&leaf.uris, "URI")?,
        };
        let name = self.names.user(found).map_err(|bad| format!("the certificate's name cannot be used: {bad}"))?;
        let mut user = User::new(name, Arc::clone(&self.name));
        for organization in &leaf.organizations {
            let group = self.names.group(organization);
            user.groups.push(group.map_err(|bad| format!("a group of the certificate cannot be used: {bad}"))?);
        }
        user.credential = leaf.serial.as_str().into();
        user.expires = clock::moment(leaf.not_after);
        Ok(user)
    }
}

impl Provider for ClientCertificates {
    fn name(&self) -> &Arc<str> {
        &self.name
    }

    fn verify<'a>(&'a self, shown: &'a Shown<'a>) -> Verifying<'a> {
        Box::pin(std::future::ready(self.judge(shown)))
    }

    fn wants(&self) -> Wants {
        Wants { authorities: self.pool.authorities(), ..Wants::default() }
    }
}

/// Of several names it would be a guess which one is meant.
fn the_one<'a>(names: &'a [String], what: &str) -> Result<&'a str, String> {
    match names {
        [one] => Ok(one),
        _ => Err(format!("the certificate must have exactly one {what}")),
    }
}
