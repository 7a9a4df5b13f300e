//! T16 at the agent: each option about whom it speaks for, what it reaches and whom it believes counts however it is set, by flag, file
//! or variable. The options are taken from `mctunnel agent --help`: one that is new fails here until somebody says what it does.

use crate::{
    enrolment,
    rig::{Greeter, Hub, Ran, Role, mctunnel, ran, request, run, until},
    service_accounts::{self, CANARY},
    tls_servers::{Connection, Tls, serve},
};
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::{
    collections::BTreeSet,
    fs,
    io::{BufRead, BufReader, Write},
    net::{IpAddr, Ipv4Addr, TcpStream, UdpSocket},
    process::Command,
    sync::Arc,
};
use tempfile::TempDir;
use tokio::time::Instant;

/// Options about trust. Each has a check below.
const ABOUT_TRUST: [(&str, Check); 21] = [
    ("join-token", join_token),
    ("join-token-file", join_token_file),
    ("join", join),
    ("certificate", own_certificate),
    ("key", own_certificate),
    ("hub-ca", own_certificate),
    ("enrol-service-account-token", service_account),
    ("hub-server-name", hub_server_name),
    ("allow", allow),
    ("allow-service", allow_service),
    ("allow-service-file", allow_service_file),
    ("kube-api-ca", kube_api_ca),
    ("impersonate", impersonate),
    ("kube-token-file", kube_token_file),
    ("impersonate-user", impersonate_user),
    ("impersonate-group", impersonate_group),
    ("deny-kube-api", deny_kube_api),
    ("pin-service", pin_service),
    ("service-ca", service_ca),
    ("insecure-service", insecure_service),
    ("allow-external-names", allow_external_names),
];

/// Shows that an option counts when it is set in this way.
type Check = fn(&Stage, Way);

/// All the others.
const ABOUT_OTHER_THINGS: [&str; 24] = [
    "hub",
    "kubeconfig",
    "kube-context",
    "kube-api",
    "zone",
    "cluster-domain",
    "data-dir",
    "expose",
    "spool",
    "spool-limit",
    "report-events",
    "report-event-type",
    "report-event-reason",
    "report-logs",
    "report-log-containers",
    "report-listen",
    "admin-listen",
    "ready-file",
    "grace",
    "congestion-control",
    "log-format",
    "log-level",
    "threads",
    "config",
];

/// How an option is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Flag,
    File,
    Variable,
}

#[test]
fn t16_options_of_the_agent_are_effective() {
    let stage = Stage::new();
    for (option, check) in ABOUT_TRUST {
        for way in [Way::Flag, Way::File, Way::Variable] {
            println!("--{option}, by {way:?}");
            check(&stage, way);
        }
    }
}

#[test]
fn t16_every_option_of_the_agents_help_is_known_here() {
    let help = run(&["agent", "--help"]).out;
    let flags = help.lines().filter_map(|line| line.strip_prefix("      --"));
    let shown: BTreeSet<&str> = flags.filter_map(|flag| flag.split([' ', '\n']).next()).collect();
    let known = ABOUT_TRUST.iter().map(|(option, _)| *option).chain(ABOUT_OTHER_THINGS).chain(["print-config"]);
    assert!(shown.len() > 20, "{help}");
    assert_eq!(shown, known.collect(), "say here whether an option is about trust; if it is, show that it counts");
}

#[test]
fn t16_with_none_of_them_an_agent_reaches_nothing_and_speaks_for_nobody() {
    let stage = Stage::new();
    let _agent = stage.agent(Way::Flag, &[], &[]);
    let (status, body) = stage.ask("/c1/version");
    assert!(status == 403 && body.contains("--impersonate"), "{status} {body}");
    assert_eq!(stage.ask(SERVICE).0, 403);
    assert_eq!(stage.connect(), 403);
    assert!(stage.api.heads().is_empty());
}

// === the options ===

fn join_token(stage: &Stage, way: Way) {
    let refused = stage.refused(way, &[("join-token", "mctj_forged")], &["--data-dir", &stage.path("home")]);
    assert!(refused.err.starts_with("error[MCT-") && refused.err.contains("token"), "{refused:?}");
    assert!(!refused.err.contains("mctj_forged"), "{refused:?}");
    let (cluster, home) = (format!("token-{way:?}").to_lowercase(), stage.path(&format!("home-{way:?}")));
    let token = enrolment::token(&stage.hub, &cluster, &[]);
    stage.joins(way, &[("join-token", &token)], &["--data-dir", &home], &cluster);
}

