//! T16: each option about trust counts however it is set, by flag, file or variable, alone; with none of them no hub with clients
//! starts. The options are taken from `mctunnel hub --help`: one that is new fails here until somebody says what it does.

use crate::{
    audit_webhook::Receiver,
    enrolment::OwnCa,
    rig::{Greeter, Hub, Ran, Role, get, mctunnel, ran, request, run, until},
    service_accounts::{AUDIENCE, Api, CANARY, jwt},
    tls_servers::Tls,
};
use serde_json::Value;
use std::{
    collections::BTreeSet,
    fs,
    process::{Command, Stdio},
};
use tempfile::TempDir;

/// Options about who comes in, what they may do, and where it is written down. Each has a check below.
const ABOUT_TRUST: [(&str, Check); 23] = [
    ("auth-config", auth_config),
    ("policy", policy),
    ("shadow-policy", shadow_policy),
    ("audit-log", audit_log),
    ("audit-file-size", audit_file_size),
    ("audit-keep", audit_keep),
    ("audit-webhook", audit_webhook),
    ("audit-webhook-ca", audit_webhook_ca),
    ("audit-webhook-authorization-file", audit_webhook_authorization_file),
    ("audit-webhook-queue", audit_webhook_queue),
    ("audit-on-full", audit_on_full),
    ("review-kubeconfig", review_kubeconfig),
    ("insecure-no-auth", insecure_no_auth),
    ("insecure-connect-anywhere", insecure_connect_anywhere),
    ("gateway-plain", gateway_plain),
    ("agent-ca", agent_ca),
    ("agent-cert-ttl", agent_cert_ttl),
    ("enrol-audience", enrol_audience),
    ("services", services),
    ("report-webhook-ca", |way| report_ca(way, "report-webhook")),
    ("report-webhook-authorization-file", |way| report_authorization_file(way, "report-webhook")),
    ("report-otlp-ca", |way| report_ca(way, "report-otlp")),
    ("report-otlp-authorization-file", |way| report_authorization_file(way, "report-otlp")),
];

/// Shows that an option counts when it is set in this way.
type Check = fn(Way);

/// All the others.
const ABOUT_OTHER_THINGS: [&str; 27] = [
    "data-dir",
    "tunnel-listen",
    "gateway-listen",
    "gateway-wait",
    "sni-listen",
    "sni-suffix",
    "server-timing",
    "connect-listen",
    "connect-tls-listen",
    "admin-listen",
    "hub-name",
    "tunnel-wait",
    "reuse-port",
    "report-keep",
    "report-file",
    "report-size",
    "report-webhook",
    "report-webhook-kind",
    "report-otlp",
    "ready-file",
    "grace",
    "congestion-control",
    "log-format",
    "log-level",
    "threads",
    "config",
    "print-config",
];

/// How an option is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Flag,
    File,
    Variable,
}

#[test]
fn t16_auth_config_effective() {
    for (option, check) in ABOUT_TRUST {
        for way in [Way::Flag, Way::File, Way::Variable] {
            println!("--{option}, by {way:?}");
            check(way);
        }
    }
}

#[test]
fn t16_every_option_of_the_help_is_known_here() {
    let help = run(&["hub", "--help"]).out;
    let flags = help.lines().filter_map(|line| line.trim_start().strip_prefix("--"));
    let shown: BTreeSet<&str> = flags.filter_map(|flag| flag.split([' ', '\n']).next()).collect();
    let known: BTreeSet<&str> = ABOUT_TRUST.iter().map(|(option, _)| *option).chain(ABOUT_OTHER_THINGS).collect();
    assert!(shown.len() > 20, "{help}");
    assert_eq!(shown, known, "say here whether an option is about trust; if it is, show that it counts in every way");
}

