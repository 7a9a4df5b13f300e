//! A CA is changed with an overlap, the hub's certificate is renewed while it runs, and no crash leaves half of either.

use crate::{
    forge::{Forge, cluster},
    office::{HOUR, Office, honest_csr},
};
use mctunnel_identity::{
    AgentKey, AgentStore, CaPin, EnrolledAgent, Enrolment, HUB_SERVER_NAME, HubAuthority, IdentityError, IssuedBy,
    SharedClock,
};
use rustls::{ClientConfig, ServerConfig};
use rustls_pki_types::{CertificateDer, ServerName, pem::PemObject};
use std::{fs, os::unix::fs::PermissionsExt, path::Path, sync::Arc};
use tokio_rustls::{TlsAcceptor, TlsConnector};
use x509_parser::prelude::{FromDer, X509Certificate};

/// Whether both ends get through a handshake; if so, the certificates the hub showed.
pub(crate) async fn shake(hub: Arc<ServerConfig>, agent: Arc<ClientConfig>) -> Option<Vec<CertificateDer<'static>>> {
    let (hub_end, agent_end) = tokio::io::duplex(64 * 1024);
    let name = ServerName::try_from(HUB_SERVER_NAME).unwrap();
    let accepted = TlsAcceptor::from(hub).accept(hub_end);
    let connected = TlsConnector::from(agent).connect(name, agent_end);
    let (accepted, connected) = tokio::join!(accepted, connected);
    accepted.ok()?;
    let shown = connected.ok()?.get_ref().1.peer_certificates().unwrap().to_vec();
    Some(shown.into_iter().map(CertificateDer::into_owned).collect())
}