fn join_token_file(stage: &Stage, way: Way) {
    let file = stage.write("join-token", "mctj_forged\n");
    let refused = stage.refused(way, &[("join-token-file", &file)], &["--data-dir", &stage.path("home")]);
    assert!(refused.err.starts_with("error[MCT-") && refused.err.contains("token"), "{refused:?}");
    assert!(!refused.err.contains("MCT-AGENT-NOT-ENROLLED") && !refused.err.contains("mctj_forged"), "{refused:?}");
    let (cluster, home) = (format!("file-{way:?}").to_lowercase(), stage.path(&format!("home-of-file-{way:?}")));
    let file = stage.write("good-join-token", &enrolment::token(&stage.hub, &cluster, &[]));
    stage.joins(way, &[("join-token-file", &file)], &["--data-dir", &home], &cluster);
}

fn join(stage: &Stage, way: Way) {
    let refused = stage.refused(way, &[("join", "/no/such/bundle")], &[]);
    assert!(refused.status == Some(1) && refused.err.contains("/no/such/bundle"), "{refused:?}");
    stage.joins(way, &[("join", &stage.join)], &[], "c1");
}

/// Certificate, key and CA go together: without one of them nothing starts, with all of them the hub is reached, and by another CA it is not.
fn own_certificate(stage: &Stage, way: Way) {
    let (bundle, at) = (stage.bundle(), |name: &str| stage.path(name));
    for (name, part) in [("tls.crt", "certificate_pem"), ("tls.key", "key_pem"), ("ca.pem", "ca_pem")] {
        stage.write(name, bundle[part].as_str().expect("text"));
    }
    let all = [("certificate", at("tls.crt")), ("key", at("tls.key")), ("hub-ca", at("ca.pem"))];
    let hub = ["--hub", stage.hub.address("tunnel")];
    let all: Vec<(&str, &str)> = all.iter().map(|(name, value)| (*name, value.as_str())).collect();
    for missing in 0..all.len() {
        let mut options = all.clone();
        options[missing].1 = "/no/such/file";
        let refused = stage.refused(way, &options, &hub);
        assert!(refused.err.contains("/no/such/file"), "{}: {refused:?}", options[missing].0);
    }
    stage.joins(way, &all, &hub, "c1");
    let (mut foreign, ca) = (all.clone(), stage.write("foreign-ca.pem", &Tls::new().ca));
    foreign[2].1 = &ca;
    let lost = Role::spawn(stage.files.path(), "lost", stage.command(way, &foreign, &hub));
    until("the agent to say whom it does not believe", || {
        lost.log().contains("invalid peer certificate").then_some(())
    });
}

/// An account that the hub knows gets in; two ways to say who the agent is are refused. What else it does is in `service_accounts.rs`.
fn service_account(stage: &Stage, way: Way) {
    let refused = stage.refused(way, &[("enrol-service-account-token", "/no/such/token")], &["--join", &stage.join]);
    assert!(refused.err.starts_with("error[MCT-CONFIG-BAD-VALUE]: "), "{refused:?}");
    assert!(refused.err.contains("one of them says who the agent is"), "{refused:?}");
    let api = service_accounts::Api::start();
    let hub = api.hub(&[]);
    service_accounts::recorded(&hub, "cluster-a", "fleet/a");
    let (ca, home, token) = (hub.path("data/pki/ca.pem"), hub.path("home"), api.token(CANARY));
    let flags = ["--hub-ca", &ca, "--hub", hub.address("tunnel"), "--data-dir", &home];
    stage.joins(way, &[("enrol-service-account-token", &token)], &flags, "cluster-a");
    assert_eq!(api.asked().len(), 1, "the cluster was asked whose it is");
}

fn hub_server_name(stage: &Stage, way: Way) {
    let command = stage.command(way, &[("hub-server-name", "elsewhere.example")], &stage.usual());
    let lost = Role::spawn(stage.files.path(), "lost", command);
    until("the agent to say that it is not there", || lost.log().contains("not valid for name").then_some(()));
    let refused = stage.refused(way, &[("hub-server-name", "no name")], &["--join", &stage.join]);
    assert!(refused.err.starts_with("error[MCT-CONFIG-BAD-VALUE]: "), "{refused:?}");
}

