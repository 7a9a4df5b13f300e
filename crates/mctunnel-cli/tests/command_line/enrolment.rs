//! Join tokens, revocation and the CA through the real binary: what is printed, what an agent does with it, and what is refused.

use crate::rig::{Hub, Ran, Role, mctunnel, ran, run, until};
use rcgen::{
    BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose, SanType,
};
use serde_json::Value;
use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Command, Stdio},
};

/// Makes a token at a running hub; gives what was printed.
fn create(hub: &Hub, cluster: &str, more: &[&str]) -> Ran {
    let data_dir = hub.path("data");
    let address = hub.address("tunnel");
    let create = ["join-token", "create", "--cluster", cluster, "--data-dir", &data_dir, "--hub", address];
    let made = run(&[&create[..], more].concat());
    assert_eq!(made.status, Some(0), "{made:?}");
    made
}

pub(crate) fn token(hub: &Hub, cluster: &str, more: &[&str]) -> String {
    create(hub, cluster, &[more, &["-o", "token"]].concat()).out.trim().to_owned()
}

fn list(hub: &Hub) -> Value {
    let listed = run(&["join-token", "list", "--data-dir", &hub.path("data"), "-o", "json"]);
    serde_json::from_str(&listed.out).expect("JSON")
}

fn text(value: &Value) -> &str {
    value.as_str().expect("text")
}

#[test]
fn the_printed_command_starts_an_agent_that_starts_again_without_its_token() {
    let hub = Hub::start(&[]);
    let made = create(&hub, "cluster-a", &["--label", "env=prod", "--label", "zone=eu"]);
    let line = made.out.trim();
    assert!(!line.contains('\n') && line.starts_with("mctunnel agent --join-token mctj_"), "{line}");
    assert!(made.err.contains("one agent of cluster-a") && made.err.contains("like a password"), "{}", made.err);
    let words: Vec<&str> = line.split(' ').skip(1).collect();
    let [.., flag, directory] = words.as_slice() else { panic!("{line}") };
    assert_eq!(*flag, "--data-dir");
    let home = hub.path(directory);
    let words = [&words[..words.len() - 1], &[home.as_str()]].concat();

    let mut agent = Role::start(hub.dir.path(), "agent", &words, &[]);
    assert_eq!(text(&agent.ready()["cluster"]), "cluster-a");
    assert_eq!((text(&list(&hub)[0]["state"]), &list(&hub)[0]["used"]), ("used", &1.into()));
    let clusters = run(&["cluster", "list", "--data-dir", &hub.path("data"), "-o", "json"]).out;
    let clusters: Value = serde_json::from_str(&clusters).expect("JSON");
    assert_eq!((text(&clusters[0]["labels"]["env"]), text(&clusters[0]["labels"]["zone"])), ("prod", "eu"));
    agent.signal("TERM");
    assert_eq!(agent.wait().code(), Some(0));

    let mode = |path: &Path| fs::metadata(path).expect("it is there").permissions().mode() & 0o7777;
    let home_path = Path::new(&home);
    assert_eq!((mode(home_path), mode(&home_path.join("identity.json"))), (0o700, 0o600));
    let left: Vec<_> = fs::read_dir(home_path).expect("it").map(|e| e.expect("it").file_name()).collect();
    assert_eq!(left, ["identity.json"]);
    for (name, arguments) in [("same", words.clone()), ("none", vec!["agent", "--data-dir", &home])] {
        let mut again = Role::start(hub.dir.path(), name, &arguments, &[]);
        again.ready();
        again.signal("TERM");
        assert_eq!(again.wait().code(), Some(0), "{name}: {}", again.log());
    }
    assert_eq!(list(&hub)[0]["used"], 1);
}

