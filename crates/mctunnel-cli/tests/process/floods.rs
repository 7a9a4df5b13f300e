//! Floods of HTTP/2 frames against the gateway and against the tunnel listener (T38): the connection ends soon, memory stays, and
//! another client is still served. Each goes on for a second; `make floods` has each go on for thirty, and alone: only there
//! what the other client notices is held to a bar.

use crate::{
    raw_h2::{
        CONTINUATION, DATA, END_HEADERS, END_STREAM, HEADERS, PING, RST_STREAM, SETTINGS, WINDOW_UPDATE, connect,
        flood, frame, head, hello,
    },
    rig::{BINARY, Process, Rig, Target, start, text},
};
use std::{path::PathBuf, sync::Arc, time::Duration};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    process::Command,
    task::JoinSet,
    time::Instant,
};
use tokio_rustls::client::TlsStream;

/// The longest a flood may go on.
const IN_TIME: Duration = Duration::from_secs(2);
/// One that is ended by a clock takes most of that by design. What a machine takes on top that does other things, too.
const SLACK: Duration = Duration::from_secs(1);
/// What all floods together may cost, in KiB.
const MEMORY: u64 = 64 * 1024;
/// Below this a small request is quick on any machine, busy ones included; as for requests beside bulk traffic (T43). It is a floor alone:
/// three times what an idle machine takes is a few milliseconds, less than one turn of another process on its core.
const QUICK: Duration = Duration::from_millis(50);

/// What a hostile peer says first, and then again and again.
struct Attack {
    name: &'static str,
    settings: &'static [u8],
    first: fn(&Aim) -> Vec<u8>,
    /// Gives the bytes of a turn; the first argument counts turns from 0.
    turn: fn(u32, &Aim) -> Option<Vec<u8>>,
    /// What the gateway ends by a clock lives for so long at least: one that ends before was ended for something else.
    patience: Duration,
}

/// Where the attack goes.
struct Aim {
    method: &'static str,
    path: String,
    more: &'static [(&'static str, &'static str)],
    /// The first stream that may be opened.
    stream: u32,
}

impl Aim {
    fn head(&self) -> Vec<u8> {
        head(self.method, &self.path, self.more)
    }

    fn stream(&self, turn: u32, index: u32, per_turn: u32) -> u32 {
        self.stream + 2 * (turn * per_turn + index)
    }
}

fn nothing(_: &Aim) -> Vec<u8> {
    Vec::new()
}

/// A request that is open: its body is to come.
fn open_request(aim: &Aim) -> Vec<u8> {
    frame(HEADERS, END_HEADERS, aim.stream, &aim.head())
}

fn many(count: u32, one: impl Fn(u32) -> Vec<u8>) -> Option<Vec<u8>> {
    Some((0..count).flat_map(one).collect())
}

fn rapid_reset(turn: u32, aim: &Aim) -> Option<Vec<u8>> {
    many(100, |index| {
        let stream = aim.stream(turn, index, 100);
        [frame(HEADERS, END_HEADERS | END_STREAM, stream, &aim.head()), frame(RST_STREAM, 0, stream, &[0, 0, 0, 8])]
            .concat()
    })
}

/// Each request is followed by a frame that makes the server reset it.
fn made_you_reset(turn: u32, aim: &Aim) -> Option<Vec<u8>> {
    many(100, |index| {
        let stream = aim.stream(turn, index, 100);
        [frame(HEADERS, END_HEADERS, stream, &aim.head()), frame(WINDOW_UPDATE, 0, stream, &[0; 4])].concat()
    })
}

fn unfinished_head(aim: &Aim) -> Vec<u8> {
    frame(HEADERS, 0, aim.stream, &aim.head())
}

fn continuation(_: u32, aim: &Aim) -> Option<Vec<u8>> {
    let field = [&[0, 1, b'x', 100][..], &[b'y'; 100]].concat();
    many(10, |_| frame(CONTINUATION, 0, aim.stream, &field))
}

fn empty_continuation(_: u32, aim: &Aim) -> Option<Vec<u8>> {
    many(100, |_| frame(CONTINUATION, 0, aim.stream, &[]))
}

fn empty_data(_: u32, aim: &Aim) -> Option<Vec<u8>> {
    many(100, |_| frame(DATA, 0, aim.stream, &[]))
}

fn padded_data(_: u32, aim: &Aim) -> Option<Vec<u8>> {
    many(100, |_| frame(DATA, 8, aim.stream, &[3, 0, 0, 0]))
}

