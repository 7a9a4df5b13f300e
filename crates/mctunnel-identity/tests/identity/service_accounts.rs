//! A ServiceAccount vouches for one cluster that somebody recorded for it, until that cluster is revoked; and the agent knows its hub by
//! the CAs it was given.

use crate::{
    forge::{Forge, YEAR, cluster},
    office::{HOUR, Office, honest_csr},
    rotation::shake,
};
use mctunnel_core::Clusters;
use mctunnel_identity::{
    AgentKey, AgentStore, CaPin, ClusterFiles, ClusterLedger, EnrolError, EnrolledAgent, EnrolledBy, FindCluster,
    IdentityError, ServiceAccount, TokenId,
};
use std::{collections::BTreeMap, fs, sync::Barrier};

fn account(text: &str) -> ServiceAccount {
    ServiceAccount::parse(text).unwrap()
}

/// The cluster that an account vouches for.
fn found(files: &ClusterFiles, of: &str) -> Option<String> {
    files.vouched_for_by(&account(of)).unwrap().map(|(cluster, _)| cluster.to_string())
}

#[test]
fn an_account_vouches_for_the_cluster_it_is_recorded_for_and_no_other() {
    let dir = tempfile::tempdir().unwrap();
    let files = ClusterFiles::new(dir.path());
    assert_eq!(found(&files, "fleet/a"), None, "nobody vouches for anybody");
    files.add(&cluster("old"), "01", false).unwrap();
    assert_eq!(found(&files, "fleet/a"), None);

    files.allow_service_account(&cluster("c1"), &account("fleet/a")).unwrap();
    files.allow_service_account(&cluster("old"), &account("fleet/old")).unwrap();

    assert_eq!(found(&files, "fleet/a").as_deref(), Some("c1"));
    assert_eq!(found(&files, "fleet/old").as_deref(), Some("old"));
    for other in ["fleet/b", "other/a", "a/fleet", "fleet/a.b"] {
        assert_eq!(found(&files, other), None, "{other}");
    }
    let listed = files.list().unwrap();
    let accounts: Vec<_> = listed.iter().map(|record| record.service_account.as_ref().unwrap().to_string()).collect();
    assert_eq!(accounts, ["fleet/a", "fleet/old"]);
    assert_eq!(listed[1].serials, ["01"], "what the cluster had stays");
    let (_, epoch) = files.vouched_for_by(&account("fleet/a")).unwrap().unwrap();
    assert_eq!(Some(epoch), files.epoch(&cluster("c1")).unwrap());
    // Another account for the same cluster takes the place of the first.
    files.allow_service_account(&cluster("c1"), &account("fleet/b")).unwrap();
    assert_eq!((found(&files, "fleet/a"), found(&files, "fleet/b").as_deref()), (None, Some("c1")));
}

#[test]
fn t25_an_account_is_not_recorded_for_a_second_cluster() {
    let dir = tempfile::tempdir().unwrap();
    let files = ClusterFiles::new(dir.path());
    files.allow_service_account(&cluster("c1"), &account("fleet/a")).unwrap();
    files.allow_service_account(&cluster("c1"), &account("fleet/a")).expect("the same once more");

    let error = files.allow_service_account(&cluster("c2"), &account("fleet/a")).unwrap_err();

    assert_eq!(error.to_string(), "ServiceAccount fleet/a vouches for cluster c1 already");
    assert_eq!(error.code().code, "MCT-IDENTITY-ACCOUNT-TAKEN");
    assert_eq!(files.list().unwrap().len(), 1, "c2 was not added");
    // Also when a record cannot be read: for whom it is cannot be said.
    let path = |name: &str| dir.path().join("clusters").join(name);
    let good = fs::read_to_string(path("c1.json")).unwrap();
    for bad in ["", "{}", &good.replace("fleet/a", "fleet"), &good.replace("service_account", "account")] {
        fs::write(path("c1.json"), bad).unwrap();
        let error = files.allow_service_account(&cluster("c2"), &account("fleet/a")).unwrap_err();
        assert!(matches!(error, IdentityError::ClusterRecordInvalid { .. }), "{bad:?}: {error:?}");
        assert_eq!(found(&files, "fleet/a"), None, "{bad:?}");
    }
    // A damaged record is nothing to other clusters. Two that name one account were written by hand, and then it vouches for nobody.
    let other = good.replace("\"c1\"", "\"c2\"");
    fs::write(path("c2.json"), &other).unwrap();
    assert_eq!(found(&files, "fleet/a").as_deref(), Some("c2"));
    fs::write(path("c1.json"), &good).unwrap();
    assert_eq!(found(&files, "fleet/a"), None);
}

#[test]
fn of_many_clusters_that_are_given_one_account_one_gets_it() {
    let dir = tempfile::tempdir().unwrap();
    let files = ClusterFiles::new(dir.path());
    let start = Barrier::new(8);
    let given = std::thread::scope(|scope| {
        let give = |name: String| {
            start.wait();
            files.allow_service_account(&cluster(&name), &account("fleet/a")).is_ok()
        };
        let threads: Vec<_> = (0..8).map(|n| scope.spawn(move || give(format!("c{n}")))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).filter(|given| *given).count()
    });
    assert_eq!(given, 1);
    assert_eq!(files.list().unwrap().len(), 1);
}