#[test]
fn a_token_in_the_environment_or_in_a_file_counts_too() {
    let hub = Hub::start(&[]);
    let (first, second) = (token(&hub, "cluster-a", &[]), token(&hub, "cluster-b", &[]));
    let home = hub.path("a");
    let variables = [("MCTUNNEL_JOIN_TOKEN", first.as_str())];
    let mut agent = Role::start(hub.dir.path(), "by-variable", &["agent", "--data-dir", &home], &variables);
    assert_eq!(text(&agent.ready()["cluster"]), "cluster-a");

    let (file, home) = (hub.path("token"), hub.path("b"));
    fs::write(&file, format!("{second}\n")).expect("a file");
    let by_file = ["agent", "--data-dir", &home, "--join-token-file", &file];
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).expect("a mode");
    let exposed = run(&by_file);
    assert!(exposed.err.contains("error[MCT-IDENTITY-FILE-EXPOSED]: "), "{}", exposed.err);
    fs::set_permissions(&file, fs::Permissions::from_mode(0o440)).expect("a mode");
    let mut agent = Role::start(hub.dir.path(), "by-file", &by_file, &[]);
    assert_eq!(text(&agent.ready()["cluster"]), "cluster-b");
    agent.signal("TERM");
    agent.wait();
    fs::remove_file(&file).expect("it is ours");
    let mut agent = Role::start(hub.dir.path(), "file-gone", &by_file, &[]);
    agent.ready();
}

#[test]
fn the_second_agent_of_a_one_use_token_ends_with_the_reason_and_the_hub_records_it() {
    let place = tempfile::tempdir().expect("a directory");
    let log = place.path().join("audit.log");
    let log = log.to_str().expect("UTF-8");
    let hub = Hub::start(&["--audit-log", log]);
    let token = token(&hub, "cluster-a", &[]);
    let (one, two) = (hub.path("one"), hub.path("two"));
    let mut first = Role::start(hub.dir.path(), "one", &["agent", "--join-token", &token, "--data-dir", &one], &[]);
    first.ready();
    let second = run(&["agent", "--join-token", &token, "--data-dir", &two]);
    assert_eq!(second.status, Some(1), "{second:?}");
    assert!(
        second.err.contains("error[MCT-AGENT-ENROL-REFUSED]: ") && second.err.contains("MCT-ENROL-TOKEN-USED"),
        "{}",
        second.err
    );
    let id = text(&list(&hub)[0]["id"]).to_owned();
    until("the record of the refusal", || {
        let log = hub.role.log();
        let line = log.lines().find(|line| line.contains("MCT-ENROL-TOKEN-USED"))?;
        assert!(line.contains("\"WARN\"") && line.contains(&id), "{line}");
        Some(())
    });
    let (_, metrics) = crate::rig::get(hub.address("admin"), "/metrics");
    for line in [
        "mctunnel_agents_enrolled_total{cluster=\"cluster-a\"} 1",
        "mctunnel_enrol_refused_total{code=\"MCT-ENROL-TOKEN-USED\"} 1",
    ] {
        assert!(metrics.lines().any(|l| l == line), "{line}\n{metrics}");
    }
    audit_has_both_uses(log, &id, &token);
}

/// The audit log says who got the certificate and who did not, by which token, and holds.
fn audit_has_both_uses(log: &str, id: &str, token: &str) {
    let recorded = || fs::read_to_string(log).unwrap_or_default();
    let records = until("both records of the audit log", || {
        let text = recorded();
        let records = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let records: Vec<_> = records.filter(|record| record["gateway"] == "enrol").collect();
        (records.len() == 2).then_some(records)
    });
    let rule = format!("join token {id}");
    let of = |record: &Value| ["decision", "rule", "source", "end"].map(|key| text(&record[key]).to_owned());
    assert_eq!(of(&records[0]), ["allowed", rule.as_str(), "127.0.0.1", "clean"]);
    assert_eq!(text(&records[0]["user"]), "cluster:cluster-a");
    let clusters = [&records[0], &records[1]].map(|record| (text(&record["cluster"]), record.get("target")));
    assert_eq!(clusters, [("cluster-a", None); 2], "also who has the secret of a token that was used");
    let tail = run(&["audit", "tail", log, "--cluster", "cluster-a"]).out;
    let shown: Vec<&str> = tail.lines().filter_map(|line| line.split_once("Z  ")).map(|(_, line)| line).collect();
    assert_eq!(shown.len(), 2, "{tail}");
    let granted = "enrol  cluster:cluster-a from 127.0.0.1  allowed  a certificate for cluster-a  ";
    assert!(shown[0].starts_with(granted) && shown[0].ends_with(&format!("  rule: {rule}")), "{tail}");
    let refused = "enrol  (unknown) from 127.0.0.1  denied  a certificate for cluster-a  ";
    assert!(shown[1].starts_with(refused) && shown[1].contains("MCT-ENROL-TOKEN-USED"), "{tail}");
    assert_eq!(of(&records[1]), ["denied", rule.as_str(), "127.0.0.1", "error"]);
    assert_eq!(text(&records[1]["identity"]), "unknown", "nobody has proven to be one");
    assert!(text(&records[1]["error"]).starts_with("MCT-ENROL-TOKEN-USED: "), "{}", records[1]);
    assert!(!recorded().contains(&token[20..50]), "the log shows a secret");
    let verified = run(&["audit", "verify", log]);
    assert_eq!(verified.status, Some(0), "{verified:?}");
    assert!(verified.out.starts_with("The log holds: "), "{verified:?}");
}

