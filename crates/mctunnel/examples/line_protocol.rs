//! A protocol of your own at both ends of a tunnel: lines over TCP.
//!
//! ```text
//! client            -> LineFront (HubAdapter)      -> tunnel ->  LineDesk (ProxyAdapter, at the agent)
//! cluster-a\n          opens a stream, proto `lines`             authorises, joins
//! hello\n              passes bytes                              answers HELLO\n
//! ```
//!
//! `cargo run -p mctunnel --example line_protocol`
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

#[path = "setup/stage.rs"]
mod stage;

use bytes::{Bytes, BytesMut};
use mctunnel::{
    Client, ClusterName, Destination, Endpoint, ErrorCode, Gateway, Happening, HubAdapter, Offered, Open, OpenError,
    OpenRequest, OpenStream, Protocol, ProxyAdapter, Stream, Target,
    core::{Unobserved, observe::SharedObserver, splice::splice},
    tunnel::RefuseCode,
};
use stage::{Failed, Stage};
use std::{io, net::SocketAddr, sync::Arc, time::Duration};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, copy, sink},
    net::{TcpListener, TcpStream},
    time::{Instant, timeout},
};
use tokio_util::sync::CancellationToken;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failed> {
    run().await
}

/// A conversation with a desk that is open, and attempts at one that is closed and one that does not exist.
pub(crate) async fn run() -> Result<(), Failed> {
    let mut stage = Stage::start().await?;
    let (desk, protocol) = (Endpoint::parse("desk.local:7")?, Protocol::parse("lines")?);
    for (cluster, open) in [("cluster-a", true), ("cluster-b", false)] {
        let adapter = LineDesk { desk: open.then(|| desk.clone()), protocol: protocol.clone() };
        stage.join(cluster, |agent| agent.adapter(Arc::new(adapter)))?;
    }
    let front = LineFront { opener: stage.hub.clone(), desk, protocol, observer: Arc::new(Unobserved) };
    let (gateway, stop) = (Gateway::new(front), CancellationToken::new());
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let clients = async {
        expect(
            "cluster-a answers",
            &talk(address, "cluster-a\nhello\nhow are you?\n").await?,
            "HELLO\nHOW ARE YOU?\n",
        )?;
        expect("cluster-b refuses", &talk(address, "cluster-b\nhello\n").await?, "error MCT-OPEN-NOT-ALLOWED\n")?;
        expect("cluster-x is nobody", &talk(address, "cluster-x\nhello\n").await?, "error MCT-OPEN-UNKNOWN-CLUSTER\n")
    };
    tokio::select! {
        done = clients => done?,
        () = gateway.serve(listener, stop.clone()) => return Err("the gateway ended by itself".into()),
    }
    stop.cancel();
    gateway.drained().await;
    Ok(())
}

/// The client: sends lines, says that there are no more, and reads to the end.
async fn talk(address: SocketAddr, lines: &str) -> io::Result<String> {
    let mut socket = TcpStream::connect(address).await?;
    socket.write_all(lines.as_bytes()).await?;
    socket.shutdown().await?;
    let mut answer = String::new();
    socket.read_to_string(&mut answer).await?;
    Ok(answer)
}

fn expect(what: &str, got: &str, wanted: &str) -> Result<(), Failed> {
    println!("{what}: {got:?}");
    if got == wanted { Ok(()) } else { Err(format!("{what}: expected {wanted:?}").into()) }
}

// === LineFront: the hub's side ===

/// Takes a cluster's name from the client's first line and joins the client to the desk of that cluster.
struct LineFront<O: Open> {
    opener: O,
    desk: Endpoint,
    protocol: Protocol,
    observer: SharedObserver,
}

impl<O: Open> HubAdapter for LineFront<O> {
    async fn serve(self: Arc<Self>, client: Client) {
        let mut socket = client.socket;
        // A client that says nothing does not stay: neither for ever, nor when the gateway stops.
        let greeting = tokio::select! {
            greeting = timeout(Duration::from_secs(10), read_greeting(&mut socket)) => greeting,
            () = client.stopping.cancelled() => return,
        };
        let Ok(Ok((name, rest))) = greeting else { return };
        let (asked, sent) = (Instant::now(), u64::try_from(rest.len()).unwrap_or(u64::MAX));
        match self.open(&name, rest).await {
            Ok((cluster, stream)) => {
                let (target, took) = (self.desk.to_string(), asked.elapsed());
                self.observer.observe(&Happening::StreamOpened { cluster: cluster.clone(), target, took });
                // Reports the end even if the gateway cuts the connection, which drops this future.
                let open = OpenStream::new(Arc::clone(&self.observer), cluster, sent);
                let spliced = splice(socket, stream).await;
                open.ended(spliced.bytes_up, spliced.bytes_down, spliced.error.map(|error| error.to_string()));
            }
            Err(error) => {
                let (target, reason) = (self.desk.to_string(), error.to_string());
                let code = error.code();
                self.observer.observe(&Happening::StreamRefused { cluster: None, target, code: code.code, reason });
                say_no(socket, code).await;
            }
        }
    }
}

