//! Lists and watches: what changes in the cluster is seen, and nothing is lost by a cut.

use crate::{
    fake_api::{FakeApi, SERVICES, SLICES},
    setup::{addresses, becomes, cluster_with_web, locate, locator, slice, web},
};
use mctunnel_core::{LocateError, target::Label};
use mctunnel_kube::{LocatorConfig, Namespaces};
use serde_json::json;
use std::time::Duration;
use tokio::time::timeout;

#[tokio::test]
async fn the_first_list_is_waited_for_and_used() {
    let api = cluster_with_web(&["10.0.0.1", "10.0.0.2"]).await;
    let locator = locator(&api, LocatorConfig::default()).await;
    let located = locate(&locator, "web").await.unwrap();
    assert_eq!(located.authority, "web.default.svc:80");
    assert_eq!(located.tls, None);
    assert_eq!(addresses(&locator, "web:80").await.unwrap(), ["10.0.0.1:8080", "10.0.0.2:8080"]);
    assert_eq!(api.asked("limit=", 2).await.len(), 2);
    assert!(api.asked("/api/v1/services?limit=500", 1).await.len() == 1);
    assert!(api.asked("/apis/discovery.k8s.io/v1/endpointslices?limit=500", 1).await.len() == 1);
    let watches = api.asked("watch=1", 2).await;
    assert!(watches.iter().all(|one| one.contains("resourceVersion=10&")), "{watches:?}");
    assert!(watches.iter().all(|one| one.contains("allowWatchBookmarks=true")), "{watches:?}");
}

#[tokio::test]
async fn a_long_list_comes_in_pages() {
    let api = FakeApi::start().await;
    api.list(SERVICES, "10", &[web()]);
    api.page(SLICES, &[slice("web-1", "web", "1", &["10.0.0.1"])], "next/1");
    api.list(SLICES, "12", &[slice("web-2", "web", "2", &["10.0.0.2"])]);
    let locator = locator(&api, LocatorConfig::default()).await;
    assert_eq!(addresses(&locator, "web").await.unwrap(), ["10.0.0.1:8080", "10.0.0.2:8080"]);
    assert!(api.asked("continue=", 1).await[0].ends_with("limit=500&continue=next%2F1"));
    assert!(api.asked("endpointslices?watch=1", 1).await[0].contains("resourceVersion=12&"));
}

#[tokio::test]
async fn what_is_added_changed_and_deleted_is_seen() {
    let api = cluster_with_web(&["10.0.0.1"]).await;
    let feed = api.watch(SLICES);
    let locator = locator(&api, LocatorConfig::default()).await;
    becomes(&locator, &["10.0.0.1:8080"]).await;
    feed.tell("ADDED", slice("web-2", "web", "11", &["10.0.0.2"])).await;
    becomes(&locator, &["10.0.0.1:8080", "10.0.0.2:8080"]).await;
    feed.tell("MODIFIED", slice("web-1", "web", "12", &["10.0.0.3"])).await;
    becomes(&locator, &["10.0.0.2:8080", "10.0.0.3:8080"]).await;
    feed.tell("DELETED", slice("web-2", "web", "13", &["10.0.0.2"])).await;
    becomes(&locator, &["10.0.0.3:8080"]).await;
    // Given to another service by its label.
    feed.tell("MODIFIED", slice("web-1", "db", "14", &["10.0.0.3"])).await;
    feed.tell("ADDED", slice("web-3", "web", "15", &["10.0.0.4"])).await;
    becomes(&locator, &["10.0.0.4:8080"]).await;
}

#[tokio::test]
async fn services_come_and_go() {
    let api = cluster_with_web(&["10.0.0.1"]).await;
    let feed = api.watch(SERVICES);
    let locator = locator(&api, LocatorConfig::default()).await;
    becomes(&locator, &["10.0.0.1:8080"]).await;
    let mut changes = locator.changes();
    changes.mark_unchanged();
    feed.tell("DELETED", web()).await;
    timeout(Duration::from_secs(20), changes.changed()).await.expect("the deletion was not seen").unwrap();
    assert_eq!(locate(&locator, "web").await, Err(LocateError::NotFound("there is no service default/web".to_owned())));
    feed.tell("ADDED", web()).await;
    becomes(&locator, &["10.0.0.1:8080"]).await;
}