#[test]
fn a_revoked_cluster_is_out_until_it_has_a_new_token() {
    let hub = Hub::start(&[]);
    let data_dir = hub.path("data");
    let home = hub.path("agent");
    let first = token(&hub, "cluster-a", &[]);
    let mut agent = Role::start(hub.dir.path(), "agent", &["agent", "--join-token", &first, "--data-dir", &home], &[]);
    agent.ready();
    let tunnels =
        || crate::rig::get(hub.address("admin"), "/metrics").1.lines().any(|line| line == "mctunnel_tunnels 1");
    assert!(tunnels());

    let revoked = run(&["cluster", "revoke", "cluster-a", "--data-dir", &data_dir]);
    assert_eq!(revoked.status, Some(0), "{revoked:?}");
    assert!(revoked.out.contains("mctunnel join-token create --cluster cluster-a"), "{}", revoked.out);
    until("the end of the tunnel", || (!tunnels()).then_some(()));
    until("the refusal", || agent.log().contains("MCT-ADMIT-REVOKED").then_some(()));
    agent.signal("TERM");
    agent.wait();

    // The same directory, another token: the agent enrols anew.
    let second = token(&hub, "cluster-a", &[]);
    let mut agent = Role::start(hub.dir.path(), "again", &["agent", "--join-token", &second, "--data-dir", &home], &[]);
    agent.ready();
    assert!(tunnels());
    let unknown = run(&["cluster", "revoke", "nobody", "--data-dir", &data_dir]);
    assert!(unknown.err.starts_with("error[MCT-IDENTITY-CLUSTER-UNKNOWN]: "), "{}", unknown.err);
}

#[test]
fn tokens_are_listed_and_taken_back() {
    let hub = Hub::start(&[]);
    let data_dir = hub.path("data");
    let made = token(&hub, "cluster-a", &["--uses", "3", "--ttl", "2d", "--label", "env=prod"]);
    let id = text(&list(&hub)[0]["id"]).to_owned();
    let table = run(&["join-token", "list", "--data-dir", &data_dir]).out;
    assert!(table.starts_with("ID                CLUSTER    STATE"), "{table}");
    let line = table.lines().nth(1).expect("a line");
    assert!(
        line.starts_with(&format!("{id}  cluster-a  open")) && line.contains("0/3") && line.ends_with("env=prod"),
        "{table}"
    );
    assert!(!table.contains(&made[10..40]));

    assert_eq!(run(&["join-token", "revoke", &id, "--data-dir", &data_dir]).status, Some(0));
    assert_eq!(text(&list(&hub)[0]["state"]), "revoked");
    let refused = run(&["agent", "--join-token", &made, "--data-dir", &hub.path("agent")]);
    assert!(refused.err.contains("MCT-ENROL-TOKEN-REVOKED"), "{}", refused.err);
    for (id, code) in [("0123456789abcdef", "MCT-IDENTITY-TOKEN-NOT-THERE"), ("../x", "MCT-IDENTITY-TOKEN-INVALID")] {
        let unknown = run(&["join-token", "revoke", id, "--data-dir", &data_dir]);
        assert!(unknown.err.starts_with(&format!("error[{code}]: ")), "{}", unknown.err);
    }
}

