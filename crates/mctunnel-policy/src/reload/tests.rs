//! T18, and T32's half of it that is policy: the file through its life, good, changed, broken, half-written, deleted, back again.

use super::{
    follow::{POLL, SETTLE},
    *,
};
use crate::Question;
use std::{collections::BTreeMap, fs, os::unix::fs::symlink, path::Path, time::Duration};
use tokio::time::{Instant, sleep, timeout};

fn text(users: &str) -> String {
    let rule = "{clusters: ['*'], namespaces: ['*'], apiGroups: ['*'], resources: ['*'], names: ['*'], verbs: ['*']}";
    let binding = format!("{{name: b, role: r, users: [{users}], providers: ['*']}}");
    format!("version: 1\nroles: {{r: {{rules: [{rule}]}}}}\nbindings: [{binding}]\ndeny: []\n")
}

fn may(policy: &ReloadingPolicy, user: &str) -> bool {
    Question::resource(user, "c", "get", "pods").put(policy).unwrap().is_allowed()
}

/// Waits for a status that fits, and says how long it took.
async fn seen(policy: &ReloadingPolicy, what: impl FnMut(&PolicyStatus) -> bool) -> Duration {
    let began = Instant::now();
    timeout(Duration::from_secs(20), policy.changes().wait_for(what)).await.expect("not seen").unwrap();
    began.elapsed()
}

/// Lets the file be looked at twice.
async fn looked_at() {
    // tidy: sleep because the clock is paused, and nothing is told of a file that did not change
    sleep(POLL * 2 + SETTLE).await;
}

async fn watched(content: &str) -> (tempfile::TempDir, PathBuf, ReloadingPolicy) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("policy.yaml");
    fs::write(&path, content).unwrap();
    let policy = ReloadingPolicy::watch(path.clone(), ClusterLabels::new()).await.unwrap();
    (dir, path, policy)
}

#[tokio::test(start_paused = true)]
async fn t32_a_new_policy_counts_within_a_second_and_has_another_generation() {
    let (_dir, path, policy) = watched(&text("alice")).await;
    let clone = policy.clone();
    assert!(may(&clone, "alice") && !may(&clone, "bob"));
    let before = policy.generation();
    looked_at().await;
    assert_eq!(policy.generation(), before, "nothing changed");
    fs::write(&path, text("bob")).unwrap();
    let took = seen(&policy, |status| status.replaced == 2).await;
    assert!(took <= Duration::from_secs(1), "{took:?}");
    assert!(!may(&clone, "alice") && may(&clone, "bob"));
    assert_ne!(policy.generation(), before);
    let counts = Some(PolicyText(text("bob").into()));
    let status = PolicyStatus { replaced: 2, roles: 1, bindings: 1, deny: 0, text: counts, problem: None };
    assert_eq!(policy.status(), status);
    assert!(!format!("{status:?}").contains("bob"), "{status:?}");
}

/// For the audit log: the text of what decides, not of what stands in the file.
#[tokio::test(start_paused = true)]
async fn the_text_that_counts_is_known_whatever_the_file_is_by_now() {
    let (_dir, path, policy) = watched(&text("alice")).await;
    let counts = || policy.status().text.map(|text| text.as_str().to_owned());
    assert_eq!(counts(), Some(text("alice")), "at the start too");
    fs::write(&path, text("bob")).unwrap();
    seen(&policy, |status| status.replaced == 2).await;
    fs::write(&path, "broken").unwrap();
    seen(&policy, |status| status.problem.is_some()).await;
    assert_eq!(counts(), Some(text("bob")));
    policy.set_cluster_labels(BTreeMap::from([("c".parse().unwrap(), BTreeMap::new())]));
    assert_eq!((counts(), policy.status().replaced), (Some(text("bob")), 3));
    assert!(policy.last_error().is_some());
    fs::remove_file(&path).unwrap();
    seen(&policy, |status| status.replaced == 4).await;
    assert_eq!(counts(), None);
}

