//! `--audit-webhook`: every record arrives, in order; while the receiver does not keep up, requests are refused rather than served
//! unrecorded, unless the operator chose otherwise.

use crate::{
    rig::{Hub, request, until},
    tls_servers::{Connection, Tls, serve},
};
use parking_lot::{Condvar, Mutex};
use serde_json::Value;
use std::{
    io::{BufRead, BufReader, Read, Write},
    sync::Arc,
};

/// A receiver that can be held up.
pub(crate) struct Receiver {
    pub(crate) url: String,
    state: Arc<(Mutex<State>, Condvar)>,
}

#[derive(Default)]
struct State {
    held: bool,
    records: Vec<Value>,
    heads: Vec<String>,
}

impl Receiver {
    pub(crate) fn start() -> Self {
        Self::serve(None)
    }

    pub(crate) fn start_tls(tls: &Tls) -> Self {
        Self::serve(Some(tls))
    }

    fn serve(tls: Option<&Tls>) -> Self {
        let state = Arc::new((Mutex::new(State::default()), Condvar::new()));
        let shared = Arc::clone(&state);
        let address = serve(tls, move |connection| {
            let mut reader = BufReader::new(connection);
            while receive(&mut reader, &shared).is_some() {}
        });
        let scheme = if tls.is_some() { "https" } else { "http" };
        Self { url: format!("{scheme}://{address}/in"), state }
    }

    pub(crate) fn hold(&self, held: bool) {
        self.state.0.lock().held = held;
        self.state.1.notify_all();
    }

    pub(crate) fn records(&self) -> Vec<Value> {
        self.state.0.lock().records.clone()
    }

    pub(crate) fn heads(&self) -> Vec<String> {
        self.state.0.lock().heads.clone()
    }
}

/// One POST; answered when the receiver is not held up.
fn receive(reader: &mut BufReader<&mut dyn Connection>, state: &(Mutex<State>, Condvar)) -> Option<()> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head).ok()? == 0 {
            return None;
        }
    }
    let length = head.to_ascii_lowercase().lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
    let mut body = vec![0; length?];
    reader.read_exact(&mut body).ok()?;
    let mut now = state.0.lock();
    state.1.wait_while(&mut now, |state| state.held);
    let text = String::from_utf8(body).ok()?;
    now.records.extend(text.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON")));
    now.heads.push(head);
    drop(now);
    let socket = reader.get_mut();
    socket.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").and_then(|()| socket.flush()).ok()
}

fn ask(hub: &Hub) -> (u16, String) {
    request(hub.address("gateway"), "GET /nowhere/version HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
}

#[test]
fn every_record_is_sent_and_while_it_cannot_be_requests_are_refused() {
    let receiver = Receiver::start();
    let webhook = ["--audit-webhook", &receiver.url, "--audit-webhook-queue", "2", "--gateway-plain"];
    let mut hub = Hub::start(&webhook);
    assert_eq!(ask(&hub).0, 404);
    until("the first request", || receiver.records().iter().any(|record| record["stage"] == "request").then_some(()));

    receiver.hold(true);
    let refused = until("a refusal", || Some(ask(&hub)).filter(|(status, _)| *status == 503));
    assert!(refused.1.contains("MCT-HTTP-AUDIT-FULL"), "{}", refused.1);
    receiver.hold(false);
    until("requests to be served again", || (ask(&hub).0 == 404).then_some(()));
    hub.role.signal("TERM");
    assert_eq!(hub.role.wait().code(), Some(0));

    let numbers: Vec<u64> = receiver.records().iter().map(|record| record["seq"].as_u64().expect("a number")).collect();
    let expected: Vec<u64> = (1..=numbers.len() as u64).collect();
    assert_eq!(numbers, expected, "nothing is missing, and nothing is out of order");
    assert_eq!(receiver.records().last().expect("a record")["event"], "stop");
}

#[test]
fn whoever_would_rather_serve_than_record_has_to_say_so() {
    let receiver = Receiver::start();
    receiver.hold(true);
    let webhook = ["--audit-webhook", &receiver.url, "--audit-webhook-queue", "2", "--gateway-plain"];
    let hub = Hub::start(&[&webhook[..], &["--audit-on-full", "drop-and-count"]].concat());
    for _ in 0..100 {
        assert_eq!(ask(&hub).0, 404);
    }
    receiver.hold(false);
}