fn allow(stage: &Stage, way: Way) {
    let _agent = stage.agent(way, &[("allow", &format!("tcp://{}", stage.greeter.address))], &[]);
    assert_eq!(stage.connect(), 200);
}

fn allow_service(stage: &Stage, way: Way) {
    let _agent = stage.agent(way, &[("allow-service", "default/web:80")], &["--pin-service", &stage.pin()]);
    assert_eq!(stage.ask(SERVICE), (200, "/x".to_owned()));
}

fn allow_service_file(stage: &Stage, way: Way) {
    let file = stage.write("services.yaml", "services: [\"default/web:80\"]\n");
    let _agent = stage.agent(way, &[("allow-service-file", &file)], &["--pin-service", &stage.pin()]);
    assert_eq!(stage.ask(SERVICE), (200, "/x".to_owned()));
}

fn pin_service(stage: &Stage, way: Way) {
    let _agent = stage.agent(way, &[("pin-service", &stage.pin())], &["--allow-service", "default/web:80"]);
    assert_eq!(stage.ask(SERVICE), (200, "/x".to_owned()));
}

fn impersonate(stage: &Stage, way: Way) {
    let _agent = stage.agent(way, &[("impersonate", "true")], &["--kube-token-file", &stage.token()]);
    stage.speaks_for_alice(&["impersonate-group: dev"]);
}

fn kube_token_file(stage: &Stage, way: Way) {
    let _agent = stage.agent(way, &[("kube-token-file", &stage.token())], &["--impersonate"]);
    stage.speaks_for_alice(&["impersonate-group: dev"]);
}

fn impersonate_user(stage: &Stage, way: Way) {
    let flags = ["--impersonate", "--kube-token-file", &stage.token()];
    // A comma is part of a name: nobody is named by a piece of another's.
    for others in ["bob", "bob,alice", "bob;alice"] {
        let agent = stage.agent(way, &[("impersonate-user", others)], &flags);
        stage.is_not_spoken_for();
        drop(agent);
    }
    let _agent = stage.agent(way, &[("impersonate-user", "alice")], &flags);
    stage.speaks_for_alice(&[]);
    assert_refused(&stage.refused(way, &[("impersonate-user", "bob")], &stage.usual()), "MCT-AGENT-IMPERSONATE");
}

fn impersonate_group(stage: &Stage, way: Way) {
    let flags = ["--impersonate", "--kube-token-file", &stage.token()];
    for others in ["ops", "ops,dev", "dev;ops"] {
        let agent = stage.agent(way, &[("impersonate-group", others)], &flags);
        stage.is_not_spoken_for();
        drop(agent);
    }
    let _agent = stage.agent(way, &[("impersonate-group", "dev")], &flags);
    stage.speaks_for_alice(&["impersonate-group: dev"]);
    assert_refused(&stage.refused(way, &[("impersonate-group", "ops")], &stage.usual()), "MCT-AGENT-IMPERSONATE");
}

fn deny_kube_api(stage: &Stage, way: Way) {
    let flags = ["--impersonate", "--kube-token-file", &stage.token()];
    let _agent = stage.agent(way, &[("deny-kube-api", "true")], &flags);
    stage.is_not_spoken_for();
}

fn kube_api_ca(stage: &Stage, way: Way) {
    let refused = stage.refused(way, &[("kube-api-ca", "/no/such/ca.pem")], &stage.usual());
    assert!(refused.err.contains("/no/such/ca.pem"), "{refused:?}");
    let tls = Tls::new();
    let api = Api::start(Some(&tls));
    let flags = ["--join", &stage.join, "--kube-api", &api.url, "--impersonate", "--kube-token-file", &stage.token()];
    for (ca, status) in [(Tls::new().ca, 502), (tls.ca, 200)] {
        let _agent = stage.agent_with(way, &[("kube-api-ca", &stage.write("kube-ca.pem", &ca))], &flags);
        assert_eq!(stage.ask("/c1/version").0, status);
        assert_eq!(api.heads().len(), usize::from(status == 200), "its token goes to nobody else");
    }
}

