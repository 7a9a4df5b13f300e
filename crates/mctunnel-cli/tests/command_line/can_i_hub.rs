//! "Does user Alice have permission to access the kube-system namespace in cluster-prod?", asked of a hub that runs: by HTTP, and by
//! the command. The policy file alone changes the answer.

use crate::rig::{Hub, Ran, request, run};
use serde_json::{Value, json};
use std::{fs, path::Path, time::Duration};
use tempfile::TempDir;
use tokio::time::Instant;

const POLICY: &str = r#"version: 1
roles:
  reader:
    rules:
      - {clusters: ["*"], namespaces: ["*"], apiGroups: [""], resources: [pods], names: ["*"], verbs: [get, list]}
  auditor:
    rules:
      - clusters: [cluster-prod]
        namespaces: ["*"]
        apiGroups: [authorization.k8s.io]
        resources: [subjectaccessreviews]
        names: ["*"]
        verbs: [create]
bindings:
  - {name: alice, role: reader, users: [alice], providers: [keys]}
  - {name: auditors, role: auditor, users: [olga], providers: [keys]}
deny:
  - name: no-kube-system
    users: ["*"]
    providers: ["*"]
    rules:
      - {clusters: [cluster-prod], namespaces: [kube-system], apiGroups: ["*"], resources: ["*/*"], names: ["*"], verbs: ["*"]}
"#;

/// What is promised of an edit.
const COUNTS_WITHIN: Duration = Duration::from_secs(1);
/// And for when an answer says so, which may be late on a machine that builds and tests at the same time.
const SAID_WITHIN: Duration = Duration::from_secs(2);

/// A hub with a policy, and keys for some users.
struct Stage {
    hub: Hub,
    files: TempDir,
}

impl Stage {
    fn new(more: &[&str]) -> Self {
        let files = tempfile::tempdir().expect("a directory");
        let path = |name: &str| files.path().join(name).to_str().expect("UTF-8").to_owned();
        fs::write(path("auth.yaml"), "providers: [{name: keys, api_keys: {}}]\n").expect("a file");
        fs::write(path("policy.yaml"), POLICY).expect("a file");
        let trust = ["--auth-config", &path("auth.yaml"), "--policy", &path("policy.yaml")];
        let stage = Self { hub: Hub::start(&[&trust, more].concat()), files };
        for user in ["alice", "olga", "eve"] {
            let made = run(&["api-key", "create", user, "--user", user, "--data-dir", &stage.hub.path("data")]);
            assert_eq!(made.status, Some(0), "{made:?}");
            fs::write(stage.path(user), made.out).expect("a file");
        }
        stage
    }

    fn path(&self, name: &str) -> String {
        self.files.path().join(name).to_str().expect("UTF-8").to_owned()
    }

    /// As an editor does it: the whole file at once.
    fn edit(&self, text: &str) {
        fs::write(self.path("policy.new"), text).expect("a file");
        fs::rename(self.path("policy.new"), self.path("policy.yaml")).expect("a file");
    }

    fn send(&self, method: &str, path: &str, user: Option<&str>, body: &str) -> (u16, Value) {
        let key = user.map(|user| fs::read_to_string(self.path(user)).expect("a key"));
        let shown = key.map(|key| format!("Authorization: Bearer {}\r\n", key.trim())).unwrap_or_default();
        let head = format!("{method} {path} HTTP/1.1\r\nHost: x\r\n{shown}Content-Length: {}\r\n", body.len());
        let (status, body) = request(self.hub.address("gateway"), &format!("{head}Connection: close\r\n\r\n{body}"));
        (status, serde_json::from_str(&body).unwrap_or_else(|_| panic!("not JSON: {body}")))
    }

    /// Asks by HTTP.
    fn ask(&self, user: &str, question: &Value) -> (u16, Value) {
        self.send("POST", "/-/can-i", Some(user), &question.to_string())
    }

    /// Asks by the command.
    fn command(&self, user: &str, words: &str) -> Ran {
        let (hub, token) = (format!("http://{}", self.hub.address("gateway")), self.path(user));
        let to = ["can-i", "--cluster", "cluster-prod", "--hub", &hub, "--token-file", &token];
        run(&[&to[..], &words.split(' ').collect::<Vec<_>>()].concat())
    }
}

/// The question about whoever asks.
fn about_me() -> Value {
    json!({
        "where": {"cluster": "cluster-prod", "namespace": "kube-system"},
        "what": {"verb": "get", "resource": "pods"},
    })
}

