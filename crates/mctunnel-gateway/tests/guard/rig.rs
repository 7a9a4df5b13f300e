//! A server behind a guard that notes what it sees, and a client that speaks raw bytes.

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::{Request, Response, body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use mctunnel_gateway::http::{GuardConfig, Guarded, RefusedHead, route};
use parking_lot::Mutex;
use std::{convert::Infallible, io, sync::Arc, time::Duration};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, duplex},
    task::JoinSet,
    time::timeout,
};

/// Longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(20);

/// What the service saw.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Seen {
    /// A whole request: method, target and body.
    Request(String),
    /// A request whose body broke off.
    BrokenBody(String),
}

/// One connection.
pub(crate) struct Rig {
    pub(crate) client: Box<dyn Connection>,
    seen: Arc<Mutex<Vec<Seen>>>,
    serving: JoinSet<()>,
}

pub(crate) trait Connection: AsyncRead + AsyncWrite + Unpin + Send {}
impl<C: AsyncRead + AsyncWrite + Unpin + Send> Connection for C {}

impl Rig {
    /// A connection whose client may end its direction and still get an answer, as the corpus' clients do.
    pub(crate) fn patient() -> Self {
        let (client, server) = duplex(64 * 1024);
        Self::over(Box::new(client), server, true)
    }

    /// A connection to a server that takes an end of the client's direction for the end of the client, as hyper does unasked.
    pub(crate) fn plain() -> Self {
        let (client, server) = duplex(64 * 1024);
        Self::over(Box::new(client), server, false)
    }

    /// A connection over any pair of ends.
    pub(crate) fn over<I>(client: Box<dyn Connection>, server: I, half_close: bool) -> Self
    where
        I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let mut serving = JoinSet::new();
        serving.spawn(serve(server, Arc::clone(&seen), half_close));
        Self { client, seen, serving }
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().clone()
    }

    /// Sends what the server takes: it may close before it has read everything.
    pub(crate) async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        let _: io::Result<()> = timeout(PATIENCE, self.client.write_all(bytes.as_ref())).await.expect("in time");
    }

    /// Ends the client's direction.
    pub(crate) async fn end(&mut self) {
        let _: io::Result<()> = self.client.shutdown().await;
    }

    /// What comes until the server closes.
    pub(crate) async fn rest(&mut self) -> String {
        let mut answer = Vec::new();
        // A reset behind the answer is a way to close too.
        let _: io::Result<usize> =
            timeout(PATIENCE, self.client.read_to_end(&mut answer)).await.expect("the server closes");
        String::from_utf8(answer).expect("text")
    }

    /// What comes up to and with a text.
    pub(crate) async fn until(&mut self, text: &str) -> String {
        let mut answer = String::new();
        while !answer.ends_with(text) {
            let byte = timeout(PATIENCE, self.client.read_u8()).await;
            let byte = byte.unwrap_or_else(|_| panic!("no {text:?} behind {answer:?}"));
            answer.push(char::from(byte.expect("a byte")));
        }
        answer
    }

    /// Waits until the server is done with the connection.
    pub(crate) async fn served(&mut self) {
        timeout(PATIENCE, self.serving.join_next()).await.expect("in time");
    }
}

/// The codes of the answers in a text, in order.
pub(crate) fn codes(answers: &str) -> Vec<u16> {
    let heads = answers.split("HTTP/1.").skip(1);
    heads.filter_map(|head| head.get(2..5)?.parse().ok()).collect()
}

async fn serve<I: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    io: I,
    seen: Arc<Mutex<Vec<Seen>>>,
    half_close: bool,
) {
    let mut config = GuardConfig::default();
    config.routing_headers.push("x-mctunnel-cluster".to_owned());
    let guarded = Guarded::new(io, Arc::new(config));
    let refused = guarded.refused();
    let upgraded = Arc::new(Mutex::new(JoinSet::new()));
    let tasks = Arc::clone(&upgraded);
    let service =
        service_fn(move |request| answer(request, Arc::clone(&seen), Arc::clone(&refused), Arc::clone(&tasks)));
    // How the connection ended is seen at the client's end.
    let _ = http1::Builder::new()
        .half_close(half_close)
        .serve_connection(TokioIo::new(guarded), service)
        .with_upgrades()
        .await;
    let upgraded = std::mem::take(&mut *upgraded.lock());
    upgraded.join_all().await;
}

async fn answer(
    mut request: Request<Incoming>,
    seen: Arc<Mutex<Vec<Seen>>>,
    refused: Arc<RefusedHead>,
    tasks: Arc<Mutex<JoinSet<()>>>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    // An answer takes a while, in which nothing must happen to the connection.
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
    let target = request.uri().to_string();
    if target == "*" {
        let reason = refused.take().expect("a reason");
        return Ok(reply(reason.http_status(), format!("{}: {reason}", reason.code().code)));
    }
    if let Err(reason) = route(&target) {
        return Ok(reply(400, format!("{}: {reason}", reason.code().code)));
    }
    let line = format!("{} {target}", request.method());
    if request.headers().contains_key("upgrade") {
        seen.lock().push(Seen::Request(line));
        let upgrade = hyper::upgrade::on(&mut request);
        if target == "/c/forbidden" {
            let mut answer = reply(403, String::new());
            answer.headers_mut().insert("connection", "close".try_into().expect("a value"));
            return Ok(answer);
        }
        tasks.lock().spawn(async move {
            let mut io = TokioIo::new(upgrade.await.expect("upgraded"));
            let mut bytes = Vec::new();
            io.read_to_end(&mut bytes).await.expect("read");
            io.write_all(&bytes).await.expect("written");
            io.shutdown().await.expect("ended");
        });
        let mut answer = reply(101, String::new());
        answer.headers_mut().insert("upgrade", "websocket".try_into().expect("a value"));
        answer.headers_mut().insert("connection", "upgrade".try_into().expect("a value"));
        return Ok(answer);
    }
    match request.into_body().collect().await {
        Ok(body) => {
            let body = body.to_bytes();
            let shown = if body.len() > 100 { format!("{} bytes", body.len()) } else { format!("{body:?}") };
            seen.lock().push(Seen::Request(format!("{line} {shown}")));
            Ok(reply(200, target))
        }
        Err(_) => {
            seen.lock().push(Seen::BrokenBody(line));
            Ok(reply(400, "broken body".to_owned()))
        }
    }
}

fn reply(status: u16, text: String) -> Response<Full<Bytes>> {
    let mut answer = Response::new(Full::from(text));
    *answer.status_mut() = status.try_into().expect("a status");
    answer
}
