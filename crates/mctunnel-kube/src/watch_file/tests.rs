//! The file of rules through its life: good, changed, broken, deleted, back again.

use super::*;
use std::{fs, os::unix::fs::symlink};
use tokio::time::{Instant, timeout};

fn target(spec: &str) -> ServiceTarget {
    ServiceTarget::parse("default", spec).unwrap()
}

/// Waits for a status that fits, and says how long it took.
async fn seen(shared: &SharedAllowList, what: impl FnMut(&RulesStatus) -> bool) -> Duration {
    let began = Instant::now();
    timeout(Duration::from_secs(20), shared.changes().wait_for(what)).await.expect("not seen").unwrap();
    began.elapsed()
}

/// Lets the file be looked at twice.
async fn looked_at() {
    // tidy: sleep because the clock is paused, and nothing is told of a file that did not change
    sleep(POLL * 2 + SETTLE).await;
}

async fn watched(content: &str) -> (tempfile::TempDir, PathBuf, SharedAllowList) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("services.yaml");
    fs::write(&path, content).unwrap();
    let shared = SharedAllowList::watch(path.clone()).await.unwrap();
    (dir, path, shared)
}

#[tokio::test(start_paused = true)]
async fn a_new_list_counts_within_a_second() {
    let (_dir, path, shared) = watched("services:\n- default/web\n").await;
    let clone = shared.clone();
    assert!(clone.permits(&target("web")) && !clone.permits(&target("db")));
    looked_at().await;
    fs::write(&path, "services: [default/db]\n").unwrap();
    let took = seen(&shared, |status| status.replaced == 1).await;
    assert!(took <= Duration::from_secs(1), "{took:?}");
    assert!(!clone.permits(&target("web")) && clone.permits(&target("db")));
    assert_eq!(shared.status(), RulesStatus { rules: 1, replaced: 1, problem: None });
}

#[tokio::test(start_paused = true)]
async fn a_file_that_is_replaced_in_two_steps_is_never_a_missing_one() {
    const LIST: &str = "services:\n- default/web\n";
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("services.yaml");
    let rules = Arc::new(Rules::new(parse(LIST).unwrap(), None));
    let mut follower = Follower { path: path.clone(), judged: Some(Some(LIST.to_owned())), rules: Arc::clone(&rules) };
    // The look comes between the two steps.
    let second_step = async {
        // tidy: sleep because the clock is paused, and nothing is told of a look that is half done
        sleep(SETTLE / 2).await;
        fs::write(&path, LIST).unwrap();
    };
    tokio::join!(follower.look(), second_step);
    assert!(rules.list.read().permits(&target("web")));
    fs::remove_file(&path).unwrap();
    follower.look().await;
    assert!(!rules.list.read().permits(&target("web")), "one that stays away is missing");
}

#[tokio::test(start_paused = true)]
async fn a_swapped_link_is_a_new_list() {
    let dir = tempfile::tempdir().unwrap();
    for (version, rule) in [("v1", "default/web"), ("v2", "default/db")] {
        fs::create_dir(dir.path().join(version)).unwrap();
        fs::write(dir.path().join(version).join("rules"), format!("services: [{rule}]\n")).unwrap();
    }
    symlink("v1", dir.path().join("..data")).unwrap();
    symlink("..data/rules", dir.path().join("rules")).unwrap();
    let shared = SharedAllowList::watch(dir.path().join("rules")).await.unwrap();
    assert!(shared.permits(&target("web")));
    symlink("v2", dir.path().join("..new")).unwrap();
    fs::rename(dir.path().join("..new"), dir.path().join("..data")).unwrap();
    seen(&shared, |status| status.replaced == 1).await;
    assert!(!shared.permits(&target("web")) && shared.permits(&target("db")));
}