/// The same about somebody.
fn about(user: &str) -> Value {
    let mut question = about_me();
    question["who"] = json!({"user": user, "provider": "keys"});
    question
}

#[test]
fn a_hub_is_asked_by_http_and_by_the_command_and_follows_the_file() {
    let stage = Stage::new(&["--gateway-plain"]);
    let no = json!({
        "allowed": false,
        "rule": "deny no-kube-system, rule 1",
        "question": "alice: get pods in kube-system, in cluster-prod",
    });
    assert_eq!(stage.ask("alice", &about_me()), (200, no.clone()));
    assert_eq!(stage.ask("olga", &about("alice")), (200, no));
    let words = "get pods -n kube-system";
    let said = "no (deny no-kube-system, rule 1)\n";
    let by_command = stage.command("alice", words);
    assert_eq!((by_command.status, by_command.out.as_str()), (Some(1), said), "{by_command:?}");
    let by_command = stage.command("olga", &format!("{words} --as alice --as-provider keys"));
    assert_eq!((by_command.status, by_command.out.as_str()), (Some(1), said), "{by_command:?}");
    let pods = "/cluster-prod/api/v1/namespaces/kube-system/pods/dns";
    assert_eq!(stage.send("GET", pods, Some("alice"), "").0, 403);

    // The deny rule goes and comes back; nobody restarts anything.
    let (mut took, pid) = (Vec::new(), stage.hub.role.pid());
    for round in 0..5 {
        let allows = round % 2 == 0;
        stage.edit(&if allows { POLICY.replace("[kube-system]", "[secret]") } else { POLICY.to_owned() });
        let edited = Instant::now();
        loop {
            let asked = edited.elapsed();
            if stage.ask("alice", &about_me()).1["allowed"] == Value::Bool(allows) {
                break;
            }
            assert!(asked < COUNTS_WITHIN, "asked {asked:?} after the edit, and it did not count");
        }
        took.push(edited.elapsed());
        let expected = if allows { "yes (role reader, rule 1, binding alice)\n" } else { said };
        assert_eq!(stage.command("alice", words).out, expected);
        assert_eq!(stage.send("GET", pods, Some("alice"), "").0, if allows { 404 } else { 403 }, "requests, too");
    }
    took.sort_unstable();
    println!("an edit counted after {took:?}");
    assert!(took[took.len() / 2] < COUNTS_WITHIN, "most of them: {took:?}");
    assert!(took.iter().all(|took| *took < SAID_WITHIN), "each of them: {took:?}");
    assert_eq!(stage.hub.role.pid(), pid);
}

#[test]
fn who_asks_about_others_must_be_allowed_to_and_is_recorded() {
    let mut stage = Stage::new(&["--gateway-plain"]);
    assert_eq!(stage.send("POST", "/-/can-i", None, &about_me().to_string()).0, 401);
    let (status, answer) = stage.ask("eve", &about_me());
    assert_eq!((status, &answer["allowed"]), (200, &Value::Bool(false)), "everybody may ask about themselves");
    for who in ["bob", "alice"] {
        let (status, answer) = stage.ask("alice", &about(who));
        let message = answer["message"].as_str().expect("a message");
        assert!(status == 403 && message.starts_with("no rule allows it (MCT-HTTP-DENIED"), "{who}: {answer}");
    }
    let mut elsewhere = about("alice");
    elsewhere["where"]["cluster"] = json!("cluster-dev");
    assert_eq!(stage.ask("olga", &elsewhere).0, 403, "she may ask about one cluster only");

    let page = |method, path, body: &str| {
        let (status, answer) = stage.send(method, path, Some("alice"), body);
        (status, answer["details"]["causes"][0]["reason"].as_str().unwrap_or_default().to_owned())
    };
    let bad = (400, "MCT-HTTP-BAD-QUESTION".to_owned());
    let question = about_me().to_string();
    assert_eq!(page("POST", "/-/can-i", ""), bad);
    assert_eq!(page("POST", "/-/can-i", "{}"), bad);
    assert_eq!(page("POST", "/-/can-i", &question.replace("verb", "verbs")), bad);
    assert_eq!(page("POST", "/-/can-i", &question.replace("\"get\"", "\"gett\"")), bad);
    assert_eq!(page("POST", "/-/can-i", &question.replace("cluster-prod", "Cluster_Prod")), bad);
    assert_eq!(page("POST", "/-/can-i", &" ".repeat(65 * 1024)), bad);
    assert_eq!(page("GET", "/-/can-i", ""), bad);
    for path in ["/-/", "/-/can-i/", "/-/can-i2", "/-/metrics"] {
        assert_eq!(page("POST", path, &question), (404, "MCT-HTTP-NO-PAGE".to_owned()), "{path}");
    }
    assert_eq!(page("POST", "/-", &question).0, 400, "no cluster has this name");

    stage.hub.role.signal("TERM");
    assert_eq!(stage.hub.role.wait().code(), Some(0));
    let log = fs::read_to_string(stage.hub.path("data/audit/audit.log")).expect("a log");
    let about_others: Vec<Value> = log
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .filter(|record: &Value| record["resource"] == "subjectaccessreviews")
        .collect();
    let decided: Vec<_> = about_others.iter().map(|record| (&record["user"], &record["decision"])).collect();
    let denied = Value::from("denied");
    assert_eq!(
        decided,
        [(&"alice".into(), &denied), (&"alice".into(), &denied), (&"olga".into(), &denied)],
        "{about_others:#?}"
    );
}

