//! The list counts as it lies on disk, and what cannot be read admits nobody.

use crate::forge::{YEAR, cluster};
use mctunnel_core::{Clusters, clusters::Standing};
use mctunnel_identity::{AgentIdentity, ClusterFiles, HubAuthority, IdentityError};
use rustls_pki_types::{CertificateDer, pem::PemObject};
use std::{fs, os::unix::fs::PermissionsExt, sync::Barrier};

#[tokio::test]
async fn an_added_cluster_is_known_to_everybody_at_once_until_it_is_removed() {
    let dir = tempfile::tempdir().unwrap();
    let (hub, cli) = (ClusterFiles::new(dir.path()), ClusterFiles::new(dir.path()));
    let (a, b) = (cluster("a"), cluster("b"));
    assert!(!hub.is_known(&a).await);
    assert_eq!(hub.list().unwrap(), []);

    cli.add(&a, "0a1b", false).unwrap();

    assert!(hub.is_known(&a).await);
    assert!(hub.admits(&a, "0a1b").await);
    assert!(!hub.admits(&a, "0a1").await);
    assert!(!hub.admits(&a, "0A1B").await);
    assert!(!hub.admits(&a, "").await);
    assert!(!hub.is_known(&b).await);
    assert!(!hub.admits(&b, "0a1b").await);

    cli.remove(&a).unwrap();

    assert!(!hub.is_known(&a).await);
    assert!(!hub.admits(&a, "0a1b").await);
    assert!(matches!(cli.remove(&a), Err(IdentityError::ClusterUnknown(c)) if c == a));
}

#[tokio::test]
async fn the_serial_that_was_issued_is_the_serial_that_is_shown() {
    let dir = tempfile::tempdir().unwrap();
    let hub = HubAuthority::open_or_create(dir.path(), &[]).unwrap();
    let files = ClusterFiles::new(dir.path());
    let a = cluster("a");
    // Enough of them that some begin with a zero byte and some with a high bit, which DER writes in other lengths.
    for _ in 0..512 {
        let issued = hub.issue_agent(&a, YEAR).unwrap();
        files.add(&a, &issued.serial, true).unwrap();
        let shown = CertificateDer::from_pem_slice(issued.certificate_pem.as_bytes()).unwrap();
        let identity = AgentIdentity::from_certificates(&[shown]).unwrap();
        assert!(files.admits(&identity.cluster, &identity.serial).await, "{}", issued.serial);
    }
}

#[tokio::test]
async fn reissue_replaces_the_certificate_and_nothing_else_does() {
    let dir = tempfile::tempdir().unwrap();
    let files = ClusterFiles::new(dir.path());
    let a = cluster("a");
    files.add(&a, "01", false).unwrap();
    let path = dir.path().join("clusters/a.json");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replace("\"added\":", "\"added\":1")).unwrap();
    let added = files.list().unwrap()[0].added_unix;

    let error = files.add(&a, "02", false).unwrap_err();
    assert!(matches!(&error, IdentityError::ClusterExists(c) if *c == a), "{error:?}");
    assert!(error.code().remedy.contains("--reissue") && error.code().remedy.contains("cluster remove"));
    assert!(files.admits(&a, "01").await);
    assert!(!files.admits(&a, "02").await);

    files.add(&a, "02", true).unwrap();
    assert!(!files.admits(&a, "01").await);
    assert!(files.admits(&a, "02").await);
    assert_eq!(files.list().unwrap()[0].added_unix, added, "when it was first added stays");

    files.add(&cluster("b"), "03", true).unwrap();
    assert!(files.admits(&cluster("b"), "03").await, "reissue adds what was not there");
}

#[tokio::test]
async fn a_damaged_record_admits_nobody_and_reissue_mends_it() {
    let dir = tempfile::tempdir().unwrap();
    let files = ClusterFiles::new(dir.path());
    let (a, b) = (cluster("a"), cluster("b"));
    files.add(&a, "01", false).unwrap();
    let path = |name: &str| dir.path().join("clusters").join(name);
    let good = fs::read_to_string(path("a.json")).unwrap();
    for bad in ["", "{}", "null", &good.replace("\"a\"", "\"b\""), &good.replace("added", "addled")] {
        fs::write(path("a.json"), bad).unwrap();
        assert!(!files.is_known(&a).await && !files.admits(&a, "01").await, "{bad:?}");
        assert!(matches!(files.list(), Err(IdentityError::ClusterRecordInvalid { .. })), "{bad:?}");
        assert!(matches!(files.add(&a, "02", false), Err(IdentityError::ClusterExists(_))), "{bad:?}");
    }
    files.add(&a, "02", true).unwrap();
    assert!(files.admits(&a, "02").await);
    fs::copy(path("a.json"), path("b.json")).unwrap();
    assert!(!files.admits(&b, "02").await, "a record copied to another name");
}