fn service_ca(stage: &Stage, way: Way) {
    let refused = stage.refused(way, &[("service-ca", "/no/such/ca.pem")], &stage.usual());
    assert!(refused.err.contains("/no/such/ca.pem"), "{refused:?}");
    let tls = Tls::new();
    let (flags, usual) = (stage.tls_service(&tls), stage.usual());
    let flags: Vec<&str> = flags.iter().map(String::as_str).chain(usual).collect();
    for (ca, status) in [(Tls::new().ca, 502), (tls.ca, 200)] {
        let _agent = stage.agent_with(way, &[("service-ca", &stage.write("service-ca.pem", &ca))], &flags);
        let (answered, body) = stage.ask(TLS_SERVICE);
        assert_eq!(answered, status, "{body}");
    }
}

fn insecure_service(stage: &Stage, way: Way) {
    let refused = stage.refused(way, &[("insecure-service", "no-namespace")], &stage.usual());
    assert!(refused.err.starts_with("error[MCT-") && refused.err.contains("no-namespace"), "{refused:?}");
    let (flags, usual) = (stage.tls_service(&Tls::new()), stage.usual());
    let flags: Vec<&str> = flags.iter().map(String::as_str).chain(usual).collect();
    for (service, status) in [("default/other", 403), ("default/web", 200)] {
        let _agent = stage.agent_with(way, &[("insecure-service", service)], &flags);
        let (answered, body) = stage.ask(TLS_SERVICE);
        assert_eq!(answered, status, "{body}");
    }
}

fn allow_external_names(stage: &Stage, way: Way) {
    // No service may lead to loopback: there the answer shows only that the name was followed.
    let ip = own_address().unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
    let elsewhere = Greeter::start_at(ip);
    let (name, port) = elsewhere.address.rsplit_once(':').expect("a port");
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": cluster_with_external_name(name)}}],
        "users": [{"name": "u", "user": {"token": "the-agents-own"}}],
    });
    let (kubeconfig, service) = (stage.write("kubeconfig", &config.to_string()), format!("default/out:{port}"));
    let flags = ["--join", &stage.join, "--kubeconfig", &kubeconfig, "--allow-service", &service];
    let path = format!("/c1/api/v1/namespaces/default/services/out:{port}/proxy-service/x");

    let without = stage.agent_with(Way::Flag, &[], &flags);
    let (status, body) = stage.ask(&path);
    assert!(status == 403 && body.contains("outside the cluster, which is not allowed"), "{status} {body}");
    drop(without);
    let _agent = stage.agent_with(way, &[("allow-external-names", "true")], &flags);
    let (status, body) = stage.ask(&path);
    if ip.is_loopback() {
        assert!(status == 403 && body.contains("loopback"), "{status} {body}");
    } else {
        assert_eq!((status, body.as_str()), (200, "/x"));
    }
}

/// An address of this machine that others could reach, if it has one.
fn own_address() -> Option<IpAddr> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok()?;
    // Nothing is sent: the system only chooses from where it would be.
    socket.connect((Ipv4Addr::new(203, 0, 113, 1), 9)).ok()?;
    match socket.local_addr().ok()?.ip() {
        IpAddr::V4(ip) if !ip.is_loopback() && !ip.is_link_local() && !ip.is_unspecified() => Some(ip.into()),
        IpAddr::V4(_) | IpAddr::V6(_) => None,
    }
}

/// The kube-apiserver of a cluster with one service, `default/out`, which stands for this name. Gives its URL.
fn cluster_with_external_name(name: &str) -> String {
    let metadata = json!({"name": "out", "namespace": "default", "resourceVersion": "1", "uid": "1"});
    let out = json!({"metadata": metadata, "spec": {"type": "ExternalName", "externalName": name}});
    let address = serve(None, move |connection| {
        let head = read_head(connection);
        let path = head.split(' ').nth(1).unwrap_or_default();
        if path.contains("watch=1") {
            // Nothing happens until the client goes.
            let _ = connection.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
            let _ = connection.read_exact(&mut [0]);
            return;
        }
        let items = if path.starts_with("/api/v1/services?") { vec![out.clone()] } else { Vec::new() };
        let list = json!({"metadata": {"resourceVersion": "1"}, "items": items}).to_string();
        let head = format!("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n", list.len());
        // Whoever went away needs no answer.
        let _ = connection.write_all(format!("{head}Connection: close\r\n\r\n{list}").as_bytes());
    });
    format!("http://{address}")
}