fn files(dir: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn not_after(der: &[u8]) -> i64 {
    X509Certificate::from_der(der).unwrap().1.validity().not_after.timestamp()
}

/// An agent that has enrolled at the office.
async fn agent(office: &Office, name: &str) -> EnrolledAgent {
    let token = office.token(name, 1);
    let key = AgentKey::generate().unwrap();
    let issued = office.enrol(&token, key.request(None).unwrap()).await.unwrap();
    EnrolledAgent::enrolled(&token, &key, &issued.answer, &office.shared_clock()).unwrap()
}

fn renew(office: &Office, agent: &EnrolledAgent) -> EnrolledAgent {
    let key = AgentKey::generate().unwrap();
    let identity = agent.bundle.certificate().unwrap();
    let issued = office.renew(&identity, key.request(None).unwrap()).unwrap();
    agent.renewed(&key, &issued.answer, &office.shared_clock()).unwrap()
}

async fn gets_in(office: &Office, agent: &EnrolledAgent) -> bool {
    let config = agent.bundle.client_config_at(&office.shared_clock()).unwrap();
    shake(office.authority.server_config().unwrap(), config).await.is_some()
}

#[tokio::test]
async fn t47_a_new_ca_overlaps_the_old_one() {
    let office = Office::open();
    let old_token = office.token("c3", 1);
    let before = agent(&office, "c1").await;
    let never_renews = agent(&office, "c2").await;
    let old = office.authority.pin();

    // Another process says so; this one looks.
    let rotation = HubAuthority::open_or_create(office.dir.path(), &[]).unwrap().rotate().unwrap();
    assert_eq!(rotation.old, old);
    assert_eq!(office.pins(), [old], "nothing changed here yet");
    assert!(office.authority.reload().unwrap());
    assert!(!office.authority.reload().unwrap(), "once");
    assert_eq!(office.pins(), [rotation.old, rotation.new]);
    assert_eq!(office.authority.rotation(), Some(rotation));
    assert_eq!(office.authority.pin(), old, "tokens pin what the hub shows");

    // In the overlap everybody gets in: before, enrolled with an old token, enrolled with a new one, renewed.
    let key = AgentKey::generate().unwrap();
    let issued = office.enrol(&old_token, key.request(None).unwrap()).await.unwrap();
    let by_old_token = EnrolledAgent::enrolled(&old_token, &key, &issued.answer, &office.shared_clock()).unwrap();
    let by_new_token = agent(&office, "c4").await;
    let renewed = renew(&office, &before);
    for (what, agent) in
        [("before", &before), ("old token", &by_old_token), ("new token", &by_new_token), ("renewed", &renewed)]
    {
        assert!(gets_in(&office, agent).await, "{what}");
    }
    let config = EnrolledAgent::enrol_config(&old_token, &office.shared_clock()).unwrap();
    assert!(shake(office.authority.enrol_config(), config).await.is_some(), "the old pin is still shown");
    assert_eq!(office.clusters.in_need_of(&old).unwrap(), [cluster("c2")], "who must renew before the old one goes");

    office.authority.retire().unwrap();

    assert_eq!((office.pins(), office.authority.rotation()), (vec![rotation.new], None));
    for (what, agent) in [("old token", &by_old_token), ("new token", &by_new_token), ("renewed", &renewed)] {
        assert!(gets_in(&office, agent).await, "{what}");
        assert!(gets_in(&office, &renew(&office, agent)).await, "{what}, renewed");
    }
    for (what, agent) in [("before", &before), ("never renews", &never_renews)] {
        assert!(!gets_in(&office, agent).await, "{what}: the old CA counts no more");
    }
    let config = EnrolledAgent::enrol_config(&old_token, &office.shared_clock()).unwrap();
    assert!(shake(office.authority.enrol_config(), config).await.is_none(), "nor does its pin");
    assert_eq!(files(&office.dir.path().join("pki")), ["ca.key", "ca.pem", "server.key", "server.pem"]);
    let again = HubAuthority::open_or_create(office.dir.path(), &[]).unwrap();
    assert_eq!(again.pin(), rotation.new);
}

#[test]
fn a_change_is_begun_and_ended_once() {
    let office = Office::open();
    assert!(matches!(office.authority.retire(), Err(IdentityError::NoRotation)));
    office.authority.rotate().unwrap();
    assert!(matches!(office.authority.rotate(), Err(IdentityError::RotationUnderWay)));
    let next = office.dir.path().join("pki/next-ca.key");
    assert_eq!(fs::metadata(next).unwrap().permissions().mode() & 0o7777, 0o600);
    office.authority.retire().unwrap();
    assert!(matches!(office.authority.retire(), Err(IdentityError::NoRotation)));
    office.authority.rotate().unwrap();
}

#[test]
fn the_next_ca_is_whole_or_an_error() {
    for missing in ["next-ca.pem", "next-ca.key"] {
        let office = Office::open();
        office.authority.rotate().unwrap();
        fs::remove_file(office.dir.path().join("pki").join(missing)).unwrap();
        let error = office.authority.reload().unwrap_err();
        assert!(matches!(&error, IdentityError::PkiIncomplete { missing: m, .. } if m == missing), "{error:?}");
        assert_eq!(office.pins().len(), 2, "what was read before still counts");
    }
}

/// A copy of a directory and all below it.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

#[test]
fn a_change_that_was_interrupted_is_brought_to_its_end_or_never_began() {
    let office = Office::open();
    let (before, new) = (tempfile::tempdir().unwrap(), office.authority.rotate().unwrap().new);
    copy(&office.dir.path().join("pki"), &before.path().join("pki"));
    office.authority.retire().unwrap();
    let after = |name: &str| fs::read(office.dir.path().join("pki").join(name)).unwrap();
    let names = ["ca.pem", "ca.key", "server.pem"];
    // After the decision, with 0 to 3 of the files moved and 0 to 2 removed.
    for moved in 0..=names.len() {
        for removed in 0..=2 {
            if removed > 0 && moved < names.len() {
                continue;
            }
            let dir = tempfile::tempdir().unwrap();
            copy(before.path(), dir.path());
            let decided = dir.path().join("pki.change");
            fs::create_dir(&decided).unwrap();
            fs::write(decided.join("remove"), "next-ca.key\nnext-ca.pem").unwrap();
            for (at, name) in names.iter().enumerate() {
                let place = if at < moved { dir.path().join("pki") } else { decided.clone() };
                fs::write(place.join(name), after(name)).unwrap();
                fs::set_permissions(place.join(name), fs::Permissions::from_mode(0o600)).unwrap();
            }
            for name in ["next-ca.pem", "next-ca.key"].iter().take(removed) {
                fs::remove_file(dir.path().join("pki").join(name)).unwrap();
            }
            let opened = HubAuthority::open_or_create(dir.path(), &[]).unwrap();
            assert_eq!(opened.pin(), new, "{moved} moved, {removed} removed");
            assert_eq!(files(dir.path()), ["pki", "pki.lock"]);
            assert_eq!(files(&dir.path().join("pki")), ["ca.key", "ca.pem", "server.key", "server.pem"]);
        }
    }
    // Before the decision.
    let staging = before.path().join("pki.change.new");
    fs::create_dir(&staging).unwrap();
    fs::write(staging.join("ca.key"), "half").unwrap();
    let opened = HubAuthority::open_or_create(before.path(), &[]).unwrap();
    assert_eq!(opened.rotation().unwrap().new, new);
    opened.retire().unwrap();
    assert_eq!(files(before.path()), ["pki", "pki.lock"]);
}

#[tokio::test]
async fn the_old_ca_goes_by_itself_when_nothing_needs_it_any_more() {
    let office = Office::open();
    let before = agent(&office, "c1").await;
    let enrolment = |office: &Office| {
        Enrolment::new(&office.authority, Arc::new(office.clusters.clone()))
            .with_join_tokens(Arc::new(office.tokens.clone()))
            .retiring_by_itself()
    };
    assert!(!enrolment(&office).retire_if_due().unwrap(), "there is only one");
    office.authority.rotate().unwrap();
    office.clock.forward(16 * HOUR);
    renew(&office, &before);
    assert!(!enrolment(&office).retire_if_due().unwrap(), "the certificate before has not ended");
    office.token_with("c2", |new| new.ttl = std::time::Duration::from_secs(10 * 3600));
    office.clock.forward(9 * HOUR);
    assert!(!enrolment(&office).retire_if_due().unwrap(), "a token pins it");
    office.clock.forward(2 * HOUR);
    assert!(!office.enrolment.retire_if_due().unwrap(), "nobody said that there are no clients who know the hub by it");
    assert!(enrolment(&office).retire_if_due().unwrap());
    assert_eq!(office.authority.rotation(), None);

    // A serial of which nothing is known may be of any CA.
    office.clusters.add(&cluster("c3"), "01", false).unwrap();
    office.authority.rotate().unwrap();
    office.clock.forward(1000 * 24 * HOUR);
    assert!(!enrolment(&office).retire_if_due().unwrap());
}

#[test]
fn t47_a_cluster_of_the_operators_ca_needs_the_old_one_until_somebody_says_otherwise() {
    let office = Office::open();
    // Its agent knows the hub by a file that somebody gave it; whether that has the new CA cannot be seen from here.
    office.clusters.allow_own_ca(&cluster("c1")).unwrap();
    let old = office.authority.rotate().unwrap().old;
    assert_eq!(office.clusters.in_need_of(&old).unwrap(), [cluster("c1")]);
    office.clock.forward(1000 * 24 * HOUR);
    let enrolment = Enrolment::new(&office.authority, Arc::new(office.clusters.clone())).retiring_by_itself();
    assert!(!enrolment.retire_if_due().unwrap(), "its agent would be shut out");
    office.clusters.revoke(&cluster("c1")).unwrap();
    assert!(office.clusters.in_need_of(&old).unwrap().is_empty());
    assert!(enrolment.retire_if_due().unwrap());
}

#[test]
fn t47_the_file_that_clients_are_given_has_both_cas_in_the_overlap() {
    let office = Office::open();
    let path = office.dir.path().join("pki/ca.pem");
    let pins = || {
        let read = CertificateDer::pem_file_iter(&path).unwrap();
        read.map(|ca| CaPin::of(&ca.unwrap()).unwrap()).collect::<Vec<_>>()
    };
    let rotation = office.authority.rotate().unwrap();
    assert_eq!(pins(), [rotation.old, rotation.new]);
    assert_eq!(office.pins(), pins());
    let again = HubAuthority::open_or_create(office.dir.path(), &[]).unwrap();
    assert_eq!(again.ca_pem(), fs::read_to_string(&path).unwrap(), "each once");
    office.authority.retire().unwrap();
    assert_eq!(pins(), [rotation.new]);
}

#[tokio::test]
async fn the_hubs_certificate_is_renewed_while_it_runs() {
    let office = Office::open();
    let enrolled = agent(&office, "c1").await;
    let shown = |office: &Office| {
        let clock: SharedClock = office.clock.clone();
        let token = office.token("c9", 1);
        let config = EnrolledAgent::enrol_config(&token, &clock).unwrap();
        shake(office.authority.enrol_config(), config)
    };
    let first = shown(&office).await.unwrap();
    office.clock.forward(334 * 24 * HOUR);
    assert!(!office.authority.reload().unwrap(), "it has more than 30 days");
    office.clock.forward(2 * 24 * HOUR);
    assert!(office.authority.reload().unwrap());
    let second = shown(&office).await.unwrap();
    assert_ne!(first[0], second[0]);
    assert_eq!(first[1], second[1], "the CA stays");
    assert!(not_after(&second[0]) - not_after(&first[0]) > 330 * 24 * HOUR);
    // Long after the first has ended, agents still know the hub.
    office.clock.forward(60 * 24 * HOUR);
    let fresh = office.authority.issue_agent(&enrolled.bundle.cluster, std::time::Duration::from_secs(60)).unwrap();
    let bundle = mctunnel_identity::JoinBundle {
        certificate_pem: fresh.certificate_pem,
        key_pem: fresh.key_pem,
        ..enrolled.bundle
    };
    let config = bundle.client_config_at(&office.shared_clock()).unwrap();
    assert!(shake(office.authority.server_config().unwrap(), config).await.is_some());
}

#[tokio::test]
async fn clients_of_the_gateway_see_the_renewed_certificate_too() {
    let office = Office::open();
    let config = office.authority.gateway_config().unwrap();
    let visit = |config: &Arc<ServerConfig>| {
        let mut roots = rustls::RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(office.authority.ca_pem().as_bytes()).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let client = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        shake(Arc::clone(config), Arc::new(client.with_root_certificates(roots).with_no_client_auth()))
    };
    let first = visit(&config).await.unwrap();
    // A name more; another process has it.
    HubAuthority::open_or_create(office.dir.path(), &["hub.example.com".to_owned()]).unwrap();
    assert_eq!(visit(&config).await.unwrap(), first);
    assert!(office.authority.reload().unwrap());
    assert_ne!(visit(&config).await.unwrap(), first);
}

#[test]
fn two_hubs_with_other_names_do_not_take_the_certificate_from_each_other() {
    let dir = tempfile::tempdir().unwrap();
    let open = |name: &str| HubAuthority::open_or_create(dir.path(), &[name.to_owned()]).unwrap();
    let (a, b) = (open("a.example"), open("b.example"));
    let written = fs::read(dir.path().join("pki/server.pem")).unwrap();
    for _ in 0..3 {
        a.reload().unwrap();
        b.reload().unwrap();
    }
    assert_eq!(fs::read(dir.path().join("pki/server.pem")).unwrap(), written);
    // Whoever ends a change of CAs keeps the names, though it was not told them.
    let other = HubAuthority::open_or_create(dir.path(), &[]).unwrap();
    other.rotate().unwrap();
    other.retire().unwrap();
    let der = CertificateDer::from_pem_slice(&fs::read(dir.path().join("pki/server.pem")).unwrap()).unwrap();
    let (_, server) = X509Certificate::from_der(&der).unwrap();
    let names = format!("{:?}", server.subject_alternative_name().unwrap().unwrap().value.general_names);
    assert!(names.contains("b.example") && names.contains(HUB_SERVER_NAME), "{names}");
}

#[test]
fn files_that_cannot_be_used_leave_what_was_read_before() {
    let office = Office::open();
    let pin = office.authority.pin();
    let path = office.dir.path().join("pki/ca.pem");
    let good = fs::read(&path).unwrap();
    fs::write(&path, "garbage").unwrap();
    assert!(matches!(office.authority.reload(), Err(IdentityError::PkiUnusable { .. })));
    assert_eq!(office.authority.pin(), pin);
    assert!(office.authority.server_config().is_ok());
    fs::write(&path, good).unwrap();
    assert!(!office.authority.reload().unwrap(), "the same as before");
}

#[test]
fn a_running_hub_makes_no_new_ca_when_its_files_are_gone() {
    let office = Office::open();
    let pin = office.authority.pin();
    let (here, gone) = (office.dir.path().join("pki"), office.dir.path().join("gone"));
    fs::rename(&here, &gone).unwrap();
    assert!(matches!(office.authority.reload(), Err(IdentityError::PkiIncomplete { .. })));
    assert!(matches!(office.authority.rotate(), Err(IdentityError::PkiIncomplete { .. })));
    assert!(!here.exists());
    assert_eq!(office.authority.pin(), pin, "what was read before still counts");
    fs::rename(&gone, &here).unwrap();
    assert!(!office.authority.reload().unwrap());
}

#[test]
fn locks_are_of_their_owner_alone() {
    let dir = tempfile::tempdir().unwrap();
    let lock = dir.path().join("pki.lock");
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    HubAuthority::open_or_create(dir.path(), &[]).unwrap();
    assert_eq!(mode(&lock), 0o600);
    // Whoever may write to it may hold it, and with it every hub and every command.
    fs::set_permissions(&lock, fs::Permissions::from_mode(0o666)).unwrap();
    HubAuthority::open_or_create(dir.path(), &[]).unwrap();
    assert_eq!(mode(&lock), 0o600);
    let clusters = mctunnel_identity::ClusterFiles::new(dir.path());
    clusters.ensure(&cluster("c1")).unwrap();
    assert_eq!(mode(&dir.path().join("clusters.lock")), 0o600);
}

#[tokio::test]
async fn an_agent_keeps_its_identity_whole_and_to_itself() {
    let office = Office::open();
    let home = tempfile::tempdir().unwrap();
    let store = AgentStore::new(&home.path().join("data")).with_clock(office.shared_clock());
    assert_eq!(store.load().unwrap(), None);
    let (first, again) = (store.pending_key().unwrap(), store.pending_key().unwrap());
    assert_eq!(identity_of(&first), identity_of(&again), "the same key until it has an answer");

    let enrolled = agent(&office, "c1").await;
    store.save(&enrolled).unwrap();

    assert_eq!(store.load().unwrap().unwrap(), enrolled);
    assert_eq!(store.token().unwrap(), enrolled.by.token());
    assert!(store.token().unwrap().is_some());
    assert_eq!(files(&home.path().join("data")), ["identity.json"], "the key is in it, and nowhere else");
    let path = home.path().join("data/identity.json");
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    assert_eq!((mode(&path), mode(&home.path().join("data"))), (0o600, 0o700));
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    assert!(matches!(store.load(), Err(IdentityError::FileExposed { .. })));
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();

    let good = fs::read_to_string(&path).unwrap();
    let key = enrolled.bundle.key_pem.expose().lines().nth(1).unwrap();
    for bad in [
        "",
        "{}",
        &good.replace("\"version\": 1", "\"version\": 2"),
        &good.replace("c1", "c2"),
        &good.replace("token", "tok"),
    ] {
        fs::write(&path, bad).unwrap();
        let error = store.load().unwrap_err();
        assert!(matches!(error, IdentityError::StoreInvalid { .. }), "{error:?}");
        assert!(!format!("{error} {error:?}").contains(key));
    }
    fs::write(&path, &good).unwrap();
    office.clock.forward(25 * HOUR);
    assert!(matches!(store.load(), Err(IdentityError::BundleExpired { .. })));
    assert_eq!(store.enrolled_by().unwrap(), Some(enrolled.by), "it is still known which token it was");
    assert!(!format!("{enrolled:?} {first:?}").contains(key));
}

fn identity_of(key: &AgentKey) -> Vec<u8> {
    let csr = key.request(None).unwrap();
    let (_, csr) = x509_parser::certification_request::X509CertificationRequest::from_der(&csr).unwrap();
    csr.certification_request_info.subject_pki.raw.to_vec()
}

#[tokio::test]
async fn an_agent_takes_no_certificate_of_another_key_or_cluster() {
    let office = Office::open();
    let enrolled = agent(&office, "c1").await;
    let (other, _) = office.agent("c2").await;
    let key = AgentKey::generate().unwrap();
    let clock = office.shared_clock();
    let error = enrolled.renewed(&key, &other.answer, &clock).unwrap_err();
    assert!(error.to_string().contains("for c2, not for c1"), "{error}");
    let issued = office.renew(&enrolled.bundle.certificate().unwrap(), honest_csr()).unwrap();
    assert!(enrolled.renewed(&key, &issued.answer, &clock).is_err(), "the key of another");
    let mut answer = office.renew(&enrolled.bundle.certificate().unwrap(), key.request(None).unwrap()).unwrap().answer;
    assert!(enrolled.renewed(&key, &answer, &clock).is_ok());
    answer.authorities = vec![answer.certificate.clone()];
    assert!(enrolled.renewed(&key, &answer, &clock).is_err(), "a CA that is none");
    answer.authorities = Vec::new();
    assert!(enrolled.renewed(&key, &answer, &clock).is_err(), "no CA");
}

#[tokio::test]
async fn renewal_is_due_at_two_thirds_of_the_life() {
    let office = Office::open();
    let enrolled = agent(&office, "c1").await;
    let day = 24 * HOUR;
    let at = |random| enrolled.renew_at_unix(random) - enrolled.obtained_unix;
    assert_eq!(at(0.5), day * 2 / 3);
    assert_eq!((at(0.0), at(1.0)), (day * 37 / 60, day * 43 / 60));
    assert_eq!((at(-5.0), at(5.0)), (at(0.0), at(1.0)));
}

#[tokio::test]
async fn t23_a_certificate_of_the_operators_ca_is_never_taken_for_one_of_the_hubs() {
    let own = Forge::new("the operator's CA");
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("agent-ca.pem");
    fs::write(&file, &own.ca_pem).unwrap();
    let authority = HubAuthority::at(dir.path()).agent_ca(&file).open_or_create().unwrap();
    let of_own = own.agent(|_| {});
    let hub = authority.issue_agent(&cluster("c1"), crate::forge::YEAR).unwrap();
    let of_hub = CertificateDer::from_pem_slice(hub.certificate_pem.as_bytes()).unwrap();
    assert!(authority.is_of_own_ca(std::slice::from_ref(&of_own.der)));
    assert!(!authority.is_of_own_ca(std::slice::from_ref(&of_hub)));
    // With the other's CA shown behind it.
    let hub_ca = authority.authorities().remove(0);
    assert!(authority.is_of_own_ca(&[of_own.der.clone(), hub_ca]));
    let own_ca = CertificateDer::from_pem_slice(own.ca_pem.as_bytes()).unwrap();
    assert!(!authority.is_of_own_ca(&[of_hub, own_ca]));

    // Both get through TLS; another CA does not. A file that changes is followed, one that is no CA is not.
    let bundle = crate::forge::bundle(&authority, "c1");
    let own_bundle = |forged: crate::forge::Forged| mctunnel_identity::JoinBundle {
        certificate_pem: forged.pem.clone(),
        key_pem: mctunnel_core::Secret::new(forged.key.serialize_pem()),
        ..bundle.clone()
    };
    let get_in = async |forged| {
        let config = own_bundle(forged).client_config().unwrap();
        shake(authority.server_config().unwrap(), config).await.is_some()
    };
    let next = Forge::new("the next one");
    assert!(get_in(own.agent(|_| {})).await);
    assert!(!get_in(next.agent(|_| {})).await);
    fs::write(&file, &next.ca_pem).unwrap();
    assert!(authority.reload().unwrap());
    assert!(!get_in(own.agent(|_| {})).await);
    assert!(get_in(next.agent(|_| {})).await);
    fs::write(&file, &next.agent(|_| {}).pem).unwrap();
    assert!(matches!(authority.reload(), Err(IdentityError::AgentCaUnusable { .. })));
    assert!(get_in(next.agent(|_| {})).await);
    assert_eq!(CaPin::parse(&authority.pin().to_string()), Some(authority.pin()));
}

/// The last message of a handshake may come late: what was shown is judged as it was when the handshake began.
#[tokio::test]
async fn t23_a_change_of_cas_during_a_handshake_makes_no_certificate_the_operators() {
    let own = Forge::new("the operator's CA");
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("agent-ca.pem");
    fs::write(&file, &own.ca_pem).unwrap();
    let clock = crate::office::StandingClock::now();
    let shared: SharedClock = clock.clone();
    let authority = HubAuthority::at(dir.path()).agent_ca(&file).clock(shared).open_or_create().unwrap();
    let issued = authority.issue_agent(&cluster("c1"), std::time::Duration::from_secs(3600)).unwrap();
    let of_hub = [CertificateDer::from_pem_slice(issued.certificate_pem.as_bytes()).unwrap()];
    let of_own = [own.agent(|_| {}).der];

    // The CA that issued it goes.
    let begun = authority.agent_tls();
    authority.rotate().unwrap();
    authority.retire().unwrap();
    assert_eq!(begun.issuer_of(&of_hub), Some(IssuedBy::Hub), "the list of the hub decides about it");
    assert!(matches!(begun.issuer_of(&of_own), Some(IssuedBy::Own(_))));
    let after = authority.agent_tls();
    assert_eq!(after.issuer_of(&of_hub), None);
    assert!(!authority.is_of_own_ca(&of_hub));
    assert!(matches!(after.issuer_of(&of_own), Some(IssuedBy::Own(_))));
    assert_eq!(after.issuer_of(&[]), None);

    // It ends.
    let issued = authority.issue_agent(&cluster("c1"), std::time::Duration::from_secs(3600)).unwrap();
    let of_hub = [CertificateDer::from_pem_slice(issued.certificate_pem.as_bytes()).unwrap()];
    let begun = authority.agent_tls();
    assert_eq!(begun.issuer_of(&of_hub), Some(IssuedBy::Hub));
    clock.forward(2 * HOUR);
    assert_eq!(begun.issuer_of(&of_hub), None, "nor is it the operator's then");
    assert!(!authority.is_of_own_ca(&of_hub));
}

#[test]
fn t32_a_chain_is_held_to_the_operators_cas_as_they_are_now() {
    let (own, next) = (Forge::new("the operator's CA"), Forge::new("the next one"));
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("agent-ca.pem");
    fs::write(&file, &own.ca_pem).unwrap();
    let clock = crate::office::StandingClock::now();
    let shared: SharedClock = clock.clone();
    let authority = HubAuthority::at(dir.path()).agent_ca(&file).clock(shared).open_or_create().unwrap();
    let Some(IssuedBy::Own(mut chain)) = authority.agent_tls().issuer_of(&[own.agent(|_| {}).der]) else {
        panic!("it is of the operator's CA")
    };
    assert!(authority.still_trusts(&mut chain));
    let now_with = |pems: &[&str]| {
        fs::write(&file, pems.concat()).unwrap();
        assert!(authority.reload().unwrap());
    };
    now_with(&[&next.ca_pem, &own.ca_pem]);
    assert!(authority.still_trusts(&mut chain), "another beside it takes nothing away");
    // A clock that is set ends no tunnel; the end of a certificate is counted elsewhere.
    clock.forward(10 * 365 * 24 * HOUR);
    assert!(authority.still_trusts(&mut chain));
    clock.forward(-10 * 365 * 24 * HOUR);
    now_with(&[&next.ca_pem]);
    assert!(!authority.still_trusts(&mut chain));
}
