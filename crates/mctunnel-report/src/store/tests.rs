//! Which kinds a store takes of whom, and what each cluster said last.

use super::*;
use crate::{
    Record,
    kind::{BUILT_IN, MOST_CUSTOM},
};

fn cluster(name: &str) -> ClusterName {
    ClusterName::parse(name).unwrap()
}

/// Reports one record, as a cluster that is new to the kind.
async fn report(store: &Store, cluster: &ClusterName, kind: &str) -> Result<u64, ReportError> {
    let (kind, spool) = (Kind::parse(kind).unwrap(), SpoolId([1; 16]));
    store.wanted(cluster, spool, &kind)?;
    stored(store, cluster, &kind).await
}

/// The same without having asked.
async fn stored(store: &Store, cluster: &ClusterName, kind: &Kind) -> Result<u64, ReportError> {
    let batch = Batch::pack(1, &[Record::new(0, "s", "x").unwrap()]);
    store.submit(cluster, SpoolId([1; 16]), kind, batch, 1).await?.await.unwrap()
}

#[tokio::test]
async fn one_cluster_cannot_take_the_kinds_of_all_and_there_is_always_room_for_those_built_in() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path(), Retention::default()).unwrap();
    let hostile = cluster("hostile");
    for number in 0..MOST_CUSTOM {
        report(&store, &hostile, &format!("k{number}")).await.unwrap();
    }
    let more = report(&store, &hostile, "more").await;
    assert!(matches!(more, Err(ReportError::TooManyKinds(MOST_CUSTOM))), "{more:?}");
    let unasked = stored(&store, &hostile, &Kind::parse("more").unwrap()).await;
    assert!(matches!(unasked, Err(ReportError::TooManyKinds(MOST_CUSTOM))), "{unasked:?}");
    report(&store, &hostile, "k0").await.unwrap();
    report(&store, &cluster("other"), "more").await.unwrap();
    // Many together take what there is for kinds of their own, and no more.
    let mut kinds = MOST_CUSTOM + 1;
    for number in 0..MOST_KINDS {
        kinds += usize::from(report(&store, &cluster(&format!("c{number}")), &format!("own-{number}")).await.is_ok());
    }
    assert_eq!(kinds, MOST_KINDS - BUILT_IN.len());
    for kind in BUILT_IN {
        report(&store, &cluster("honest"), kind).await.unwrap();
        report(&store, &hostile, kind).await.unwrap();
    }
}

#[tokio::test]
async fn the_last_record_of_each_cluster_is_found_whatever_its_time() {
    let dir = tempfile::tempdir().unwrap();
    let kind = Kind::parse("status").unwrap();
    let store = Store::open(dir.path(), Retention::default()).unwrap();
    assert_eq!(store.last_of_each(&kind).unwrap(), []);
    for (name, count) in [("c2", 3), ("c1", 2), ("c3", 1)] {
        let records: Vec<_> = (0..count).map(|_| Record::new(0, "agent", name).unwrap()).collect();
        let batch = Batch::pack(1, &records);
        store.submit(&cluster(name), SpoolId([1; 16]), &kind, batch, 1).await.unwrap().await.unwrap().unwrap();
    }
    drop(store);
    let store = Store::open(dir.path(), Retention::default()).unwrap();
    let last = store.last_of_each(&kind).unwrap();
    let last: Vec<_> = last.iter().map(|found| (found.cluster.as_str(), found.number, found.position)).collect();
    assert_eq!(last, [("c1", 2, 4), ("c2", 3, 2), ("c3", 1, 5)]);
}