impl<O: Open> LineFront<O> {
    /// Routes by the name. Whoever reaches the listener may ask: a front for more than a demonstration would authenticate first.
    async fn open(&self, name: &str, rest: Bytes) -> Result<(ClusterName, O::Stream), OpenError> {
        let cluster = ClusterName::parse(name).map_err(|_| OpenError::UnknownCluster)?;
        let target = Target::Endpoint(self.desk.clone());
        let mut request = OpenRequest::new(Destination { cluster: cluster.clone(), target });
        // By this name the agent finds the adapter for the stream.
        request.protocol = self.protocol.clone();
        request.wait_for_tunnel = Duration::from_secs(10);
        // What came with the greeting travels with the opening, without a round trip.
        request.first_bytes = rest;
        Ok((cluster, self.opener.open(request).await?))
    }
}

/// The client's first line, and what came right behind it.
async fn read_greeting(socket: &mut TcpStream) -> io::Result<(String, Bytes)> {
    let mut read = BytesMut::new();
    loop {
        if let Some(end) = read.iter().position(|byte| *byte == b'\n') {
            let line = read.split_to(end + 1);
            return Ok((String::from_utf8_lossy(line.trim_ascii()).into_owned(), read.freeze()));
        }
        if read.len() > LONGEST || socket.read_buf(&mut read).await? == 0 {
            return Err(io::ErrorKind::InvalidData.into());
        }
    }
}

/// Tells the client why not, and hears it out, so that the answer is not lost in a reset.
async fn say_no(mut socket: TcpStream, code: ErrorCode) {
    let farewell = async {
        socket.write_all(format!("error {}\n", code.code).as_bytes()).await?;
        socket.shutdown().await?;
        copy(&mut socket.take(64 * 1024), &mut sink()).await
    };
    // A client that does not even take this is not worth more.
    let _ = timeout(Duration::from_secs(1), farewell).await;
}

// === LineDesk: the agent's side ===

/// Answers each line in capitals. A real one would dial something here; see `TcpStream` and `splice`.
struct LineDesk {
    /// Where it may be asked for; nowhere when closed.
    desk: Option<Endpoint>,
    protocol: Protocol,
}

impl ProxyAdapter for LineDesk {
    fn protocol(&self) -> Protocol {
        self.protocol.clone()
    }

    async fn serve(self: Arc<Self>, offered: Offered) {
        // The rule of this side, whatever the hub decided.
        let allowed = matches!((offered.target(), &self.desk), (Target::Endpoint(asked), Some(desk)) if asked == desk);
        if !allowed {
            return offered.refuse(RefuseCode::NotAllowed, "the desk of this cluster is closed");
        }
        let Some((stream, joined)) = offered.join() else { return };
        let mut moved = (0, 0);
        let answered = answer_lines(stream, &mut moved).await;
        joined.ended(moved.0, moved.1, answered.err().map(|error| error.to_string()));
    }
}

/// Ends cleanly behind the client's clean end. Any error drops the stream, which the client sees as a cut.
async fn answer_lines(stream: Stream, (up, down): &mut (u64, u64)) -> io::Result<()> {
    let mut stream = BufReader::new(stream);
    let mut line = Vec::new();
    loop {
        line.clear();
        let length = (&mut stream).take(LONGEST_LINE).read_until(b'\n', &mut line).await?;
        if length == 0 {
            return stream.shutdown().await;
        }
        if line.last() != Some(&b'\n') {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "a line is too long, or not whole"));
        }
        *up += u64::try_from(length).unwrap_or(u64::MAX);
        line.make_ascii_uppercase();
        stream.write_all(&line).await?;
        stream.flush().await?;
        *down += u64::try_from(length).unwrap_or(u64::MAX);
    }
}

/// The longest line that is kept in memory, newline included.
const LONGEST_LINE: u64 = 8 * 1024;
/// The longest greeting.
const LONGEST: usize = 64;
