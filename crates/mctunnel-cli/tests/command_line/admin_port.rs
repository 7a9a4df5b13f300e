//! The admin port of both roles: one answer for each connection, and whoever holds its places keeps no probe out.

use crate::rig::{Hub, PATIENCE, Role, get};
use std::{
    io::{Read, Write},
    net::TcpStream,
    time::Duration,
};
use tokio::time::Instant;

/// How many connections are served at once.
const PLACES: usize = 64;
/// A kubelet waits for a second; a busy machine may take longer, but not half as long as a connection may last.
const SOON: Duration = Duration::from_secs(10);
const ASKING: &str = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";

/// A hub and its agent, and their admin ports.
fn both() -> (Hub, Role, [String; 2]) {
    let hub = Hub::start(&[]);
    let bundle = hub.add("cluster-a");
    let arguments = ["agent", "--join", &bundle, "--allow", "tcp://10.0.0.1:1", "--admin-listen", "127.0.0.1:0"];
    let mut agent = Role::start(hub.dir.path(), "agent", &arguments, &[]);
    let ready = agent.ready();
    let ports = [hub.address("admin"), ready["admin"].as_str().expect("an address")].map(str::to_owned);
    (hub, agent, ports)
}

#[test]
fn t40_who_holds_the_admin_port_keeps_no_probe_out() {
    let (_hub, _agent, ports) = both();
    for admin in &ports {
        for said in ["", "GET /healthz HTTP/1.1\r\nHost: loc", ASKING] {
            let hold = || {
                let mut socket = TcpStream::connect(admin).expect("it listens");
                // One that came too late for a place that another took was ended.
                let _ = socket.write_all(said.as_bytes());
                socket
            };
            let mut held: Vec<TcpStream> = (0..PLACES).map(|_| hold()).collect();
            for _ in 0..3 {
                let begun = Instant::now();
                assert_eq!(get(admin, "/healthz"), (200, "ok\n".to_owned()));
                let took = begun.elapsed();
                assert!(took < SOON, "{took:?} behind those who say {said:?}");
                held.extend((0..PLACES).map(|_| hold()));
            }
        }
    }
}

#[test]
fn the_admin_port_gives_one_answer_for_each_connection() {
    let (_hub, _agent, ports) = both();
    for admin in &ports {
        let mut socket = TcpStream::connect(admin).expect("it listens");
        socket.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        socket.write_all(ASKING.as_bytes()).expect("it reads");
        let mut answer = String::new();
        socket.read_to_string(&mut answer).expect("an answer and its end");
        assert!(answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("\r\n\r\nok\n"), "{answer}");
        let head = answer.to_ascii_lowercase();
        assert_eq!(head.matches("\r\nconnection: ").count(), 1, "{answer}");
        assert!(head.contains("\r\nconnection: close\r\n"), "{answer}");
    }
}
