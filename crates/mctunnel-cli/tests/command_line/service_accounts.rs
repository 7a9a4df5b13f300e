//! Agents that enrol as ServiceAccounts of the hub's own cluster: a real hub, real agents, and a kube-apiserver of the test's own that
//! takes down what it is asked.

use crate::rig::{Hub, Ran, Role, get, run, until};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    fs,
    io::{self, BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    process::Command,
    sync::Arc,
    thread,
};
use tempfile::TempDir;

pub(crate) const AUDIENCE: &str = "mctunnel-enrol";
/// The token of fleet/a.
pub(crate) const CANARY: &str = "canary-of-fleet-a";

/// A token with this signature. All of them say that they are of fleet/a and for this hub; which one is, the cluster knows.
pub(crate) fn jwt(signature: &str) -> String {
    let part = |value: Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let claims = json!({"sub": "system:serviceaccount:fleet:a", "aud": [AUDIENCE], "exp": 4_102_444_800_u64});
    format!("{}.{}.{signature}", part(json!({"alg": "RS256"})), part(claims))
}

// === the API ===

/// What the cluster knows: the user and the audience of each token; and what it was asked.
#[derive(Default)]
struct Known {
    tokens: BTreeMap<String, (String, String)>,
    fails: bool,
    asked: Vec<Value>,
}

pub(crate) struct Api {
    known: Arc<Mutex<Known>>,
    dir: TempDir,
}

impl Api {
    /// An API that knows the token of fleet/a; it ends with the test.
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let server = format!("http://{}", listener.local_addr().expect("an address"));
        let known: Arc<Mutex<Known>> = Arc::default();
        let shared = Arc::clone(&known);
        thread::spawn(move || {
            for socket in listener.incoming().flatten() {
                let known = Arc::clone(&shared);
                thread::spawn(move || serve(&socket, &known));
            }
        });
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "clusters": [{"name": "c", "cluster": {"server": server}}],
            "users": [{"name": "u", "user": {"token": "canary-of-the-hub"}}],
        });
        let api = Self { known, dir: tempfile::tempdir().expect("a directory") };
        fs::write(api.path("kubeconfig"), config.to_string()).expect("a kubeconfig");
        api.knows(CANARY, "system:serviceaccount:fleet:a", AUDIENCE);
        api
    }

    pub(crate) fn knows(&self, token: &str, user: &str, audience: &str) {
        self.known.lock().tokens.insert(jwt(token), (user.to_owned(), audience.to_owned()));
    }

    pub(crate) fn asked(&self) -> Vec<Value> {
        self.known.lock().asked.clone()
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.dir.path().join(name).to_str().expect("UTF-8").to_owned()
    }

    /// A file with a token; gives its path.
    pub(crate) fn token(&self, token: &str) -> String {
        let path = self.path("token");
        fs::write(&path, format!("{}\n", jwt(token))).expect("a token");
        path
    }

    /// A hub that asks this API about tokens.
    pub(crate) fn hub(&self, more: &[&str]) -> Hub {
        let kubeconfig = self.path("kubeconfig");
        Hub::start(&[&["--review-kubeconfig", &kubeconfig, "--enrol-audience", AUDIENCE], more].concat())
    }
}

/// Answers one request after the other.
fn serve(socket: &TcpStream, known: &Mutex<Known>) -> Option<()> {
    let mut reader = BufReader::new(socket);
    loop {
        let (mut head, mut length) = (String::new(), 0);
        while !head.ends_with("\r\n\r\n") {
            let mut line = String::new();
            if reader.read_line(&mut line).ok()? == 0 {
                return None;
            }
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().ok()?;
            }
            head.push_str(&line);
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).ok()?;
        let answer = review(&head, &serde_json::from_slice(&body).ok()?, &mut known.lock());
        answer_with(socket, answer).ok()?;
    }
}