#[test]
fn t16_with_none_of_them_no_hub_with_clients_starts() {
    let contract = |gateway: &str| {
        let place = Place::new();
        let mut command = mctunnel(&["hub", "--tunnel-listen", "127.0.0.1:0", "--gateway-listen", gateway]);
        command.args(["--connect-listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"]);
        command.arg("--data-dir").arg(place.path("data"));
        // An empty variable is the same as none, and not the same as yes.
        let empty = ["AUTH_CONFIG", "POLICY", "INSECURE_NO_AUTH"].map(|name| (format!("MCTUNNEL_{name}"), ""));
        let refused = ran(command.envs(empty));
        assert!(!place.path("data").exists(), "nothing was begun");
        refused
    };
    for gateway in ["0.0.0.0:0", "127.0.0.1:0", "[::1]:0", "off"] {
        assert_refused(&contract(gateway), "MCT-HUB-NO-AUTH");
    }
    let misspelt = ran(mctunnel(&["hub", "--data-dir", "d"]).env("MCTUNNEL_AUTHCONFIG", "a"));
    assert_refused(&misspelt, "MCT-CONFIG-UNKNOWN-VARIABLE");
}

#[test]
fn t16_a_hub_that_asks_nobody_says_so_wherever_one_looks() {
    let hub = Hub::start(&[]);
    assert_eq!(hub.ready["insecure_no_auth"], Value::Bool(true));
    assert!(hub.role.log().lines().any(|line| line.contains("\"WARN\"") && line.contains("INSECURE")));
    let has = |hub: &Hub, line: &str| get(hub.address("admin"), "/metrics").1.lines().any(|one| one == line);
    assert!(has(&hub, "mctunnel_insecure_no_auth 1"));

    let place = Place::new();
    let asking = Hub::start(&["--auth-config", &place.auth(), "--policy", &place.policy()]);
    assert_eq!(asking.ready["insecure_no_auth"], Value::Bool(false));
    assert!(!asking.role.log().contains("INSECURE") && has(&asking, "mctunnel_insecure_no_auth 0"));
}

// === the options ===

fn auth_config(way: Way) {
    let place = Place::new();
    assert_refused(&place.refused(way, &[("auth-config", &place.auth())], &[]), "MCT-HUB-UNCLEAR-TRUST");
    let key = place.key("alice");
    let (mut hub, gateway) = place.serving(way, &[("auth-config", &place.auth())], &["--policy", &place.policy()]);
    assert_eq!(status(&gateway, None), 401);
    assert_eq!(status(&gateway, Some("mctk_forged")), 401);
    assert_eq!(status(&gateway, Some(&key)), 404, "she is let in, and there is no such cluster");
    end(&mut hub);
}

fn policy(way: Way) {
    let place = Place::new();
    assert_refused(&place.refused(way, &[("policy", &place.policy())], &[]), "MCT-HUB-UNCLEAR-TRUST");
    let (alice, eve) = (place.key("alice"), place.key("eve"));
    let (mut hub, gateway) = place.serving(way, &[("policy", &place.policy())], &["--auth-config", &place.auth()]);
    assert_eq!((status(&gateway, Some(&alice)), status(&gateway, Some(&eve))), (404, 403));
    end(&mut hub);
}

fn shadow_policy(way: Way) {
    let place = Place::new();
    let next = place.write("next.yaml", &POLICY.replace("[alice]", "[nobody]"));
    assert_refused(&place.refused(way, &[("shadow-policy", &next)], &[]), "MCT-HUB-UNCLEAR-TRUST");
    let alice = place.key("alice");
    let trust = ["--auth-config", &place.auth(), "--policy", &place.policy()];
    let (mut hub, gateway) = place.serving(way, &[("shadow-policy", &next)], &trust);
    assert_eq!(status(&gateway, Some(&alice)), 404, "it changes nothing");
    until("the difference", || hub.log().contains("the next policy would refuse this").then_some(()));
    end(&mut hub);
}

fn audit_log(way: Way) {
    let place = Place::new();
    let log = place.path("elsewhere/audit.log");
    let options = [("audit-log", log.to_str().expect("UTF-8"))];
    let (mut hub, gateway) = place.serving(way, &options, &["--insecure-no-auth"]);
    assert_eq!(status(&gateway, None), 404);
    end(&mut hub);
    let recorded = fs::read_to_string(log).expect("a log");
    assert!(recorded.lines().any(|line| line.contains("\"cluster\":\"nowhere\"")), "{recorded}");
}

