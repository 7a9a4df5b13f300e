//! T17: the agent's list of services changes under a tunnel that stays, and what it does not have any more is refused with nothing dialled.

use crate::rig::{Hub, Role, get, until};
use std::{
    fs,
    io::{Read, Write},
    net::TcpListener,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

const SERVICE: &str = "/c1/api/v1/namespaces/default/services/web:80/proxy-service/x";

/// A service that counts who dials it.
fn counting() -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    let dialled: Arc<AtomicUsize> = Arc::default();
    let count = Arc::clone(&dialled);
    thread::spawn(move || {
        for mut socket in listener.incoming().flatten() {
            count.fetch_add(1, Ordering::SeqCst);
            // One request for each connection: each needs a dial. Whoever went away needs no answer.
            let Ok(1..) = socket.read(&mut [0; 4096]) else { continue };
            let _ = socket.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok");
        }
    });
    (address, dialled)
}

#[test]
fn t17_a_list_that_changes_under_a_tunnel_refuses_with_nothing_dialled() {
    let hub = Hub::start(&["--gateway-plain"]);
    let (service, dialled) = counting();
    let (list, bundle, pin) = (hub.path("services.yaml"), hub.add("c1"), format!("default/web:80={service}"));
    // As an editor does it: the whole file at once.
    let edit = |text: &str| {
        fs::write(hub.path("new.yaml"), text).expect("a file");
        fs::rename(hub.path("new.yaml"), &list).expect("a file");
    };
    edit("services: [\"default/web:80\"]\n");
    let flags = ["agent", "--join", &bundle, "--allow-service-file", &list, "--pin-service", &pin];
    let mut agent = Role::start(hub.dir.path(), "agent", &flags, &[]);
    agent.ready();
    let ask = || get(hub.address("gateway"), SERVICE);
    assert_eq!(ask(), (200, "ok".to_owned()));

    for (what, less) in [
        ("another port", "services: [\"default/web:81\"]\n"),
        ("another service", "services: [\"default/other:80\"]\n"),
        ("nothing", "services: []\n"),
    ] {
        edit(less);
        until("the edit to count", || (ask().0 == 403).then_some(()));
        let before = dialled.load(Ordering::SeqCst);
        for _ in 0..5 {
            let (status, body) = ask();
            assert_eq!(status, 403, "{what}: {body}");
        }
        assert_eq!(dialled.load(Ordering::SeqCst), before, "{what}");
        edit("services: [\"default/web:80\"]\n");
        until("the edit back to count", || (ask().0 == 200).then_some(()));
    }
    // A list that is gone allows nothing.
    fs::remove_file(&list).expect("it is ours");
    until("the loss to count", || (ask().0 == 403).then_some(()));
    let before = dialled.load(Ordering::SeqCst);
    assert_eq!(ask().0, 403);
    assert_eq!(dialled.load(Ordering::SeqCst), before);

    let (_, metrics) = get(hub.address("admin"), "/metrics");
    let once = "mctunnel_tunnel_up_total{cluster=\"c1\"} 1";
    assert!(metrics.lines().any(|line| line == once), "it is the first tunnel: {metrics}");
}