fn pings(_: u32, _: &Aim) -> Option<Vec<u8>> {
    many(100, |_| frame(PING, 0, 0, &[7; 8]))
}

fn settings(_: u32, _: &Aim) -> Option<Vec<u8>> {
    many(100, |index| frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 0x10, u8::try_from(index).unwrap_or(0)]))
}

/// A header of 4,000 bytes into the table, and then requests that name it thousands of times with one byte each.
fn hpack_bomb(turn: u32, aim: &Aim) -> Option<Vec<u8>> {
    many(2, |index| {
        let insert = [&[0x40, 1, b'a', 0x7f, 0xa1, 0x1e][..], &[b'b'; 4000]].concat();
        let block = [aim.head(), insert, vec![0xbe; 12_000]].concat();
        frame(HEADERS, END_HEADERS | END_STREAM, aim.stream(turn, index, 2), &block)
    })
}

/// Requests whose answers may not be sent; far fewer than a connection may have, so that none is refused.
fn no_window(turn: u32, aim: &Aim) -> Option<Vec<u8>> {
    let one = |index| frame(HEADERS, END_HEADERS | END_STREAM, aim.stream(turn, index, 50), &aim.head());
    (turn == 0).then(|| (0..50).flat_map(one).collect())
}

const fn at_once(name: &'static str, first: fn(&Aim) -> Vec<u8>, turn: fn(u32, &Aim) -> Option<Vec<u8>>) -> Attack {
    Attack { name, settings: &[], first, turn, patience: Duration::ZERO }
}

const ATTACKS: &[Attack] = &[
    at_once("rapid reset", nothing, rapid_reset),
    at_once("made you reset", nothing, made_you_reset),
    at_once("continuation", unfinished_head, continuation),
    at_once("empty continuation", unfinished_head, empty_continuation),
    at_once("empty data", open_request, empty_data),
    at_once("data that is padding", open_request, padded_data),
    at_once("pings", nothing, pings),
    at_once("settings", nothing, settings),
    at_once("hpack bomb", nothing, hpack_bomb),
    Attack {
        name: "no window",
        settings: &[0, 4, 0, 0, 0, 0],
        first: nothing,
        turn: no_window,
        patience: Duration::from_secs(1),
    },
];

// === the stage ===

const BIG: usize = 1 << 20;

/// Answers each request of a connection: `/big` with a large body, all else with a small one.
pub(crate) async fn web(mut socket: TcpStream) {
    let mut read = Vec::new();
    loop {
        while !read.windows(4).any(|w| w == b"\r\n\r\n") {
            if !matches!(socket.read_buf(&mut read).await, Ok(1..)) {
                return;
            }
        }
        let body = vec![b'x'; if read.starts_with(b"GET /big") { BIG } else { 2 }];
        read.clear();
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
        if socket.write_all(&[head.as_bytes(), &body].concat()).await.is_err() {
            return;
        }
    }
}

const SERVICE: &str = "/c1/api/v1/namespaces/default/services/http:web:80/proxy-service";

struct Stage {
    rig: Rig,
    gateway: String,
    join: PathBuf,
    _running: (Process, Target),
}

/// An agent of c1 with a web server in its cluster.
pub(crate) async fn web_agent(rig: &Rig) -> (Process, Target) {
    let web = Target::start(web).await;
    let join = rig.add("c1").await;
    let mut command = Command::new(BINARY);
    command.arg("agent").arg("--join").arg(&join).args(["--admin-listen", "127.0.0.1:0", "--log-level", "warn"]);
    command.args(["--allow-service", "default/web", "--pin-service", &format!("default/web:80={}", web.address)]);
    (start(command, &rig.dir.path().join("web.ready")).await, web)
}

async fn stage() -> Stage {
    let rig = Rig::start().await;
    let running = web_agent(&rig).await;
    let join = rig.add("hostile").await;
    Stage { gateway: text(&rig.hub.ready, "gateway"), rig, join, _running: running }
}

/// Another client: one request after the other on one connection.
pub(crate) struct Bystander(TlsStream<TcpStream>);

impl Bystander {
    pub(crate) async fn new(rig: &Rig, gateway: &str) -> Self {
        Self(connect(rig, gateway, "http/1.1", "localhost", None).await)
    }

