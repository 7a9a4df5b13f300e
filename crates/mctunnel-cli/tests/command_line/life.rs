//! From start to end: ready files, health, signals, the demo.

use crate::rig::{Greeter, Hub, Role, get, mctunnel, ran, request, until};
use serde_json::{Value, json};
use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
};

#[test]
fn a_hub_says_where_it_serves_and_ends_on_a_signal() {
    let mut hub = Hub::start(&[]);
    assert_eq!((&hub.ready["role"], &hub.ready["pid"]), (&"hub".into(), &hub.role.pid().into()));
    for listener in ["tunnel", "gateway", "connect", "admin"] {
        assert!(TcpStream::connect(hub.address(listener)).is_ok(), "{listener}");
    }
    hub.role.signal("TERM");
    assert_eq!(hub.role.wait().code(), Some(0));
    let log = hub.role.log();
    for line in log.lines() {
        let line: Value = serde_json::from_str(line).expect("one JSON object per line");
        assert!(line["level"].is_string() && line["message"].is_string(), "{line}");
    }
    assert!(log.contains(hub.address("tunnel")) && log.contains("INSECURE: nobody is asked who they are"), "{log}");
}

#[test]
fn the_admin_pages_answer() {
    let hub = Hub::start(&["--log-format", "human"]);
    let admin = hub.address("admin");
    assert_eq!(get(admin, "/healthz"), (200, "ok\n".to_owned()));
    assert_eq!(get(admin, "/readyz"), (200, "ok\n".to_owned()));
    assert!(get(admin, "/").1.contains("/metrics"));
    assert_eq!(get(admin, "/other").0, 404);
    assert_eq!(request(admin, "POST /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").0, 405);
    let rebound = "GET /metrics HTTP/1.1\r\nHost: attacker.test:9090\r\nConnection: close\r\n\r\n";
    assert_eq!(request(admin, rebound).0, 421, "a web page's own name that leads here");
    let (status, metrics) = get(admin, "/metrics");
    assert_eq!(status, 200);
    for line in [
        "mctunnel_tunnels 0",
        "mctunnel_draining 0",
        "mctunnel_insecure_no_auth 1",
        concat!("mctunnel_build_info{version=\"", env!("CARGO_PKG_VERSION"), "\"} 1"),
    ] {
        assert!(metrics.lines().any(|l| l == line), "{line}\n{metrics}");
    }
}

#[test]
fn listeners_can_be_turned_off() {
    let mut hub = Hub::start(&["--connect-listen", "off", "--admin-listen", "off"]);
    assert_eq!((&hub.ready["connect"], &hub.ready["admin"]), (&Value::Null, &Value::Null));
    hub.role.signal("INT");
    assert_eq!(hub.role.wait().code(), Some(0));
}

#[test]
fn connect_over_tls_is_off_unless_asked_for() {
    assert_eq!(Hub::start(&[]).ready["connect_tls"], Value::Null);
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("hub.yaml");
    std::fs::write(&file, "connect_tls_listen: 127.0.0.1:0\n").expect("a file");
    let hub = Hub::start(&["--config", file.to_str().expect("UTF-8")]);
    let mut client = TcpStream::connect(hub.address("connect_tls")).expect("it listens");
    client.set_read_timeout(Some(crate::rig::PATIENCE)).expect("a timeout");
    client.write_all(b"CONNECT x:1 HTTP/1.1\r\nHost: x:1\r\n\r\n").expect("it reads");
    let mut record = [0];
    client.read_exact(&mut record).expect("an answer");
    assert_eq!(record, [21], "a TLS alert, and not HTTP");
}

