//! Cookies of services: all clusters' services have one origin for a browser, and none sees what another sets.

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
    // A kube-apiserver is no service: what it says is passed on as it is.
    let answer = rig.once(&get("/cluster-a/api/v1/namespaces/default/services/web/proxy/")).await;
    assert_eq!(set(&answer).len(), 4, "{answer}");
    assert_eq!(set(&answer)[0], "a=1; Path=/; Domain=hub");
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
