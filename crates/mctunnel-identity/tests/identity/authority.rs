//! The CA is made once, kept safe, and never replaced.

use crate::forge::{Forge, YEAR, cluster, days_from_now, read};
use mctunnel_identity::{HUB_SERVER_NAME, HubAuthority, IdentityError};
use rcgen::KeyPair;
use rustls_pki_types::{CertificateDer, pem::PemObject};
use std::{
    fs,
    net::IpAddr,
    os::unix::fs::PermissionsExt,
    path::Path,
    sync::Barrier,
    time::{Duration, SystemTime, UNIX_EPOCH},
};
use x509_parser::{
    extensions::GeneralName,
    prelude::{FromDer, X509Certificate},
};

const FILES: [&str; 4] = ["ca.pem", "ca.key", "server.pem", "server.key"];

fn open(dir: &Path) -> Result<HubAuthority, IdentityError> {
    HubAuthority::open_or_create(dir, &[])
}

fn open_named(dir: &Path, names: &[&str]) -> Result<HubAuthority, IdentityError> {
    let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
    HubAuthority::open_or_create(dir, &names)
}

fn contents(dir: &Path) -> [String; 4] {
    FILES.map(|file| read(dir, file))
}

fn write(dir: &Path, file: &str, content: &str) {
    fs::write(dir.join("pki").join(file), content).unwrap();
}

fn check(pem: &str, check: impl FnOnce(&X509Certificate<'_>)) {
    let der = CertificateDer::from_pem_slice(pem.as_bytes()).unwrap();
    check(&X509Certificate::from_der(&der).unwrap().1);
}

fn names(pem: &str) -> Vec<String> {
    let mut names = Vec::new();
    check(pem, |certificate| {
        let san = certificate.subject_alternative_name().unwrap().unwrap();
        names.extend(san.value.general_names.iter().filter_map(|name| {
            if let GeneralName::DNSName(name) = name {
                return Some((*name).to_owned());
            }
            let GeneralName::IPAddress(octets) = name else {
                return None;
            };
            match <[u8; 4]>::try_from(*octets) {
                Ok(v4) => Some(IpAddr::from(v4).to_string()),
                Err(_) => Some(IpAddr::from(<[u8; 16]>::try_from(*octets).unwrap()).to_string()),
            }
        }));
    });
    names
}

#[test]
fn opening_again_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let first = open(dir.path()).unwrap();
    let written = contents(dir.path());
    let second = open(dir.path()).unwrap();
    assert_eq!(first.ca_pem(), second.ca_pem());
    assert_eq!(written, contents(dir.path()));
    assert_eq!(first.ca_pem(), written[0]);
}

#[test]
fn only_the_owner_may_read_the_keys() {
    let dir = tempfile::tempdir().unwrap();
    open_named(dir.path(), &["a.example"]).unwrap();
    open_named(dir.path(), &["b.example"]).unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    let pki = dir.path().join("pki");
    assert_eq!(mode(&pki), 0o700);
    for file in FILES {
        assert_eq!(mode(&pki.join(file)), 0o600, "{file}");
    }
}

#[test]
fn nobody_else_can_hold_the_lock_of_the_ca() {
    let dir = tempfile::tempdir().unwrap();
    let lock = dir.path().join("pki.lock");
    let mode = || fs::metadata(&lock).unwrap().permissions().mode() & 0o7777;
    open(dir.path()).unwrap();
    assert_eq!(mode(), 0o600);
    // A restored backup left it open to everybody: whoever may open it could lock the hub out of its own CA.
    fs::set_permissions(&lock, fs::Permissions::from_mode(0o666)).unwrap();
    open(dir.path()).unwrap();
    assert_eq!(mode(), 0o600);
}

#[test]
fn many_who_open_at_once_get_one_authority() {
    let dir = tempfile::tempdir().unwrap();
    let start = Barrier::new(8);
    let authorities: Vec<String> = std::thread::scope(|scope| {
        let open = || {
            start.wait();
            open(dir.path()).unwrap().ca_pem().to_owned()
        };
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(open)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let written = read(dir.path(), "ca.pem");
    assert!(authorities.iter().all(|ca| *ca == written));
    let mut left: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["pki", "pki.lock"], "nothing but the authority is left behind");
}

#[test]
fn a_creation_that_was_interrupted_is_begun_again() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("pki.new")).unwrap();
    fs::write(dir.path().join("pki.new/ca.key"), "half").unwrap();
    open(dir.path()).unwrap();
    open(dir.path()).unwrap();
    assert!(!dir.path().join("pki.new").exists());
}