#[tokio::test]
async fn t25_a_revoked_cluster_is_vouched_for_by_nobody_until_somebody_lets_it_again() {
    let office = Office::open();
    let files = &office.clusters;
    files.allow_service_account(&cluster("c1"), &account("fleet/a")).unwrap();
    let (_, before) = files.vouched_for_by(&account("fleet/a")).unwrap().unwrap();

    files.revoke(&cluster("c1")).unwrap();

    assert_eq!(found(files, "fleet/a"), None);
    assert_eq!(files.list().unwrap()[0].service_account, None);
    assert!(files.is_known(&cluster("c1")).await, "it stays known");
    // A join token lets the cluster in again, but not the account.
    let token = office.token("c1", 1);
    office.enrol(&token, honest_csr()).await.unwrap();
    assert_eq!(found(files, "fleet/a"), None);

    files.allow_service_account(&cluster("c1"), &account("fleet/a")).unwrap();

    let (_, after) = files.vouched_for_by(&account("fleet/a")).unwrap().unwrap();
    assert_ne!(before, after, "what was promised before does not count");
    let issued = office.authority.issue_agent(&cluster("c1"), YEAR).unwrap().recorded;
    let late = files.enrolled(&cluster("c1"), &before, &issued, &BTreeMap::new()).unwrap_err();
    assert!(matches!(late, EnrolError::ClusterRevoked(_)), "{late:?}");
    // The account is free for another cluster once this one is gone.
    files.remove(&cluster("c1")).unwrap();
    files.allow_service_account(&cluster("c2"), &account("fleet/a")).unwrap();
    assert_eq!(found(files, "fleet/a").as_deref(), Some("c2"));
}

#[test]
fn a_record_of_an_earlier_version_counts() {
    let dir = tempfile::tempdir().unwrap();
    let files = ClusterFiles::new(dir.path());
    fs::create_dir(dir.path().join("clusters")).unwrap();
    let path = dir.path().join("clusters/c1.json");
    fs::write(&path, r#"{"cluster":"c1","serials":["01"],"added":1}"#).unwrap();
    assert_eq!(files.list().unwrap()[0].service_account, None);
    files.allow_service_account(&cluster("c1"), &account("fleet/a")).unwrap();
    let (_, epoch) = files.vouched_for_by(&account("fleet/a")).unwrap().unwrap();
    assert!(!epoch.is_empty(), "without an epoch nothing would be issued");
    assert_eq!(files.list().unwrap()[0].serials, ["01"]);
}

#[tokio::test]
async fn an_agent_remembers_how_it_enrolled() {
    let office = Office::open();
    let home = tempfile::tempdir().unwrap();
    let store = AgentStore::new(home.path()).with_clock(office.shared_clock());
    let (token, key) = (office.token("c1", 1), AgentKey::generate().unwrap());
    let issued = office.enrol(&token, key.request(None).unwrap()).await.unwrap();
    let clock = office.shared_clock();
    let by = EnrolledBy::ServiceAccount;
    let enrolled = EnrolledAgent::enrolled_by(by, "hub:8443", &key, &issued.answer, &clock).unwrap();

    store.save(&enrolled).unwrap();

    assert_eq!(store.load().unwrap().unwrap(), enrolled);
    assert_eq!((enrolled.by.token(), enrolled.bundle.hub.as_str()), (None, "hub:8443"));
    assert_eq!((store.enrolled_by().unwrap(), store.token().unwrap()), (Some(by), None));
    let path = home.path().join("identity.json");
    let text = fs::read_to_string(&path).unwrap();
    // As the agents before wrote it, with the id of their token.
    let old = text.replace("\"token\": \"service-account\"", "\"token\": \"0123456789abcdef\"");
    assert_ne!(old, text);
    fs::write(&path, &old).unwrap();
    let id = TokenId::parse("0123456789abcdef").unwrap();
    assert_eq!(store.load().unwrap().unwrap().by, EnrolledBy::JoinToken(id));
    assert_eq!(store.token().unwrap(), Some(id));
    for bad in ["", "service-accounts", "Service-Account", "0123456789abcde"] {
        fs::write(&path, text.replace("service-account", bad)).unwrap();
        assert!(matches!(store.load(), Err(IdentityError::StoreInvalid { .. })), "{bad:?}");
    }
    office.clock.forward(25 * HOUR);
    fs::write(&path, &text).unwrap();
    assert!(matches!(store.load(), Err(IdentityError::BundleExpired { .. })), "it has ended, and can be got anew");
}

#[tokio::test]
async fn t26_any_ca_of_the_file_is_the_hubs_and_no_other() {
    let office = Office::open();
    let clock = office.shared_clock();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("hub-ca.pem");
    let (other, next) = (Forge::new("another CA"), Forge::new("one more"));
    let real = office.authority.ca_pem().to_owned();
    let knows = async |pem: &str| {
        fs::write(&path, pem).unwrap();
        let config = EnrolledAgent::enrol_config_for(&CaPin::read(&path).unwrap(), &clock).unwrap();
        shake(office.authority.enrol_config(), config).await.is_some()
    };
    assert!(knows(&real).await);
    assert!(knows(&format!("{}{real}", other.ca_pem)).await && knows(&format!("{real}{}", other.ca_pem)).await);
    assert!(!knows(&other.ca_pem).await && !knows(&format!("{}{}", other.ca_pem, next.ca_pem)).await);
    let none = EnrolledAgent::enrol_config_for(&[], &clock).unwrap();
    assert!(shake(office.authority.enrol_config(), none).await.is_none(), "without a pin nobody is the hub");

    let agent = other.agent(|_| {});
    for bad in ["", "text", &agent.pem, &format!("{real}{}", agent.pem)] {
        fs::write(&path, bad).unwrap();
        let error = CaPin::read(&path).unwrap_err();
        assert_eq!(error.code().code, "MCT-IDENTITY-HUB-CA", "{bad:?}: {error}");
    }
    fs::remove_file(&path).unwrap();
    assert_eq!(CaPin::read(&path).unwrap_err().code().code, "MCT-IDENTITY-FILE");
}
