//! `mctunnel api-key` without a hub: what it prints, what it keeps, and what it refuses. With a hub, see `control/tests.rs`.

use crate::rig::{Ran, run};
use serde_json::Value;
use std::{fs, os::unix::fs::PermissionsExt, path::Path};

fn api_key(data_dir: &Path, arguments: &[&str]) -> Ran {
    let data_dir = data_dir.to_str().expect("UTF-8");
    run(&[&["api-key"], arguments, &["--data-dir", data_dir]].concat())
}

fn listed(data_dir: &Path) -> Value {
    let list = api_key(data_dir, &["list", "-o", "json"]);
    assert_eq!(list.status, Some(0), "{list:?}");
    serde_json::from_str(&list.out).expect("JSON")
}

#[test]
fn a_key_is_printed_once_alone_on_standard_output() {
    let dir = tempfile::tempdir().expect("a directory");
    let data_dir = dir.path().join("data");
    let made =
        api_key(&data_dir, &["create", "ci-runner", "--user", "ci", "--group", "a", "--group", "b", "--ttl", "90d"]);
    assert_eq!(made.status, Some(0), "{made:?}");
    let key = made.out.trim_end();
    assert!(key.starts_with("mctk_") && !key.contains(char::is_whitespace), "{}", made.out);
    assert!(made.err.contains("user ci counts until 2") && made.err.contains("shown this once"), "{}", made.err);

    let keys = listed(&data_dir);
    assert_eq!((&keys[0]["name"], &keys[0]["user"]), (&"ci-runner".into(), &"ci".into()));
    assert_eq!(keys[0]["groups"], serde_json::json!(["a", "b"]));
    let (created, expires) =
        (keys[0]["created"].as_u64().expect("a time"), keys[0]["expires"].as_u64().expect("a time"));
    assert_eq!(expires - created, 90 * 24 * 60 * 60);
    assert!(!keys.to_string().contains(key.split('_').nth(2).expect("a secret")), "the list has no secret");
}

#[test]
fn lists_are_for_people_too_and_say_what_was_revoked() {
    let dir = tempfile::tempdir().expect("a directory");
    let data_dir = dir.path().join("data");
    for name in ["one", "two"] {
        assert_eq!(api_key(&data_dir, &["create", name, "--user", "ci", "--group", "g"]).status, Some(0));
    }
    let keys = listed(&data_dir);
    let one = keys.as_array().and_then(|keys| keys.iter().find(|key| key["name"] == "one")).expect("a key");
    let id = one["id"].as_str().expect("an id");
    let revoked = api_key(&data_dir, &["revoke", id]);
    assert_eq!((revoked.status, revoked.out), (Some(0), format!("The API key {id} of user ci is revoked.\n")));
    let table = api_key(&data_dir, &["list"]).out;
    let lines: Vec<_> = table.lines().collect();
    assert!(lines[0].starts_with("ID        NAME  USER  CREATED"), "{table}");
    let line = |name: &str| lines.iter().find(|line| line.contains(name)).expect("a line");
    assert!(
        line("one").contains("revoked") && line("two").contains("never") && line("two").ends_with("  g"),
        "{table}"
    );
}

#[test]
fn what_cannot_be_is_refused_with_a_code_and_a_remedy() {
    let dir = tempfile::tempdir().expect("a directory");
    let data_dir = dir.path().join("data");
    let missing = api_key(&data_dir, &["list"]);
    assert_eq!(missing.status, Some(1));
    assert!(missing.err.starts_with("error[MCT-CONTROL-NO-DATA-DIR]: "), "{}", missing.err);
    assert!(!data_dir.exists());

    assert_eq!(api_key(&data_dir, &["create", "x", "--user", "ci"]).status, Some(0));
    let unknown = api_key(&data_dir, &["revoke", "nobody"]);
    assert_eq!(unknown.status, Some(1));
    assert!(
        unknown.err.starts_with("error[MCT-AUTHN-KEY-UNKNOWN]: ") && unknown.err.contains("\n  remedy: "),
        "{}",
        unknown.err
    );

    fs::set_permissions(&data_dir, fs::Permissions::from_mode(0o755)).expect("it is ours");
    let exposed = api_key(&data_dir, &["list"]);
    assert_eq!(exposed.status, Some(1));
    assert!(
        exposed.err.starts_with("error[MCT-STORE-EXPOSED]: ") && exposed.err.contains("chmod 700"),
        "{}",
        exposed.err
    );
}
