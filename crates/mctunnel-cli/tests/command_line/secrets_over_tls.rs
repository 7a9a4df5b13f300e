//! Canaries as in `secrets.rs`, as most clients send them: inside TLS, over HTTP/1.1 and HTTP/2, with tokens of an issuer.

use crate::{
    live_streams::Issuer,
    rig::{Greeter, Hub, Role, get, run},
};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use http_body_util::{BodyExt as _, Full};
use hyper::{
    Request, Response,
    body::{Bytes, Incoming},
    client::conn::{http1, http2},
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::{ClientConfig, RootCertStore, crypto::aws_lc_rs};
use rustls_pki_types::{CertificateDer, ServerName, pem::PemObject};
use std::{fs, sync::Arc};
use tempfile::TempDir;
use tokio::{net::TcpStream, task::JoinSet};
use tokio_rustls::{TlsConnector, client::TlsStream};

const POLICY: &str = "version: 1
roles:
  all: {rules: [{clusters: ['*'], nonResourcePaths: ['*'], verbs: ['*']}]}
bindings: [{name: b, role: all, users: [alice], providers: [keys, idp]}]
deny: []
";

async fn connect(hub: &Hub, alpn: &str) -> TlsStream<TcpStream> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(hub.path("data/pki/ca.pem")).expect("the hub's CA")).expect("a CA");
    let mut config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![alpn.as_bytes().to_vec()];
    let socket = TcpStream::connect(hub.address("gateway")).await.expect("it listens");
    let name = ServerName::try_from("mctunnel-hub").expect("a name");
    TlsConnector::from(Arc::new(config)).connect(name, socket).await.expect("TLS")
}

/// The status, and the answer as a text, head and all.
async fn ask(hub: &Hub, alpn: &str, request: Request<Full<Bytes>>) -> (u16, String) {
    let (io, mut driving) = (TokioIo::new(connect(hub, alpn).await), JoinSet::new());
    let response: Response<Incoming> = if alpn == "h2" {
        let (mut sender, connection) = http2::handshake(TokioExecutor::new(), io).await.expect("HTTP/2");
        driving.spawn(async move { connection.await.is_ok() });
        sender.send_request(request).await.expect("an answer")
    } else {
        let (mut sender, connection) = http1::handshake(io).await.expect("HTTP/1.1");
        driving.spawn(async move { connection.await.is_ok() });
        sender.send_request(request).await.expect("an answer")
    };
    let (head, body) = response.into_parts();
    let body = body.collect().await.expect("a body").to_bytes();
    // The hub waits for connections that are there when it ends.
    driving.shutdown().await;
    (head.status.as_u16(), format!("{head:?}\n{}", String::from_utf8_lossy(&body)))
}

fn request(alpn: &str, method: &str, target: &str, lines: &[(&str, &str)], body: &'static str) -> Request<Full<Bytes>> {
    let target = if alpn == "h2" { format!("https://mctunnel-hub{target}") } else { target.to_owned() };
    let mut request = Request::builder().method(method).uri(target);
    if alpn != "h2" {
        request = request.header("host", "mctunnel-hub");
    }
    for (name, value) in lines {
        request = request.header(*name, *value);
    }
    request.body(Full::new(Bytes::from_static(body.as_bytes()))).expect("a request")
}

/// A hub that asks for keys and for tokens of an issuer, and all of its surroundings; everybody logs everything.
struct Stage {
    _files: TempDir,
    hub: Hub,
    agent: Role,
    agent_admin: String,
    issuer: Issuer,
    key: String,
}

fn stage() -> Stage {
    let (files, issuer) = (tempfile::tempdir().expect("a directory"), Issuer::start());
    let path = |name: &str| files.path().join(name).to_str().expect("UTF-8").to_owned();
    let idp = format!(
        "{{name: idp, oidc: {{issuer: {:?}, audiences: [mctunnel], algorithms: [EdDSA], user_prefix: '', \
         insecure_plain_loopback: true}}}}",
        issuer.url
    );
    fs::write(path("auth.yaml"), format!("providers: [{{name: keys, api_keys: {{}}}}, {idp}]\n")).expect("a file");
    fs::write(path("policy.yaml"), POLICY).expect("a file");
    let trust = ["--auth-config", &path("auth.yaml"), "--policy", &path("policy.yaml"), "--log-level", "trace"];
    let hub = Hub::start(&trust);
    let token = hub.path("token");
    fs::write(&token, "canary-agent-token\n").expect("a file");
    let (bundle, kube_api) = (hub.add("c1"), format!("http://{}", Greeter::start().address));
    let start = ["agent", "--join", &bundle, "--log-level", "trace", "--admin-listen", "127.0.0.1:0"];
    let speak = ["--impersonate", "--kube-token-file", &token, "--kube-api", &kube_api];
    let mut agent = Role::start(hub.dir.path(), "agent", &[&start[..], &speak].concat(), &[]);
    let agent_admin = agent.ready()["admin"].as_str().expect("an address").to_owned();
    let made = run(&["api-key", "create", "a", "--user", "alice", "--data-dir", &hub.path("data")]);
    let key = made.out.trim_end().to_owned();
    Stage { _files: files, hub, agent, agent_admin, issuer, key }
}

