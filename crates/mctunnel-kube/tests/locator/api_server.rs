//! The kube-apiserver: where a kubeconfig says it is, and whom it says to expect there.

use crate::fake_names::FakeNames;
use mctunnel_core::{ExpectedPeer, Locate, LocateError, Located, Roots, Target};
use mctunnel_kube::{ApiServer, ClusterAccess, DnsLocator, KubeError, ServiceTls};
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};

/// A certificate needs no more than its frame here: nothing verifies with it.
const PEM: &str = "-----BEGIN CERTIFICATE-----\nAQID\n-----END CERTIFICATE-----\n";

fn kubeconfig(clusters: &[(&str, Value)]) -> Value {
    let named = |(name, cluster): &(&str, Value)| json!({"name": name, "cluster": cluster});
    let context = |(name, _): &(&str, Value)| json!({"name": name, "context": {"cluster": name, "user": "u"}});
    json!({
        "apiVersion": "v1", "kind": "Config", "current-context": clusters[0].0,
        "contexts": clusters.iter().map(context).collect::<Vec<_>>(),
        "clusters": clusters.iter().map(named).collect::<Vec<_>>(),
        "users": [{"name": "u", "user": {"token": "very-secret"}}],
    })
}

async fn access(config: &Value, context: Option<&str>) -> Result<ClusterAccess, KubeError> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("kubeconfig");
    std::fs::write(dir.path().join("ca.crt"), PEM).unwrap();
    std::fs::write(&path, config.to_string()).unwrap();
    ClusterAccess::from_kubeconfig(&path, context).await
}

async fn server(cluster: Value) -> Result<ApiServer, KubeError> {
    access(&kubeconfig(&[("c", cluster)]), None).await.map(|access| access.api_server().clone())
}

#[tokio::test]
async fn a_kubeconfig_says_where_it_is_and_whom_to_expect() {
    let peer = |name: &str, roots: Roots| Some(ExpectedPeer { name: name.to_owned(), roots });
    let pem = || Roots::Pem(PEM.into());
    for (cluster, endpoint, tls) in [
        (
            json!({"server": "https://k8s.example:6443", "certificate-authority": "ca.crt"}),
            "k8s.example:6443",
            peer("k8s.example", pem()),
        ),
        (
            json!({"server": "https://10.0.0.1", "certificate-authority": "ca.crt"}),
            "10.0.0.1:443",
            peer("10.0.0.1", pem()),
        ),
        (
            json!({"server": "https://[fd00::1]:6443/", "certificate-authority": "ca.crt"}),
            "[fd00::1]:6443",
            peer("fd00::1", pem()),
        ),
        (
            json!({"server": "https://10.0.0.1:6443", "certificate-authority": "ca.crt", "tls-server-name": "kubernetes"}),
            "10.0.0.1:6443",
            peer("kubernetes", pem()),
        ),
        (
            json!({"server": "https://10.0.0.1:6443", "insecure-skip-tls-verify": true}),
            "10.0.0.1:6443",
            peer("10.0.0.1", Roots::Unchecked),
        ),
        (json!({"server": "http://127.0.0.1:8001"}), "127.0.0.1:8001", None),
    ] {
        let server = server(cluster).await.unwrap();
        assert_eq!((server.endpoint.to_string().as_str(), server.tls), (endpoint, tls));
    }
}

#[tokio::test]
async fn what_cannot_be_used_has_a_code() {
    for (cluster, code) in [
        (json!({"server": "https://k8s.example:6443"}), "MCT-KUBE-NO-AUTHORITY"),
        (
            json!({"server": "https://k8s.example/k8s/clusters/c-1", "insecure-skip-tls-verify": true}),
            "MCT-KUBE-SERVER-URL",
        ),
        (json!({"server": "https://user@k8s.example", "insecure-skip-tls-verify": true}), "MCT-KUBE-SERVER-URL"),
        (json!({"server": "ftp://k8s.example"}), "MCT-KUBE-SERVER-URL"),
        (json!({"server": "https://0x7f.1", "insecure-skip-tls-verify": true}), "MCT-KUBE-SERVER-URL"),
        (json!({"server": "http://127.0.0.1:1", "proxy-url": "http://127.0.0.1:2"}), "MCT-KUBE-PROXY-URL"),
        (json!({"server": "https://10.0.0.1", "certificate-authority": "missing.crt"}), "MCT-KUBE-KUBECONFIG"),
        (json!({}), "MCT-KUBE-KUBECONFIG"),
    ] {
        let error = server(cluster.clone()).await.unwrap_err();
        assert_eq!(error.code().code, code, "{cluster}: {error}");
    }
    let missing = ClusterAccess::from_kubeconfig("/nonexistent/kubeconfig".as_ref(), None).await.unwrap_err();
    assert_eq!(missing.code().code, "MCT-KUBE-KUBECONFIG");
}

