//! Who decides: the authenticator for every request, the agent's own list for every service, nobody's headers for an identity.

use crate::{
    bodies::http2_client,
    held::Names,
    rig::{Rig, Target, get, ok},
};
use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http2::SendRequest;
use mctunnel::core::{
    Access, Action, Authenticate, Authorize, Decision, Evidence, Identity, KubeRequest, Unauthenticated, User,
};
use std::sync::Arc;

struct OneToken;

impl Authenticate for OneToken {
    async fn authenticate(&self, evidence: &Evidence) -> Result<Identity, Unauthenticated> {
        match &evidence.authorization {
            Some(shown) if shown.expose() == "Bearer alice" => Ok(User::new("alice", "test").into()),
            _ => Err(Unauthenticated::Rejected("no valid credential".to_owned())),
        }
    }
}

struct NotKubeSystem;

impl Authorize for NotKubeSystem {
    fn authorize(&self, access: &Access<'_>) -> Decision {
        match access.action {
            Action::Kube(KubeRequest::Resource(request)) if request.namespace.as_deref() == Some("kube-system") => {
                Decision::denied(format!("{} may not see kube-system", access.identity))
            }
            Action::Kube(_) | Action::Http { .. } | Action::Bytes => Decision::allowed("the rest"),
        }
    }
}

#[tokio::test]
async fn t07_a_second_request_without_credential_is_refused() {
    let rig =
        Rig::start_with(|adapter| adapter.authenticate(Arc::new(OneToken)).authorize(Arc::new(NotKubeSystem))).await;
    let target = Target::named("A").await;
    let _agent = rig.speaking_agent("cluster-a", target.address).await;
    let mut client = rig.client().await;
    client.send("GET /cluster-a/1 HTTP/1.1\r\nHost: hub\r\nAuthorization: Bearer alice\r\n\r\n").await;
    assert_eq!(client.answer().await.1, "A");
    client.send("GET /cluster-a/2 HTTP/1.1\r\nHost: hub\r\n\r\n").await;
    let (head, body) = client.answer().await;
    assert!(head.starts_with("http/1.1 401") && body.contains("MCT-HTTP-UNAUTHENTICATED"), "{head}{body}");
    client
        .send("GET /cluster-a/api/v1/namespaces/kube-system/pods HTTP/1.1\r\nHost: hub\r\nAuthorization: Bearer alice\r\n\r\n")
        .await;
    let (head, body) = client.answer().await;
    assert!(head.starts_with("http/1.1 403") && body.contains("alice may not see kube-system"), "{head}{body}");
    assert_eq!(target.seen.lock().len(), 1);
}

/// A target that answers with the user it is asked for.
async fn whoever_asks() -> Target {
    Target::start(|request| ok(request.lines().find_map(|line| line.strip_prefix("impersonate-user: ")).unwrap_or("?")))
        .await
}

#[tokio::test]
async fn t07_of_two_requests_sent_at_once_the_second_is_not_the_first_ones() {
    let rig = Rig::start_with(|adapter| adapter.authenticate(Arc::new(Names))).await;
    let (a, b) = (whoever_asks().await, whoever_asks().await);
    let _agents = [rig.speaking_agent("cluster-a", a.address).await, rig.speaking_agent("cluster-b", b.address).await];
    let alice = "Authorization: Bearer alice\r\n";
    for (first, second, expected) in
        [(alice, "", ["200", "401"]), ("", alice, ["401", "200"]), (alice, alice, ["200", "200"])]
    {
        let mut client = rig.client().await;
        let asks = [("cluster-a", first), ("cluster-b", second)];
        let asks = asks.map(|(cluster, shown)| format!("GET /{cluster}/x HTTP/1.1\r\nHost: hub\r\n{shown}\r\n"));
        client.send(asks.concat()).await;
        for status in expected {
            let (head, body) = client.answer().await;
            assert!(head.starts_with(&format!("http/1.1 {status} ")), "{first:?} {second:?}: {head}{body}");
            let said = if status == "200" { body == "alice" } else { body.contains("MCT-HTTP-UNAUTHENTICATED") };
            assert!(said, "{first:?} {second:?}: {body}");
        }
    }
    assert_eq!((a.seen.lock().len(), b.seen.lock().len()), (2, 2));
}

/// Asks as somebody, or as nobody; gives the status and who the target was told asks.
async fn ask_as(mut sender: SendRequest<Full<Bytes>>, name: Option<&str>) -> (StatusCode, String) {
    let mut request = Request::get("https://localhost/cluster-a/x");
    if let Some(name) = name {
        request = request.header("authorization", format!("Bearer {name}"));
    }
    let response = sender.send_request(request.body(Full::default()).unwrap()).await.unwrap();
    let status = response.status();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, String::from_utf8_lossy(&body).into_owned())
}