#[tokio::test]
async fn a_watch_that_ends_or_is_cut_is_resumed_where_it_was() {
    let api = cluster_with_web(&["10.0.0.1"]).await;
    let (first, second, third) = (api.watch(SLICES), api.watch(SLICES), api.watch(SLICES));
    let locator = locator(&api, LocatorConfig::default()).await;
    first.tell("MODIFIED", slice("web-1", "web", "21", &["10.0.0.2"])).await;
    becomes(&locator, &["10.0.0.2:8080"]).await;
    first.cut().await;
    assert!(api.asked("endpointslices?watch=1", 2).await[1].contains("resourceVersion=21&"));
    // A bookmark moves the place too, and a clean end is resumed like a cut.
    second.tell("BOOKMARK", json!({"kind": "EndpointSlice", "apiVersion": "discovery.k8s.io/v1", "metadata": {"resourceVersion": "35"}})).await;
    drop(second);
    assert!(api.asked("endpointslices?watch=1", 3).await[2].contains("resourceVersion=35&"));
    third.tell("MODIFIED", slice("web-1", "web", "36", &["10.0.0.3"])).await;
    becomes(&locator, &["10.0.0.3:8080"]).await;
    assert_eq!(api.asked("endpointslices?limit", 1).await.len(), 1, "nothing was listed anew");
}

#[tokio::test]
async fn a_version_that_is_gone_is_listed_anew() {
    for as_event in [true, false] {
        let api = cluster_with_web(&["10.0.0.1"]).await;
        let gone = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Expired", "message": "too old", "code": 410});
        if as_event {
            let feed = api.watch(SLICES);
            feed.tell("ERROR", gone).await;
        } else {
            api.refuse_watch(SLICES, 410);
        }
        api.list(SLICES, "50", &[slice("web-9", "web", "49", &["10.0.0.9"])]);
        let feed = api.watch(SLICES);
        let locator = locator(&api, LocatorConfig::default()).await;
        // The old slice was deleted while nobody looked: it must be gone with the new list.
        becomes(&locator, &["10.0.0.9:8080"]).await;
        assert!(api.asked("endpointslices?watch=1", 2).await[1].contains("resourceVersion=50&"), "{as_event}");
        feed.tell("ADDED", slice("web-8", "web", "51", &["10.0.0.8"])).await;
        becomes(&locator, &["10.0.0.8:8080", "10.0.0.9:8080"]).await;
    }
}

#[tokio::test]
async fn what_is_known_outlives_the_kube_apiserver() {
    let api = cluster_with_web(&["10.0.0.1"]).await;
    let locator = locator(&api, LocatorConfig::default()).await;
    becomes(&locator, &["10.0.0.1:8080"]).await;
    drop(api);
    assert_eq!(addresses(&locator, "web").await.unwrap(), ["10.0.0.1:8080"]);
}

#[tokio::test]
async fn a_list_that_fails_is_tried_again() {
    let api = FakeApi::start().await;
    api.list(SERVICES, "10", &[web()]);
    api.refuse_list(SLICES, 500);
    api.refuse_list(SLICES, 503);
    api.list(SLICES, "10", &[slice("web-1", "web", "9", &["10.0.0.1"])]);
    let locator = locator(&api, LocatorConfig::default()).await;
    assert_eq!(addresses(&locator, "web").await.unwrap(), ["10.0.0.1:8080"]);
}

#[tokio::test(start_paused = true)]
async fn without_a_first_list_a_service_is_unavailable_after_five_seconds() {
    let api = FakeApi::start().await;
    let locator = locator(&api, LocatorConfig::default()).await;
    let began = tokio::time::Instant::now();
    assert!(matches!(locate(&locator, "web").await, Err(LocateError::Unavailable(_))));
    assert_eq!(began.elapsed().as_secs(), 5);
}

#[tokio::test]
async fn only_the_given_namespaces_are_watched() {
    let api = cluster_with_web(&["10.0.0.1"]).await;
    let namespaces = Namespaces::Only(vec![Label::parse("default").unwrap()]);
    let locator = locator(&api, LocatorConfig { namespaces, ..LocatorConfig::default() }).await;
    becomes(&locator, &["10.0.0.1:8080"]).await;
    assert_eq!(api.asked("/api/v1/namespaces/default/services?limit", 1).await.len(), 1);
    assert_eq!(api.asked("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices?", 2).await.len(), 2);
}
