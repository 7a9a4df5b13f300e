//! Cookies of targets: all of all clusters have one origin for a browser, and none sees what another sets.

use crate::rig::{CUT, Rig, Target, get};

const SERVICE: &str = "/cluster-a/api/v1/namespaces/default/services/web/proxy-service";

const COOKIES: &str = "Set-Cookie: a=1; Path=/; Domain=hub\r\nSet-Cookie: b=2; Path=/app; Secure\r\n\
    Set-Cookie: __Host-c=3; Secure; Path=/\r\nSet-Cookie: d=4\r\n";

/// The cookies of an answer, in order.
fn set(answer: &str) -> Vec<&str> {
    answer.lines().filter_map(|line| line.strip_prefix("set-cookie: ")).collect()
}

#[tokio::test]
async fn cookies_of_a_service_stay_below_its_own_paths() {
    let rig = Rig::start().await;
    let target = Target::start(|_| format!("HTTP/1.1 200 OK\r\n{COOKIES}Content-Length: 0\r\n\r\n").into_bytes()).await;
    let _agent = rig.agent("cluster-a", target.address).await;
    let confined = [format!("a=1; Path={SERVICE}/"), format!("b=2; Path={SERVICE}/app; Secure"), "d=4".to_owned()];
    for path in ["/app/login?x=/y", "/", ""] {
        let answer = rig.once(&get(&format!("{SERVICE}{path}"))).await;
        assert_eq!(set(&answer), confined, "{path}: {answer}");
    }
}

#[tokio::test]
async fn t34_cookies_of_what_a_kube_apiserver_proxies_stay_below_its_own_paths() {
    let rig = Rig::start().await;
    let target = Target::start(|_| format!("HTTP/1.1 200 OK\r\n{COOKIES}Content-Length: 0\r\n\r\n").into_bytes()).await;
    let _agent = rig.agent("cluster-a", target.address).await;
    for own in [
        "/api/v1/namespaces/default/services/evil/proxy",
        "/api/v1/namespaces/default/services/https:evil:443/proxy",
        "/api/v1/namespaces/default/pods/evil/proxy",
        "/api/v1/nodes/evil:10250/proxy",
    ] {
        let own = format!("/cluster-a{own}");
        let confined = [format!("a=1; Path={own}/"), format!("b=2; Path={own}/app; Secure"), "d=4".to_owned()];
        for path in ["/x", "/app/login?x=/y", "/", ""] {
            let answer = rig.once(&get(&format!("{own}{path}"))).await;
            assert_eq!(set(&answer), confined, "{own}{path}: {answer}");
        }
    }
}

#[tokio::test]
async fn t34_cookies_of_a_kube_apiserver_stay_in_its_cluster() {
    let rig = Rig::start().await;
    let target = Target::start(|_| format!("HTTP/1.1 200 OK\r\n{COOKIES}Content-Length: 0\r\n\r\n").into_bytes()).await;
    let _agent = rig.agent("cluster-a", target.address).await;
    for (path, last) in [
        ("/version", "d=4"),
        ("/api/v1/namespaces/default/services/evil", "d=4"),
        // Browsers take the root for the directory of this one.
        ("", "d=4; Path=/cluster-a/"),
    ] {
        let answer = rig.once(&get(&format!("/cluster-a{path}"))).await;
        assert_eq!(
            set(&answer),
            ["a=1; Path=/cluster-a/", "b=2; Path=/cluster-a/app; Secure", last],
            "{path}: {answer}"
        );
    }
}

#[tokio::test]
async fn cookies_of_an_upgrade_stay_there_too() {
    let rig = Rig::start().await;
    let target = Target::start(|_| {
        let head = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n";
        [format!("{head}{COOKIES}\r\n").as_bytes(), CUT].concat()
    })
    .await;
    let _agent = rig.agent("cluster-a", target.address).await;
    let mut client = rig.client().await;
    client
        .send(format!(
            "GET {SERVICE}/chat HTTP/1.1\r\nHost: hub\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
        ))
        .await;
    let answer = client.until("\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 101"), "{answer}");
    assert_eq!(set(&answer)[..1], [format!("a=1; Path={SERVICE}/")], "{answer}");
    assert_eq!(set(&answer).len(), 3, "{answer}");
}