/// The head of a request.
fn read_head(connection: &mut dyn Connection) -> String {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") && connection.read(&mut byte).is_ok_and(|read| read == 1) {
        head.extend(byte);
    }
    String::from_utf8_lossy(&head).into_owned()
}

// === a stage for agents of one cluster ===

const SERVICE: &str = "/c1/api/v1/namespaces/default/services/web:80/proxy-service/x";
const TLS_SERVICE: &str = "/c1/api/v1/namespaces/default/services/https:web:8443/proxy-service/x";

const POLICY: &str = "version: 1
roles:
  all:
    rules:
      - {clusters: ['*'], nonResourcePaths: ['*'], verbs: ['*']}
      - {clusters: ['*'], services: ['*/*:*'], methods: ['*'], paths: ['*'], protocols: ['*']}
      - {clusters: ['*'], bytes: ['*:*'], protocols: ['*']}
bindings: [{name: b, role: all, users: [alice], providers: [keys]}]
deny: []
";

struct Stage {
    files: TempDir,
    hub: Hub,
    api: Api,
    greeter: Greeter,
    join: String,
    key: String,
}

impl Stage {
    fn new() -> Self {
        let files = tempfile::tempdir().expect("a directory");
        let path = |name: &str| files.path().join(name).to_str().expect("UTF-8").to_owned();
        fs::write(path("auth.yaml"), "providers: [{name: keys, api_keys: {}}]\n").expect("a file");
        fs::write(path("policy.yaml"), POLICY).expect("a file");
        let trust = ["--auth-config", &path("auth.yaml"), "--policy", &path("policy.yaml"), "--gateway-plain"];
        let hub = Hub::start(&trust);
        let join = hub.add("c1");
        let create = ["api-key", "create", "alice", "--user", "alice", "--group", "dev", "--data-dir"];
        let made = run(&[&create[..], &[&hub.path("data")]].concat());
        assert_eq!(made.status, Some(0), "{made:?}");
        let key = made.out.trim_end().to_owned();
        Self { files, hub, api: Api::start(None), greeter: Greeter::start(), join, key }
    }

    fn path(&self, name: &str) -> String {
        self.files.path().join(name).to_str().expect("UTF-8").to_owned()
    }

    fn write(&self, name: &str, text: &str) -> String {
        use std::os::unix::fs::PermissionsExt;
        let path = self.path(name);
        fs::write(&path, text).expect("a file");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("a mode");
        path
    }

    fn bundle(&self) -> Value {
        serde_json::from_str(&fs::read_to_string(&self.join).expect("a bundle")).expect("JSON")
    }

    fn token(&self) -> String {
        self.write("token", "the-agents-own\n")
    }

    fn pin(&self) -> String {
        format!("default/web:80={}", self.greeter.address)
    }

    /// What an agent has that reaches a service with TLS.
    fn tls_service(&self, tls: &Tls) -> [String; 4] {
        let pin = format!("default/web:8443={}", Greeter::start_tls(tls).address);
        ["--allow-service".to_owned(), "default/web:8443".to_owned(), "--pin-service".to_owned(), pin]
    }

    /// What an agent of the cluster has, whatever else.
    fn usual(&self) -> [&str; 4] {
        ["--join", &self.join, "--kube-api", &self.api.url]
    }

    /// An agent for which these options are set in this way, on top of flags.
    fn command(&self, way: Way, options: &[(&str, &str)], flags: &[&str]) -> Command {
        let mut command = mctunnel(&["agent"]);
        command.args(flags);
        let mut file = String::new();
        for (name, value) in options {
            let key = name.replace('-', "_");
            match way {
                Way::Flag if *value == "true" => command.arg(format!("--{name}")),
                Way::Flag => command.args([format!("--{name}"), (*value).to_owned()]),
                Way::Variable => command.env(format!("MCTUNNEL_{}", key.to_ascii_uppercase()), value),
                Way::File => {
                    file.push_str(&format!("{key}: {}\n", Value::from(*value)));
                    &mut command
                }
            };
        }
        if way == Way::File {
            command.args(["--config", &self.write("agent.yaml", &file)]);
        }
        command
    }

    /// What an agent says that does not start.
    fn refused(&self, way: Way, options: &[(&str, &str)], flags: &[&str]) -> Ran {
        ran(&mut self.command(way, options, flags))
    }