fn shown(value: &str) -> (&'static str, &str) {
    ("authorization", value)
}

#[tokio::test]
async fn t36_what_clients_send_over_tls_and_http2_is_in_no_log_no_record_no_metric_and_no_error() {
    let Stage { _files, mut hub, mut agent, agent_admin, issuer, key } = stage();
    let (token, ended) = (issuer.token("alice"), issuer.token_until("alice", 1_000_000_000));
    let forged = format!("{}.{}", token.rsplit_once('.').expect("a token").0, URL_SAFE_NO_PAD.encode([7; 64]));
    let odd = format!("{}.{}.canary", URL_SAFE_NO_PAD.encode("{\"alg\":\"none\",\"kid\":\"canary-kid\"}"), "e30");
    let [by_token, by_key, by_ended, by_forged, by_odd, by_nothing] =
        [token.as_str(), &key, &ended, &forged, &odd, "canary-bearer"].map(|shown| format!("Bearer {shown}"));
    let query = "/c1/version?token=canary-query";
    let cookie = ("cookie", "session=canary-cookie");
    let secret_body = "{\"password\": \"canary-body\"}";
    let mut seen = Vec::new();
    for alpn in ["http/1.1", "h2"] {
        for (status, method, target, lines, body) in [
            (200, "GET", query, vec![shown(&by_token), cookie], ""),
            (200, "POST", query, vec![shown(&by_token)], secret_body),
            (200, "GET", query, vec![shown(&by_key), cookie], ""),
            (401, "GET", query, vec![cookie], ""),
            (401, "GET", query, vec![shown(&by_ended)], ""),
            (401, "GET", query, vec![shown(&by_forged)], ""),
            (401, "GET", query, vec![shown(&by_odd)], ""),
            (401, "POST", query, vec![shown(&by_nothing)], secret_body),
            (400, "GET", query, vec![shown(&by_token), shown(&by_key)], ""),
            (400, "GET", query, vec![shown(&by_token), ("impersonate-user", "canary-user")], ""),
            (403, "GET", "/c1/api/v1/secrets?token=canary-query", vec![shown(&by_token), cookie], ""),
            (404, "GET", "/c2/version?token=canary-query", vec![shown(&by_token), cookie], ""),
        ] {
            let (answered, text) = ask(&hub, alpn, request(alpn, method, target, &lines, body)).await;
            assert_eq!(answered, status, "{alpn} {method} {target}: {text}");
            // What passes is answered by the target, with what it was asked for.
            if status != 200 {
                seen.push(("an answer", text));
            }
        }
    }
    seen.push(("metrics of the hub", get(hub.address("admin"), "/metrics").1));
    seen.push(("metrics of the agent", get(&agent_admin, "/metrics").1));
    for role in [&mut agent, &mut hub.role] {
        role.signal("TERM");
        assert_eq!(role.wait().code(), Some(0));
    }
    let record = fs::read_to_string(hub.path("data/audit/audit.log")).expect("the record");
    assert!(record.lines().count() > 20 && record.contains("\"idp\"") && record.contains("alice"), "{record}");
    seen.extend([
        ("the record", record),
        ("the log of the hub", hub.role.log()),
        ("the log of the agent", agent.log()),
    ]);
    assert_eq!(seen.iter().filter(|(_, text)| text.contains("\"TRACE\"")).count(), 2, "both log everything");
    let secret = key.split('_').nth(2).filter(|secret| secret.len() == 32).expect("a secret");
    let parts = [&token, &ended, &forged, &odd].into_iter().flat_map(|token| token.split('.').skip(1));
    let canaries: Vec<&str> = parts.filter(|part| part.len() > 20).chain(["canary", secret]).collect();
    assert!(canaries.len() >= 6, "{canaries:?}");
    for (place, text) in seen {
        for canary in &canaries {
            let line = text.lines().find(|line| line.contains(canary));
            assert_eq!(line, None, "{place} has {canary}");
        }
    }
}
