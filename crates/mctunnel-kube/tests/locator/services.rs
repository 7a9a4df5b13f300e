//! Kinds of services, as Kubernetes writes them: named ports, headless, external, the kube-apiserver's own.

use crate::{
    fake_api::{FakeApi, SERVICES, SLICES},
    fake_names::FakeNames,
    setup::{addresses, cluster_with_web, locate, locator, locator_with_names, service, slice, web},
};
use mctunnel_core::{ExpectedPeer, Locate, LocateError, Roots, ServiceTarget, Target};
use mctunnel_kube::{LocatorConfig, ServiceName, ServiceTls};
use serde_json::{Value, json};

async fn cluster(services: &[Value], slices: &[Value]) -> FakeApi {
    let api = FakeApi::start().await;
    api.list(SERVICES, "10", services);
    api.list(SLICES, "10", slices);
    api
}

#[tokio::test]
async fn named_ports_lead_to_what_the_slice_calls_so() {
    let spec = json!({"ports": [
        {"name": "http", "port": 80, "targetPort": "web"}, {"name": "metrics", "port": 9090, "targetPort": 9100},
    ]});
    let mut endpoints = slice("app-1", "app", "9", &["10.0.0.1"]);
    endpoints["ports"] = json!([{"name": "metrics", "port": 9100}, {"name": "http", "port": 8080}]);
    let api = cluster(&[service("app", "1", &spec)], &[endpoints]).await;
    let locator = locator(&api, LocatorConfig::default()).await;
    let located = locate(&locator, "app:http").await.unwrap();
    assert_eq!(
        (located.addresses[0].to_string().as_str(), located.authority.as_str()),
        ("10.0.0.1:8080", "app.default.svc:80")
    );
    assert_eq!(addresses(&locator, "app:9090").await.unwrap(), ["10.0.0.1:9100"]);
    let several = locate(&locator, "app").await;
    assert!(
        matches!(&several, Err(LocateError::NotFound(m)) if m.ends_with("80 (http), 9090 (metrics)")),
        "{several:?}"
    );
}

#[tokio::test]
async fn headless_services_are_their_endpoints() {
    let spec = json!({"clusterIP": "None", "ports": [{"port": 5432, "targetPort": 8080}]});
    let api = cluster(&[service("db", "1", &spec)], &[slice("db-1", "db", "9", &["10.0.0.1", "10.0.0.2"])]).await;
    let locator = locator(&api, LocatorConfig::default()).await;
    assert_eq!(addresses(&locator, "db:5432").await.unwrap(), ["10.0.0.1:8080", "10.0.0.2:8080"]);
}

#[tokio::test]
async fn services_without_ready_endpoints_say_so() {
    let api = cluster(&[web()], &[]).await;
    let locator = locator(&api, LocatorConfig::default()).await;
    assert!(matches!(locate(&locator, "web").await, Err(LocateError::NoneReady(_))));
    assert!(matches!(locate(&locator, "unknown").await, Err(LocateError::NotFound(_))));
}

#[tokio::test]
async fn external_names_are_forbidden_unless_allowed() {
    let external = |name: &str, to: &str| service(name, "1", &json!({"type": "ExternalName", "externalName": to}));
    let services = [external("out", "db.example.com"), external("trick", "metadata.example.com")];
    let names = FakeNames::of(&[("db.example.com", &["203.0.113.5"]), ("metadata.example.com", &["169.254.169.254"])]);

    let api = cluster(&services, &[]).await;
    let strict = locator_with_names(&api, LocatorConfig::default(), names.clone()).await;
    let refused = locate(&strict, "out:5432").await;
    assert!(matches!(&refused, Err(LocateError::Forbidden(m)) if m.contains("db.example.com")), "{refused:?}");
    assert_eq!(names.asked(), [] as [&str; 0]);

    let api = cluster(&services, &[]).await;
    let config = LocatorConfig { allow_external_names: true, ..LocatorConfig::default() };
    let open = locator_with_names(&api, config, names).await;
    let located = locate(&open, "out:5432").await.unwrap();
    assert_eq!(located.authority, "db.example.com:5432");
    assert_eq!(located.addresses, ["203.0.113.5:5432".parse().unwrap()]);
    assert!(matches!(locate(&open, "trick:80").await, Err(LocateError::Forbidden(_))));
    assert!(matches!(locate(&open, "out").await, Err(LocateError::NotFound(_))));
}