/// How many full files there are when a hub with these options has recorded a hundred requests, and what it said.
fn full_files(way: Way, options: &[(&str, &str)], flags: &[&str]) -> (usize, String) {
    let place = Place::new();
    let log = place.path("elsewhere/audit.log").to_str().expect("UTF-8").to_owned();
    let flags = [&["--insecure-no-auth", "--audit-log", &log], flags].concat();
    let (mut hub, gateway) = place.serving(way, options, &flags);
    (0..100).for_each(|_| assert_eq!(status(&gateway, None), 404));
    end(&mut hub);
    let files = fs::read_dir(place.path("elsewhere")).expect("a directory");
    let names = files.map(|file| file.expect("a file").file_name().to_string_lossy().into_owned());
    let full = names.filter(|name| name.starts_with("audit-") && name.ends_with(".log")).count();
    (full, hub.log())
}

fn audit_file_size(way: Way) {
    for wrong in ["1KiB", "many"] {
        let refused = Place::new().refused(way, &[("audit-file-size", wrong)], &["--insecure-no-auth"]);
        assert_refused(&refused, "MCT-CONFIG-BAD-VALUE");
    }
    let (full, _) = full_files(way, &[("audit-file-size", "16KiB")], &[]);
    assert!((3..10).contains(&full), "{full}");
}

fn audit_keep(way: Way) {
    for wrong in ["0", "all"] {
        let refused = Place::new().refused(way, &[("audit-keep", wrong)], &["--insecure-no-auth"]);
        assert_refused(&refused, "MCT-CONFIG-BAD-VALUE");
    }
    let (full, log) = full_files(way, &[("audit-keep", "2")], &["--audit-file-size", "8KiB"]);
    assert_eq!(full, 2);
    assert!(log.contains("A full file of the audit log was deleted"), "{log}");
}

fn audit_webhook(way: Way) {
    let (place, receiver) = (Place::new(), Receiver::start());
    let (mut hub, gateway) = place.serving(way, &[("audit-webhook", &receiver.url)], &["--insecure-no-auth"]);
    assert_eq!(status(&gateway, None), 404);
    end(&mut hub);
    assert!(receiver.records().iter().any(|record| record["cluster"] == "nowhere"), "{:?}", receiver.records());
}

fn audit_webhook_ca(way: Way) {
    let place = Place::new();
    let options = [("audit-webhook-ca", "/no/such/ca.pem")];
    assert_refused(&place.refused(way, &options, &["--insecure-no-auth"]), "MCT-HUB-UNCLEAR-TRUST");
    let webhook = ["--insecure-no-auth", "--audit-webhook", "https://127.0.0.1:1/"];
    let refused = place.refused(way, &options, &webhook);
    assert!(refused.err.contains("error[MCT-TLS-CA-FILE]: ") && refused.err.contains("/no/such/ca.pem"), "{refused:?}");

    let tls = Tls::new();
    let receiver = Receiver::start_tls(&tls);
    let (believed, other) = (place.write("receivers-ca.pem", &tls.ca), place.write("other-ca.pem", &Tls::new().ca));
    let webhook = ["--insecure-no-auth", "--audit-webhook", &receiver.url];
    let (hub, _) = place.serving(way, &[("audit-webhook-ca", &other)], &webhook);
    until("the hub to say whom it does not believe", || hub.log().contains("invalid peer certificate").then_some(()));
    assert!(receiver.records().is_empty(), "and it has sent nothing");
    drop(hub);
    let (mut hub, _) = place.serving(way, &[("audit-webhook-ca", &believed)], &webhook);
    end(&mut hub);
    assert_eq!(receiver.records().last().expect("a record")["event"], "stop");
}

