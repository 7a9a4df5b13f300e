//! What is told is what counted, and nothing is told of keys that were forgotten while somebody looked.

use super::*;
use mctunnel_audit::AuditConfig;
use mctunnel_authn::{ApiKeyRecord, Clock, MemoryApiKeys, NewApiKey, create_api_key};
use mctunnel_policy::{ClusterLabels, ReloadingPolicy};
use serde_json::Value;
use std::{
    fs,
    sync::atomic::{AtomicBool, Ordering},
};

/// Keys that are forgotten when they are listed, as when another hub takes over.
#[derive(Default)]
struct Forgetful {
    keys: MemoryApiKeys,
    forgets: AtomicBool,
    is_gone: AtomicBool,
}

impl ApiKeyStore for Forgetful {
    fn find(&self, id: &str) -> Option<Arc<ApiKeyRecord>> {
        self.keys.find(id)
    }

    fn list(&self) -> Vec<Arc<ApiKeyRecord>> {
        if self.forgets.load(Ordering::SeqCst) {
            self.is_gone.store(true, Ordering::SeqCst);
            return Vec::new();
        }
        self.keys.list()
    }

    fn put(&self, record: ApiKeyRecord) -> Result<(), String> {
        self.keys.put(record)
    }

    fn generation(&self) -> u64 {
        self.keys.generation()
    }

    fn is_current(&self) -> bool {
        !self.is_gone.load(Ordering::SeqCst)
    }
}

#[test]
fn keys_that_are_forgotten_between_two_looks_are_not_revoked() {
    let store = Forgetful::default();
    let new = NewApiKey { user: "ci".to_owned(), ..NewApiKey::default() };
    let id = create_api_key(&store, new, &Clock::system()).unwrap().record.id;
    let seen = BTreeMap::from([(id, "ci".to_owned())]);
    assert_eq!(keys_at(&store, store.generation()), Some(seen));
    assert_eq!(keys_at(&store, store.generation() + 1), None, "they changed in between");
    store.forgets.store(true, Ordering::SeqCst);
    assert_eq!(keys_at(&store, store.generation()), None);
}

const POLICY: &str = "version: 1\nroles: {}\nbindings: []\ndeny: []\n";

#[tokio::test]
async fn t18_the_digest_is_of_what_counts_not_of_what_the_file_became() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("policy.yaml");
    fs::write(&path, POLICY).unwrap();
    let policy = ReloadingPolicy::watch(path.clone(), ClusterLabels::new()).await.unwrap();
    let mut state = State::from(policy.status());
    drop(policy);
    fs::write(&path, "another").unwrap();
    let mut config = AuditConfig::default();
    config.file = Some(mctunnel_audit::FileConfig::in_data_dir(dir.path()));
    let log = AuditLog::open(config).unwrap();
    tell_file(&log, "policy", &path, &state, true).await.unwrap();
    // It was replaced, and the file was broken, between two looks.
    state.problem = Some("broken".to_owned());
    tell_file(&log, "policy", &path, &state, true).await.unwrap();
    tell_file(&log, "policy", &path, &state, false).await.unwrap();
    log.close().unwrap();
    let text = fs::read_to_string(dir.path().join("audit/audit.log")).unwrap();
    let records = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let told: Vec<_> = records
        .filter(|record| record["event"] == "policy")
        .map(|record| (record["sha256"].as_str().map(str::to_owned), record["problem"].as_str().map(str::to_owned)))
        .collect();
    let (digest, broken) = (Some(Hash::of(POLICY.as_bytes()).to_string()), Some("broken".to_owned()));
    assert_eq!(told, [(digest.clone(), None), (digest, broken.clone()), (None, broken)]);
}
