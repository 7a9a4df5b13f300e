//! DNS in place of Kubernetes: when the agent may not watch, where it does not watch, and without Kubernetes at all.

use crate::{
    fake_api::{FakeApi, SERVICES, SLICES},
    fake_names::FakeNames,
    setup::{addresses, becomes, becomes_at, cluster_with_web, locate, locator_with_names, slice, web},
};
use mctunnel_core::{Locate, LocateError, Roots, Target};
use mctunnel_kube::{ApiServer, DnsLocator, LocatorConfig, Namespaces, ServiceTls};
use std::{sync::Arc, time::Duration};

const WEB: &str = "web.default.svc.cluster.local.";

#[tokio::test]
async fn without_the_right_to_watch_services_are_found_by_dns() {
    for (resource, code) in [(SLICES, 403), (SERVICES, 403), (SLICES, 404)] {
        let api = FakeApi::start().await;
        let other = if resource == SLICES { SERVICES } else { SLICES };
        api.refuse_list(resource, code);
        api.list(other, "10", &[]);
        let names = FakeNames::of(&[(WEB, &["10.96.0.7"])]);
        let locator = locator_with_names(&api, LocatorConfig::default(), names.clone()).await;
        let located = locate(&locator, "web:80").await.unwrap();
        assert_eq!(located.addresses, ["10.96.0.7:80".parse().unwrap()], "{resource} {code}");
        assert_eq!(located.authority, "web.default.svc:80");
        assert_eq!(names.asked(), [WEB]);
        for unknowable in ["web", "web:http"] {
            let refused = locate(&locator, unknowable).await;
            assert!(matches!(&refused, Err(LocateError::NotFound(m)) if m.contains("by its number")), "{refused:?}");
        }
        assert!(matches!(locate(&locator, "kubernetes:443").await, Err(LocateError::Forbidden(_))));
    }
}

#[tokio::test]
async fn a_right_that_is_given_later_is_noticed_and_one_that_is_taken_too() {
    let api = FakeApi::start().await;
    api.list(SERVICES, "10", &[web()]);
    api.refuse_list(SLICES, 403);
    api.list(SLICES, "10", &[slice("web-1", "web", "9", &["10.0.0.1"])]);
    api.refuse_watch(SLICES, 403);
    let names = FakeNames::of(&[(WEB, &["10.96.0.7"])]);
    let locator = locator_with_names(&api, LocatorConfig::default(), names).await;
    becomes_at(&locator, "web:80", &["10.96.0.7:80"]).await;
    api.asked("/services?watch", 1).await;
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(61)).await;
    tokio::time::resume();
    // A watch shows that the list before it was taken; it is refused, so that DNS is all there is again.
    api.asked("endpointslices?watch", 1).await;
    becomes_at(&locator, "web:80", &["10.96.0.7:80"]).await;
    assert_eq!(api.asked("endpointslices?limit", 2).await.len(), 2);
}

#[tokio::test]
async fn namespaces_that_are_not_watched_are_found_by_dns() {
    let api = cluster_with_web(&["10.0.0.1"]).await;
    let names = FakeNames::of(&[("web.team.svc.cluster.local.", &["10.96.0.8"])]);
    let namespaces = Namespaces::Only(vec![mctunnel_core::target::Label::parse("default").unwrap()]);
    let config = LocatorConfig { namespaces, ..LocatorConfig::default() };
    let locator = locator_with_names(&api, config, names).await;
    becomes(&locator, &["10.0.0.1:8080"]).await;
    let target = Target::Service(mctunnel_core::ServiceTarget::parse("team", "web:80").unwrap());
    assert_eq!(locator.locate(&target).await.unwrap().addresses, ["10.96.0.8:80".parse().unwrap()]);
}

