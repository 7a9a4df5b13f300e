//! T17: the agent's list of services changes under a tunnel that stays. What it does not have any more is refused with nothing dialled, and
//! T32: what was open to it is cut within 5 s.

use crate::rig::{Hub, PATIENCE, Role, get, until};
use std::{
    fs,
    io::{ErrorKind, Read, Write},
    net::{TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};
use tokio::time::Instant;

const SERVICE: &str = "/c1/api/v1/namespaces/default/services/web:80/proxy-service/x";

/// What is promised, and as much again for a machine that has more to do.
const CUT_WITHIN: Duration = Duration::from_secs(5 + 5);

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

/// Writes the list as an editor does: the whole file at once.
fn edit(hub: &Hub, text: &str) {
    fs::write(hub.path("new.yaml"), text).expect("a file");
    fs::rename(hub.path("new.yaml"), hub.path("services.yaml")).expect("a file");
}

#[test]
fn t17_a_list_that_changes_under_a_tunnel_refuses_with_nothing_dialled() {
    let hub = Hub::start(&["--gateway-plain"]);
    let (service, dialled) = counting();
    let (list, bundle, pin) = (hub.path("services.yaml"), hub.add("c1"), format!("default/web:80={service}"));
    let edit = |text: &str| edit(&hub, text);
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

/// Numbers that grow, all over the process.
static TICKS: AtomicUsize = AtomicUsize::new(0);

/// A service that goes on: with ticks, or upgraded with what it is sent.
fn endless() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    thread::spawn(move || {
        for mut socket in listener.incoming().flatten() {
            thread::spawn(move || {
                let is_upgrade = read_head(&mut socket).to_ascii_lowercase().contains("upgrade: websocket");
                if is_upgrade { echo(socket) } else { tick(socket) }
            });
        }
    });
    address
}

fn tick(mut socket: TcpStream) {
    let mut sent = socket.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
    while sent.is_ok() {
        let tick = format!("tick{:012}\n", TICKS.fetch_add(1, Ordering::SeqCst));
        sent = write!(socket, "{:x}\r\n{tick}\r\n", tick.len());
        // tidy: sleep because such an answer has something to say now and then
        thread::sleep(Duration::from_millis(20));
    }
}

fn echo(mut socket: TcpStream) {
    let head = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
    let (mut sent, mut bytes) = (socket.write_all(head), [0; 64]);
    while sent.is_ok() {
        // Whoever went away needs no answer.
        let Ok(read @ 1..) = socket.read(&mut bytes) else { return };
        sent = socket.write_all(&bytes[..read]);
    }
}

fn read_head(socket: &mut TcpStream) -> String {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") && socket.read_exact(&mut byte).is_ok() {
        head.extend(byte);
    }
    String::from_utf8_lossy(&head).into_owned()
}

/// A client whose exchange with a service is held open.
struct Held {
    socket: TcpStream,
    is_upgraded: bool,
    heard: String,
}

impl Held {
    fn open(hub: &Hub, service: &str, is_upgraded: bool) -> Self {
        let mut socket = TcpStream::connect(hub.address("gateway")).expect("it listens");
        socket.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        let upgrade = if is_upgraded {
            "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
             Sec-WebSocket-Version: 13\r\n"
        } else {
            ""
        };
        let path = SERVICE.replace("web", service);
        write!(socket, "GET {path} HTTP/1.1\r\nHost: localhost\r\n{upgrade}\r\n").expect("it reads");
        let head = read_head(&mut socket);
        let status = if is_upgraded { "HTTP/1.1 101 " } else { "HTTP/1.1 200 " };
        assert!(head.starts_with(status), "{head}");
        let mut held = Self { socket, is_upgraded, heard: String::new() };
        held.goes_on();
        held
    }

    /// It carries what was not said before this was asked.
    fn goes_on(&mut self) {
        let now = TICKS.fetch_add(1, Ordering::SeqCst);
        let newest = |text: &str| text.split("tick").filter_map(|tick| tick.get(..12)?.parse::<usize>().ok()).last();
        if self.is_upgraded {
            writeln!(self.socket, "tick{:012}", now + 1).expect("it is open");
        }
        while newest(&self.heard).is_none_or(|tick| tick <= now) {
            let mut bytes = [0; 4096];
            let read = self.socket.read(&mut bytes).expect("it is open");
            assert_ne!(read, 0, "it ended: {}", self.heard);
            self.heard.push_str(&String::from_utf8_lossy(&bytes[..read]));
        }
    }

    /// It ends in time, as an error.
    fn expect_cut(mut self, since: Instant) {
        let mut rest = Vec::new();
        let end = self.socket.read_to_end(&mut rest).map_err(|error| error.kind());
        let took = since.elapsed();
        println!("upgraded {}: cut after {took:?}", self.is_upgraded);
        assert_eq!(end, Err(ErrorKind::ConnectionReset), "{}", String::from_utf8_lossy(&rest));
        assert!(took < CUT_WITHIN, "{took:?}");
    }
}

#[test]
fn t17_t32_what_is_open_is_cut_when_its_service_leaves_the_list() {
    let hub = Hub::start(&["--gateway-plain"]);
    let (list, bundle, service) = (hub.path("services.yaml"), hub.add("c1"), endless());
    let [web, other] = ["web", "other"].map(|name| format!("--pin-service=default/{name}:80={service}"));
    edit(&hub, "services: [\"default/web:80\", \"default/other:80\"]\n");
    let flags = ["agent", "--join", &bundle, "--allow-service-file", &list, &web, &other];
    let mut agent = Role::start(hub.dir.path(), "agent", &flags, &[]);
    agent.ready();
    let webs = [false, true].map(|is_upgraded| Held::open(&hub, "web", is_upgraded));
    let mut others = [false, true].map(|is_upgraded| Held::open(&hub, "other", is_upgraded));

    edit(&hub, "services: [\"default/other:80\"]\n");
    let since = Instant::now();
    for web in webs {
        web.expect_cut(since);
    }
    assert_eq!(get(hub.address("gateway"), SERVICE).0, 403);
    for other in &mut others {
        other.goes_on();
    }
    until("the line in the agent's log", || {
        agent.log().contains("A stream is cut: its service is no longer on the list.").then_some(())
    });

    // A list that is gone allows nothing.
    fs::remove_file(&list).expect("it is ours");
    let since = Instant::now();
    for other in others {
        other.expect_cut(since);
    }
}
