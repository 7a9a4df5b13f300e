//! Whatever a certificate request asks for, an agent gets what its cluster gets, or nothing (T25).

use crate::{
    forge::{cluster, dns, uri},
    office::{Office, honest_csr, identity, request},
};
use mctunnel_identity::{AgentKey, EnrolError, enrolment::wire};
use rcgen::{
    Attribute, BasicConstraints, CertificateParams, CustomExtension, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, IsCa, KeyPair, KeyUsagePurpose, PKCS_ECDSA_P384_SHA384, PKCS_ECDSA_P521_SHA512,
    PKCS_ED25519, PKCS_RSA_SHA256, SignatureAlgorithm,
};
use rustls_pki_types::CertificateDer;
use x509_parser::{
    extensions::GeneralName,
    prelude::{FromDer, X509Certificate},
};

const C1: &str = "spiffe://mctunnel/cluster/c1";
const C2: &str = "spiffe://mctunnel/cluster/c2";

fn params(change: impl FnOnce(&mut CertificateParams)) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    change(&mut params);
    params
}

fn csr(change: impl FnOnce(&mut CertificateParams)) -> Vec<u8> {
    params(change).serialize_request(&KeyPair::generate().unwrap()).unwrap().der().to_vec()
}

fn csr_of(algorithm: &'static SignatureAlgorithm) -> Vec<u8> {
    let key = KeyPair::generate_for(algorithm).unwrap();
    params(|_| {}).serialize_request(&key).unwrap().der().to_vec()
}

fn csr_with(attributes: Vec<Attribute>, change: impl FnOnce(&mut CertificateParams)) -> Vec<u8> {
    let key = KeyPair::generate().unwrap();
    params(change).serialize_request_with_attributes(&key, attributes).unwrap().der().to_vec()
}

fn named(names: &[(DnType, &str)]) -> Vec<u8> {
    csr(|params| names.iter().for_each(|(kind, name)| params.distinguished_name.push(kind.clone(), *name)))
}

/// A SEQUENCE with one extension: its OID, and its content in an OCTET STRING.
fn extension_sequence(oid: &[u8], content: &[u8]) -> Vec<u8> {
    let length = |bytes: &[u8]| u8::try_from(bytes.len()).unwrap();
    let mut inner = vec![0x06, length(oid)];
    inner.extend_from_slice(oid);
    inner.extend_from_slice(&[0x04, length(content)]);
    inner.extend_from_slice(content);
    let mut extension = vec![0x30, length(&inner)];
    extension.extend_from_slice(&inner);
    let mut sequence = vec![0x30, length(&extension)];
    sequence.extend_from_slice(&extension);
    sequence
}

/// The values of an attribute.
fn set(values: &[Vec<u8>]) -> Vec<u8> {
    let content = values.concat();
    let mut set = vec![0x31, u8::try_from(content.len()).unwrap()];
    set.extend_from_slice(&content);
    set
}

/// CA:TRUE, as an extension.
fn ca_true() -> Vec<u8> {
    extension_sequence(&[0x55, 0x1d, 0x13], &[0x30, 0x03, 0x01, 0x01, 0xff])
}

const EXTENSION_REQUEST: &[u64] = &[1, 2, 840, 113549, 1, 9, 14];
const CHALLENGE_PASSWORD: &[u64] = &[1, 2, 840, 113549, 1, 9, 7];

/// What asks for more than an agent of c1 gets.
fn greedy() -> Vec<(&'static str, Vec<u8>)> {
    [greedy_for_names(), greedy_for_rights(), not_a_request()].concat()
}

fn greedy_for_names() -> Vec<(&'static str, Vec<u8>)> {
    let names = |list: &[&str]| csr(|params| params.subject_alt_names = list.iter().map(|name| uri(name)).collect());
    vec![
        ("the name of another cluster", names(&[C2])),
        ("two names", names(&[C1, C2])),
        ("two names, the other first", names(&[C2, C1])),
        ("its name twice", names(&[C1, C1])),
        ("its name in capitals", names(&["spiffe://mctunnel/cluster/C1"])),
        ("a name below", names(&["spiffe://mctunnel/cluster/c1/x"])),
        ("every name", names(&["spiffe://mctunnel/cluster/*"])),
        ("a name of another place", names(&["spiffe://elsewhere/cluster/c1"])),
        ("a DNS name", csr(|params| params.subject_alt_names = vec![dns("mctunnel-hub")])),
        ("its name and a DNS name", csr(|params| params.subject_alt_names = vec![uri(C1), dns("mctunnel-hub")])),
        ("to be a CA", csr(|params| params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained))),
        ("to be a small CA", csr(|params| params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0)))),
        ("an organisation", named(&[(DnType::OrganizationName, "system:masters")])),
        ("a unit", named(&[(DnType::OrganizationalUnitName, "x")])),
        ("its name and an organisation", named(&[(DnType::CommonName, "c1"), (DnType::OrganizationName, "x")])),
        ("another common name", named(&[(DnType::CommonName, "c2")])),
        ("a common name that is no cluster's", named(&[(DnType::CommonName, "C1")])),
        (
            "two common names",
            csr(|params| {
                params.distinguished_name.push(DnType::CommonName, "c2");
                params.subject_alt_names = vec![uri(C1)];
            }),
        ),
    ]
}