fn audit_webhook_authorization_file(way: Way) {
    let (place, receiver) = (Place::new(), Receiver::start());
    let secret = place.write("secret", "Bearer hunter2\n");
    let options = [("audit-webhook-authorization-file", secret.as_str())];
    assert_refused(&place.refused(way, &options, &["--insecure-no-auth"]), "MCT-HUB-UNCLEAR-TRUST");
    let elsewhere = ["--insecure-no-auth", "--audit-webhook", "http://siem.example.com/in"];
    assert_refused(&place.refused(way, &options, &elsewhere), "MCT-CONFIG-BAD-VALUE");
    let flags = ["--insecure-no-auth", "--audit-webhook", &receiver.url, "--log-level", "trace"];
    let (mut hub, _) = place.serving(way, &options, &flags);
    end(&mut hub);
    let heads = receiver.heads();
    assert!(
        !heads.is_empty() && heads.iter().all(|head| head.contains("authorization: Bearer hunter2\r\n")),
        "{heads:?}"
    );
    assert!(!hub.log().contains("hunter2"));
}

fn audit_webhook_queue(way: Way) {
    let (place, receiver) = (Place::new(), Receiver::start());
    assert_refused(
        &place.refused(way, &[("audit-webhook-queue", "0")], &["--insecure-no-auth"]),
        "MCT-CONFIG-BAD-VALUE",
    );
    receiver.hold(true);
    let webhook = ["--insecure-no-auth", "--audit-webhook", &receiver.url];
    let (hub, gateway) = place.serving(way, &[("audit-webhook-queue", "2")], &webhook);
    assert!(served_of_a_hundred(&gateway) < 100, "two wait, and no more are taken");
    drop(hub);
    let (_hub, gateway) = place.serving(way, &[("audit-webhook-queue", "1000")], &webhook);
    assert_eq!(served_of_a_hundred(&gateway), 100);
    receiver.hold(false);
}

fn audit_on_full(way: Way) {
    let (place, receiver) = (Place::new(), Receiver::start());
    assert_refused(&place.refused(way, &[("audit-on-full", "drop")], &["--insecure-no-auth"]), "MCT-CONFIG-BAD-VALUE");
    receiver.hold(true);
    let webhook = ["--insecure-no-auth", "--audit-webhook", &receiver.url, "--audit-webhook-queue", "2"];
    let (hub, gateway) = place.serving(way, &[("audit-on-full", "refuse")], &webhook);
    assert!(served_of_a_hundred(&gateway) < 100);
    drop(hub);
    let (_hub, gateway) = place.serving(way, &[("audit-on-full", "drop-and-count")], &webhook);
    assert_eq!(served_of_a_hundred(&gateway), 100);
    receiver.hold(false);
}

/// How many of a hundred requests were not refused for want of a record.
fn served_of_a_hundred(gateway: &str) -> usize {
    let statuses = (0..100).map(|_| status(gateway, None)).inspect(|status| assert!([404, 503].contains(status)));
    statuses.filter(|status| *status == 404).count()
}

fn review_kubeconfig(way: Way) {
    let place = Place::new();
    let options = [("review-kubeconfig", "/no/such/kubeconfig")];
    assert_refused(&place.refused(way, &options, &[]), "MCT-HUB-UNCLEAR-TRUST");
    let trust = ["--auth-config", &place.auth(), "--policy", &place.policy()];
    let refused = place.refused(way, &options, &trust);
    assert!(refused.status == Some(1) && refused.err.contains("/no/such/kubeconfig"), "{refused:?}");

    // The cluster that the file names is asked whose a token is, and nobody else knows these.
    let (alices, forged) = (jwt("canary-of-alice"), jwt("canary-of-nobody"));
    let (api, another) = (Api::start(), Api::start());
    api.knows("canary-of-alice", "alice", AUDIENCE);
    let reviews = format!("providers: [{{name: hub, token_review: {{audiences: [{AUDIENCE}]}}}}]\n");
    let auth = place.write("reviews.yaml", &reviews);
    let policy = place.write("policy.yaml", &POLICY.replace("[keys]", "[hub]"));
    let trust = ["--auth-config", &auth, "--policy", &policy];
    for (asked, alice) in [(&api, 404), (&another, 401)] {
        let kubeconfig = asked.path("kubeconfig");
        let (mut hub, gateway) = place.serving(way, &[("review-kubeconfig", &kubeconfig)], &trust);
        assert_eq!(
            [status(&gateway, None), status(&gateway, Some(&forged)), status(&gateway, Some(&alices))],
            [401, 401, alice]
        );
        let tokens: Vec<Value> = asked.asked().iter().map(|spec| spec["token"].clone()).collect();
        assert_eq!(tokens, [forged.as_str(), &alices]);
        end(&mut hub);
    }
}

