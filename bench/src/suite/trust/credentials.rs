//! One user, and what it can show: a client certificate, and the files of a hub that believes it.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::Result;
use rcgen::{BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer as Signer, KeyPair};

use super::{Issuer, policy};
use crate::{route::Shown, subject::Gate};

pub(super) const USER: &str = "u7";

/// Its twenty groups, three of which the policy has.
pub(super) fn groups(prefix: &str) -> Vec<String> {
    (0..20).map(|number| format!("{prefix}g{}", number * 1000 + 7)).collect()
}

/// Files for hubs and clients.
pub(super) struct Credentials {
    auth: PathBuf,
    policy: PathBuf,
    certificate: PathBuf,
    key: PathBuf,
}

impl Credentials {
    pub(super) fn make(dir: &Path, issuer: &Issuer) -> Result<Self> {
        let file = |name: &str, text: String| -> Result<PathBuf> {
            let path = dir.join(name);
            fs::write(&path, text)?;
            Ok(path)
        };
        let ca_key = KeyPair::generate()?;
        let mut ca = CertificateParams::default();
        ca.distinguished_name.push(DnType::CommonName, "the clients' CA");
        ca.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        let ca_pem = ca.self_signed(&ca_key)?.pem();
        let key = KeyPair::generate()?;
        let mut client = CertificateParams::default();
        client.distinguished_name.push(DnType::CommonName, USER);
        // A name has one of each part here, so this user has one group by its certificate, and the others twenty.
        client.distinguished_name.push(DnType::OrganizationName, "g7");
        client.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let certificate = client.signed_by(&key, &Signer::new(ca, ca_key))?;
        file("clients-ca.pem", ca_pem)?;
        let auth = format!(
            "providers:\n\
             - {{name: partners, client_certificates: {{ca_file: clients-ca.pem}}}}\n\
             - {{name: ci, api_keys: {{}}}}\n\
             - {{name: people, oidc: {{issuer: '{}', audiences: [mctunnel], user_claim: sub, user_prefix: 'jwt:', \
             groups_claim: groups, group_prefix: 'jwt:', insecure_plain_loopback: true}}}}\n",
            issuer.url
        );
        Ok(Self {
            auth: file("auth.yaml", auth)?,
            policy: file("policy.yaml", policy::text()?)?,
            certificate: file("client.pem", certificate.pem())?,
            key: file("client.key", key.serialize_pem())?,
        })
    }

    pub(super) fn gate(&self) -> Gate {
        Gate::Guarded { auth: self.auth.clone(), policy: self.policy.clone() }
    }

    pub(super) fn certificate(&self) -> Shown {
        Shown { certificate: Some(self.certificate.clone()), key: Some(self.key.clone()), ..Shown::default() }
    }
}
