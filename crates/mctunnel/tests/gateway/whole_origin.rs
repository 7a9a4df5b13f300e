//! What a target says that browsers take for the whole origin, which all services of all clusters share (T34).

use crate::rig::{CUT, Rig, Target, get};

const SERVICE: &str = "/cluster-a/api/v1/namespaces/default/services/web/proxy-service";

/// What one service would do to all others, and what is its own affair.
const SAID: &str = "Service-Worker-Allowed: /\r\nClear-Site-Data: \"*\"\r\nNEL: {\"report_to\":\"x\",\"max_age\":99}\r\n\
    Report-To: {\"group\":\"x\"}\r\nReporting-Endpoints: x=\"https://evil/\"\r\nAlt-Svc: h3=\":443\"\r\n\
    Strict-Transport-Security: max-age=99\r\nPublic-Key-Pins: pin-sha256=\"x\"\r\nOrigin-Agent-Cluster: ?1\r\n\
    Set-Login: logged-in\r\nSupports-Loading-Mode: credentialed-prerender\r\nAccess-Control-Allow-Origin: *\r\n\
    Content-Security-Policy: default-src 'self'\r\nX-Own: 1\r\n";

/// The names of an answer's fields, but for those that every answer has.
fn names(answer: &str) -> Vec<&str> {
    let head = answer.split("\r\n\r\n").next().unwrap();
    let names = head.lines().skip(1).filter_map(|line| line.split(':').next());
    let of_all = ["connection", "content-length", "date", "upgrade", "x-request-id"];
    let mut names: Vec<&str> = names.filter(|name| !of_all.contains(name)).collect();
    names.sort_unstable();
    names
}

#[tokio::test]
async fn t34_what_acts_on_the_whole_origin_does_not_reach_clients() {
    let rig = Rig::start().await;
    let target = Target::start(|request| {
        if request.to_ascii_lowercase().contains("upgrade: websocket") {
            let head = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n";
            return [format!("{head}{SAID}\r\n").as_bytes(), CUT].concat();
        }
        format!("HTTP/1.1 200 OK\r\n{SAID}Content-Length: 0\r\n\r\n").into_bytes()
    })
    .await;
    let _agent = rig.agent("cluster-a", target.address).await;
    let proxied = "/cluster-a/api/v1/namespaces/default/services/web/proxy";
    for path in [SERVICE, proxied, "/cluster-a/version"] {
        let answer = rig.once(&get(&format!("{path}/x"))).await;
        assert_eq!(names(&answer), ["content-security-policy", "x-own"], "{path}: {answer}");
        let mut client = rig.client().await;
        client
            .send(format!(
                "GET {path}/x HTTP/1.1\r\nHost: hub\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
                 Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
            ))
            .await;
        let answer = client.until("\r\n\r\n").await;
        assert!(answer.starts_with("HTTP/1.1 101"), "{answer}");
        assert_eq!(names(&answer), ["content-security-policy", "x-own"], "{path}: {answer}");
    }
}

#[tokio::test]
async fn t34_a_service_worker_acts_on_the_paths_of_its_own_target() {
    let rig = Rig::start().await;
    let script = "Service-Worker-Allowed: /\r\nContent-Type: text/javascript\r\nContent-Length: 0\r\n";
    let target = Target::start(move |_| format!("HTTP/1.1 200 OK\r\n{script}\r\n").into_bytes()).await;
    let _agent = rig.agent("cluster-a", target.address).await;
    let proxied = "/cluster-a/api/v1/namespaces/default/services/evil/proxy";
    // Also where the browser would take the script's directory, which is above them: everything, for the first.
    for (path, own) in [
        ("/cluster-a", "/cluster-a/"),
        ("/cluster-a/sw.js", "/cluster-a/"),
        (SERVICE, &*format!("{SERVICE}/")),
        (&format!("{SERVICE}/static/sw.js"), &format!("{SERVICE}/")),
        (&format!("{proxied}/sw.js"), &format!("{proxied}/")),
    ] {
        let asks = get(path).replace("Host: hub\r\n", "Host: hub\r\nService-Worker: script\r\n");
        let answer = rig.once(&asks).await;
        let mut allowed = answer.lines().filter_map(|line| line.strip_prefix("service-worker-allowed: "));
        assert_eq!((allowed.next(), allowed.next()), (Some(own), None), "{path}: {answer}");
    }
}