/// A hub and an agent with one stream open, which nobody ends.
fn with_an_open_stream(grace: &str) -> (Hub, Role, TcpStream, TcpStream) {
    let hub = Hub::start(&["--grace", grace]);
    let bundle = hub.add("cluster-a");
    let target = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = target.local_addr().expect("an address").to_string();
    let rule = format!("tcp://{address}");
    let arguments = ["agent", "--join", &bundle, "--allow", &rule, "--admin-listen", "127.0.0.1:0", "--grace", grace];
    let mut agent = Role::start(hub.dir.path(), "agent", &arguments, &[]);
    let ready = agent.ready();
    assert_eq!((&ready["role"], &ready["cluster"]), (&"agent".into(), &"cluster-a".into()));
    until("the agent's readiness", || {
        (get(ready["admin"].as_str().expect("an address"), "/readyz").0 == 200).then_some(())
    });

    let mut client = TcpStream::connect(hub.address("connect")).expect("it listens");
    let head = format!("CONNECT {address} HTTP/1.1\r\nHost: {address}\r\nx-mctunnel-cluster: cluster-a\r\n\r\n");
    client.write_all(head.as_bytes()).expect("it reads");
    let (served, _) = target.accept().expect("the agent dials");
    let mut answer = [0; 12];
    client.read_exact(&mut answer).expect("an answer");
    assert_eq!(&answer, b"HTTP/1.1 200");
    (hub, agent, client, served)
}

#[test]
fn metrics_count_what_happens() {
    let (hub, _agent, client, served) = with_an_open_stream("1s");
    let admin = hub.address("admin");
    let has = |line: &str| get(admin, "/metrics").1.lines().any(|l| l == line);
    for line in [
        "mctunnel_tunnels 1",
        "mctunnel_tunnel_up_total{cluster=\"cluster-a\"} 1",
        "mctunnel_streams_opened_total{cluster=\"cluster-a\"} 1",
        "mctunnel_streams_open{cluster=\"cluster-a\"} 1",
        "mctunnel_open_seconds_count 1",
    ] {
        assert!(has(line), "{line}\n{}", get(admin, "/metrics").1);
    }
    drop((client, served));
    until("the end of the stream", || has("mctunnel_streams_open{cluster=\"cluster-a\"} 0").then_some(()));
    let refused = "CONNECT x:1 HTTP/1.1\r\nHost: x:1\r\nx-mctunnel-cluster: nobody\r\n\r\n";
    assert_eq!(request(hub.address("connect"), refused).0, 404);
    assert!(has("mctunnel_streams_refused_total{cluster=\"\",code=\"MCT-OPEN-UNKNOWN-CLUSTER\"} 1"));
}

#[test]
fn the_first_signal_drains_and_the_second_ends_at_once() {
    let (mut hub, mut agent, client, served) = with_an_open_stream("5m");
    hub.role.signal("TERM");
    let admin = hub.address("admin").to_owned();
    until("the hub to be unready", || {
        (get(&admin, "/readyz") == (503, "the hub is draining\n".to_owned())).then_some(())
    });
    assert_eq!(get(&admin, "/healthz").0, 200);
    hub.role.signal("TERM");
    assert_eq!(hub.role.wait().code(), Some(143));
    drop((client, served));

    agent.signal("INT");
    agent.signal("INT");
    // The second may come when the drain of an agent without streams is over already.
    assert!([Some(0), Some(130)].contains(&agent.wait().code()));
}

#[test]
fn streams_that_outlive_the_grace_are_cut_and_counted() {
    let (mut hub, _agent, mut client, _served) = with_an_open_stream("100ms");
    hub.role.signal("TERM");
    assert_eq!(hub.role.wait().code(), Some(0));
    let log = hub.role.log();
    assert!(log.lines().any(|line| line.contains("\"WARN\"") && line.contains("\"cut\":1")), "{log}");
    let mut rest = Vec::new();
    let end = client.read_to_end(&mut rest);
    assert!(end.is_err(), "a cut is an error at the other end, not {end:?}");
}

#[test]
fn an_agent_without_rules_says_that_it_refuses_everything() {
    let hub = Hub::start(&[]);
    let bundle = hub.add("cluster-a");
    let mut agent = Role::start(hub.dir.path(), "agent", &["agent", "--join", &bundle], &[]);
    agent.ready();
    let log = agent.log();
    assert!(log.contains("\"WARN\"") && log.contains("--allow tcp://"), "{log}");
    agent.signal("TERM");
    assert_eq!(agent.wait().code(), Some(0));
}

#[test]
fn two_hubs_share_their_ports_to_hand_over() {
    let first = Hub::start(&["--reuse-port"]);
    let second =
        ["--reuse-port", "--tunnel-listen", first.address("tunnel"), "--connect-listen", first.address("connect")];
    let second = Hub::start(&second);
    assert_eq!(second.address("tunnel"), first.address("tunnel"));
}

