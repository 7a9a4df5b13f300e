//! Web pages of other origins: what they make a browser send gets nowhere, and nothing is ever opened to them (T33, T34).

use crate::rig::{Rig, Target, ok};
use mctunnel::core::{Authenticate, Evidence, Identity, Unauthenticated, User};
use std::sync::Arc;

const UPGRADE: &str = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
    Sec-WebSocket-Version: 13\r\n";

/// Whoever shows a token is that user; others are let in without a name, as by a certificate that the browser adds.
struct Ambient;

impl Authenticate for Ambient {
    async fn authenticate(&self, evidence: &Evidence) -> Result<Identity, Unauthenticated> {
        let name = evidence.authorization.as_ref().map_or("by certificate", |_| "by token");
        Ok(User::new(name, "test").into())
    }
}

/// Only a token counts.
struct Tokens;

impl Authenticate for Tokens {
    async fn authenticate(&self, evidence: &Evidence) -> Result<Identity, Unauthenticated> {
        match &evidence.authorization {
            Some(_) => Ok(User::new("alice", "test").into()),
            None => Err(Unauthenticated::Rejected("no token".to_owned())),
        }
    }
}

fn request(method: &str, host: &str, more: &str) -> String {
    format!("{method} /c1/api HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{more}\r\n")
}

fn upgrade(host: &str, more: &str) -> String {
    format!("GET /c1/api/v1/namespaces/d/pods/p/exec HTTP/1.1\r\nHost: {host}\r\n{UPGRADE}{more}\r\n")
}

#[tokio::test]
async fn t33_a_websocket_of_another_origin_does_not_reach_the_cluster() {
    let rig = Rig::start_with(|adapter| adapter.authenticate(Arc::new(Ambient))).await;
    let target = Target::named("never").await;
    let _agent = rig.speaking_agent("c1", target.address).await;
    for origin in
        ["https://evil.example", "null", "https://hub.example.evil", "https://a.hub.example", "https://example"]
    {
        for cookie in ["", "Cookie: session=secret\r\n"] {
            let answer = rig.once(&upgrade("hub.example", &format!("Origin: {origin}\r\n{cookie}"))).await;
            assert!(
                answer.starts_with("HTTP/1.1 403 ") && answer.contains("MCT-HTTP-FOREIGN-ORIGIN"),
                "{origin}: {answer}"
            );
            assert!(!answer.to_ascii_lowercase().contains("access-control-"), "{answer}");
        }
    }
    assert_eq!(target.seen.lock().len(), 0);

    // A token is not added by a browser. Whose it is, is a question for others.
    for origin in ["", "Origin: https://console.example\r\n"] {
        let answer = rig.once(&request("GET", "hub.example", &format!("{origin}Authorization: Bearer t\r\n"))).await;
        assert!(answer.starts_with("HTTP/1.1 200 "), "{origin}: {answer}");
    }
    // Neither is a request of another kind of client, nor one of a page of the gateway's own.
    for origin in ["", "Origin: https://hub.example\r\n"] {
        let answer = rig.once(&request("GET", "hub.example", origin)).await;
        assert!(answer.starts_with("HTTP/1.1 200 "), "{origin}: {answer}");
    }
    assert_eq!(target.seen.lock().len(), 4);
}

#[tokio::test]
async fn t34_a_page_of_another_origin_sends_nothing_and_reads_nothing() {
    let rig = Rig::start_with(|adapter| adapter.authenticate(Arc::new(Ambient))).await;
    let target = Target::start(|_| {
        let grants = "Access-Control-Allow-Origin: *\r\nAccess-Control-Allow-Credentials: true\r\nAccess-Control-Expose-Headers: a\r\n";
        format!("HTTP/1.1 200 OK\r\nX-Kept: 1\r\n{grants}Content-Length: 0\r\n\r\n").into_bytes()
    })
    .await;
    let _agent = rig.speaking_agent("c1", target.address).await;
    let page = "Origin: https://evil.example\r\n";
    for more in [
        format!("{page}Content-Type: text/plain\r\nContent-Length: 0\r\nCookie: session=secret\r\n"),
        "Origin: https://sibling.hub.example\r\nContent-Length: 0\r\n".to_owned(),
        "Origin: null\r\nContent-Length: 0\r\n".to_owned(),
    ] {
        let answer = rig.once(&request("POST", "hub.example", &more)).await;
        assert!(answer.starts_with("HTTP/1.1 403 ") && answer.contains("MCT-HTTP-FOREIGN-ORIGIN"), "{answer}");
    }
    // A question before the request, as browsers ask it.
    let asks =
        format!("{page}Access-Control-Request-Method: DELETE\r\nAccess-Control-Request-Headers: authorization\r\n");
    let answer = rig.once(&request("OPTIONS", "hub.example", &asks)).await;
    assert!(answer.starts_with("HTTP/1.1 403 "), "{answer}");
    assert!(!answer.to_ascii_lowercase().contains("access-control-"), "{answer}");
    assert_eq!(target.seen.lock().len(), 0);

    // Nor can a target open the gateway's origin to others.
    let answer = rig.once(&request("GET", "hub.example", "Authorization: Bearer t\r\n")).await.to_ascii_lowercase();
    assert!(answer.starts_with("http/1.1 200 ") && answer.contains("x-kept: 1"), "{answer}");
    assert!(!answer.contains("access-control-"), "{answer}");
}

