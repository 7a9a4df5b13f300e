//! A bundle is taken whole and consistent, or not at all, and its key stays in it.

use crate::forge::{Forge, bundle, cluster, uri};
use mctunnel_core::Secret;
use mctunnel_identity::{HubAuthority, IdentityError, JoinBundle};
use std::{fs, os::unix::fs::PermissionsExt};
use tempfile::TempDir;

fn hub_and_bundle() -> (TempDir, HubAuthority, JoinBundle) {
    let dir = tempfile::tempdir().unwrap();
    let hub = HubAuthority::open_or_create(dir.path(), &[]).unwrap();
    let bundle = bundle(&hub, "c1");
    (dir, hub, bundle)
}

/// The error of parsing `bundle` after `change`.
fn refusal(bundle: &JoinBundle, change: impl FnOnce(&mut JoinBundle)) -> IdentityError {
    let mut bundle = bundle.clone();
    change(&mut bundle);
    JoinBundle::parse(&bundle.to_json()).unwrap_err()
}

#[test]
fn a_bundle_survives_text_and_file() {
    let (dir, _hub, bundle) = hub_and_bundle();
    assert_eq!(JoinBundle::parse(&bundle.to_json()).unwrap(), bundle);
    let path = dir.path().join("c1.join");
    bundle.write(&path, false).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o600);
    assert_eq!(JoinBundle::read(&path).unwrap(), bundle);
}

#[test]
fn a_file_is_replaced_only_when_told() {
    let (dir, hub, first) = hub_and_bundle();
    let second = bundle(&hub, "c1");
    let path = dir.path().join("c1.join");
    first.write(&path, false).unwrap();
    let error = second.write(&path, false).unwrap_err();
    assert!(matches!(error, IdentityError::FileExists { .. }), "{error:?}");
    assert_eq!(JoinBundle::read(&path).unwrap(), first);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    second.write(&path, true).unwrap();
    assert_eq!(JoinBundle::read(&path).unwrap(), second, "with its mode set right again");
    assert!(first.write(&dir.path().join("no/such/dir"), false).is_err());
}

#[test]
fn a_file_that_others_may_read_is_refused_with_the_remedy() {
    let (dir, _hub, bundle) = hub_and_bundle();
    let path = dir.path().join("c1.join");
    bundle.write(&path, false).unwrap();
    for mode in [0o640, 0o604, 0o620, 0o660, 0o644, 0o777] {
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        let error = JoinBundle::read(&path).unwrap_err();
        assert!(error.to_string().contains(&format!("chmod 600 {}", path.display())), "{mode:o}: {error}");
        assert_eq!(error.code().code, "MCT-IDENTITY-FILE-EXPOSED");
    }
    for mode in [0o600, 0o400] {
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        assert!(JoinBundle::read(&path).is_ok(), "{mode:o}");
    }
}

#[test]
fn text_that_is_not_a_bundle_is_refused_with_a_reason() {
    let (_dir, _hub, bundle) = hub_and_bundle();
    let good = bundle.to_json();
    for (text, reason) in [
        (String::new(), "EOF"),
        ("{}".to_owned(), "missing field"),
        (good.replace("\"hub\"", "\"hubs\""), "unknown field `hubs`"),
        (good.replacen('{', "{\"extra\": 1,", 1), "unknown field `extra`"),
        (good.replacen('{', "{\"version\": 1,", 1), "duplicate field `version`"),
        (good.replace("\"version\": 1", "\"version\": 2"), "version is 2"),
        (good.replace("\"version\": 1", "\"version\": \"1\""), "wrong kind"),
        (format!("{good}{{}}"), "trailing"),
    ] {
        let error = JoinBundle::parse(&text).unwrap_err();
        assert!(matches!(error, IdentityError::BundleInvalid(_)), "{error:?}");
        assert!(error.to_string().contains(reason), "{error}");
    }
}

#[test]
fn parts_that_contradict_each_other_are_refused() {
    let (_dir, hub, good) = hub_and_bundle();
    let other = bundle(&hub, "c2");
    let reasons = [
        (refusal(&good, |b| b.cluster = cluster("c2")), "certificate is for c1, not for c2"),
        (refusal(&good, |b| b.certificate_pem.clone_from(&other.certificate_pem)), "certificate is for c2, not for c1"),
        (refusal(&good, |b| b.hub = "hub".to_owned()), "'hub'"),
        (refusal(&good, |b| b.hub = "https://hub:1".to_owned()), "'hub'"),
        (refusal(&good, |b| b.hub_server_name = String::new()), "'hub_server_name'"),
        (refusal(&good, |b| b.hub_server_name = "a b".to_owned()), "'hub_server_name'"),
        (refusal(&good, |b| b.ca_pem = String::new()), "'ca_pem'"),
        (refusal(&good, |b| b.certificate_pem = "x".to_owned()), "'certificate_pem'"),
        (refusal(&good, |b| b.certificate_pem = hub.ca_pem().to_owned()), "'certificate_pem'"),
        (refusal(&good, |b| b.key_pem = Secret::new("x")), "'key_pem'"),
        (refusal(&good, |b| b.key_pem = other.key_pem.clone()), "certificate with its key"),
    ];
    for (error, reason) in reasons {
        assert!(matches!(error, IdentityError::BundleInvalid(_)), "{error:?}");
        assert!(error.to_string().contains(reason), "{error} should say {reason}");
    }
}

#[test]
fn an_expired_certificate_is_said_to_be_expired() {
    let (dir, _hub, good) = hub_and_bundle();
    let expired = Forge::steal(dir.path()).agent(|params| {
        params.not_after = time::OffsetDateTime::from_unix_timestamp(951_825_600).unwrap();
    });
    let error = refusal(&good, |b| b.certificate_pem = expired.pem);
    assert!(matches!(error, IdentityError::BundleExpired { .. }), "{error:?}");
    assert!(error.to_string().contains("2000-02-29"), "{error}");
    assert!(error.code().remedy.contains("--reissue"));
}

#[test]
fn the_key_stays_in_the_bundle() {
    let (_dir, hub, good) = hub_and_bundle();
    let line = good.key_pem.expose().lines().nth(1).unwrap().to_owned();
    assert!(good.to_json().contains(&line), "the file has it");
    let quoted = format!("{:?}", good.key_pem.expose());
    let mut said = vec![format!("{good:?} {:?}", hub)];
    for text in [
        quoted.clone(),
        format!("{{\"version\": {quoted}}}"),
        format!("[{quoted}]"),
        good.key_pem.expose().to_owned(),
        good.to_json().replace("spiffe", "x").replace("\"version\": 1", "\"version\": 9"),
    ] {
        let error = JoinBundle::parse(&text).unwrap_err();
        said.push(format!("{error} {error:?}"));
    }
    let forged = Forge::new("x").agent(|params| params.subject_alt_names = vec![uri("x")]).pem;
    let error = refusal(&good, |b| b.certificate_pem = forged);
    said.push(format!("{error} {error:?}"));
    for text in said {
        assert!(!text.contains(&line) && !text.contains("PRIVATE KEY"), "{text}");
    }
}