#[tokio::test(start_paused = true)]
async fn a_swapped_link_is_a_new_policy() {
    let dir = tempfile::tempdir().unwrap();
    for (version, user) in [("v1", "alice"), ("v2", "bob")] {
        fs::create_dir(dir.path().join(version)).unwrap();
        fs::write(dir.path().join(version).join("policy"), text(user)).unwrap();
    }
    symlink("v1", dir.path().join("..data")).unwrap();
    symlink("..data/policy", dir.path().join("policy")).unwrap();
    let policy = ReloadingPolicy::watch(dir.path().join("policy"), ClusterLabels::new()).await.unwrap();
    assert!(may(&policy, "alice"));
    symlink("v2", dir.path().join("..new")).unwrap();
    fs::rename(dir.path().join("..new"), dir.path().join("..data")).unwrap();
    seen(&policy, |status| status.replaced == 2).await;
    assert!(!may(&policy, "alice") && may(&policy, "bob"));
}

#[tokio::test(start_paused = true)]
async fn t18_a_broken_file_keeps_the_last_good_policy_and_says_so() {
    let good = text("bob");
    for broken in [
        String::new(),
        "\n".to_owned(),
        "version: 1\n".to_owned(),
        good.replace("deny: []\n", ""),
        good.replace("deny: []", "deny:"),
        good.replace("bindings", "binding"),
        good.replace("users", "user"),
        good.replace("[bob]", "[]"),
        good.replace("providers: ['*']", ""),
        good.replace("verbs: ['*']", ""),
        good.replace("role: r", "role: q"),
        format!("{good}deny: []\n"),
        format!("{good}---\n{good}"),
        good.replace("version: 1", "version: 2"),
        good[..good.len() / 2].to_owned(),
        "{{{".to_owned(),
    ] {
        let (_dir, path, policy) = watched(&text("alice")).await;
        let before = policy.generation();
        fs::write(&path, &broken).unwrap();
        seen(&policy, |status| status.problem.is_some() || status.replaced > 1).await;
        assert!(may(&policy, "alice") && !may(&policy, "bob"), "{broken:?}");
        assert_eq!((policy.status().replaced, policy.generation()), (1, before), "{broken:?}");
        assert!(policy.last_error().is_some_and(|problem| problem.contains("policy")), "{broken:?}");
        fs::write(&path, &good).unwrap();
        seen(&policy, |status| status.problem.is_none()).await;
        assert!(may(&policy, "bob") && policy.last_error().is_none(), "{broken:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn t18_a_deleted_file_denies_everything_until_it_is_back() {
    let (_dir, path, policy) = watched(&text("alice")).await;
    looked_at().await;
    let before = policy.generation();
    fs::remove_file(&path).unwrap();
    let took = seen(&policy, |status| status.replaced == 2).await;
    assert!(took <= Duration::from_secs(1), "{took:?}");
    assert!(!may(&policy, "alice"));
    assert_ne!(policy.generation(), before);
    assert_eq!(policy.last_error().as_deref(), Some(MISSING));
    fs::write(&path, text("alice")).unwrap();
    seen(&policy, |status| status.problem.is_none()).await;
    assert!(may(&policy, "alice"));
}

/// Writes the file in pieces, each of which is a policy of its own, faster than a file may settle.
#[tokio::test(start_paused = true)]
async fn t18_a_file_that_is_being_written_does_not_count() {
    let (_dir, path, policy) = watched(&text("alice")).await;
    let mut content = text("bob");
    for number in 0..40 {
        content.push_str(&format!("# {number}\n"));
        fs::write(&path, &content).unwrap();
        // tidy: sleep because the clock is paused, and a writer that is not done tells nobody
        sleep(SETTLE / 2).await;
        assert!(may(&policy, "alice") && !may(&policy, "bob"), "{number}");
    }
    seen(&policy, |status| status.replaced == 2).await;
    assert!(may(&policy, "bob"));
}

#[tokio::test(start_paused = true)]
async fn a_file_that_cannot_be_read_for_a_while_changes_nothing() {
    let (_dir, path, policy) = watched(&text("alice")).await;
    let aside = path.with_extension("aside");
    fs::rename(&path, &aside).unwrap();
    fs::create_dir(&path).unwrap();
    // The file may be seen missing for a moment; a directory in its place is an error that is not "missing".
    seen(&policy, |status| status.problem.as_deref().is_some_and(|problem| problem != MISSING)).await;
    fs::remove_dir(&path).unwrap();
    fs::rename(&aside, &path).unwrap();
    seen(&policy, |status| status.problem.is_none()).await;
    assert!(may(&policy, "alice"));
}

#[tokio::test(start_paused = true)]
async fn an_unchanged_file_is_not_a_new_policy() {
    let (_dir, path, policy) = watched(&text("alice")).await;
    fs::write(&path, text("alice")).unwrap();
    looked_at().await;
    assert_eq!(policy.status().replaced, 1);
}

/// A file that looks old is not read again, but one that was written in the same tick of the clock is.
#[tokio::test(start_paused = true)]
async fn a_change_is_seen_though_length_and_time_are_the_same() {
    let (_dir, path, policy) = watched(&text("alice")).await;
    let set_old = |path: &Path, age: u64| {
        let file = fs::File::options().write(true).open(path).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_secs(age)).unwrap();
    };
    set_old(&path, 60);
    looked_at().await;
    fs::write(&path, text("clara")).unwrap();
    seen(&policy, |status| status.replaced == 2).await;
    assert!(may(&policy, "clara"));
    // Another file of the same length, moved into its place.
    let other = path.with_extension("new");
    fs::write(&other, text("david")).unwrap();
    set_old(&path, 60);
    set_old(&other, 60);
    looked_at().await;
    fs::rename(&other, &path).unwrap();
    seen(&policy, |status| status.replaced == 3).await;
    assert!(may(&policy, "david"));
}

#[tokio::test(start_paused = true)]
async fn at_the_start_a_broken_file_is_an_error_and_a_missing_one_denies() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("policy.yaml");
    let policy = ReloadingPolicy::watch(path.clone(), ClusterLabels::new()).await.unwrap();
    assert!(!may(&policy, "alice") && policy.last_error().is_some());
    for (content, code) in [("", "MCT-POLICY"), ("x: 1", "MCT-POLICY-SYNTAX"), ("version: 1", "MCT-POLICY-INVALID")] {
        fs::write(&path, content).unwrap();
        let error = ReloadingPolicy::watch(path.clone(), ClusterLabels::new()).await.unwrap_err();
        assert!(error.code().code.starts_with(code), "{content}: {error}");
    }
    fs::write(&path, [0xff, 0xfe]).unwrap();
    assert!(ReloadingPolicy::watch(path, ClusterLabels::new()).await.is_err());
    let endless = ReloadingPolicy::watch("/dev/zero".into(), ClusterLabels::new()).await;
    assert_eq!(endless.unwrap_err().code().code, "MCT-POLICY-SYNTAX");
}