#[test]
fn who_asks_about_themselves_does_so_within_their_quota() {
    let stage = Stage::new(&["--gateway-plain"]);
    stage.edit(&format!(
        "{POLICY}quotas: [{{name: few, per: user, users: [eve], clusters: [\"*\"], requestsPerSecond: 1, burst: 2}}]\n"
    ));
    let edited = Instant::now();
    let (status, answer) = loop {
        let (status, answer) = stage.ask("eve", &about_me());
        if status != 200 {
            break (status, answer);
        }
        assert!(edited.elapsed() < crate::rig::PATIENCE, "she may ask without end");
    };
    assert_eq!((status, answer["details"]["causes"][0]["reason"].as_str()), (429, Some("MCT-HTTP-QUOTA")), "{answer}");
    assert_eq!(stage.ask("alice", &about_me()).0, 200, "others have their own");
}

#[test]
fn a_hub_that_cannot_be_asked_is_not_a_no() {
    let stage = Stage::new(&[]);
    let hub = format!("https://{}", stage.hub.address("gateway"));
    let ca = stage.hub.path("data/pki/ca.pem");
    assert!(Path::new(&ca).exists());
    let asked = |hub: &str, ca: &str, user: &str| {
        let token = stage.path(user);
        run(&[
            "can-i",
            "get",
            "pods",
            "-n",
            "a",
            "--cluster",
            "c",
            "--hub",
            hub,
            "--hub-ca",
            ca,
            "--token-file",
            &token,
        ])
    };
    let yes = asked(&hub, &ca, "alice");
    assert_eq!((yes.status, yes.out.as_str()), (Some(0), "yes (role reader, rule 1, binding alice)\n"), "{yes:?}");
    fs::write(stage.path("forged"), "mctk_forged").expect("a file");
    let other = tempfile::tempdir().expect("a directory");
    let another_ca = rcgen_ca(other.path());
    for (what, ran, code) in [
        ("a bad token", asked(&hub, &ca, "forged"), "MCT-ASK-REFUSED"),
        ("a token that is not there", asked(&hub, &ca, "nobody"), "MCT-ASK-TOKEN"),
        ("another CA", asked(&hub, &another_ca, "alice"), "MCT-ASK-UNREACHABLE"),
        ("nobody there", asked("https://127.0.0.1:1", &ca, "alice"), "MCT-ASK-UNREACHABLE"),
        ("plain, to elsewhere", asked("http://10.0.0.1:8080", &ca, "alice"), "MCT-ASK-BAD-URL"),
        ("no CA in it", asked(&hub, &stage.path("policy.yaml"), "alice"), "MCT-TLS-CA-FILE"),
    ] {
        assert_eq!((ran.status, ran.out.as_str()), (Some(2), ""), "{what}: {ran:?}");
        assert!(ran.err.starts_with(&format!("error[{code}]: ")), "{what}: {}", ran.err);
        assert!(!ran.err.contains("mctk_"), "{what}: {}", ran.err);
    }
}

fn rcgen_ca(directory: &Path) -> String {
    let mut params = rcgen::CertificateParams::default();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let key = rcgen::KeyPair::generate().expect("a key");
    let file = directory.join("ca.pem");
    fs::write(&file, params.self_signed(&key).expect("a certificate").pem()).expect("a file");
    file.to_str().expect("UTF-8").to_owned()
}