#[tokio::test(start_paused = true)]
async fn a_broken_file_keeps_the_last_good_list() {
    for broken in [
        "",
        "services:\n",
        "service:\n- default/db\n",
        "services: [default/db]\nallow: all\n",
        "services: [default/db]\nservices: [default/web]\n",
        "services: default/db\n",
        "services:\n- default/d*\n",
        "services:\n- default/db:\n",
        "services:\n- name: db\n",
        "- default/db\n",
        "services: [default/db\n",
        "{{{",
    ] {
        let (_dir, path, shared) = watched("services: [default/web]\n").await;
        fs::write(&path, broken).unwrap();
        seen(&shared, |status| status.problem.is_some() || status.replaced > 0).await;
        assert!(shared.permits(&target("web")) && !shared.permits(&target("db")), "{broken:?}");
        assert_eq!((shared.status().rules, shared.status().replaced), (1, 0), "{broken:?}");
        fs::write(&path, "services: [default/web, default/db]\n").unwrap();
        seen(&shared, |status| status.problem.is_none()).await;
        assert!(shared.permits(&target("db")), "{broken:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_deleted_file_denies_everything_until_it_is_back() {
    let (_dir, path, shared) = watched("services: ['*/*']\n").await;
    assert!(shared.permits(&target("web")));
    looked_at().await;
    fs::remove_file(&path).unwrap();
    let took = seen(&shared, |status| status.rules == 0).await;
    assert!(took <= Duration::from_secs(1), "{took:?}");
    assert!(!shared.permits(&target("web")));
    assert_eq!(shared.status().problem.as_deref(), Some(MISSING));
    fs::write(&path, "services: ['*/*']\n").unwrap();
    seen(&shared, |status| status.problem.is_none()).await;
    assert!(shared.permits(&target("web")));
}

#[tokio::test(start_paused = true)]
async fn a_file_that_cannot_be_read_for_a_while_changes_nothing() {
    let (_dir, path, shared) = watched("services: [default/web]\n").await;
    let aside = path.with_extension("aside");
    fs::rename(&path, &aside).unwrap();
    fs::create_dir(&path).unwrap();
    // The file may be seen missing for a moment; a directory in its place is an error that is not "missing".
    seen(&shared, |status| status.problem.as_deref().is_some_and(|problem| problem != MISSING)).await;
    fs::remove_dir(&path).unwrap();
    fs::rename(&aside, &path).unwrap();
    seen(&shared, |status| status.problem.is_none()).await;
    assert!(shared.permits(&target("web")));
}

#[tokio::test(start_paused = true)]
async fn an_unchanged_file_is_not_a_new_list() {
    let (_dir, path, shared) = watched("services: [default/web]\n").await;
    fs::write(&path, "services: [default/web]\n").unwrap();
    looked_at().await;
    assert_eq!(shared.status().replaced, 0);
}

#[tokio::test(start_paused = true)]
async fn an_explicitly_empty_list_is_a_list() {
    let (_dir, path, shared) = watched("services: ['*/*']\n").await;
    fs::write(&path, "services: []\n").unwrap();
    seen(&shared, |status| status.replaced == 1).await;
    assert!(!shared.permits(&target("web")));
    assert_eq!(shared.status().problem, None);
}

#[tokio::test(start_paused = true)]
async fn at_the_start_a_broken_file_is_an_error_and_a_missing_one_denies() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("services.yaml");
    let shared = SharedAllowList::watch(path.clone()).await.unwrap();
    assert!(!shared.permits(&target("web")));
    assert!(shared.status().problem.is_some());
    for (content, code) in
        [("", "MCT-KUBE-RULES-SYNTAX"), ("services: [web]", "MCT-KUBE-SERVICE-RULE"), ("x: 1", "MCT-KUBE-RULES-SYNTAX")]
    {
        fs::write(&path, content).unwrap();
        let error = SharedAllowList::watch(path.clone()).await.unwrap_err();
        assert_eq!(error.code().code, code, "{content}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_endless_file_is_not_read_to_its_end() {
    let error = SharedAllowList::watch("/dev/zero".into()).await.unwrap_err();
    assert_eq!(error.code().code, "MCT-KUBE-RULES-SYNTAX");
}

#[tokio::test]
async fn fixed_rules_need_no_file() {
    let shared = SharedAllowList::fixed(ServiceAllowList::parse(["default/web"]).unwrap());
    assert!(shared.permits(&target("web")) && !shared.permits(&target("db")));
    assert_eq!(shared.status(), RulesStatus { rules: 1, replaced: 0, problem: None });
}