fn insecure_no_auth(way: Way) {
    let place = Place::new();
    let (mut hub, gateway) = place.serving(way, &[("insecure-no-auth", "true")], &[]);
    assert_eq!(status(&gateway, None), 404, "nobody asks");
    end(&mut hub);
    let anywhere = ["--gateway-listen", "0.0.0.0:0", "--insecure-connect-anywhere"];
    assert_refused(&place.refused(way, &[("insecure-no-auth", "true")], &anywhere), "MCT-HUB-UNCLEAR-TRUST");
    let trust = ["--auth-config", &place.auth(), "--policy", &place.policy()];
    assert_refused(&place.refused(way, &[("insecure-no-auth", "true")], &trust), "MCT-HUB-UNCLEAR-TRUST");
}

fn insecure_connect_anywhere(way: Way) {
    let place = Place::new();
    let trust = ["--auth-config", &place.auth(), "--policy", &place.policy(), "--connect-listen", "0.0.0.0:0"];
    assert_refused(&place.refused(way, &[], &trust), "MCT-CONFIG-CONNECT-EXPOSED");
    let options = [("insecure-connect-anywhere", "true")];
    assert_refused(&place.refused(way, &options, &["--connect-listen", "0.0.0.0:0"]), "MCT-HUB-NO-AUTH");
    let (mut hub, _) = place.serving(way, &options, &trust);
    let connect = hub.ready()["connect"].as_str().expect("an address").replace("0.0.0.0", "127.0.0.1");
    let asked = "CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\nx-mctunnel-cluster: nowhere\r\n\r\n";
    assert_eq!(request(&connect, asked).0, 407, "its clients are asked all the same");
    end(&mut hub);
}

/// All other hubs here are plain, by a flag; this one is so by the way that is tried.
fn gateway_plain(way: Way) {
    let place = Place::new();
    let command = place.command(way, &[("gateway-plain", "true")], &["--insecure-no-auth"]);
    let (mut hub, gateway) = place.start(command);
    assert_eq!(status(&gateway, None), 404);
    end(&mut hub);
}

fn agent_ca(way: Way) {
    let place = Place::new();
    let refused = place.refused(way, &[("agent-ca", "/no/such/ca.pem")], &["--insecure-no-auth"]);
    assert!(refused.status == Some(1) && refused.err.contains("/no/such/ca.pem"), "{refused:?}");

    let path = |name: &str| place.path(name).to_str().expect("UTF-8").to_owned();
    let (data_dir, certificate, key) = (path("data"), path("tls.crt"), path("tls.key"));
    OwnCa::new(&path("agents-ca.pem")).issue(&certificate, &key);
    OwnCa::new(&path("other-ca.pem"));
    let added = run(&["cluster", "add", "cluster-a", "--own-ca", "--data-dir", &data_dir]);
    assert_eq!(added.status, Some(0), "{added:?}");
    let agent = |name: &str, hub: &mut Role| {
        let hub = hub.ready()["tunnel"].as_str().expect("an address").to_owned();
        let own = [
            "agent",
            "--certificate",
            &certificate,
            "--key",
            &key,
            "--hub-ca",
            &path("data/pki/ca.pem"),
            "--hub",
            &hub,
        ];
        Role::start(place.0.path(), name, &own, &[])
    };
    let (mut hub, _) = place.serving(way, &[("agent-ca", &path("other-ca.pem"))], &["--insecure-no-auth"]);
    let stranger = agent("stranger", &mut hub);
    until("the refusal", || stranger.log().contains("received fatal alert").then_some(()));
    drop((stranger, hub));
    let (mut hub, _) = place.serving(way, &[("agent-ca", &path("agents-ca.pem"))], &["--insecure-no-auth"]);
    assert_eq!(agent("agent", &mut hub).ready()["cluster"], "cluster-a");
}