#[tokio::test(start_paused = true)]
async fn labels_from_elsewhere_choose_clusters_too() {
    let by_label = text("alice").replace("clusters: ['*']", "clusterLabels: {env: dev}");
    let (_dir, _path, policy) = watched(&by_label).await;
    assert!(!may(&policy, "alice"));
    let before = policy.generation();
    let labels =
        |env: &str| BTreeMap::from([("c".parse().unwrap(), BTreeMap::from([("env".to_owned(), env.to_owned())]))]);
    policy.set_cluster_labels(labels("dev"));
    assert!(may(&policy, "alice"));
    assert_ne!(policy.generation(), before);
    policy.set_cluster_labels(labels("prod"));
    assert!(!may(&policy, "alice"));
}

#[tokio::test(start_paused = true)]
async fn quotas_live_through_a_change() {
    let quota = |most: u32| {
        format!(
            "{}quotas: [{{name: q, per: user, users: ['*'], clusters: ['*'], concurrentStreams: {most}}}]\n",
            text("alice")
        )
    };
    let (_dir, path, policy) = watched(&quota(1)).await;
    let quotas = policy.quotas();
    let question = Question::resource("alice", "c", "get", "pods");
    let held = question.with_access(|access| quotas.admit(access)).unwrap().unwrap();
    assert!(question.with_access(|access| quotas.admit(access)).unwrap().is_err());
    fs::write(&path, quota(2)).unwrap();
    seen(&policy, |status| status.replaced == 2).await;
    let second = question.with_access(|access| quotas.admit(access)).unwrap().unwrap();
    assert!(question.with_access(|access| quotas.admit(access)).unwrap().is_err());
    drop((held, second));
}

#[tokio::test(start_paused = true)]
async fn the_watching_ends_with_the_last_clone() {
    let (_dir, _path, policy) = watched(&text("alice")).await;
    let shared = Arc::downgrade(&policy.shared);
    drop(policy);
    let gone = async {
        while shared.strong_count() > 0 {
            tokio::task::yield_now().await;
        }
    };
    timeout(Duration::from_secs(20), gone).await.expect("the task lives on");
}
