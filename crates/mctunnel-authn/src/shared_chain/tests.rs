//! The authentication file through its life: good, changed, broken, deleted, back again.

use super::*;
use crate::{ApiKeyStore, Clock, MemoryApiKeys, NewApiKey, create_api_key};
use mctunnel_core::Authorization;
use std::{fs, os::unix::fs::symlink};
use tempfile::TempDir;
use tokio::time::{Instant, timeout};

const KEYS: &str = "providers: [{name: keys, api_keys: {}}]\n";
const PREFIXED: &str = "providers: [{name: keys, api_keys: {user_prefix: 'key:'}}]\n";
const OTHER_KIND: &str =
    "providers: [{name: idp, oidc: {issuer: 'https://a.example', audiences: [a], user_prefix: ''}}]\n";
const RENAMED: &str = "providers: [{name: others, api_keys: {}}]\n";

struct Stage {
    directory: TempDir,
    path: PathBuf,
    store: Arc<MemoryApiKeys>,
    shared: SharedChain,
    evidence: Evidence,
}

async fn stage(content: &str) -> Stage {
    stage_with(content, "ci").await
}

/// With a key of this user.
async fn stage_with(content: &str, user: &str) -> Stage {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("auth.yaml");
    fs::write(&path, content).unwrap();
    let store = Arc::new(MemoryApiKeys::default());
    let new = NewApiKey { user: user.to_owned(), ..NewApiKey::default() };
    let made = create_api_key(&*store, new, &Clock::system()).unwrap();
    let bearer = Authorization::new(format!("Bearer {}", made.key.expose()));
    let evidence = Evidence { authorization: Some(bearer), ..Evidence::default() };
    let parts = AuthParts { api_keys: Some(store.clone() as Arc<dyn ApiKeyStore>), ..AuthParts::default() };
    let shared = SharedChain::watch(path.clone(), parts).await.unwrap();
    Stage { directory, path, store, shared, evidence }
}

impl Stage {
    /// Who the client is, or the kind of error.
    async fn who(&self) -> String {
        match self.shared.authenticate(&self.evidence).await {
            Ok(identity) => identity.to_string(),
            Err(Unauthenticated::Unavailable(_)) => "unavailable".to_owned(),
            Err(error) => format!("{error:?}"),
        }
    }

    /// Waits for a status that fits, and says how long it took.
    async fn seen(&self, what: impl FnMut(&ChainStatus) -> bool) -> Duration {
        let began = Instant::now();
        timeout(Duration::from_secs(20), self.shared.changes().wait_for(what)).await.expect("not seen").unwrap();
        began.elapsed()
    }