fn agent_cert_ttl(way: Way) {
    let place = Place::new();
    let refused = place.refused(way, &[("agent-cert-ttl", "0s")], &["--insecure-no-auth"]);
    assert_refused(&refused, "MCT-CONFIG-BAD-VALUE");
    let (mut hub, _) = place.serving(way, &[("agent-cert-ttl", "50h")], &["--insecure-no-auth"]);
    let tunnel = hub.ready()["tunnel"].as_str().expect("an address").to_owned();
    let path = |name: &str| place.path(name).to_str().expect("UTF-8").to_owned();
    let (data_dir, home) = (path("data"), path("home"));
    let create = ["join-token", "create", "--cluster", "a", "--hub", &tunnel, "-o", "token", "--data-dir", &data_dir];
    let token = run(&create).out.trim().to_owned();
    let mut agent = Role::start(place.0.path(), "agent", &["agent", "--join-token", &token, "--data-dir", &home], &[]);
    agent.ready();
    let identity: Value =
        serde_json::from_str(&fs::read_to_string(path("home/identity.json")).expect("it")).expect("JSON");
    let certificate = place.write("agent.crt", identity["identity"]["certificate_pem"].as_str().expect("text"));
    let lasts = |hours: u32| {
        let mut openssl = Command::new("openssl");
        openssl.args(["x509", "-noout", "-in", &certificate, "-checkend", &(hours * 3600).to_string()]);
        openssl.output().expect("openssl is part of the tests' machine").status.success()
    };
    assert!(lasts(49) && !lasts(51));
}

fn enrol_audience(way: Way) {
    let place = Place::new();
    let options = [("enrol-audience", "mctunnel-enrol")];
    assert_refused(&place.refused(way, &options, &["--insecure-no-auth"]), "MCT-HUB-NO-CLUSTER");
    assert!(!place.path("data").exists(), "nothing was begun");
    let flags = ["--insecure-no-auth", "--review-kubeconfig", "/no/such/kubeconfig"];
    let refused = place.refused(way, &options, &flags);
    assert!(refused.status == Some(1) && refused.err.contains("/no/such/kubeconfig"), "{refused:?}");

    // An account gets in with a token for this audience, and for no other.
    let (api, path) = (Api::start(), |name: &str| place.path(name).to_str().expect("UTF-8").to_owned());
    let (kubeconfig, token, data_dir) = (api.path("kubeconfig"), api.token(CANARY), path("data"));
    let added = run(&["cluster", "add", "cluster-a", "--service-account", "fleet/a", "--data-dir", &data_dir]);
    assert_eq!(added.status, Some(0), "{added:?}");
    let flags = ["--insecure-no-auth", "--review-kubeconfig", &kubeconfig];
    for (audience, counts) in [("elsewhere", false), (AUDIENCE, true)] {
        let (mut hub, _) = place.serving(way, &[("enrol-audience", audience)], &flags);
        let tunnel = hub.ready()["tunnel"].as_str().expect("an address").to_owned();
        let (ca, home) = (path("data/pki/ca.pem"), path("home"));
        let own = ["agent", "--enrol-service-account-token", &token, "--hub-ca", &ca, "--hub", &tunnel];
        let mut agent = Role::start(place.0.path(), "agent", &[&own[..], &["--data-dir", &home]].concat(), &[]);
        if counts {
            assert_eq!(agent.ready()["cluster"], "cluster-a");
        } else {
            assert_eq!(agent.wait().code(), Some(1), "{}", agent.log());
            assert!(agent.log().contains("MCT-ENROL-EVIDENCE"), "{}", agent.log());
        }
        drop(agent);
        end(&mut hub);
    }
}