    pub(crate) async fn ask(&mut self) -> Duration {
        let begin = Instant::now();
        self.0.write_all(format!("GET {SERVICE}/ HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes()).await.expect("sent");
        self.0.flush().await.expect("sent");
        let mut answer = Vec::new();
        while !answer.ends_with(b"\r\n\r\nxx") {
            assert!(self.0.read_buf(&mut answer).await.expect("answered") > 0, "{}", String::from_utf8_lossy(&answer));
        }
        assert!(answer.starts_with(b"HTTP/1.1 200 "), "{}", String::from_utf8_lossy(&answer));
        begin.elapsed()
    }
}

fn p99(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() * 99 / 100]
}

/// Repeats the attack on new connections for a while; gives how many there were, and how long the quickest and the slowest lived.
async fn attack(stage: &Stage, attack: &Attack, on_tunnel: bool, lasting: Duration) -> (u32, Duration, Duration) {
    let begin = Instant::now();
    let (mut connections, mut quickest, mut slowest) = (0, Duration::MAX, Duration::ZERO);
    while connections == 0 || begin.elapsed() < lasting {
        let (tls, aim) = if on_tunnel {
            let more = &[("content-type", "application/grpc"), ("te", "trailers")];
            let path = "/mctunnel.tunnel.v1.TunnelService/Tunnel".to_owned();
            let tls = connect(&stage.rig, &stage.rig.tunnel, "h2", "mctunnel-hub", Some(&stage.join)).await;
            (tls, Aim { method: "POST", path, more, stream: 1 })
        } else {
            let tls = connect(&stage.rig, &stage.gateway, "h2", "localhost", None).await;
            (tls, Aim { method: "GET", path: format!("{SERVICE}/big"), more: &[], stream: 1 })
        };
        let first = [hello(attack.settings), (attack.first)(&aim)].concat();
        let mut turn = 0;
        let next = || {
            turn += 1;
            (attack.turn)(turn - 1, &aim)
        };
        let lived = flood(tls, first, next, 2 * IN_TIME).await;
        let lived = lived.unwrap_or_else(|| panic!("{}: neither GOAWAY nor an end within {IN_TIME:?}", attack.name));
        (quickest, slowest) = (quickest.min(lived), slowest.max(lived));
        connections += 1;
    }
    (connections, quickest, slowest)
}

async fn all_attacks(on_tunnel: bool) {
    let told = std::env::var("FLOOD_SECONDS").ok();
    let lasting = told.as_ref().map_or(1, |seconds| seconds.parse().expect("seconds"));
    let (lasting, alone) = (Duration::from_secs(lasting), told.is_some());
    let stage = Arc::new(stage().await);
    let mut bystander = Bystander::new(&stage.rig, &stage.gateway).await;
    let mut idle = Vec::new();
    for _ in 0..500 {
        idle.push(bystander.ask().await);
    }
    let (baseline, before) = (p99(idle), stage.rig.hub.resident());
    let mut most = before;
    for one in ATTACKS {
        let mut attacking = JoinSet::new();
        let hostile = Arc::clone(&stage);
        attacking.spawn(async move { attack(&hostile, one, on_tunnel, lasting).await });
        let mut times = Vec::new();
        let mut ended = None;
        // An attack may be over before a hundred requests were.
        while ended.is_none() || times.len() < 100 {
            times.push(bystander.ask().await);
            most = most.max(stage.rig.hub.resident());
            ended = ended.or_else(|| attacking.try_join_next());
        }
        let (connections, quickest, slowest) =
            ended.expect("it was waited for").expect("the attack went on as planned");
        let (asked, slow) = (times.len(), p99(times));
        println!(
            "{:20} {connections:5} connections, from {quickest:.3?} to {slowest:>10.3?}; {asked:5} requests of another, p99 {slow:>10.3?} (idle {baseline:.3?}); +{} KiB",
            one.name,
            most.saturating_sub(before)
        );
        // Agents' connections have another end: a call without a body is none.
        assert!(on_tunnel || quickest >= one.patience, "{}: ended after {quickest:?}, for another reason", one.name);
        let slack = if alone || one.patience.is_zero() { Duration::ZERO } else { SLACK };
        assert!(slowest <= IN_TIME + slack, "{}: {slowest:?}", one.name);
        assert!(!alone || slow <= (3 * baseline).max(QUICK), "{}: p99 {slow:?}, idle {baseline:?}", one.name);
        assert!(most.saturating_sub(before) <= MEMORY, "{}: +{} KiB", one.name, most - before);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn t38_floods_of_the_gateway_end_soon_cost_little_and_others_do_not_notice() {
    all_attacks(false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn t38_floods_of_the_tunnel_listener_end_soon_cost_little_and_others_do_not_notice() {
    all_attacks(true).await;
}
