//! Makes the certificates an honest hub never issues, from its real CA or from a false one.

use mctunnel_core::ClusterName;
use mctunnel_identity::{HUB_SERVER_NAME, HubAuthority, JoinBundle};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    SanType,
};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use std::{path::Path, time::Duration};
use time::OffsetDateTime;

pub(crate) const YEAR: Duration = Duration::from_secs(365 * 24 * 60 * 60);

pub(crate) fn cluster(name: &str) -> ClusterName {
    ClusterName::parse(name).unwrap()
}

pub(crate) fn read(data_dir: &Path, file: &str) -> String {
    std::fs::read_to_string(data_dir.join("pki").join(file)).unwrap()
}

/// An honest bundle for a cluster.
pub(crate) fn bundle(hub: &HubAuthority, name: &str) -> JoinBundle {
    let issued = hub.issue_agent(&cluster(name), YEAR).unwrap();
    JoinBundle {
        version: JoinBundle::VERSION,
        cluster: cluster(name),
        hub: "127.0.0.1:8443".to_owned(),
        hub_server_name: HUB_SERVER_NAME.to_owned(),
        ca_pem: hub.ca_pem().to_owned(),
        certificate_pem: issued.certificate_pem,
        key_pem: issued.key_pem,
    }
}

/// A CA that signs whatever it is asked to.
pub(crate) struct Forge {
    pub(crate) ca_pem: String,
    pub(crate) issuer: Issuer<'static, KeyPair>,
}

impl Forge {
    /// The CA of a hub, stolen from its data directory.
    pub(crate) fn steal(data_dir: &Path) -> Self {
        let ca_pem = read(data_dir, "ca.pem");
        let key = KeyPair::from_pem(&read(data_dir, "ca.key")).unwrap();
        let issuer = Issuer::from_ca_cert_pem(&ca_pem, key).unwrap();
        Self { ca_pem, issuer }
    }

    /// A CA of its own, under any name: also that of another CA.
    pub(crate) fn new(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let key = KeyPair::generate().unwrap();
        let ca_pem = params.self_signed(&key).unwrap().pem();
        Self { ca_pem, issuer: Issuer::new(params, key) }
    }

    /// A certificate as an agent of c1 has it, after `change`.
    pub(crate) fn agent(&self, change: impl FnOnce(&mut CertificateParams)) -> Forged {
        let mut params = valid_for_a_year();
        params.distinguished_name.push(DnType::CommonName, "c1");
        params.subject_alt_names = vec![uri("spiffe://mctunnel/cluster/c1")];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        change(&mut params);
        self.sign(&params, KeyPair::generate().unwrap())
    }

    /// A certificate as a hub has it, after `change`.
    pub(crate) fn server(&self, change: impl FnOnce(&mut CertificateParams)) -> Forged {
        self.server_with_key(KeyPair::generate().unwrap(), change)
    }

    pub(crate) fn server_with_key(&self, key: KeyPair, change: impl FnOnce(&mut CertificateParams)) -> Forged {
        let mut params = valid_for_a_year();
        params.subject_alt_names = vec![dns(HUB_SERVER_NAME)];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        change(&mut params);
        self.sign(&params, key)
    }

    fn sign(&self, params: &CertificateParams, key: KeyPair) -> Forged {
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        Forged { pem: certificate.pem(), der: certificate.der().clone(), key, issuers: Vec::new() }
    }
}

/// A certificate with its key.
pub(crate) struct Forged {
    pub(crate) pem: String,
    pub(crate) der: CertificateDer<'static>,
    pub(crate) key: KeyPair,
    /// What is shown behind it.
    pub(crate) issuers: Vec<CertificateDer<'static>>,
}

impl Forged {
    pub(crate) fn into_chain_and_key(self) -> (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>) {
        let mut chain = vec![self.der];
        chain.extend(self.issuers);
        (chain, PrivatePkcs8KeyDer::from(self.key.serialize_der()).into())
    }
}

pub(crate) fn uri(text: &str) -> SanType {
    SanType::URI(text.try_into().unwrap())
}

pub(crate) fn dns(text: &str) -> SanType {
    SanType::DnsName(text.try_into().unwrap())
}

/// The moment so many days from now; negative ones are past.
pub(crate) fn days_from_now(days: i64) -> OffsetDateTime {
    OffsetDateTime::from(std::time::SystemTime::now()) + time::Duration::days(days)
}

fn valid_for_a_year() -> CertificateParams {
    let mut params = CertificateParams::default();
    params.not_before = days_from_now(-1);
    params.not_after = days_from_now(365);
    params.is_ca = IsCa::ExplicitNoCa;
    params
}