#[tokio::test]
async fn the_kube_apiserver_is_no_service() {
    let spec = json!({"ports": [{"name": "https", "port": 443, "targetPort": 6443}]});
    let mut own = slice("kubernetes", "kubernetes", "1", &["10.0.0.99"]);
    own["ports"] = json!([{"name": "https", "port": 6443}]);
    // Somebody made a service of their own that leads to it.
    let mut copy = slice("back-door", "web", "1", &["10.0.0.99"]);
    copy["ports"] = json!([{"port": 6443}]);
    let api = cluster(&[service("kubernetes", "1", &spec), web()], &[own, copy]).await;
    let locator = locator(&api, LocatorConfig::default()).await;
    for spec in ["kubernetes", "kubernetes:443", "https:kubernetes:https"] {
        let refused = locate(&locator, spec).await;
        assert!(matches!(&refused, Err(LocateError::Forbidden(m)) if m.contains("/<cluster>/api")), "{refused:?}");
    }
    let refused = locate(&locator, "web").await;
    assert!(matches!(&refused, Err(LocateError::Forbidden(m)) if m.contains("kube-apiserver")), "{refused:?}");
}

#[tokio::test]
async fn the_address_the_agent_itself_uses_is_no_endpoint_either() {
    let api = FakeApi::start().await;
    let mut copy = slice("back-door", "web", "1", &["127.0.0.1"]);
    copy["ports"] = json!([{"port": api.address.port()}]);
    api.list(SERVICES, "10", &[web()]);
    api.list(SLICES, "10", &[copy]);
    let locator = locator(&api, LocatorConfig::default()).await;
    let refused = locate(&locator, "web").await;
    assert!(matches!(&refused, Err(LocateError::Forbidden(m)) if m.contains("kube-apiserver")), "{refused:?}");
}

#[tokio::test]
async fn tls_is_expected_of_https_and_unchecked_only_where_listed() {
    let other = ServiceName::parse("default/other").unwrap();
    let tls = |insecure: bool| ServiceTls {
        default_roots: Some("default PEM".into()),
        roots: [(other.clone(), "other PEM".into())].into(),
        insecure: if insecure { [other.clone()].into() } else { [].into() },
    };
    let plain = json!({"ports": [{"port": 80}]});
    let peer = |name: &str, roots| Some(ExpectedPeer { name: format!("{name}.default.svc"), roots });
    for (insecure, expected) in [(false, Roots::Pem("other PEM".into())), (true, Roots::Unchecked)] {
        let slices = [slice("a", "web", "1", &["10.0.0.1"]), slice("b", "other", "1", &["10.0.0.2"])];
        let api = cluster(&[web(), service("other", "1", &plain)], &slices).await;
        let locator = locator(&api, LocatorConfig { tls: tls(insecure), ..LocatorConfig::default() }).await;
        assert_eq!(locate(&locator, "https:other:80").await.unwrap().tls, peer("other", expected));
        assert_eq!(locate(&locator, "https:web:80").await.unwrap().tls, peer("web", Roots::Pem("default PEM".into())));
        assert_eq!(locate(&locator, "other:80").await.unwrap().tls, None);
    }
}

#[tokio::test]
async fn nobody_to_vouch_for_a_service_is_not_nobody_asked() {
    let api = cluster_with_web(&["10.0.0.1"]).await;
    let locator = locator(&api, LocatorConfig::default()).await;
    let refused = locate(&locator, "https:web:80").await;
    assert!(matches!(&refused, Err(LocateError::Forbidden(m)) if m.contains("CA bundle")), "{refused:?}");
}

#[tokio::test]
async fn another_namespace_is_another_service() {
    let api = cluster_with_web(&["10.0.0.1"]).await;
    let locator = locator(&api, LocatorConfig::default()).await;
    let target = Target::Service(ServiceTarget::parse("other", "web").unwrap());
    assert!(matches!(locator.locate(&target).await, Err(LocateError::NotFound(_))));
}

#[tokio::test]
async fn hosts_and_ports_are_not_located() {
    let api = cluster_with_web(&["10.0.0.1"]).await;
    let locator = locator(&api, LocatorConfig::default()).await;
    let target = Target::Endpoint(mctunnel_core::Endpoint::parse("10.0.0.1:80").unwrap());
    assert!(matches!(locator.locate(&target).await, Err(LocateError::NotFound(_))));
}
