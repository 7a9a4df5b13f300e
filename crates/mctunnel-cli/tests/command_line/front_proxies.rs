//! Clients with certificates, and front proxies that speak for theirs, end to end: a hub with TLS, an agent that speaks for users, and a
//! kube-apiserver that takes down whom it was told.

use crate::{
    rig::{Hub, Role},
    tls_clients::{Ca, Shown, status},
};
use parking_lot::Mutex;
use std::{
    fs,
    io::{Read, Write},
    net::TcpListener,
    sync::Arc,
    thread,
};
use tempfile::TempDir;

const AUTH: &str = "providers:
  - {name: people, client_certificates: {ca_file: people.pem}}
  - {name: portal, front_proxy: {ca_file: proxies.pem, allowed_names: [portal]}}
";

const POLICY: &str = "version: 1
roles:
  all: {rules: [{clusters: ['*'], nonResourcePaths: ['*'], verbs: ['*']}]}
bindings:
  - {name: people, role: all, users: [carol], providers: [people]}
  - {name: portal, role: all, users: [dora], providers: [portal]}
deny: []
";

struct Stage {
    hub: Hub,
    people: Ca,
    proxies: Ca,
    heads: Arc<Mutex<Vec<String>>>,
    _agent: Role,
    _files: TempDir,
}

impl Stage {
    fn start() -> Self {
        let (files, people, proxies) =
            (tempfile::tempdir().expect("a directory"), Ca::new("people"), Ca::new("proxies"));
        let path = |name: &str| files.path().join(name).to_str().expect("UTF-8").to_owned();
        for (name, text) in [
            ("auth.yaml", AUTH),
            ("policy.yaml", POLICY),
            ("people.pem", people.pem.as_str()),
            ("proxies.pem", proxies.pem.as_str()),
            ("token", "the-agents-own"),
        ] {
            fs::write(path(name), text).expect("a file");
        }
        let hub = Hub::start(&["--auth-config", &path("auth.yaml"), "--policy", &path("policy.yaml")]);
        let (api, heads) = recording_api();
        let (bundle, token) = (hub.add("c1"), path("token"));
        let flags = ["agent", "--join", &bundle, "--impersonate", "--kube-token-file", &token, "--kube-api", &api];
        let mut agent = Role::start(files.path(), "agent", &flags, &[]);
        agent.ready();
        Self { hub, people, proxies, heads, _agent: agent, _files: files }
    }

    /// The status, and the heads that the kube-apiserver saw meanwhile.
    fn ask(&self, shown: Option<&Shown>, lines: &str) -> (Option<u16>, Vec<String>) {
        let status = status(&self.hub, shown, "/c1/version", lines);
        (status, std::mem::take(&mut *self.heads.lock()))
    }
}

/// A kube-apiserver that says yes; gives its URL and what it was asked, in lower case.
fn recording_api() -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let heads: Arc<Mutex<Vec<String>>> = Arc::default();
    let seen = Arc::clone(&heads);
    thread::spawn(move || {
        for mut socket in listener.incoming().flatten() {
            let (mut head, mut byte) = (Vec::new(), [0]);
            while !head.ends_with(b"\r\n\r\n") && socket.read_exact(&mut byte).is_ok() {
                head.extend(byte);
            }
            seen.lock().push(String::from_utf8_lossy(&head).to_ascii_lowercase());
            // Whoever went away needs no answer.
            let _ = socket.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok");
        }
    });
    (url, heads)
}

/// The lines of the one head that say for whom it is.
#[track_caller]
fn spoken_for(heads: &[String]) -> Vec<&str> {
    let [head] = heads else { panic!("one request: {heads:?}") };
    assert!(!head.contains("x-remote-") && head.contains("authorization: bearer the-agents-own\r\n"), "{head}");
    let mut told: Vec<&str> = head.lines().filter(|line| line.starts_with("impersonate-")).collect();
    told.sort_unstable();
    told
}

#[test]
fn t01_t31_certificates_and_front_proxies_name_the_user_and_nobody_else_does() {
    let stage = Stage::start();
    let (portal, carol) = (stage.proxies.client("portal", "machines"), stage.people.client("carol", "devs"));
    let fields = "X-Remote-User: dora\r\nX-Remote-Group: ops\r\nX-Remote-Group: night\r\nX-Remote-Extra-Team: blue\r\n";

    let (answer, heads) = stage.ask(Some(&portal), fields);
    assert_eq!(answer, Some(200));
    let told = [
        "impersonate-extra-team: blue",
        "impersonate-group: night",
        "impersonate-group: ops",
        "impersonate-user: dora",
    ];
    assert_eq!(spoken_for(&heads), told);
    let (answer, heads) = stage.ask(Some(&carol), "");
    assert_eq!(answer, Some(200));
    assert_eq!(spoken_for(&heads), ["impersonate-group: devs", "impersonate-user: carol"]);

    let impostor = stage.proxies.client("another", "machines");
    let stranger = Ca::new("proxies").client("portal", "machines");
    for (what, shown, lines, expected) in [
        ("the fields without a certificate", None, fields, Some(400)),
        ("one field without a certificate", None, "X-Remote-User: dora\r\n", Some(400)),
        ("the fields with a person's certificate", Some(&carol), fields, Some(400)),
        ("a proxy of another name", Some(&impostor), fields, Some(401)),
        ("a proxy that names nobody", Some(&portal), "", Some(401)),
        ("a proxy that names two", Some(&portal), "X-Remote-User: dora\r\nX-Remote-User: carol\r\n", Some(401)),
        ("a proxy that names a group alone", Some(&portal), "X-Remote-Group: ops\r\n", Some(401)),
        ("a proxy that names Kubernetes' own", Some(&portal), "X-Remote-User: system:admin\r\n", Some(401)),
        ("a proxy and a token", Some(&portal), "X-Remote-User: dora\r\nAuthorization: Bearer x\r\n", Some(400)),
        ("a proxy whose user nothing is given", Some(&portal), "X-Remote-User: carol\r\n", Some(403)),
        ("nobody", None, "", Some(401)),
    ] {
        assert_eq!(stage.ask(shown, lines), (expected, Vec::new()), "{what}");
    }
    let (answer, heads) = stage.ask(Some(&stranger), fields);
    assert!(matches!(answer, None | Some(401)) && heads.is_empty(), "of another CA: {answer:?} {heads:?}");
}