#[tokio::test]
async fn t07_streams_of_one_http2_connection_are_each_authenticated() {
    let rig = Rig::start_tls_with(|adapter| adapter.authenticate(Arc::new(Names))).await;
    let target = whoever_asks().await;
    let _agent = rig.speaking_agent("cluster-a", target.address).await;
    let (sender, _connection) = http2_client(&rig).await;
    let names = [Some("alice"), None, Some("bob"), None, Some("bob"), Some("alice"), None];
    let check = |name: Option<&str>, (status, body): (StatusCode, String)| match name {
        Some(name) => assert_eq!((status.as_u16(), &*body), (200, name)),
        None => assert!(status == 401 && body.contains("MCT-HTTP-UNAUTHENTICATED"), "{status} {body}"),
    };
    for name in names {
        check(name, ask_as(sender.clone(), name).await);
    }
    assert_eq!(target.seen.lock().len(), 4);
    // And all at once.
    let all = names.repeat(20);
    let answers = all.iter().map(|name| ask_as(sender.clone(), *name));
    for (name, answer) in all.iter().zip(futures_util::future::join_all(answers).await) {
        check(*name, answer);
    }
    assert_eq!(target.seen.lock().len(), 4 * 21);
}

#[tokio::test]
async fn t17_services_that_the_agent_does_not_list_are_refused_there() {
    let rig = Rig::start().await;
    let target = Target::named("A").await;
    let _agent = rig.agent("cluster-a", target.address).await;
    let path = |name: &str| get(&format!("/cluster-a/api/v1/namespaces/default/services/{name}/proxy-service/x"));
    assert!(rig.once(&path("web")).await.ends_with('A'));
    let refused = rig.once(&path("hidden")).await;
    assert!(refused.starts_with("HTTP/1.1 403") && refused.contains("not on the agent's list"), "{refused}");
    assert_eq!(target.seen.lock().len(), 1);
    // Kubernetes' own way to a service is Kubernetes' business, untouched.
    let own = rig.once(&get("/cluster-a/api/v1/namespaces/default/services/hidden/proxy/x?a=b")).await;
    assert!(own.ends_with('A'));
    assert!(target.seen.lock()[1].starts_with("GET /api/v1/namespaces/default/services/hidden/proxy/x?a=b HTTP/1.1"));
}

#[tokio::test]
async fn t01_t02_identity_headers_of_clients_never_reach_a_target() {
    let rig = Rig::start().await;
    let target = Target::named("A").await;
    let _agent = rig.agent("cluster-a", target.address).await;
    for header in [
        "Impersonate-User: root",
        "impersonate-group: system:masters",
        "Impersonate-Extra-Scopes: x",
        "Impersonate-Future: x",
        "Impersonate_User: root",
        "X-Remote-User: root",
        "x-remote-extra-a: b",
        "Connection: Authorization",
        "Connection: close, Impersonate-User",
        "X-Mctunnel-Namespace: kube-system",
    ] {
        let answer = rig.once(&format!("GET /cluster-a/x HTTP/1.1\r\nHost: hub\r\n{header}\r\n\r\n")).await;
        assert!(answer.starts_with("HTTP/1.1 400"), "{header}: {answer}");
    }
    assert_eq!(*target.seen.lock(), Vec::<String>::new());
}

#[tokio::test]
async fn what_the_target_sees_is_what_the_client_sent() {
    let rig = Rig::start().await;
    let target = Target::named("A").await;
    let _agent = rig.agent("cluster-a", target.address).await;
    let request = "GET /cluster-a/apis/x%3Ay/?a=%2F..&b=c//d&e=%zz HTTP/1.1\r\nHost: hub\r\nConnection: close\r\n\
        Authorization: Bearer own\r\nAccept-Encoding: gzip\r\nX-Two: 1\r\nX-Two: 2\r\ntraceparent: 00-1-2-01\r\n\
        tracestate: a=1,b=2\r\nx-request-id: mine\r\n\r\n";
    let answer = rig.once(request).await;
    assert!(answer.ends_with('A') && answer.contains("x-request-id: mine"), "{answer}");
    let seen = target.seen.lock()[0].clone();
    assert!(seen.starts_with("GET /apis/x%3Ay/?a=%2F..&b=c//d&e=%zz HTTP/1.1\r\n"), "{seen}");
    for line in [
        "authorization: Bearer own",
        "accept-encoding: gzip",
        "x-two: 1",
        "x-two: 2",
        "traceparent: 00-1-2-01",
        "tracestate: a=1,b=2",
        "x-request-id: mine",
    ] {
        assert!(seen.contains(&format!("{line}\r\n")), "{line} in {seen}");
    }
    assert!(!seen.contains("connection:") && !seen.contains("x-mctunnel"), "{seen}");
}
