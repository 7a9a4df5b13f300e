//! Makes certificates: honest ones, and those an honest CA never signs.

use mctunnel_core::{ClientCertificate, Evidence};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    SanType,
};
use std::sync::Arc;

/// A CA that signs whatever it is asked to.
pub(crate) struct Forge {
    pub(crate) pem: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Forge {
    pub(crate) fn new(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        Self { pem: params.self_signed(&key).unwrap().pem(), issuer: Issuer::new(params, key) }
    }

    /// A client's certificate as Kubernetes would have it.
    pub(crate) fn client(&self, name: &str, groups: &[&str]) -> ClientCertificate {
        self.changed(name, groups, |_| {})
    }

    /// The same, after `change`.
    pub(crate) fn changed(
        &self,
        name: &str,
        groups: &[&str],
        change: impl FnOnce(&mut CertificateParams),
    ) -> ClientCertificate {
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        for (n, group) in groups.iter().enumerate() {
            params.distinguished_name.push(organization(n), *group);
        }
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        params.is_ca = IsCa::ExplicitNoCa;
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        ClientCertificate { chain: vec![params.signed_by(&key, &self.issuer).unwrap().der().to_vec()] }
    }
}

/// The library keeps one value for each kind, and takes a kind spelt as OID for another: so there can be two.
fn organization(n: usize) -> DnType {
    match n {
        0 => DnType::OrganizationName,
        1 => DnType::CustomDnType(vec![2, 5, 4, 10]),
        _ => panic!("this forge knows two groups"),
    }
}

/// A further common name.
pub(crate) fn second_common_name() -> DnType {
    DnType::CustomDnType(vec![2, 5, 4, 3])
}

pub(crate) fn uri(text: &str) -> SanType {
    SanType::URI(text.try_into().unwrap())
}

/// A client that shows this certificate.
pub(crate) fn client_certificate(certificate: &ClientCertificate) -> Evidence {
    Evidence { certificate: Some(Arc::new(certificate.clone())), ..Evidence::default() }
}

/// A front proxy that shows this certificate and writes these fields.
pub(crate) fn forwarded(certificate: &ClientCertificate, fields: &[(&str, &str)]) -> Evidence {
    let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    Evidence { forwarded: fields.iter().map(own).collect(), ..client_certificate(certificate) }
}