/// The answer to a TokenReview; `None` if the API fails.
fn review(head: &str, asked: &Value, known: &mut Known) -> Option<Value> {
    assert!(head.starts_with("POST /apis/authentication.k8s.io/v1/tokenreviews "), "{head}");
    let spec = asked["spec"].clone();
    known.asked.push(spec.clone());
    if known.fails {
        return None;
    }
    let found = known.tokens.get(spec["token"].as_str()?);
    let wanted = |audience: &String| spec["audiences"].as_array().is_some_and(|all| all.contains(&json!(audience)));
    let status = match found {
        // As Kubernetes does it: a token for another audience is not authenticated.
        Some((user, audience)) if wanted(audience) => {
            json!({"authenticated": true, "audiences": [audience], "user": {"username": user}})
        }
        _ => json!({"error": "[invalid bearer token, token lookup failed]"}),
    };
    Some(json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": spec, "status": status}))
}

fn answer_with(mut socket: &TcpStream, answer: Option<Value>) -> io::Result<()> {
    let (status, body) = match answer {
        Some(answer) => ("201 Created", answer.to_string()),
        None => ("500 Internal Server Error", String::new()),
    };
    write!(
        socket,
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}

// === the commands ===

/// Lets an account vouch for a cluster.
fn record(hub: &Hub, cluster: &str, account: &str) -> Ran {
    run(&["cluster", "add", cluster, "--service-account", account, "--data-dir", &hub.path("data")])
}

pub(crate) fn recorded(hub: &Hub, cluster: &str, account: &str) {
    let added = record(hub, cluster, account);
    assert_eq!(added.status, Some(0), "{added:?}");
}

/// The command of an agent that enrols with this token file, and keeps what it gets in `home`.
fn agent(hub: &Hub, token_file: &str, home: &str) -> Vec<String> {
    let (ca, address) = (hub.path("data/pki/ca.pem"), hub.address("tunnel"));
    let flags = ["--enrol-service-account-token", token_file, "--hub-ca", &ca, "--hub", address, "--data-dir", home];
    ["agent"].into_iter().chain(flags).chain(["--log-level", "debug"]).map(str::to_owned).collect()
}

fn start(hub: &Hub, name: &str, command: &[String]) -> Role {
    Role::start(hub.dir.path(), name, &words(command), &[])
}

/// What an agent says that gets nowhere and ends. One that gets in does not end, and is not waited for for ever.
fn turned_away(hub: &Hub, command: &[String]) -> String {
    let mut role = start(hub, "turned-away", command);
    assert_eq!(role.wait().code(), Some(1), "{}", role.log());
    role.log()
}

fn words(command: &[String]) -> Vec<&str> {
    command.iter().map(String::as_str).collect()
}

fn has_tunnel(hub: &Hub) -> bool {
    get(hub.address("admin"), "/metrics").1.lines().any(|line| line == "mctunnel_tunnels 1")
}

fn list(hub: &Hub) -> Value {
    let listed = run(&["cluster", "list", "--data-dir", &hub.path("data"), "-o", "json"]);
    serde_json::from_str(&listed.out).expect("JSON")
}

// === the tests ===

#[test]
fn t29_t36_an_agent_enrols_as_the_account_that_is_recorded_for_its_cluster() {
    let api = Api::start();
    let hub = api.hub(&["--log-level", "debug"]);
    let added = record(&hub, "cluster-a", "fleet/a");
    assert!(added.status == Some(0) && added.out.contains("--enrol-service-account-token"), "{added:?}");
    assert_eq!(list(&hub)[0]["service_account"], "fleet/a");
    let (token_file, home) = (api.token(CANARY), hub.path("agent"));
    let command = agent(&hub, &token_file, &home);

    let mut enrolled = start(&hub, "agent", &command);
    assert_eq!(enrolled.ready()["cluster"], "cluster-a");

    assert!(has_tunnel(&hub));
    assert_eq!(api.asked(), [json!({"token": jwt(CANARY), "audiences": [AUDIENCE]})]);
    let (_, metrics) = get(hub.address("admin"), "/metrics");
    let counted = "mctunnel_agents_enrolled_total{cluster=\"cluster-a\"} 1";
    assert!(metrics.lines().any(|line| line == counted), "{metrics}");
    until("the record of it", || hub.role.log().contains("ServiceAccount fleet/a").then_some(()));
    enrolled.signal("TERM");
    assert_eq!(enrolled.wait().code(), Some(0));

    // What it kept counts at the next start, and nobody is asked.
    fs::remove_file(&token_file).expect("it is ours");
    let mut again = start(&hub, "again", &command);
    again.ready();
    assert_eq!(api.asked().len(), 1);
    let kept = fs::read_to_string(format!("{home}/identity.json")).expect("an identity");
    let printed = run(&[&words(&command)[..], &["--print-config"]].concat());
    let texts = [hub.role.log(), enrolled.log(), again.log(), metrics, kept, printed.out];
    for (number, text) in texts.iter().enumerate() {
        assert!(!text.contains(CANARY) && !text.contains("canary-of-the-hub"), "text {number} has a token");
    }
}

#[test]
fn t29_whoever_is_not_recorded_or_not_for_this_hub_is_refused_and_told_no_more() {
    let api = Api::start();
    let hub = api.hub(&[]);
    recorded(&hub, "cluster-a", "fleet/a");
    api.knows("canary-b", "system:serviceaccount:fleet:b", AUDIENCE);
    api.knows("canary-elsewhere", "system:serviceaccount:fleet:a", "https://kubernetes.default.svc");
    api.knows("canary-alice", "alice", AUDIENCE);
    api.knows("canary-three", "system:serviceaccount:fleet:a:x", AUDIENCE);
    let tokens = ["canary-b", "canary-elsewhere", "canary-alice", "canary-three", "canary-unknown"];
    for (number, token) in tokens.into_iter().enumerate() {
        let refused = turned_away(&hub, &agent(&hub, &api.token(token), &hub.path("agent")));
        let last = refused.lines().find(|line| line.starts_with("error[")).expect("an error");
        let text = "MCT-ENROL-EVIDENCE: the evidence does not count here (gRPC status 7)";
        assert_eq!(last, format!("error[MCT-AGENT-ENROL-REFUSED]: the hub refuses: {text}"), "{token}");
        assert!(!refused.contains(token), "t36 {refused}");
        assert_eq!(api.asked().len(), number + 1, "{token}");
    }
    let log = hub.role.log();
    for why in ["ServiceAccount fleet/b vouches for no cluster", "of no ServiceAccount", "not for this hub"] {
        assert!(log.contains(why), "{why}\n{log}");
    }
    assert!(!log.contains("canary"), "{log}");
    assert_eq!(list(&hub)[0]["serials"], json!([]), "nothing was issued");
    let (_, metrics) = get(hub.address("admin"), "/metrics");
    let counted = "mctunnel_enrol_refused_total{code=\"MCT-ENROL-EVIDENCE\"} 5";
    assert!(metrics.lines().any(|line| line == counted), "{metrics}");
}

#[test]
fn t25_an_account_is_recorded_once_and_a_revoked_one_is_refused() {
    let api = Api::start();
    let hub = api.hub(&[]);
    recorded(&hub, "cluster-a", "fleet/a");
    let second = record(&hub, "cluster-b", "fleet/a");
    assert_eq!(second.status, Some(1));
    assert!(second.err.starts_with("error[MCT-IDENTITY-ACCOUNT-TAKEN]: "), "{}", second.err);
    assert_eq!(list(&hub).as_array().map(Vec::len), Some(1), "cluster-b was not added");
    for bad in ["fleet", "fleet/", "/a", "fleet/a/b", "fleet:a", "Fleet/a"] {
        assert_eq!(record(&hub, "cluster-b", bad).status, Some(2), "{bad}");
    }

    let revoked = run(&["cluster", "revoke", "cluster-a", "--data-dir", &hub.path("data")]);
    assert!(revoked.out.contains("mctunnel cluster add cluster-a --service-account fleet/a"), "{}", revoked.out);
    assert_eq!(list(&hub)[0]["service_account"], Value::Null);
    let command = agent(&hub, &api.token(CANARY), &hub.path("agent"));
    let refused = turned_away(&hub, &command);
    assert!(refused.contains("MCT-ENROL-EVIDENCE"), "{refused}");

    recorded(&hub, "cluster-a", "fleet/a");
    assert_eq!(start(&hub, "again", &command).ready()["cluster"], "cluster-a");
}

#[test]
fn t26_a_hub_with_another_ca_never_sees_the_token() {
    let api = Api::start();
    let (hub, other) = (api.hub(&[]), api.hub(&[]));
    recorded(&hub, "cluster-a", "fleet/a");
    recorded(&other, "cluster-a", "fleet/a");
    // The address of the one, the CA of the other.
    let mut command = agent(&hub, &api.token(CANARY), &hub.path("agent"));
    let at = command.iter().position(|word| word == "--hub").expect("the flag") + 1;
    command[at] = other.address("tunnel").to_owned();
    let refused = turned_away(&hub, &command);
    assert!(refused.contains("error[MCT-AGENT-ENROL-WRONG-HUB]: "), "{refused}");
    assert_eq!(api.asked(), Vec::<Value>::new());
    // With both CAs in its file it knows both hubs.
    let both = [&hub, &other].map(|hub| fs::read_to_string(hub.path("data/pki/ca.pem")).expect("a CA"));
    fs::write(api.path("both.pem"), both.concat()).expect("a file");
    let at = command.iter().position(|word| word == "--hub-ca").expect("the flag") + 1;
    command[at] = api.path("both.pem");
    assert_eq!(start(&hub, "agent", &command).ready()["cluster"], "cluster-a");
    fs::write(api.path("both.pem"), "no certificate").expect("a file");
    let unusable = turned_away(&hub, &command);
    assert!(unusable.contains("error[MCT-IDENTITY-HUB-CA]: "), "{unusable}");
}

#[test]
fn t29_while_the_cluster_cannot_be_asked_the_agent_tries_again_with_the_token_of_the_moment() {
    let api = Api::start();
    let hub = api.hub(&[]);
    recorded(&hub, "cluster-a", "fleet/a");
    api.known.lock().fails = true;
    let token_file = api.token("canary-of-before");
    let mut waiting = start(&hub, "agent", &agent(&hub, &token_file, &hub.path("agent")));
    until("the agent's trouble", || waiting.log().contains("MCT-ENROL-UNCHECKED").then_some(()));
    until("the hub's log", || hub.role.log().contains("the answer is 500").then_some(()));
    assert!(!waiting.log().contains("answer is"), "what broke at the hub is not for strangers: {}", waiting.log());
    assert!(api.asked().iter().all(|asked| asked["token"] == jwt("canary-of-before")));
    // Kubernetes has changed the token meanwhile.
    api.token(CANARY);
    until("the next token", || api.asked().iter().any(|asked| asked["token"] == jwt(CANARY)).then_some(()));
    api.known.lock().fails = false;
    assert_eq!(waiting.ready()["cluster"], "cluster-a");
}

#[test]
fn a_revoked_agent_comes_back_by_itself_once_its_account_counts_again() {
    let api = Api::start();
    // What lives for a short time is asked for again soon.
    let hub = api.hub(&["--agent-cert-ttl", "30s"]);
    recorded(&hub, "cluster-a", "fleet/a");
    let mut running = start(&hub, "agent", &agent(&hub, &api.token(CANARY), &hub.path("agent")));
    running.ready();
    assert_eq!(run(&["cluster", "revoke", "cluster-a", "--data-dir", &hub.path("data")]).status, Some(0));
    until("the refusal", || hub.role.log().contains("MCT-ENROL-EVIDENCE").then_some(()));
    assert!(!has_tunnel(&hub), "{}", hub.role.log());
    assert_eq!(list(&hub)[0]["serials"], json!([]), "nothing was issued since");

    recorded(&hub, "cluster-a", "fleet/a");

    until("its tunnel", || has_tunnel(&hub).then_some(()));
    running.signal("TERM");
    assert_eq!(running.wait().code(), Some(0), "it is the same process");
}

#[test]
fn an_agent_that_was_away_for_too_long_enrols_anew() {
    let api = Api::start();
    let hub = api.hub(&["--agent-cert-ttl", "5s"]);
    recorded(&hub, "cluster-a", "fleet/a");
    let home = hub.path("agent");
    let command = agent(&hub, &api.token(CANARY), &home);
    let mut away = start(&hub, "agent", &command);
    away.ready();
    away.signal("KILL");
    away.wait();
    let certificate = || {
        let text = fs::read_to_string(format!("{home}/identity.json")).expect("an identity");
        let identity: Value = serde_json::from_str(&text).expect("JSON");
        identity["identity"]["certificate_pem"].as_str().expect("a certificate").to_owned()
    };
    let (kept, file) = (certificate(), hub.path("kept.pem"));
    fs::write(&file, &kept).expect("a file");
    // It counts to the end of its last second.
    until("the end of the certificate", || {
        let mut check = Command::new("openssl");
        let checked = check.args(["x509", "-noout", "-checkend", "-2", "-in", &file]).output().expect("openssl runs");
        (!checked.status.success()).then_some(())
    });
    let asked = api.asked().len();
    let mut again = start(&hub, "again", &command);
    again.ready();
    assert_eq!(api.asked().len(), asked + 1, "{}", again.log());
    assert_ne!(certificate(), kept);
}

#[test]
fn t23_t25_an_agent_stays_in_its_cluster_when_its_account_is_recorded_for_another() {
    let api = Api::start();
    let hub = api.hub(&["--agent-cert-ttl", "5s"]);
    recorded(&hub, "cluster-a", "fleet/a");
    let home = hub.path("agent");
    let command = agent(&hub, &api.token(CANARY), &home);
    let mut running = start(&hub, "agent", &command);
    running.ready();
    let cluster = || {
        let text = fs::read_to_string(format!("{home}/identity.json")).expect("an identity");
        serde_json::from_str::<Value>(&text).expect("JSON")["identity"]["cluster"].clone()
    };
    let refusals = || hub.role.log().matches("MCT-ENROL-TOKEN-CLUSTER").count();

    assert_eq!(run(&["cluster", "revoke", "cluster-a", "--data-dir", &hub.path("data")]).status, Some(0));
    recorded(&hub, "cluster-b", "fleet/a");

    until("the refusal", || (refusals() > 0).then_some(()));
    running.signal("KILL");
    running.wait();
    assert_eq!(cluster(), "cluster-a");
    // What it kept counts until its end, so it may try its tunnel first.
    let before = refusals();
    let mut again = start(&hub, "again", &command);
    until("the refusal after a restart", || (refusals() > before).then_some(()));
    again.signal("KILL");
    again.wait();
    assert_eq!(cluster(), "cluster-a");
    for listed in list(&hub).as_array().expect("a list") {
        assert_eq!(listed["serials"], json!([]), "nothing was issued: {listed}");
    }
    assert!(!has_tunnel(&hub));
    // In a directory of its own it is who the account says.
    let elsewhere = agent(&hub, &api.token(CANARY), &hub.path("another"));
    assert_eq!(start(&hub, "another", &elsewhere).ready()["cluster"], "cluster-b");
}