fn greedy_for_rights() -> Vec<(&'static str, Vec<u8>)> {
    let custom = |oid: &[u64], content: &[u8]| {
        let extension = CustomExtension::from_oid_content(oid, content.to_vec());
        csr(|params| params.custom_extensions = vec![extension])
    };
    vec![
        ("to sign certificates", csr(|params| params.key_usages = vec![KeyUsagePurpose::KeyCertSign])),
        (
            "to encrypt, too",
            csr(|p| p.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyEncipherment]),
        ),
        ("to be a server", csr(|params| params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth])),
        (
            "to be a server, too",
            csr(|params| {
                params.extended_key_usages =
                    vec![ExtendedKeyUsagePurpose::ClientAuth, ExtendedKeyUsagePurpose::ServerAuth];
            }),
        ),
        ("to be anything", csr(|params| params.extended_key_usages = vec![ExtendedKeyUsagePurpose::Any])),
        ("name constraints", custom(&[2, 5, 29, 30], &[0x30, 0x00])),
        ("a longer life", custom(&[2, 5, 29, 16], &[0x30, 0x00])),
        ("an extension nobody knows", custom(&[1, 2, 3, 4], &[0x05, 0x00])),
        (
            "an extension twice",
            csr(|params| {
                params.is_ca = IsCa::ExplicitNoCa;
                let again = CustomExtension::from_oid_content(&[2, 5, 29, 19], vec![0x30, 0x03, 0x01, 0x01, 0xff]);
                params.custom_extensions = vec![again];
            }),
        ),
        (
            "a password",
            csr_with(vec![Attribute { oid: CHALLENGE_PASSWORD, values: set(&[vec![0x0c, 0x01, b'x']]) }], |_| {}),
        ),
        (
            "extensions twice",
            csr_with(vec![Attribute { oid: EXTENSION_REQUEST, values: set(&[ca_true()]) }], |params| {
                params.is_ca = IsCa::ExplicitNoCa;
            }),
        ),
        (
            "two sets of extensions in one",
            csr_with(
                vec![Attribute {
                    oid: EXTENSION_REQUEST,
                    values: set(&[extension_sequence(&[0x55, 0x1d, 0x13], &[0x30, 0x00]), ca_true()]),
                }],
                |_| {},
            ),
        ),
    ]
}

fn not_a_request() -> Vec<(&'static str, Vec<u8>)> {
    let mut spoilt = honest_csr();
    *spoilt.last_mut().unwrap() ^= 1;
    let mut longer = honest_csr();
    longer.push(0);
    let mut of_another_key = csr_of(&PKCS_ED25519);
    let other = csr_of(&PKCS_ED25519);
    // The last 64 bytes are the signature.
    let at = of_another_key.len() - 64;
    of_another_key[at..].copy_from_slice(&other[other.len() - 64..]);
    vec![
        ("an RSA key", csr_of(&PKCS_RSA_SHA256)),
        ("a P-521 key", csr_of(&PKCS_ECDSA_P521_SHA512)),
        ("a signature that is not its own", of_another_key),
        ("a signature that was spoilt", spoilt),
        ("bytes behind it", longer),
        ("nothing", Vec::new()),
        ("no request", b"no request".to_vec()),
        ("too much", vec![0x30; 9000]),
    ]
}

/// What asks for nothing else than an agent of c1 gets.
fn modest() -> Vec<(&'static str, Vec<u8>)> {
    vec![
        ("nothing", honest_csr()),
        ("its name", csr(|params| params.subject_alt_names = vec![uri(C1)])),
        ("its common name", named(&[(DnType::CommonName, "c1")])),
        ("all that it gets", {
            csr(|params| {
                params.distinguished_name.push(DnType::CommonName, "c1");
                params.subject_alt_names = vec![uri(C1)];
                params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
                params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
                params.is_ca = IsCa::ExplicitNoCa;
            })
        }),
        ("a P-384 key", csr_of(&PKCS_ECDSA_P384_SHA384)),
        ("an Ed25519 key", csr_of(&PKCS_ED25519)),
    ]
}

/// Checks that a certificate is what an agent of c1 gets, for `life` seconds.
fn check_certificate(what: &str, der: &[u8], life: i64) {
    let (rest, agent) = X509Certificate::from_der(der).unwrap();
    assert!(rest.is_empty());
    let names = agent.subject_alternative_name().unwrap().unwrap().value;
    assert_eq!(names.general_names, [GeneralName::URI(C1)], "{what}");
    let usage = agent.extended_key_usage().unwrap().unwrap().value;
    assert!(usage.client_auth && !usage.server_auth && !usage.any && usage.other.is_empty(), "{what}");
    assert_eq!(agent.key_usage().unwrap().unwrap().value.flags, 1, "{what}: digitalSignature alone");
    assert!(!agent.is_ca(), "{what}");
    assert_eq!(agent.subject().to_string(), "CN=c1", "{what}");
    let five_minutes = 300;
    let given = agent.validity().not_after.timestamp() - agent.validity().not_before.timestamp();
    assert_eq!(given, life + five_minutes, "{what}");
}