    /// An agent whose tunnel is up.
    fn agent(&self, way: Way, options: &[(&str, &str)], flags: &[&str]) -> Role {
        self.agent_with(way, options, &[&self.usual()[..], flags].concat())
    }

    /// The same, with no flags but these.
    fn agent_with(&self, way: Way, options: &[(&str, &str)], flags: &[&str]) -> Role {
        let command = self.command(way, options, flags);
        let mut agent = Role::spawn(self.files.path(), "agent", command);
        assert_eq!(agent.ready()["cluster"], "c1");
        agent
    }

    /// An agent gets in as this cluster, and ends.
    fn joins(&self, way: Way, options: &[(&str, &str)], flags: &[&str], cluster: &str) {
        let mut agent = Role::spawn(self.files.path(), "joins", self.command(way, options, flags));
        assert_eq!(agent.ready()["cluster"], cluster);
    }

    /// The status and the body of a GET by alice.
    fn ask(&self, path: &str) -> (u16, String) {
        let head = format!("GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {}\r\n", self.key);
        request(self.hub.address("gateway"), &format!("{head}Connection: close\r\n\r\n"))
    }

    /// The status of a CONNECT by alice, once there is a tunnel.
    fn connect(&self) -> u16 {
        let begun = Instant::now();
        loop {
            let status = self.connect_once();
            if status != 503 || begun.elapsed() > crate::rig::PATIENCE {
                return status;
            }
        }
    }

    fn connect_once(&self) -> u16 {
        let mut socket = TcpStream::connect(self.hub.address("connect")).expect("it listens");
        let (to, key) = (&self.greeter.address, &self.key);
        let head = format!("CONNECT {to} HTTP/1.1\r\nHost: {to}\r\nx-mctunnel-cluster: c1\r\n");
        write!(socket, "{head}Proxy-Authorization: Bearer {key}\r\n\r\n").expect("it reads");
        let mut line = String::new();
        BufReader::new(socket).read_line(&mut line).expect("a status line");
        line.split(' ').nth(1).and_then(|word| word.parse().ok()).expect("a status")
    }

    #[track_caller]
    fn speaks_for_alice(&self, groups: &[&str]) {
        self.api.clear();
        assert_eq!(self.ask("/c1/version").0, 200);
        let heads = self.api.heads();
        let [head] = heads.as_slice() else { panic!("one request: {heads:?}") };
        let about: BTreeSet<&str> = head.lines().filter(|line| line.starts_with("impersonate-")).collect();
        assert_eq!(about, ["impersonate-user: alice"].iter().chain(groups).copied().collect(), "{head}");
        assert!(head.contains("authorization: Bearer the-agents-own\r\n"), "{head}");
    }

    #[track_caller]
    fn is_not_spoken_for(&self) {
        self.api.clear();
        assert_eq!(self.ask("/c1/version").0, 403);
        assert!(self.api.heads().is_empty(), "the agent's token was not used");
    }
}

/// A kube-apiserver that says yes and remembers what it was asked, names in lower case.
struct Api {
    url: String,
    heads: Arc<Mutex<Vec<String>>>,
}

impl Api {
    fn start(tls: Option<&Tls>) -> Self {
        let heads = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&heads);
        let address = serve(tls, move |connection| {
            let head = read_head(connection);
            if head.is_empty() {
                // Whoever went away at the sight of the certificate has said nothing.
                return;
            }
            let lower = head.split("\r\n").map(|line| match line.split_once(": ") {
                Some((name, value)) => format!("{}: {value}\r\n", name.to_ascii_lowercase()),
                None => format!("{line}\r\n"),
            });
            seen.lock().push(lower.collect());
            // Whoever went away needs no answer.
            let _ = connection.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok");
        });
        let scheme = if tls.is_some() { "https" } else { "http" };
        Self { url: format!("{scheme}://{address}"), heads }
    }

    fn heads(&self) -> Vec<String> {
        self.heads.lock().clone()
    }

    fn clear(&self) {
        self.heads.lock().clear();
    }
}

#[track_caller]
fn assert_refused(refused: &Ran, code: &str) {
    assert!(refused.err.starts_with(&format!("error[{code}]: ")), "{refused:?}");
    assert!(refused.err.contains("\n  remedy: "), "{refused:?}");
}