fn services(way: Way) {
    let (place, greeter) = (Place::new(), Greeter::start());
    let offered = format!("services: {{greeter: {{address: 'tcp://{}', clusters: ['*']}}}}\n", greeter.address);
    let file = place.write("services.yaml", &offered);
    let (mut hub, _) = place.serving(way, &[("services", &file)], &["--insecure-no-auth"]);
    let mut agent = place.agent(&mut hub, &["--expose", "greeter=127.0.0.1:0"]);
    let exposed = agent.ready()["exposed"]["greeter"].as_str().expect("an address").to_owned();
    assert_eq!(get(&exposed, "/x"), (200, "/x".to_owned()));
    drop((agent, hub));
    // A file that is not there offers nothing to anybody, so one with a mistake in it has to show that it is read at the start.
    let file = place.write("services.yaml", "service: {}\n");
    let refused = place.refused(way, &[("services", &file)], &["--insecure-no-auth"]);
    assert_refused(&refused, "MCT-SERVICE-SYNTAX");
}

/// Reports go by TLS to whom the file says, and to nobody else.
fn report_ca(way: Way, sink: &str) {
    let (place, tls, flag) = (Place::new(), Tls::new(), format!("--{sink}"));
    let option = format!("{sink}-ca");
    let nowhere = ["--insecure-no-auth", &flag, "https://127.0.0.1:1/"];
    let refused = place.refused(way, &[(&option, "/no/such/ca.pem")], &nowhere);
    assert!(refused.err.contains("error[MCT-TLS-CA-FILE]: ") && refused.err.contains("/no/such/ca.pem"), "{refused:?}");

    let receiver = Receiver::start_tls(&tls);
    let (believed, other) = (place.write("receivers-ca.pem", &tls.ca), place.write("other-ca.pem", &Tls::new().ca));
    let flags = ["--insecure-no-auth", &flag, &receiver.url];
    let (mut hub, _) = place.serving(way, &[(&option, &other)], &flags);
    let agent = place.reporting(&mut hub);
    until("the hub to say whom it does not believe", || hub.log().contains("invalid peer certificate").then_some(()));
    assert!(receiver.heads().is_empty(), "and it has sent nothing");
    drop((agent, hub));
    let (mut hub, _) = place.serving(way, &[(&option, &believed)], &flags);
    let _agent = place.reporting(&mut hub);
    until("a report", || (!receiver.records().is_empty()).then_some(()));
}

/// The secret is shown to the receiver, by a way that nobody can read, and nowhere else.
fn report_authorization_file(way: Way, sink: &str) {
    let (place, receiver, flag) = (Place::new(), Receiver::start(), format!("--{sink}"));
    let (option, secret) = (format!("{sink}-authorization-file"), place.write("secret", "Bearer hunter2\n"));
    let options = [(option.as_str(), secret.as_str())];
    let elsewhere = ["--insecure-no-auth", &flag, "http://siem.example.com/in"];
    assert_refused(&place.refused(way, &options, &elsewhere), "MCT-CONFIG-BAD-VALUE");
    let (mut hub, _) =
        place.serving(way, &options, &["--insecure-no-auth", &flag, &receiver.url, "--log-level", "trace"]);
    let _agent = place.reporting(&mut hub);
    let heads = until("a report", || Some(receiver.heads()).filter(|heads| !heads.is_empty()));
    assert!(heads.iter().all(|head| head.contains("authorization: Bearer hunter2\r\n")), "{heads:?}");
    end(&mut hub);
    assert!(!hub.log().contains("hunter2"));
}

// === a place for one hub ===

const POLICY: &str = "version: 1
roles:
  all: {rules: [{clusters: ['*'], nonResourcePaths: ['*'], verbs: ['*']}]}
bindings: [{name: b, role: all, users: [alice], providers: [keys]}]
deny: []
";