#[tokio::test]
async fn t25_enrolment_gives_no_more_than_the_cluster_gets() {
    let office = Office::open();
    let token = office.token("c1", 1);
    office.token("c2", 1);
    for (what, csr) in greedy() {
        let error = office.enrol(&token, csr).await.expect_err(what);
        assert!(matches!(error, EnrolError::Csr(_) | EnrolError::TokenOfAnotherCluster), "{what}: {error:?}");
        assert_eq!(office.used(token.id), 0, "{what}: the token is as it was");
        assert_eq!((office.serials("c1"), office.serials("c2")), (vec![], vec![]), "{what}: nothing was issued");
    }
    for (what, csr) in modest() {
        let token = office.token("c1", 1);
        let issued = office.enrol(&token, csr).await.unwrap_or_else(|error| panic!("{what}: {error}"));
        check_certificate(what, &issued.answer.certificate, 24 * 60 * 60);
        assert!(office.serials("c1").contains(&identity(&issued).serial), "{what}: it is listed");
    }
}

#[tokio::test]
async fn t25_renewal_gives_no_more_than_the_certificate_had() {
    let office = Office::open();
    office.token("c2", 1);
    let (_, agent) = office.agent("c1").await;
    for (what, csr) in greedy() {
        let error = office.renew(&agent, csr).expect_err(what);
        assert!(matches!(error, EnrolError::Csr(_) | EnrolError::RenewalForAnother), "{what}: {error:?}");
        assert_eq!(office.serials("c1"), [agent.serial.as_str()], "{what}: nothing was issued");
        assert_eq!(office.serials("c2"), [""; 0], "{what}: nothing was issued");
    }
    for (what, csr) in modest() {
        let issued = office.renew(&agent, csr).unwrap_or_else(|error| panic!("{what}: {error}"));
        check_certificate(what, &issued.answer.certificate, 24 * 60 * 60);
    }
}

#[tokio::test]
async fn t25_nobody_gets_a_longer_life() {
    let office = Office::open();
    let token = office.token("c1", 3);
    let day = 24 * 60 * 60;
    let ask =
        |lifetime_seconds| wire::EnrolRequest { lifetime_seconds, ..request(token.id, &token.secret, honest_csr()) };
    for longer in [day + 1, 365 * day, u64::MAX] {
        let error = office.enrolment.enrol(ask(longer)).await.unwrap_err();
        assert!(matches!(error, EnrolError::LifetimeTooLong), "{error:?}");
    }
    assert_eq!((office.used(token.id), office.serials("c1")), (0, vec![]));
    for (asked, given) in [(0, day), (60, 60), (day, day)] {
        let (issued, _) = office.enrolment.enrol(ask(asked)).await.unwrap();
        check_certificate("a life", &issued.answer.certificate, i64::try_from(given).unwrap());
        assert_eq!(issued.answer.lifetime_seconds, given);
        let agent = identity(&issued);
        let csr = honest_csr();
        let error = office.enrolment.renew(&agent, &wire::RenewRequest { csr, lifetime_seconds: day + 1 }).unwrap_err();
        assert!(matches!(error, EnrolError::LifetimeTooLong), "{error:?}");
    }
}

#[tokio::test]
async fn a_renewal_changes_dates_and_key_and_nothing_else() {
    let office = Office::open();
    let (first, agent) = office.agent("c1").await;
    office.clock.forward(16 * 60 * 60);
    let key = AgentKey::generate().unwrap();
    let second = office.renew(&agent, key.request(Some(&cluster("c1"))).unwrap()).unwrap();
    let parse = |der: &[u8]| {
        let der = CertificateDer::from(der.to_vec());
        let (_, parsed) = X509Certificate::from_der(&der).unwrap();
        let extensions: Vec<_> = parsed
            .extensions()
            .iter()
            // The id of the subject's key goes with the key.
            .filter(|extension| extension.oid.to_id_string() != "2.5.29.14")
            .map(|extension| (extension.oid.to_id_string(), extension.critical, extension.value.to_vec()))
            .collect();
        let validity = (parsed.validity().not_before.timestamp(), parsed.validity().not_after.timestamp());
        ((parsed.subject().to_string(), parsed.issuer().to_string(), extensions), validity)
    };
    let ((same, old), (also, new)) = (parse(&first.answer.certificate), parse(&second.answer.certificate));
    assert_eq!(same, also);
    assert_eq!((new.0 - old.0, new.1 - old.1), (16 * 60 * 60, 16 * 60 * 60));
    assert_ne!(first.serial, second.serial);
    assert_eq!(office.serials("c1"), [first.serial, second.serial], "the old one counts until it ends");
}