#[test]
fn the_list_is_sorted_private_and_passes_over_other_files() {
    let dir = tempfile::tempdir().unwrap();
    let files = ClusterFiles::new(dir.path());
    for name in ["c", "a", "b"] {
        files.add(&cluster(name), "01", false).unwrap();
    }
    for other in [".mctunnel-x", "README", "A.json", "a.json.bak", "-.json"] {
        fs::write(dir.path().join("clusters").join(other), "x").unwrap();
    }
    let listed = files.list().unwrap();
    assert_eq!(listed.iter().map(|r| r.cluster.as_str()).collect::<Vec<_>>(), ["a", "b", "c"]);
    assert_eq!(listed[0].serials, ["01"]);
    let mode = |path: &str| fs::metadata(dir.path().join(path)).unwrap().permissions().mode() & 0o7777;
    assert_eq!((mode("clusters"), mode("clusters/a.json")), (0o700, 0o600));
}

#[test]
fn of_many_who_add_the_same_cluster_one_succeeds() {
    let dir = tempfile::tempdir().unwrap();
    let files = ClusterFiles::new(dir.path());
    let start = Barrier::new(8);
    let added = std::thread::scope(|scope| {
        let add = |serial: String| {
            start.wait();
            files.add(&cluster("a"), &serial, false).is_ok().then_some(serial)
        };
        let threads: Vec<_> = (0..8).map(|n| scope.spawn(move || add(n.to_string()))).collect();
        threads.into_iter().filter_map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
    });
    assert_eq!(added.len(), 1);
    assert_eq!(files.list().unwrap()[0].serials, added);
}

#[tokio::test]
async fn t40_a_record_that_cannot_be_read_is_not_one_that_says_no() {
    let dir = tempfile::tempdir().unwrap();
    let files = ClusterFiles::new(dir.path());
    let a = cluster("a");
    let path = dir.path().join("clusters/a.json");
    assert_eq!(files.stands(&a, "01").await, Standing::Refused, "there is none");
    files.add(&a, "01", false).unwrap();
    files.allow_own_ca(&a).unwrap();
    let both = async || (files.stands(&a, "01").await, files.stands_own(&a).await);
    assert_eq!(both().await, (Standing::Admitted, Standing::Admitted));
    assert_eq!(files.stands(&a, "02").await, Standing::Refused);

    // What cannot be read: a directory, as for root too. And what is damaged.
    let aside = dir.path().join("aside");
    fs::rename(&path, &aside).unwrap();
    assert_eq!(both().await, (Standing::Refused, Standing::Refused), "removed");
    fs::create_dir(&path).unwrap();
    let unknown = |(one, other): (Standing, Standing)| {
        matches!(&one, Standing::Unknown(why) if why.contains("a.json")) && one == other
    };
    assert!(unknown(both().await), "{:?}", both().await);
    assert!(!files.admits(&a, "01").await && !files.admits_own(&a).await, "nobody is let in by it");
    fs::remove_dir(&path).unwrap();
    fs::write(&path, "half").unwrap();
    assert!(unknown(both().await), "{:?}", both().await);

    fs::rename(&aside, &path).unwrap();
    files.revoke(&a).unwrap();
    assert_eq!(both().await, (Standing::Refused, Standing::Refused));
}

#[test]
fn one_damaged_record_is_nothing_to_the_others() {
    let dir = tempfile::tempdir().unwrap();
    let files = ClusterFiles::new(dir.path());
    for name in ["a", "b", "c"] {
        files.add(&cluster(name), "01", false).unwrap();
    }
    fs::write(dir.path().join("clusters/b.json"), "{}").unwrap();
    let list = files.list_readable().unwrap();
    assert_eq!(list.clusters.iter().map(|record| record.cluster.as_str()).collect::<Vec<_>>(), ["a", "c"]);
    let [(name, error)] = list.unread.as_slice() else { panic!("{:?}", list.unread) };
    assert!(name.as_str() == "b" && matches!(error, IdentityError::ClusterRecordInvalid { .. }), "{error:?}");
}

#[test]
fn what_does_not_change_is_not_written() {
    use std::os::unix::fs::MetadataExt;
    let dir = tempfile::tempdir().unwrap();
    let files = ClusterFiles::new(dir.path());
    let a = cluster("a");
    let epoch = files.ensure(&a).unwrap();
    // Each write makes another file.
    let file = || fs::metadata(dir.path().join("clusters/a.json")).unwrap().ino();
    let (before, changed) = (file(), files.changed());
    assert_eq!(files.ensure(&a).unwrap(), epoch);
    assert_eq!((file(), files.changed()), (before, changed));
}