#[test]
fn manifest_and_values_are_yaml_that_gives_the_agent_no_more_than_it_needs() {
    let hub = Hub::start(&[]);
    let manifest =
        create(&hub, "cluster-a", &["-o", "manifest", "--namespace", "tunnels", "--image", "registry/x:1"]).out;
    let documents: Vec<Value> = manifest
        .split("\n---\n")
        .map(|text| serde_saphyr::from_str(text).unwrap_or_else(|e| panic!("{e}\n{text}")))
        .collect();
    let kinds: Vec<_> = documents.iter().map(|document| text(&document["kind"])).collect();
    assert_eq!(
        kinds,
        [
            "Namespace",
            "ServiceAccount",
            "ClusterRole",
            "ClusterRoleBinding",
            "Secret",
            "PersistentVolumeClaim",
            "Deployment"
        ]
    );
    for rule in documents[2]["rules"].as_array().expect("rules") {
        let verbs = rule["verbs"].to_string();
        let resources = rule["resources"].to_string();
        let reads = ["[\"services\"]", "[\"endpointslices\"]"].contains(&resources.as_str());
        let expected = if reads { "[\"get\",\"list\",\"watch\"]" } else { "[\"impersonate\"]" };
        assert_eq!(verbs, expected, "{rule}");
    }
    let token = text(&documents[4]["stringData"]["token"]);
    assert!(token.starts_with("mctj_") && manifest.matches("mctj_").count() == 1);
    let pod = &documents[6]["spec"]["template"]["spec"];
    let container = &pod["containers"][0];
    assert_eq!((text(&container["image"]), text(&documents[6]["metadata"]["namespace"])), ("registry/x:1", "tunnels"));
    assert_eq!(
        (&pod["securityContext"]["runAsNonRoot"], text(&pod["serviceAccountName"])),
        (&true.into(), "mctunnel-agent")
    );
    // The arguments are ones that the binary takes.
    let arguments: Vec<_> = container["args"].as_array().expect("args").iter().map(text).collect();
    let printed = run(&[&arguments[..], &["--print-config"]].concat());
    assert_eq!(printed.status, Some(0), "{printed:?}");

    let values = create(&hub, "cluster-a", &["-o", "values", "--label", "env=prod"]).out;
    let values: Value = serde_saphyr::from_str(&values).expect("YAML");
    assert_eq!((text(&values["cluster"]), text(&values["clusterLabels"]["env"])), ("cluster-a", "prod"));
    assert!(text(&values["joinToken"]).starts_with("mctj_"));
}

#[test]
fn what_makes_no_sense_is_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    let data_dir = dir.path().join("data");
    let data_dir = data_dir.to_str().expect("UTF-8");
    for more in [
        &["--cluster", "Cluster_A"][..],
        &["--cluster", "a", "--hub", "http://hub"],
        &["--cluster", "a", "--uses", "0"],
        &["--cluster", "a", "--ttl", "0s"],
        &["--cluster", "a", "--ttl", "soon"],
        &["--cluster", "a", "--label", "env"],
        &["--cluster", "a", "-o", "xml"],
        &[],
    ] {
        let made = run(&[&["join-token", "create", "--data-dir", data_dir], more].concat());
        assert_eq!(made.status, Some(2), "{more:?} {made:?}");
        assert!(!Path::new(data_dir).exists(), "{more:?}");
    }
    let spoilt = run(&["agent", "--join-token", "mctj_spoilt", "--data-dir", data_dir]);
    assert!(spoilt.err.contains("error[MCT-IDENTITY-TOKEN-INVALID]: "), "{}", spoilt.err);
    let nothing = run(&["agent", "--data-dir", data_dir]);
    assert!(nothing.err.contains("error[MCT-AGENT-NOT-ENROLLED]: "), "{}", nothing.err);
    for (arguments, error) in [
        (&["agent", "--join-token", "x"][..], "error[MCT-CONFIG-MISSING]: --data-dir"),
        (
            &["agent", "--join-token", "x", "--join", "y", "--data-dir", "z"],
            "error[MCT-CONFIG-BAD-VALUE]: --join-token: ",
        ),
        (&["agent", "--certificate", "x"], "error[MCT-CONFIG-MISSING]: --key"),
        (&["agent", "--enrol-service-account-token", "x"], "error[MCT-CONFIG-MISSING]: --data-dir"),
        (
            &["agent", "--enrol-service-account-token", "x", "--data-dir", "z", "--hub", "h:1"],
            "error[MCT-CONFIG-MISSING]: --hub-ca",
        ),
        (
            &["agent", "--enrol-service-account-token", "x", "--data-dir", "z", "--hub-ca", "c"],
            "error[MCT-CONFIG-MISSING]: --hub is",
        ),
        (
            &["agent", "--enrol-service-account-token", "x", "--join-token", "y", "--data-dir", "z"],
            "error[MCT-CONFIG-BAD-VALUE]: --enrol-service-account-token: ",
        ),
        (&["hub", "--data-dir", "d", "--agent-cert-ttl", "0s"], "error[MCT-CONFIG-BAD-VALUE]: --agent-cert-ttl: "),
    ] {
        let wrong = run(arguments);
        assert_eq!(wrong.status, Some(2), "{wrong:?}");
        assert!(wrong.err.starts_with(error), "{}", wrong.err);
    }
}