#[test]
fn an_incomplete_set_is_an_error_and_stays_as_it_is() {
    for missing in FILES {
        let dir = tempfile::tempdir().unwrap();
        open(dir.path()).unwrap();
        fs::remove_file(dir.path().join("pki").join(missing)).unwrap();
        let error = open(dir.path()).unwrap_err();
        assert!(matches!(&error, IdentityError::PkiIncomplete { missing: m, .. } if m == missing), "{error:?}");
        assert_eq!(error.code().code, "MCT-IDENTITY-PKI-INCOMPLETE");
        assert!(!dir.path().join("pki").join(missing).exists());
    }
}

#[test]
fn a_damaged_file_is_an_error_and_stays_as_it_is() {
    for damaged in FILES {
        let dir = tempfile::tempdir().unwrap();
        open(dir.path()).unwrap();
        for garbage in ["", "garbage", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"] {
            write(dir.path(), damaged, garbage);
            let error = open(dir.path()).unwrap_err();
            assert!(matches!(&error, IdentityError::PkiUnusable { path, .. } if path.ends_with(damaged)), "{error:?}");
            assert_eq!(read(dir.path(), damaged), garbage);
        }
    }
}

#[test]
fn files_of_two_authorities_do_not_mix() {
    let other = tempfile::tempdir().unwrap();
    open(other.path()).unwrap();
    for swapped in FILES {
        let dir = tempfile::tempdir().unwrap();
        open(dir.path()).unwrap();
        write(dir.path(), swapped, &read(other.path(), swapped));
        let error = open(dir.path()).unwrap_err();
        assert!(matches!(error, IdentityError::PkiMismatch { .. }), "{swapped}: {error:?}");
    }
    // A server certificate of the right key and issuer name, but signed by another CA.
    let dir = tempfile::tempdir().unwrap();
    open(dir.path()).unwrap();
    let mut subject = String::new();
    check(&read(dir.path(), "ca.pem"), |ca| subject = common_name(ca));
    let key = KeyPair::from_pem(&read(dir.path(), "server.key")).unwrap();
    write(dir.path(), "server.pem", &Forge::new(&subject).server_with_key(key, |_| {}).pem);
    assert!(matches!(open(dir.path()), Err(IdentityError::PkiMismatch { .. })));
}

#[test]
fn a_key_that_everybody_may_read_is_an_error() {
    for key in ["ca.key", "server.key"] {
        let dir = tempfile::tempdir().unwrap();
        open(dir.path()).unwrap();
        let path = dir.path().join("pki").join(key);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        let error = open(dir.path()).unwrap_err();
        assert!(error.to_string().contains(&format!("chmod 600 {}", path.display())), "{error}");
    }
}

#[test]
fn the_server_certificate_is_renewed_when_it_ends_soon() {
    for (days, renewed) in [(-1, true), (29, true), (31, false)] {
        let dir = tempfile::tempdir().unwrap();
        open(dir.path()).unwrap();
        let key = KeyPair::from_pem(&read(dir.path(), "server.key")).unwrap();
        let old = Forge::steal(dir.path()).server_with_key(key, |params| {
            params.not_before = days_from_now(-100);
            params.not_after = days_from_now(days);
        });
        write(dir.path(), "server.pem", &old.pem);
        let before = contents(dir.path());

        open(dir.path()).unwrap();

        let after = contents(dir.path());
        assert_eq!(before[2] != after[2], renewed, "{days} days left");
        assert_eq!((&before[..2], &before[3]), (&after[..2], &after[3]), "all else is kept");
        assert!(open(dir.path()).is_ok());
    }
}

#[test]
fn the_server_certificate_has_the_names_it_was_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    open(dir.path()).unwrap();
    let plain = read(dir.path(), "server.pem");
    for name in [HUB_SERVER_NAME, "localhost", "127.0.0.1", "::1"] {
        assert!(names(&plain).iter().any(|n| n == name), "{name} in {:?}", names(&plain));
    }
    check(&plain, |server| {
        let usage = server.extended_key_usage().unwrap().unwrap().value;
        assert!(usage.server_auth && !usage.client_auth && !usage.any);
        assert!(!server.is_ca());
    });
    open_named(dir.path(), &["Hub.Example.com", "192.0.2.7", "2001:db8::7"]).unwrap();
    let extended = read(dir.path(), "server.pem");
    for name in ["hub.example.com", "192.0.2.7", "2001:db8::7", HUB_SERVER_NAME] {
        assert!(names(&extended).iter().any(|n| n == name), "{name} in {:?}", names(&extended));
    }
    open_named(dir.path(), &["192.0.2.7"]).unwrap();
    open(dir.path()).unwrap();
    assert_eq!(extended, read(dir.path(), "server.pem"), "names it has already are no reason to issue it anew");
    for bad in ["", "https://hub", "hub:8443", "a b", "*", "-x"] {
        assert!(matches!(open_named(dir.path(), &[bad]), Err(IdentityError::InvalidName(_))), "{bad:?}");
    }
}