#[tokio::test]
async fn a_context_chooses_the_cluster() {
    let config =
        kubeconfig(&[("a", json!({"server": "http://10.0.0.1:1"})), ("b", json!({"server": "http://10.0.0.2:2"}))]);
    for (context, expected) in [(None, "10.0.0.1:1"), (Some("a"), "10.0.0.1:1"), (Some("b"), "10.0.0.2:2")] {
        let access = access(&config, context).await.unwrap();
        assert_eq!(access.api_server().endpoint.to_string(), expected);
        let shown = format!("{access:?}");
        assert!(shown.contains(expected) && !shown.contains("very-secret"), "{shown}");
    }
    assert_eq!(access(&config, Some("x")).await.unwrap_err().code().code, "MCT-KUBE-KUBECONFIG");
}

/// As the variable KUBECONFIG has it: the first file to name something wins, and one that is not there is passed over.
#[tokio::test]
async fn a_list_of_files_is_merged() {
    let dir = tempfile::tempdir().unwrap();
    let list = |files: &[&str]| std::env::join_paths(files.iter().map(|file| dir.path().join(file))).unwrap();
    let put = |file: &str, config: &Value| std::fs::write(dir.path().join(file), config.to_string()).unwrap();
    let a = kubeconfig(&[("a", json!({"server": "https://10.0.0.1", "certificate-authority": "ca.crt"}))]);
    let [mut context, mut cluster] = [a.clone(), a];
    context["clusters"] = json!([]);
    cluster["current-context"] = json!("");
    put("context", &context);
    put("cluster", &cluster);
    put(
        "other",
        &kubeconfig(&[("a", json!({"server": "http://10.0.0.2:2"})), ("b", json!({"server": "http://10.0.0.3:3"}))]),
    );
    std::fs::write(dir.path().join("ca.crt"), PEM).unwrap();
    std::fs::write(dir.path().join("broken"), "no: [").unwrap();
    for (files, context, expected) in [
        (["context", "cluster", "missing"], None, "10.0.0.1:443"),
        (["missing", "cluster", "context"], None, "10.0.0.1:443"),
        (["cluster", "other", "context"], None, "10.0.0.1:443"),
        (["other", "cluster", "context"], None, "10.0.0.2:2"),
        (["cluster", "other", "missing"], Some("b"), "10.0.0.3:3"),
    ] {
        let access = ClusterAccess::from_kubeconfig(list(&files).as_ref(), context).await.unwrap();
        assert_eq!(access.api_server().endpoint.to_string(), expected, "{files:?}");
    }
    for files in [&["missing", "not there"][..], &["cluster", "broken", "context"], &["context"]] {
        let error = ClusterAccess::from_kubeconfig(list(files).as_ref(), None).await.unwrap_err();
        assert_eq!(error.code().code, "MCT-KUBE-KUBECONFIG", "{files:?}");
    }
    // A file that is there is no list, whatever its name.
    put("a:b", &kubeconfig(&[("c", json!({"server": "http://10.0.0.4:4"}))]));
    let access = ClusterAccess::from_kubeconfig(&dir.path().join("a:b"), None).await.unwrap();
    assert_eq!(access.api_server().endpoint.to_string(), "10.0.0.4:4");
}

#[test]
fn outside_a_pod_there_is_no_pod() {
    if std::env::var_os("KUBERNETES_SERVICE_HOST").is_none() {
        assert_eq!(ClusterAccess::in_cluster().unwrap_err().code().code, "MCT-KUBE-NOT-IN-CLUSTER");
    }
}

async fn located(locator: &DnsLocator) -> Result<Located, LocateError> {
    locator.locate(&Target::KubeApi).await
}

#[tokio::test(start_paused = true)]
async fn its_name_is_looked_up_again_within_thirty_seconds() {
    let names = FakeNames::of(&[("k8s.example", &["10.0.0.1", "10.0.0.2"])]);
    let server = ApiServer::parse("https://k8s.example:6443", None, Some(Roots::Unchecked)).unwrap();
    let locator = DnsLocator::with_resolver(None, ServiceTls::default(), Some(server), Arc::clone(&names) as _);
    let both = ["10.0.0.1:6443".parse().unwrap(), "10.0.0.2:6443".parse().unwrap()];
    for _ in 0..3 {
        let found = located(&locator).await.unwrap();
        assert_eq!((found.addresses.as_slice(), found.authority.as_str()), (both.as_slice(), "k8s.example:6443"));
    }
    assert_eq!(names.asked().len(), 1);
    names.set("k8s.example", &["10.0.0.3"]);
    tokio::time::advance(Duration::from_secs(30)).await;
    assert_eq!(located(&locator).await.unwrap().addresses, ["10.0.0.3:6443".parse().unwrap()]);
    assert_eq!(names.asked().len(), 2);
}

#[tokio::test]
async fn a_name_that_does_not_resolve_is_unavailable() {
    let server = ApiServer::parse("http://k8s.example", None, None).unwrap();
    let locator = DnsLocator::with_resolver(None, ServiceTls::default(), Some(server), FakeNames::of(&[]));
    assert!(matches!(located(&locator).await, Err(LocateError::Unavailable(_))));
}