#[tokio::test]
async fn t20_by_dns_too_external_names_lead_out_of_the_cluster_by_leave_only() {
    // Another service of the cluster is as little what was permitted as a host outside.
    for outside in ["db.example.com.", "web.default.svc.cluster.local.example.com.", "vault.safe.svc.cluster.local."] {
        for allow_external_names in [false, true] {
            let api = FakeApi::start().await;
            api.refuse_list(SERVICES, 403);
            api.refuse_list(SLICES, 403);
            let names = FakeNames::of(&[(outside, &["10.9.9.9"])]);
            names.alias(WEB, outside);
            let config = LocatorConfig { allow_external_names, ..LocatorConfig::default() };
            let locator = locator_with_names(&api, config, names).await;
            match (locate(&locator, "web:80").await, allow_external_names) {
                (Ok(located), true) => assert_eq!(located.addresses, ["10.9.9.9:80".parse().unwrap()]),
                (Err(LocateError::Forbidden(reason)), false) => assert!(reason.contains("default/web"), "{reason}"),
                (located, allowed) => panic!("{outside}, {allowed}: {located:?}"),
            }
        }
    }
}

// === DnsLocator ===

fn dns(domain: Option<&str>, api_server: Option<ApiServer>, names: Arc<FakeNames>) -> DnsLocator {
    DnsLocator::with_resolver(domain.map(str::to_owned), ServiceTls::default(), api_server, names)
}

#[tokio::test]
async fn a_domain_makes_the_name_whole() {
    let names = FakeNames::of(&[("web.default.svc", &["10.96.0.1"]), ("web.default.svc.c.example.", &["10.96.0.2"])]);
    assert_eq!(addresses(&dns(None, None, names.clone()), "web:80").await.unwrap(), ["10.96.0.1:80"]);
    assert_eq!(addresses(&dns(Some("c.example"), None, names), "web:80").await.unwrap(), ["10.96.0.2:80"]);
}

#[tokio::test]
async fn names_never_lead_to_special_addresses_or_the_kube_apiserver() {
    let server = ApiServer::parse("https://10.0.0.99:6443", None, Some(Roots::Pem("PEM".into()))).unwrap();
    for (found, expected) in [
        (vec!["127.0.0.1", "10.0.0.1", "10.0.0.1"], Ok(vec!["10.0.0.1:6443"])),
        (vec!["::ffff:10.0.0.1"], Ok(vec!["10.0.0.1:6443"])),
        (vec!["169.254.169.254"], Err(())),
        (vec!["::1", "0.0.0.0"], Err(())),
        (vec!["64:ff9b::a9fe:a9fe"], Err(())),
        (vec!["10.0.0.99"], Err(())),
    ] {
        let names = FakeNames::of(&[("web.default.svc", &found)]);
        match (addresses(&dns(None, Some(server.clone()), names), "web:6443").await, expected) {
            (Ok(given), Ok(expected)) => assert_eq!(given, expected),
            (Err(LocateError::Forbidden(_)), Err(())) => {}
            (given, expected) => panic!("{found:?}: {given:?}, not {expected:?}"),
        }
    }
}

#[tokio::test]
async fn unknown_names_are_not_found_and_none_is_asked_for_twice() {
    let names = FakeNames::of(&[("empty.default.svc", &[])]);
    let locator = dns(None, None, names.clone());
    assert!(matches!(locate(&locator, "web:80").await, Err(LocateError::NotFound(_))));
    assert!(matches!(locate(&locator, "empty:80").await, Err(LocateError::NotFound(_))));
    assert_eq!(names.asked(), ["web.default.svc", "empty.default.svc"]);
}

#[tokio::test]
async fn the_kube_apiserver_is_found_only_if_it_was_given() {
    let locator = dns(None, None, FakeNames::of(&[]));
    assert!(matches!(locator.locate(&Target::KubeApi).await, Err(LocateError::NotFound(_))));
    let server = ApiServer::parse("http://10.0.0.99:8080", None, None).unwrap();
    let located = dns(None, Some(server), FakeNames::of(&[])).locate(&Target::KubeApi).await.unwrap();
    assert_eq!((located.authority.as_str(), located.tls), ("10.0.0.99:8080", None));
}