#[test]
fn a_token_is_never_shown_where_it_should_not() {
    let hub = Hub::start(&["--log-level", "trace"]);
    let token = token(&hub, "cluster-a", &[]);
    let home = hub.path("agent");
    let arguments = ["agent", "--join-token", &token, "--data-dir", &home, "--log-level", "trace"];
    let mut agent = Role::start(hub.dir.path(), "agent", &arguments, &[]);
    agent.ready();
    let printed = ran(mctunnel(&arguments).arg("--print-config"));
    assert!(printed.out.contains("join_token: \"***\" # --join-token"), "{}", printed.out);
    // The secret is bytes 9 to 41 of the token.
    let canary = &token[20..50];
    let identity: Value =
        serde_json::from_str(&fs::read_to_string(format!("{home}/identity.json")).expect("it")).expect("JSON");
    let key = text(&identity["identity"]["key_pem"]).lines().nth(1).expect("a key").to_owned();
    for (name, text) in [("hub", hub.role.log()), ("agent", agent.log()), ("config", printed.out)] {
        assert!(!text.contains(canary) && !text.contains(&key), "{name} shows a secret");
    }
    for entry in fs::read_dir(hub.path("data/join-tokens")).expect("tokens") {
        assert!(!fs::read_to_string(entry.expect("it").path()).expect("it").contains(canary), "kept as a hash");
    }
}

#[test]
fn the_ca_is_shown_and_changed() {
    let hub = Hub::start(&[]);
    let data_dir = hub.path("data");
    let ca = |command: &[&str]| run(&[&["ca"], command, &["--data-dir", &data_dir]].concat());
    assert!(ca(&["status"]).out.contains("It is not being changed."));
    assert!(ca(&["retire"]).err.starts_with("error[MCT-IDENTITY-NO-ROTATION]: "));
    hub.add("cluster-a");
    let rotated = ca(&["rotate"]);
    assert_eq!(rotated.status, Some(0), "{rotated:?}");
    assert!(ca(&["rotate"]).err.starts_with("error[MCT-IDENTITY-ROTATION-UNDER-WAY]: "));
    assert!(ca(&["status"]).out.contains("need the old one: cluster-a"));
    let needed = ca(&["retire"]);
    assert!(
        needed.err.starts_with("error[MCT-CA-STILL-NEEDED]: ") && needed.err.contains("cluster-a"),
        "{}",
        needed.err
    );
    // Those that come by the operator's own CA know the hub by a file of which only people know what is in it.
    assert_eq!(run(&["cluster", "add", "cluster-b", "--own-ca", "--data-dir", &data_dir]).status, Some(0));
    let status = ca(&["status"]).out;
    assert!(status.contains("cluster-b") && status.contains("mctunnel ca show"), "{status}");
    assert!(ca(&["retire"]).err.contains("cluster-a, cluster-b"));
    until("the hub to take note", || hub.role.log().contains("\"authorities\":2").then_some(()));
    assert_eq!(ca(&["retire", "--force"]).status, Some(0));
    until("the hub to take note", || hub.role.log().contains("\"authorities\":1").then_some(()));
}