#[test]
fn the_authority_may_sign_leaves_and_do_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let hub = open(dir.path()).unwrap();
    check(hub.ca_pem(), |ca| {
        let constraints = ca.basic_constraints().unwrap().unwrap();
        assert!(constraints.critical && constraints.value.ca);
        assert_eq!(constraints.value.path_len_constraint, Some(0));
        assert_eq!(ca.key_usage().unwrap().unwrap().value.flags, 1 << 5, "keyCertSign alone");
        let years = (ca.validity().not_after.timestamp() - now()) / (365 * 24 * 60 * 60);
        assert!((9..=10).contains(&years), "{years}");
        assert!(common_name(ca).starts_with("mctunnel hub CA "));
    });
}

#[test]
fn an_agents_certificate_has_what_it_needs_and_no_more() {
    let dir = tempfile::tempdir().unwrap();
    let hub = open(dir.path()).unwrap();
    let issued = hub.issue_agent(&cluster("cluster-a"), YEAR).unwrap();
    check(&issued.certificate_pem, |agent| {
        let san = agent.subject_alternative_name().unwrap().unwrap().value;
        assert_eq!(san.general_names, [GeneralName::URI("spiffe://mctunnel/cluster/cluster-a")]);
        let usage = agent.extended_key_usage().unwrap().unwrap().value;
        assert!(usage.client_auth && !usage.server_auth && !usage.any && usage.other.is_empty());
        let constraints = agent.basic_constraints().unwrap().unwrap().value;
        assert!(!constraints.ca);
        assert_eq!(common_name(agent), "cluster-a");
        assert_eq!(agent.validity().not_after.timestamp(), issued.not_after_unix);
        let lasts = agent.validity().not_after.timestamp() - agent.validity().not_before.timestamp();
        assert_eq!(lasts, 365 * 24 * 60 * 60 + 300);
        let digits: String = agent.raw_serial().iter().map(|b| format!("{b:02x}")).collect();
        assert_eq!(digits.trim_start_matches("00"), issued.serial.trim_start_matches("00"));
    });
    assert!((issued.not_after_unix - now() - 365 * 24 * 60 * 60).abs() < 60);
    assert!(issued.serial.len() <= 32 && issued.serial.bytes().all(|b| b.is_ascii_digit() || b.is_ascii_lowercase()));
    let again = hub.issue_agent(&cluster("cluster-a"), YEAR).unwrap();
    assert_ne!(issued.serial, again.serial);
    assert_ne!(issued.key_pem, again.key_pem);
    for lifetime in [Duration::ZERO, Duration::from_millis(999), Duration::from_secs(1 << 40), Duration::MAX] {
        assert!(matches!(hub.issue_agent(&cluster("a"), lifetime), Err(IdentityError::InvalidLifetime)));
    }
}

#[test]
fn nothing_prints_a_key() {
    let dir = tempfile::tempdir().unwrap();
    let hub = open(dir.path()).unwrap();
    let issued = hub.issue_agent(&cluster("a"), YEAR).unwrap();
    let printed = format!("{hub:?} {issued:?}");
    for pem in [read(dir.path(), "ca.key"), read(dir.path(), "server.key"), issued.key_pem.expose().to_owned()] {
        let line = pem.lines().nth(1).unwrap();
        assert!(!printed.contains(line));
    }
    assert!(!printed.contains("PRIVATE KEY"));
}

fn common_name(certificate: &X509Certificate<'_>) -> String {
    certificate.subject().iter_common_name().next().unwrap().as_str().unwrap().to_owned()
}

fn now() -> i64 {
    i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()).unwrap()
}

#[test]
fn who_opens_an_authority_that_is_not_there_makes_none() {
    let dir = tempfile::tempdir().unwrap();
    for place in [dir.path().to_owned(), dir.path().join("typo")] {
        let opened = HubAuthority::at(&place).open();
        assert!(matches!(&opened, Err(IdentityError::NoAuthority { data_dir }) if *data_dir == place), "{opened:?}");
        assert!(HubAuthority::at(&place).is_new().unwrap());
    }
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "nothing was made");
    let made = HubAuthority::open_or_create(dir.path(), &["hub.example.com".to_owned()]).unwrap();
    assert!(!HubAuthority::at(dir.path()).is_new().unwrap());
    let server = fs::read(dir.path().join("pki/server.pem")).unwrap();
    let opened = HubAuthority::at(dir.path()).open().unwrap();
    assert_eq!(opened.pin(), made.pin());
    assert_eq!(fs::read(dir.path().join("pki/server.pem")).unwrap(), server, "with the names it has");
}