#[tokio::test]
async fn t34_a_cookie_is_no_credential_and_none_is_set() {
    let rig = Rig::start_with(|adapter| adapter.authenticate(Arc::new(Tokens))).await;
    let target = Target::start(|_| ok("yes")).await;
    let _agent = rig.speaking_agent("c1", target.address).await;
    for cookie in ["session=t", "Authorization=Bearer t", "__Host-token=t", "access_token=t; id_token=t"] {
        let answer = rig.once(&request("GET", "hub", &format!("Cookie: {cookie}\r\n"))).await;
        assert!(answer.starts_with("HTTP/1.1 401 "), "{answer}");
        assert!(!answer.to_ascii_lowercase().contains("set-cookie"), "{answer}");
    }
    assert_eq!(target.seen.lock().len(), 0);
    let answer = rig.once(&request("GET", "hub", "Authorization: Bearer t\r\nCookie: session=other\r\n")).await;
    assert!(answer.starts_with("HTTP/1.1 200 ") && !answer.to_ascii_lowercase().contains("set-cookie"), "{answer}");
    let seen = target.seen.lock().join("\n");
    assert!(
        seen.to_ascii_lowercase().contains("impersonate-user: alice"),
        "by the token, whatever the cookie says: {seen}"
    );
}

#[tokio::test]
async fn t34_where_nobody_is_asked_who_they_are_a_strange_name_is_misdirected() {
    let rig = Rig::start_with(|adapter| adapter.hosts(["hub.example".to_owned()])).await;
    let target = Target::named("reached").await;
    let _agent = rig.agent("c1", target.address).await;
    for host in ["attacker.test", "attacker.test:8080", "localhost.attacker.test"] {
        let answer = rig.once(&request("GET", host, "Accept-Language: en\r\n")).await;
        assert!(answer.starts_with("HTTP/1.1 421 ") && answer.contains("MCT-HTTP-UNKNOWN-HOST"), "{host}: {answer}");
        let own = format!("Origin: http://{host}\r\nContent-Length: 0\r\n");
        let answer = rig.once(&request("POST", host, &own)).await;
        assert!(answer.starts_with("HTTP/1.1 421 "), "{host}: {answer}");
    }
    // A made-up token makes nobody a user: a page can send one, and where names are led here it can even read the answer.
    let token = "Authorization: Bearer made-up\r\n";
    for (host, more, refused) in [
        ("attacker.test", "Accept-Language: en\r\n", "421 "),
        ("localhost", "Origin: https://evil.example\r\n", "403 "),
        ("localhost", "Sec-Fetch-Site: cross-site\r\n", "403 "),
    ] {
        let answer = rig.once(&request("GET", host, &format!("{more}{token}"))).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {refused}")), "{host}: {answer}");
    }
    let in_protocols = "Origin: https://evil.example\r\n\
        Sec-WebSocket-Protocol: a, base64url.bearer.authorization.k8s.io.eA\r\n";
    let answer = rig.once(&upgrade("localhost", in_protocols)).await;
    assert!(answer.starts_with("HTTP/1.1 403 "), "{answer}");
    assert_eq!(target.seen.lock().len(), 0);
    for host in ["hub.example", "localhost:8080", "127.0.0.1", "[::1]:8080"] {
        let answer = rig.once(&request("GET", host, "Accept-Language: en\r\n")).await;
        assert!(answer.starts_with("HTTP/1.1 200 "), "{host}: {answer}");
    }
    // Who is no browser has no page behind it, and may know us by any name.
    let answer = rig.once(&request("GET", "hub.elsewhere", "User-Agent: curl/8\r\n")).await;
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
}
