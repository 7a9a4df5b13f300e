//! What decides about requests is in the audit log when it changes: the policy, the authentication file, the API keys.

use crate::{
    audit_strangers::{POLICY, records, stage},
    rig::{run, until},
};
use mctunnel_audit::Hash;
use serde_json::Value;
use std::fs;

#[test]
fn changes_of_trust_are_in_the_audit_log() {
    let (hub, files, key) = stage(&[]);
    let seen = |what: &str, is_it: &dyn Fn(&Value) -> bool| until(what, || records(&hub).into_iter().find(is_it));
    let is = |event: &'static str, key: &'static str, value: String| {
        move |record: &Value| record["event"] == event && record[key] == value
    };
    let digest = |text: &str| Hash::of(text.as_bytes()).to_string();
    let auth = fs::read_to_string(files.path().join("auth.yaml")).expect("a file");
    seen("the policy at the start", &is("policy", "sha256", digest(POLICY)));
    seen("who clients are at the start", &is("authentication", "sha256", digest(&auth)));
    let made = seen("the key", &is("api_key_created", "user", "alice".to_owned()));
    let id = made["credential"].as_str().expect("an id").to_owned();
    assert!(!key.is_empty() && !made.to_string().contains(&key), "the key itself is nowhere");

    let put = |text: &str| {
        fs::write(files.path().join("new"), text).expect("a file");
        fs::rename(files.path().join("new"), files.path().join("policy.yaml")).expect("a file");
    };
    let edited = format!("{POLICY}# edited\n");
    put(&edited);
    seen("the new policy", &is("policy", "sha256", digest(&edited)));
    put("version: 1\nrolls: {}\n");
    let broken = seen("the broken policy", &|record| record["event"] == "policy" && record["problem"].is_string());
    assert!(broken["file"].as_str().is_some_and(|file| file.ends_with("policy.yaml")), "{broken}");
    assert!(broken.get("sha256").is_none(), "it does not count: {broken}");

    let revoked = run(&["api-key", "revoke", &id, "--data-dir", &hub.path("data")]);
    assert_eq!(revoked.status, Some(0), "{revoked:?}");
    seen("the end of the key", &is("api_key_revoked", "credential", id));
    let tail = run(&["audit", "tail", "--data-dir", &hub.path("data"), "-n", "100"]).out;
    for line in ["  -- the policy file ", "policy.yaml does not count: ", " of alice was revoked"] {
        assert!(tail.contains(line), "{line:?} in {tail}");
    }
}