struct Place(TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a directory"))
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, text: &str) -> String {
        fs::write(self.path(name), text).expect("a file");
        self.path(name).to_str().expect("UTF-8").to_owned()
    }

    fn auth(&self) -> String {
        self.write("auth.yaml", "providers: [{name: keys, api_keys: {}}]\n")
    }

    fn policy(&self) -> String {
        self.write("policy.yaml", POLICY)
    }

    /// A new API key.
    fn key(&self, user: &str) -> String {
        let data_dir = self.path("data");
        let made = run(&["api-key", "create", user, "--user", user, "--data-dir", data_dir.to_str().expect("UTF-8")]);
        assert_eq!(made.status, Some(0), "{made:?}");
        made.out.trim_end().to_owned()
    }

    /// A hub for which these options are set in this way, on top of flags.
    fn command(&self, way: Way, options: &[(&str, &str)], flags: &[&str]) -> Command {
        let mut command = mctunnel(&["hub", "--tunnel-listen", "127.0.0.1:0", "--admin-listen", "off"]);
        command.args(["--gateway-listen", "127.0.0.1:0", "--connect-listen", "off", "--data-dir"]);
        command.arg(self.path("data")).args(flags);
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
            command.args(["--config", &self.write("hub.yaml", &file)]);
        }
        command
    }

    /// What a hub says that does not start.
    fn refused(&self, way: Way, options: &[(&str, &str)], flags: &[&str]) -> Ran {
        let mut command = self.command(way, options, flags);
        ran(command.stdout(Stdio::null()))
    }

    /// A hub that serves, with a gateway without TLS, and that gateway's address.
    fn serving(&self, way: Way, options: &[(&str, &str)], flags: &[&str]) -> (Role, String) {
        self.start(self.command(way, options, &[flags, &["--gateway-plain"]].concat()))
    }

    /// An agent of c1, with these flags.
    fn agent(&self, hub: &mut Role, flags: &[&str]) -> Role {
        let tunnel = hub.ready()["tunnel"].as_str().expect("an address").to_owned();
        let path = |name: &str| self.path(name).to_str().expect("UTF-8").to_owned();
        let (data_dir, bundle) = (path("data"), path("c1.join"));
        if !self.path("c1.join").exists() {
            let out = ["--data-dir", &data_dir, "--hub", &tunnel, "--out", &bundle];
            let added = run(&[&["cluster", "add", "c1"], &out[..]].concat());
            assert_eq!(added.status, Some(0), "{added:?}");
        }
        let own = ["agent", "--join", &bundle, "--hub", &tunnel];
        Role::start(self.0.path(), "agent", &[&own[..], flags].concat(), &[])
    }

    /// An agent that reports its cluster's status, once there is a tunnel.
    fn reporting(&self, hub: &mut Role) -> Role {
        let spool = self.path("spool");
        let mut agent = self.agent(hub, &["--spool", spool.to_str().expect("UTF-8")]);
        agent.ready();
        agent
    }

    fn start(&self, command: Command) -> (Role, String) {
        let mut hub = Role::spawn(self.0.path(), "hub", command);
        let gateway = hub.ready()["gateway"].as_str().expect("an address").to_owned();
        (hub, gateway)
    }
}

/// The status of a request with this token.
fn status(gateway: &str, token: Option<&str>) -> u16 {
    let shown = token.map(|token| format!("Authorization: Bearer {token}\r\n")).unwrap_or_default();
    request(gateway, &format!("GET /nowhere/version HTTP/1.1\r\nHost: x\r\n{shown}Connection: close\r\n\r\n")).0
}

fn end(hub: &mut Role) {
    hub.signal("TERM");
    assert_eq!(hub.wait().code(), Some(0), "{}", hub.log());
}

#[track_caller]
fn assert_refused(refused: &Ran, code: &str) {
    assert_eq!(refused.status, Some(2), "{refused:?}");
    assert!(refused.err.starts_with(&format!("error[{code}]: ")), "{refused:?}");
    assert!(refused.err.contains("\n  remedy: "), "{refused:?}");
}