    /// Lets the file be looked at twice.
    async fn looked_at(&self) {
        // tidy: sleep because the clock is paused, and nothing is told of a file that did not change
        sleep(POLL * 2 + SETTLE * 2).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_new_file_counts_within_a_second_and_changes_the_generation() {
    let stage = stage(KEYS).await;
    let before = stage.shared.generation();
    let opened = stage.shared.authenticate(&stage.evidence).await.unwrap();
    assert!(stage.shared.still_holds(&opened));
    stage.looked_at().await;
    fs::write(&stage.path, PREFIXED).unwrap();
    let took = stage.seen(|status| status.replaced == 1).await;
    assert!(took <= Duration::from_secs(1), "{took:?}");
    assert_eq!(stage.who().await, "key:ci");
    assert!(!stage.shared.still_holds(&opened), "the name it was let in under is not its name any more");
    assert_ne!(stage.shared.generation(), before);
    let opened = stage.shared.authenticate(&stage.evidence).await.unwrap();
    let before = stage.shared.generation();
    fs::write(&stage.path, RENAMED).unwrap();
    stage.seen(|status| status.replaced == 2).await;
    assert!(!stage.shared.still_holds(&opened), "t32: its provider was removed");
    assert_ne!(stage.shared.generation(), before);
}

#[tokio::test(start_paused = true)]
async fn a_generation_never_comes_twice() {
    let stage = stage(KEYS).await;
    let mut seen = vec![stage.shared.generation()];
    // The store counts on; chains without it begin at 0.
    for (round, content) in [OTHER_KIND, KEYS, OTHER_KIND, PREFIXED].into_iter().enumerate() {
        let new = NewApiKey { user: "x".to_owned(), ..NewApiKey::default() };
        create_api_key(&*stage.store, new, &Clock::system()).unwrap();
        seen.push(stage.shared.generation());
        fs::write(&stage.path, content).unwrap();
        stage.seen(|status| status.replaced == round as u64 + 1).await;
        seen.push(stage.shared.generation());
    }
    let mut last = None;
    for (n, generation) in seen.iter().enumerate() {
        // A chain without the store does not see that it changes.
        let unseen = n % 4 == 3;
        assert!(unseen || last.is_none_or(|last| *generation > last), "{n}: {seen:?}");
        last = Some(*generation);
    }
}

#[tokio::test(start_paused = true)]
async fn t18_a_broken_file_keeps_the_last_good_chain() {
    for broken in [
        "",
        "providers: []\n",
        "provider: []\n",
        "{{{",
        "providers: [{name: keys}]\n",
        &PREFIXED.replace("user_", "usr_"),
    ] {
        let stage = stage(KEYS).await;
        let opened = stage.shared.authenticate(&stage.evidence).await.unwrap();
        fs::write(&stage.path, broken).unwrap();
        stage.seen(|status| status.problem.is_some() || status.replaced > 0).await;
        assert_eq!((stage.who().await.as_str(), stage.shared.status().replaced), ("ci", 0), "{broken:?}");
        assert!(stage.shared.still_holds(&opened));
        fs::write(&stage.path, PREFIXED).unwrap();
        stage.seen(|status| status.problem.is_none()).await;
        assert_eq!(stage.who().await, "key:ci", "{broken:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn t18_a_broken_file_that_is_mended_as_it_was_is_no_longer_a_problem() {
    let stage = stage(KEYS).await;
    fs::write(&stage.path, "{{{").unwrap();
    stage.seen(|status| status.problem.is_some()).await;
    fs::write(&stage.path, KEYS).unwrap();
    stage.seen(|status| status.problem.is_none()).await;
    assert_eq!(stage.who().await, "ci");
}

#[tokio::test(start_paused = true)]
async fn t18_without_the_file_nobody_gets_in_until_it_is_back() {
    let stage = stage(KEYS).await;
    let opened = stage.shared.authenticate(&stage.evidence).await.unwrap();
    let before = stage.shared.generation();
    fs::remove_file(&stage.path).unwrap();
    stage.seen(|status| status.problem.as_deref() == Some(MISSING)).await;
    assert_eq!(stage.who().await, "unavailable");
    assert!(!stage.shared.still_holds(&opened) && stage.shared.generation() != before);
    assert_eq!(stage.shared.wants(), Wants::default());
    fs::write(&stage.path, KEYS).unwrap();
    stage.seen(|status| status.problem.is_none()).await;
    assert_eq!(stage.who().await, "ci");
}

#[tokio::test(start_paused = true)]
async fn at_the_start_a_file_must_be_there_and_good() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("auth.yaml");
    let watch = async || SharedChain::watch(path.clone(), AuthParts::default()).await.unwrap_err().code().code;
    assert_eq!(watch().await, "MCT-AUTHN-FILE");
    fs::write(&path, "{{{").unwrap();
    assert_eq!(watch().await, "MCT-AUTHN-SYNTAX");
    fs::write(&path, "providers: []").unwrap();
    assert_eq!(watch().await, "MCT-AUTHN-NO-PROVIDER");
}

fn ca_pem() -> String {
    let mut params = rcgen::CertificateParams::default();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    params.self_signed(&rcgen::KeyPair::generate().unwrap()).unwrap().pem()
}

const WITH_CA: &str =
    "providers:\n- {name: keys, api_keys: {}}\n- {name: mtls, client_certificates: {ca_file: ca.pem}}\n";

#[tokio::test(start_paused = true)]
async fn a_file_that_is_named_counts_as_the_file_itself() {
    let stage = stage(KEYS).await;
    let ca = stage.directory.path().join("ca.pem");
    let opened = stage.shared.authenticate(&stage.evidence).await.unwrap();
    fs::write(&stage.path, WITH_CA).unwrap();
    stage.seen(|status| status.problem.as_ref().is_some_and(|problem| problem.contains("ca.pem"))).await;
    assert_eq!(stage.who().await, "ci", "the CA may be on its way: the last good chain stays");
    fs::write(&ca, ca_pem()).unwrap();
    stage.seen(|status| status.replaced == 1).await;
    let first = stage.shared.wants().authorities;
    fs::write(&ca, ca_pem()).unwrap();
    stage.seen(|status| status.replaced == 2).await;
    assert_ne!(stage.shared.wants().authorities, first, "t47: a rotated CA counts");
    fs::write(&ca, "junk").unwrap();
    stage.seen(|status| status.problem.is_some()).await;
    assert_eq!(stage.shared.status().replaced, 2);
    assert!(stage.shared.still_holds(&opened), "who came in by another provider is not concerned");
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_did_not_change_stays_the_same() {
    const KEPT: &str = "{name: keys, api_keys: {user_prefix: 'key:', group_prefix: 'key:'}}";
    let with = |issuer: &str| {
        format!(
            "providers:\n- {KEPT}\n- {{name: hub, oidc: {{issuer: '{issuer}', audiences: [a], user_prefix: 'a:'}}}}\n"
        )
    };
    let stage = stage(&format!("providers:\n- {KEPT}\n")).await;
    let names = |shared: &SharedChain| {
        let chain = shared.current.chain().unwrap();
        let all: Vec<Arc<str>> = chain.names().cloned().collect();
        all
    };
    let before = names(&stage.shared);
    fs::write(&stage.path, with("https://a.example")).unwrap();
    stage.seen(|status| status.replaced == 1).await;
    let after = names(&stage.shared);
    assert!(Arc::ptr_eq(&before[0], &after[0]), "with what it has fetched and counted");
    fs::write(&stage.path, with("https://b.example")).unwrap();
    stage.seen(|status| status.replaced == 2).await;
    assert!(Arc::ptr_eq(&before[0], &names(&stage.shared)[0]));
    assert!(!Arc::ptr_eq(&after[1], &names(&stage.shared)[1]), "another issuer is another provider");
}

#[tokio::test(start_paused = true)]
async fn t05_a_prefix_that_another_provider_gets_is_its_own_at_once() {
    const WITH_A: &str = "providers:\n- {name: keys, api_keys: {}}\n- {name: a, oidc: {issuer: 'https://a.example', audiences: [a], user_prefix: 'a:'}}\n";
    let stage = stage_with(KEYS, "a:ci").await;
    assert_eq!(stage.who().await, "a:ci");
    let opened = stage.shared.authenticate(&stage.evidence).await.unwrap();
    fs::write(&stage.path, WITH_A).unwrap();
    stage.seen(|status| status.replaced == 1).await;
    let who = stage.who().await;
    assert!(who.contains("the prefix of another provider"), "though the key was known: {who}");
    assert!(!stage.shared.still_holds(&opened));
    fs::write(&stage.path, KEYS).unwrap();
    stage.seen(|status| status.replaced == 2).await;
    assert_eq!(stage.who().await, "a:ci", "and free again");
}

#[tokio::test(start_paused = true)]
async fn a_swapped_link_is_a_new_file() {
    let directory = tempfile::tempdir().unwrap();
    for (version, content) in [("v1", KEYS), ("v2", PREFIXED)] {
        fs::create_dir(directory.path().join(version)).unwrap();
        fs::write(directory.path().join(version).join("auth.yaml"), content).unwrap();
    }
    symlink("v1", directory.path().join("..data")).unwrap();
    symlink("..data/auth.yaml", directory.path().join("auth.yaml")).unwrap();
    let parts = AuthParts { api_keys: Some(Arc::new(MemoryApiKeys::default())), ..AuthParts::default() };
    let shared = SharedChain::watch(directory.path().join("auth.yaml"), parts).await.unwrap();
    symlink("v2", directory.path().join("..new")).unwrap();
    fs::rename(directory.path().join("..new"), directory.path().join("..data")).unwrap();
    let mut changes = shared.changes();
    let seen = timeout(Duration::from_secs(20), changes.wait_for(|status| status.replaced == 1)).await;
    assert!(seen.is_ok());
}

/// For the audit log: the digest of what decides, not of what stands in the file.
#[tokio::test(start_paused = true)]
async fn the_digest_of_what_counts_is_known_whatever_the_file_is_by_now() {
    let stage = stage(KEYS).await;
    let of = |text: &str| Some(crate::digest::hex(&crate::digest::of(text.as_bytes())));
    assert_eq!(stage.shared.status().sha256, of(KEYS), "at the start too");
    fs::write(&stage.path, PREFIXED).unwrap();
    stage.seen(|status| status.replaced == 1).await;
    fs::write(&stage.path, "{{{").unwrap();
    stage.seen(|status| status.problem.is_some()).await;
    assert_eq!(stage.shared.status().sha256, of(PREFIXED));
    fs::remove_file(&stage.path).unwrap();
    stage.seen(|status| status.replaced == 2).await;
    assert_eq!(stage.shared.status().sha256, None);
}
