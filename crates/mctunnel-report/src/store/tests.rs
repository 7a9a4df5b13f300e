//! Which kinds a store takes of whom.

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
