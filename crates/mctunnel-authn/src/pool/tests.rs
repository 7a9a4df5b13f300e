//! A pool with certificates that an honest CA never signs.

use super::*;
use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
use time::OffsetDateTime;

struct Ca {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

fn ca(name: &str) -> Ca {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    Ca { pem: params.self_signed(&key).unwrap().pem(), issuer: Issuer::new(params, key) }
}

fn client(ca: &Ca, change: impl FnOnce(&mut CertificateParams)) -> ClientCertificate {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, "alice");
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    params.not_before = days(-10);
    params.not_after = days(10);
    change(&mut params);
    let key = KeyPair::generate().unwrap();
    ClientCertificate { chain: vec![params.signed_by(&key, &ca.issuer).unwrap().der().to_vec()] }
}

fn days(days: i64) -> OffsetDateTime {
    OffsetDateTime::from(SystemTime::now()) + time::Duration::days(days)
}

fn at(days: u64) -> SystemTime {
    SystemTime::now() + Duration::from_secs(days * 24 * 3600)
}

#[test]
fn the_dates_count_at_each_look_also_for_a_chain_that_is_remembered() {
    let ca = ca("ca");
    let pool = Pool::from_pem(ca.pem.as_bytes()).unwrap();
    let shown = client(&ca, |_| {});
    assert!(pool.verify(&shown, at(0)).is_ok());
    assert!(pool.verify(&shown, at(9)).is_ok());
    assert_eq!(pool.verify(&shown, at(11)).unwrap_err(), NotVerified::Bad(EXPIRED));
    let before = SystemTime::now() - Duration::from_secs(11 * 24 * 3600);
    assert_eq!(pool.verify(&shown, before).unwrap_err(), NotVerified::Bad(TOO_EARLY));
    assert!(pool.verify(&shown, at(0)).is_ok(), "and again");
}

#[test]
fn the_end_of_an_intermediate_is_the_end_of_what_it_signed() {
    let root = ca("root");
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, "intermediate");
    params.is_ca = IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    params.not_before = days(-1);
    params.not_after = days(2);
    let key = KeyPair::generate().unwrap();
    let der = params.signed_by(&key, &root.issuer).unwrap().der().to_vec();
    let middle = Ca { pem: String::new(), issuer: Issuer::new(params, key) };
    let mut shown = client(&middle, |_| {});
    shown.chain.push(der);
    let pool = Pool::from_pem(root.pem.as_bytes()).unwrap();
    assert!(pool.verify(&shown, at(1)).is_ok());
    assert_eq!(pool.verify(&shown, at(3)).unwrap_err(), NotVerified::Bad(EXPIRED));
}

#[test]
fn what_a_ca_of_the_same_name_signed_is_not_ours() {
    let (ours, theirs) = (ca("ca"), ca("ca"));
    let pool = Pool::from_pem(ours.pem.as_bytes()).unwrap();
    assert_eq!(pool.verify(&client(&theirs, |_| {}), at(0)).unwrap_err(), NotVerified::NotOurs);
    assert_eq!(pool.verify(&ClientCertificate { chain: vec![] }, at(0)).unwrap_err(), NotVerified::NotOurs);
}

#[test]
fn a_certificate_must_be_for_clients() {
    let ca = ca("ca");
    let pool = Pool::from_pem(ca.pem.as_bytes()).unwrap();
    for usages in [vec![], vec![ExtendedKeyUsagePurpose::ServerAuth]] {
        let shown = client(&ca, |params| params.extended_key_usages = usages);
        assert_eq!(pool.verify(&shown, at(0)).unwrap_err(), NotVerified::Bad(NOT_FOR_CLIENTS));
    }
}

#[test]
fn junk_is_no_certificate_and_no_pool() {
    let ca = ca("ca");
    let pool = Pool::from_pem(ca.pem.as_bytes()).unwrap();
    assert!(pool.verify(&ClientCertificate { chain: vec![vec![1, 2, 3]] }, at(0)).is_err());
    for junk in [&b""[..], b"not pem", b"-----BEGIN CERTIFICATE-----\nAQID\n-----END CERTIFICATE-----\n"] {
        assert!(Pool::from_pem(junk).is_err());
    }
}
