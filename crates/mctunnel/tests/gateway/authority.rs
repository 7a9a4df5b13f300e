//! Who decides: the authenticator for every request, the agent's own list for every service, nobody's headers for an identity.

use crate::rig::{Rig, Target, get};
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