/// API keys and audit log have one writer unless both hubs share. The second hub says so and ends, and the first goes on.
#[test]
fn a_second_hub_does_not_take_the_keys_of_one_that_asks_its_clients() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = |name: &str| dir.path().join(name).to_str().expect("UTF-8").to_owned();
    let (auth, policy) = (path("auth.yaml"), path("policy.yaml"));
    std::fs::write(&auth, "providers: [{name: keys, api_keys: {}}]\n").expect("a file");
    std::fs::write(&policy, "version: 1\nroles: {}\nbindings: []\ndeny: []\n").expect("a file");
    let flags = ["--gateway-plain", "--auth-config", &auth, "--policy", &policy];
    let first = Hub::start(&[&["--reuse-port"], &flags[..]].concat());
    let (data_dir, tunnel, gateway) = (first.path("data"), first.address("tunnel"), first.address("gateway"));
    let again = ["hub", "--data-dir", &data_dir, "--tunnel-listen", tunnel, "--gateway-listen", gateway];
    let again = [&again[..], &["--connect-listen", "off", "--admin-listen", "off"], &flags].concat();
    for (more, code) in [(vec![], "MCT-AUDIT-IN-USE"), (vec!["--audit-log", &path("audit.log")], "MCT-STORE-IN-USE")] {
        let second = ran(&mut mctunnel(&[&again[..], &more].concat()));
        assert_eq!(second.status, Some(1), "{second:?}");
        assert!(second.err.contains(&format!("error[{code}]: ")) && second.err.contains("remedy: "), "{second:?}");
    }
    let asked = "GET /nowhere/version HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    assert_eq!(request(gateway, asked).0, 401, "the first still asks");
}

#[test]
fn the_demo_works_and_ends() {
    let demo = ran(&mut mctunnel(&["demo", "--once"]));
    assert_eq!(demo.status, Some(0), "{demo:?}");
    for part in [
        "INSECURE, and for this demo alone: --insecure-no-auth",
        "200 hello from cluster-a",
        "200 hello from cluster-b",
        "403 MCT-OPEN-NOT-ALLOWED",
        "$ curl -p -x http://127.0.0.1:",
    ] {
        assert!(demo.out.contains(part), "{part}\n{}", demo.out);
    }
    let dir = demo.out.split_whitespace().find(|word| word.contains("mctunnel-demo")).expect("it names its directory");
    assert!(!std::path::Path::new(dir.trim_end_matches('.')).exists(), "its files are gone");
    let once = ran(mctunnel(&["demo"]).env("DEMO_ONCE", "1"));
    assert_eq!(once.status, Some(0), "{once:?}");
}

#[test]
fn the_demo_reaches_the_cluster_of_whoever_looks() {
    let api = Greeter::start();
    let dir = tempfile::tempdir().expect("a directory");
    // A list, as kubectl takes it: one file names the other's cluster.
    let context = json!({"current-context": "own", "contexts": [{"name": "own", "context": {"cluster": "own"}}]});
    let cluster = json!({"clusters": [{"name": "own", "cluster": {"server": format!("http://{}", api.address)}}]});
    let files = [("context", context), ("cluster", cluster)].map(|(name, config)| {
        let path = dir.path().join(name);
        std::fs::write(&path, config.to_string()).expect("a kubeconfig");
        path
    });
    let list = std::env::join_paths(&files).expect("no colon in a path");
    let demo = ran(mctunnel(&["demo", "--once"]).env("KUBECONFIG", &list));
    assert_eq!(demo.status, Some(0), "{demo:?}");
    let own = format!("the API of cluster-a is your own, from KUBECONFIG={}", list.display());
    // What the test's server says; the sample of cluster-a would greet.
    for part in [
        own.as_str(),
        " 200 /version\n",
        " 200 hello from cluster-a, for /ping",
        " 200 hello from cluster-b, for /version",
    ] {
        assert!(demo.out.contains(part), "{part}\n{}", demo.out);
    }
    assert!(!demo.out.contains("hello from cluster-a, for /version"), "{}", demo.out);
}