/// A CA of the operator's, which issues for cluster-a.
pub(crate) struct OwnCa(Issuer<'static, KeyPair>);

impl OwnCa {
    pub(crate) fn new(file: &str) -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let key = KeyPair::generate().expect("a key");
        fs::write(file, params.self_signed(&key).expect("a CA").pem()).expect("a file");
        Self(Issuer::new(params, key))
    }

    pub(crate) fn issue(&self, certificate: &str, key_file: &str) {
        let mut params = CertificateParams::default();
        params.subject_alt_names = vec![SanType::URI("spiffe://mctunnel/cluster/cluster-a".try_into().expect("a URI"))];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate().expect("a key");
        fs::write(key_file, key.serialize_pem()).expect("a file");
        fs::set_permissions(key_file, fs::Permissions::from_mode(0o600)).expect("a mode");
        fs::write(certificate, params.signed_by(&key, &self.0).expect("a certificate").pem()).expect("a file");
    }
}

#[test]
fn an_agent_with_a_certificate_of_another_ca_joins_and_follows_its_files() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = |name: &str| dir.path().join(name).to_str().expect("UTF-8").to_owned();
    let (ca_file, certificate, key) = (path("ca.pem"), path("tls.crt"), path("tls.key"));
    let ca = OwnCa::new(&ca_file);
    ca.issue(&certificate, &key);
    let hub = Hub::start(&["--agent-ca", &ca_file]);
    let hub_ca = hub.path("data/pki/ca.pem");
    let arguments =
        ["agent", "--certificate", &certificate, "--key", &key, "--hub-ca", &hub_ca, "--hub", hub.address("tunnel")];
    let mut agent = Role::start(hub.dir.path(), "agent", &arguments, &[]);
    until("the refusal", || agent.log().contains("MCT-ADMIT-REVOKED").then_some(()));
    let added = run(&["cluster", "add", "cluster-a", "--own-ca", "--data-dir", &hub.path("data")]);
    assert_eq!(added.status, Some(0), "{added:?}");
    assert_eq!(text(&agent.ready()["cluster"]), "cluster-a");
    ca.issue(&certificate, &key);
    until("the new certificate", || agent.log().contains("A certificate was renewed.").then_some(()));
}

#[test]
fn t21_another_tls_stack_gets_nowhere_with_less_than_tls_1_3() {
    let hub = Hub::start(&[]);
    let visit = |more: &[&str]| {
        let mut openssl = Command::new("openssl");
        openssl.args(["s_client", "-connect", hub.address("tunnel"), "-servername", "mctunnel-hub"]).args(more);
        let done = openssl.stdin(Stdio::null()).output().expect("openssl is part of the tests' machine");
        String::from_utf8_lossy(&[done.stdout, done.stderr].concat()).into_owned()
    };
    for alpn in ["h2", "mctunnel-enrol"] {
        for version in ["-tls1", "-tls1_1", "-tls1_2"] {
            let said = visit(&[version, "-cipher", "ALL:@SECLEVEL=0", "-alpn", alpn]);
            assert!(said.contains("no peer certificate available"), "{alpn} {version}\n{said}");
        }
    }
    assert!(visit(&["-tls1_3"]).contains("no peer certificate available"), "no ALPN");
    let enrol = visit(&["-tls1_3", "-alpn", "mctunnel-enrol", "-showcerts"]);
    assert!(
        enrol.contains("ALPN protocol: mctunnel-enrol") && enrol.matches("BEGIN CERTIFICATE").count() == 2,
        "{enrol}"
    );
    assert!(
        enrol.contains("No client certificate CA names sent") && !enrol.contains("Acceptable client certificate"),
        "{enrol}"
    );
    let tunnel = visit(&["-tls1_3", "-alpn", "h2", "-ign_eof"]);
    assert!(tunnel.contains("certificate required") || tunnel.contains("alert number 116"), "{tunnel}");
}
