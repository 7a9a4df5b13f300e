//! A gRPC stack that is not ours, with messages that know only `tunnel.proto`, speaks to both of our ends.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::wildcard_enum_match_arm,
    reason = "a test fails by panicking, in its helpers too, and at any frame it does not expect"
)]

use bytes::Bytes;
use mctunnel_tunnel::{
    CloseCode, Config, EndedBy, Ending, Greeting, Header, Hello, Incoming, Open, Session, Welcome,
    grpc::{self, Accepting, TUNNEL_PATH},
};
use messages::{Frame, frame::Kind};
use std::{
    convert::Infallible,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::mpsc,
    task::JoinSet,
    time::timeout,
};
use tonic::{
    Request, Response, Status, Streaming,
    codegen::{
        Body, Service, StdError, http,
        http::uri::PathAndQuery,
        tokio_stream::{Stream, wrappers::ReceiverStream},
    },
    server::{NamedService, StreamingService},
    transport::{Endpoint, Server, server::TcpIncoming},
};
use tonic_prost::ProstCodec;

/// The longest anything here may take; nothing waits for it to pass.
const LIMIT: Duration = Duration::from_secs(15);
/// Much more than one frame of HTTP/2, of ours, and than the first windows.
const BODY: usize = 3_000_000;

/// What tonic's end takes before it has answered.
const EARLY: u64 = 10_000;

/// `tunnel.proto`, written down a second time.
#[expect(unreachable_pub, reason = "the derived code needs it public")]
mod messages {
    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Frame {
        #[prost(oneof = "frame::Kind", tags = "1, 2, 3, 4, 7, 8, 9, 10, 12")]
        pub kind: Option<frame::Kind>,
    }

    pub mod frame {
        #[derive(Clone, PartialEq, prost::Oneof)]
        pub enum Kind {
            #[prost(message, tag = "1")]
            Data(super::Data),
            #[prost(message, tag = "2")]
            Window(super::Pair),
            #[prost(message, tag = "3")]
            Open(super::Open),
            #[prost(message, tag = "4")]
            Joined(super::Pair),
            #[prost(message, tag = "7")]
            Ping(super::Pair),
            #[prost(message, tag = "8")]
            Pong(super::Pair),
            #[prost(message, tag = "9")]
            Hello(super::Hello),
            #[prost(message, tag = "10")]
            Welcome(super::Welcome),
            #[prost(message, tag = "12")]
            Close(super::Close),
        }
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Data {
        #[prost(uint64, tag = "1")]
        pub stream: u64,
        #[prost(bool, tag = "2")]
        pub fin: bool,
        #[prost(bytes = "vec", tag = "3")]
        pub payload: Vec<u8>,
    }

    /// WINDOW, JOINED, PING and PONG: one or two numbers.
    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Pair {
        #[prost(uint64, tag = "1")]
        pub first: u64,
        #[prost(uint64, tag = "2")]
        pub second: u64,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Open {
        #[prost(uint64, tag = "1")]
        pub stream: u64,
        #[prost(uint64, tag = "2")]
        pub window: u64,
        #[prost(int32, tag = "3")]
        pub priority: i32,
        #[prost(message, repeated, tag = "4")]
        pub headers: Vec<Header>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Header {
        #[prost(string, tag = "1")]
        pub name: String,
        #[prost(bytes = "vec", tag = "2")]
        pub value: Vec<u8>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Hello {
        #[prost(uint32, repeated, tag = "1")]
        pub versions: Vec<u32>,
        #[prost(string, tag = "2")]
        pub instance: String,
        #[prost(string, tag = "3")]
        pub software: String,
        #[prost(string, repeated, tag = "4")]
        pub capabilities: Vec<String>,
        #[prost(uint64, tag = "5")]
        pub early_window: u64,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Welcome {
        #[prost(uint32, tag = "1")]
        pub version: u32,
        #[prost(string, tag = "2")]
        pub tunnel: String,
        #[prost(uint64, tag = "3")]
        pub generation: u64,
        #[prost(string, tag = "4")]
        pub software: String,
        #[prost(string, repeated, tag = "5")]
        pub capabilities: Vec<String>,
        #[prost(uint64, tag = "6")]
        pub early_window: u64,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Close {
        #[prost(int32, tag = "1")]
        pub code: i32,
        #[prost(string, tag = "2")]
        pub message: String,
    }
}

// === tonic's end ===

/// One end of a tunnel on tonic: it follows the contract by hand.
struct TonicEnd {
    send: mpsc::Sender<Frame>,
    receive: Streaming<Frame>,
    /// The one stream, and what we may still send on it.
    stream: u64,
    credit: u64,
}

impl TonicEnd {
    async fn send(&self, kind: Kind) {
        self.send.send(Frame { kind: Some(kind) }).await.unwrap();
    }

    /// Credit for an earlier stream may still come behind its end.
    fn grant(&mut self, messages::Pair { first, second }: &messages::Pair) {
        if *first == self.stream {
            self.credit += second;
        }
    }

    /// The next frame but PING, which is answered, and WINDOW, which is counted.
    async fn next(&mut self) -> Result<Option<Kind>, Status> {
        loop {
            let message = timeout(LIMIT, self.receive.message()).await.expect("a frame");
            let Some(frame) = message? else { return Ok(None) };
            match frame.kind.expect("a kind of frame") {
                Kind::Ping(ping) => self.send(Kind::Pong(ping)).await,
                Kind::Window(credit) => self.grant(&credit),
                kind => return Ok(Some(kind)),
            }
        }
    }

    /// Sends all of it, never more than was granted, and the end. Nothing but PING and grants may come meanwhile.
    async fn send_body(&mut self, stream: u64, body: &[u8]) {
        let mut rest = body;
        while !rest.is_empty() {
            while self.credit == 0 {
                let message = timeout(LIMIT, self.receive.message()).await.expect("a window").unwrap().unwrap();
                match message.kind.unwrap() {
                    Kind::Ping(ping) => self.send(Kind::Pong(ping)).await,
                    // JOINED grants as WINDOW does.
                    Kind::Window(credit) | Kind::Joined(credit) => self.grant(&credit),
                    other => panic!("not now: {other:?}"),
                }
            }
            let room = usize::try_from(self.credit).unwrap().min(65_536).min(rest.len());
            let (now, later) = rest.split_at(room);
            self.credit -= u64::try_from(room).unwrap();
            rest = later;
            self.send(Kind::Data(messages::Data { stream, fin: rest.is_empty(), payload: now.to_vec() })).await;
        }
    }

    /// Receives until the end of the stream, granting what was read.
    async fn receive_body(&mut self, stream: u64) -> Vec<u8> {
        let mut body = Vec::new();
        loop {
            match self.next().await.unwrap() {
                Some(Kind::Data(data)) => {
                    assert_eq!(data.stream, stream);
                    body.extend_from_slice(&data.payload);
                    if data.fin {
                        return body;
                    }
                    let second = u64::try_from(data.payload.len()).unwrap();
                    self.send(Kind::Window(messages::Pair { first: stream, second })).await;
                }
                other => panic!("no DATA but {other:?}"),
            }
        }
    }

    /// Serves one stream of our end: joins it, takes a body, gives it back reversed.
    async fn serve_one(&mut self) {
        let Some(Kind::Open(open)) = self.next().await.unwrap() else { panic!("no OPEN") };
        let header = messages::Header { name: "x-mctunnel-proto".into(), value: b"tcp".to_vec() };
        assert_eq!(open.headers, [header]);
        (self.stream, self.credit) = (open.stream, open.window);
        self.send(Kind::Joined(messages::Pair { first: open.stream, second: 100_000 - EARLY })).await;
        let mut body = self.receive_body(open.stream).await;
        body.reverse();
        self.send_body(open.stream, &body).await;
    }

    /// Opens a stream to our end, sends a body with its end, and reads the answer.
    async fn ask(&mut self, stream: u64, early_window: u64) {
        let header = messages::Header { name: "x-mctunnel-proto".into(), value: b"tcp".to_vec() };
        let open = messages::Open { stream, window: 100_000, priority: 1, headers: vec![header] };
        (self.stream, self.credit) = (stream, early_window);
        self.send(Kind::Open(open)).await;
        self.send_body(stream, &body()).await;
        let mut answer = self.receive_body(stream).await;
        answer.reverse();
        assert!(answer == body(), "every byte in order, then the end");
    }
}

fn hello() -> messages::Hello {
    let capabilities = vec!["a-later-one".to_owned()];
    let (instance, software) = ("tonic".to_owned(), "tonic".to_owned());
    messages::Hello { versions: vec![1], instance, software, capabilities, early_window: EARLY }
}

fn body() -> Vec<u8> {
    (0..BODY).flat_map(|i| i.to_le_bytes()).step_by(3).take(BODY).collect()
}

/// Our end serves one stream: takes a body to its end, gives it back reversed.
async fn serve_one(incoming: Incoming) {
    assert_eq!(incoming.header("x-mctunnel-proto"), Some("tcp"));
    let mut stream = incoming.join().unwrap();
    let mut body = Vec::new();
    timeout(LIMIT, stream.read_to_end(&mut body)).await.unwrap().unwrap();
    body.reverse();
    stream.write_all(&body).await.unwrap();
    stream.shutdown().await.unwrap();
}

/// Our end opens a stream, sends a body with its end, and reads the answer.
async fn ask(session: &Session) {
    let open = Open { headers: vec![Header::text("x-mctunnel-proto", "tcp")], ..Open::default() };
    let mut stream = timeout(LIMIT, session.open(open, Bytes::new())).await.unwrap().unwrap();
    stream.write_all(&body()).await.unwrap();
    stream.shutdown().await.unwrap();
    let mut answer = Vec::new();
    timeout(LIMIT, stream.read_to_end(&mut answer)).await.unwrap().unwrap();
    answer.reverse();
    assert!(answer == body(), "every byte in order, then the end");
}

// === tonic as the agent ===

/// Makes the call; the answer comes once the hub has taken it.
async fn call(endpoint: Endpoint) -> TonicEnd {
    let (send, frames) = mpsc::channel(8);
    let mut client = tonic::client::Grpc::new(endpoint.connect().await.unwrap());
    client.ready().await.unwrap();
    let path = PathAndQuery::from_static(TUNNEL_PATH);
    let codec = ProstCodec::<Frame, Frame>::default();
    let answer = client.streaming(Request::new(ReceiverStream::new(frames)), path, codec).await.unwrap();
    TonicEnd { send, receive: answer.into_inner(), stream: 0, credit: 0 }
}

/// Our hub's end of whatever calls next; its driver runs in `drivers`.
async fn our_hub(listener: TcpListener, drivers: &mut JoinSet<Ending>) -> Greeting {
    let (socket, _) = listener.accept().await.unwrap();
    let link = Accepting::handshake(socket).await.unwrap().call().await.unwrap().accept().unwrap();
    let (greeting, driver) = Session::hub(link, Config::default());
    drivers.spawn(driver);
    greeting
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_made_with_tonic_speaks_to_our_hub() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = Endpoint::from_shared(format!("http://{}", listener.local_addr().unwrap())).unwrap();
    let mut drivers = JoinSet::new();
    let both = async { tokio::join!(call(endpoint), our_hub(listener, &mut drivers)) };
    let (mut agent, greeting) = timeout(LIMIT, both).await.unwrap();

    agent.send(Kind::Hello(hello())).await;
    let hello = timeout(LIMIT, greeting.hello()).await.unwrap().unwrap();
    assert_eq!((hello.instance.as_str(), hello.versions.as_slice(), hello.early_window), ("tonic", &[1][..], EARLY));
    let (hub, mut offers) = greeting.welcome(Welcome { tunnel: "c1/3".into(), generation: 3, ..Welcome::default() });
    let Some(Kind::Welcome(welcome)) = agent.next().await.unwrap() else { panic!("no WELCOME") };
    assert_eq!((welcome.version, welcome.tunnel.as_str(), welcome.generation), (1, "c1/3", 3));
    let early_window = welcome.early_window;

    // The hub opens.
    tokio::join!(ask(&hub), agent.serve_one());
    // The agent opens, with its first bytes right behind.
    tokio::join!(agent.ask(1, early_window), async { serve_one(offers.next().await.unwrap()).await });

    hub.close(CloseCode::Done, "that was all");
    let Some(Kind::Close(close)) = agent.next().await.unwrap() else { panic!("no CLOSE") };
    assert_eq!((close.code, close.message.as_str()), (1, "that was all"));
    let status = agent.next().await.unwrap_err();
    assert_eq!((status.code(), status.message()), (tonic::Code::Unavailable, "that was all"));
    drop(agent);
    let ending = timeout(LIMIT, drivers.join_next()).await.unwrap().unwrap().unwrap();
    assert_eq!((ending.by, ending.code), (EndedBy::Local, Some(CloseCode::Done)));
}

#[tokio::test]
async fn tonic_reads_why_its_call_was_refused() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = Endpoint::from_shared(format!("http://{}", listener.local_addr().unwrap())).unwrap();
    let refusing = async {
        let (socket, _) = listener.accept().await.unwrap();
        let call = Accepting::handshake(socket).await.unwrap().call().await.unwrap();
        call.refuse(grpc::Status::PermissionDenied, "not you: 100 % “no”").await;
    };
    let calling = async {
        let mut client = tonic::client::Grpc::new(endpoint.connect().await.unwrap());
        client.ready().await.unwrap();
        let other = PathAndQuery::from_static("/mctunnel.tunnel.v1.TunnelService/Other");
        let none = || Request::new(ReceiverStream::new(mpsc::channel(1).1));
        let codec = ProstCodec::<Frame, Frame>::default;
        let unknown = client.streaming(none(), other, codec()).await.unwrap_err();
        client.ready().await.unwrap();
        let refused = client.streaming(none(), PathAndQuery::from_static(TUNNEL_PATH), codec()).await.unwrap_err();
        (unknown, refused)
    };
    let both = async { tokio::join!(calling, refusing) };
    let ((unknown, refused), ()) = timeout(LIMIT, both).await.unwrap();
    assert_eq!(unknown.code(), tonic::Code::Unimplemented);
    assert_eq!((refused.code(), refused.message()), (tonic::Code::PermissionDenied, "not you: 100 % “no”"));
}

// === tonic as the hub ===

/// The service; each call is handed to the test.
#[derive(Clone)]
struct TonicHub {
    calls: mpsc::Sender<TonicEnd>,
}

impl NamedService for TonicHub {
    const NAME: &'static str = "mctunnel.tunnel.v1.TunnelService";
}

type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;

impl StreamingService<Frame> for TonicHub {
    type Response = Frame;
    type ResponseStream = Answers;
    type Future = Boxed<Result<Response<Answers>, Status>>;

    fn call(&mut self, request: Request<Streaming<Frame>>) -> Self::Future {
        let calls = self.calls.clone();
        Box::pin(async move {
            let (send, frames) = mpsc::channel(8);
            let end = TonicEnd { send, receive: request.into_inner(), stream: 0, credit: 0 };
            calls.send(end).await.map_err(|_| Status::unavailable("nobody waits for it"))?;
            Ok(Response::new(Answers(frames)))
        })
    }
}

impl<B> Service<http::Request<B>> for TonicHub
where
    B: Body + Send + 'static,
    B::Error: Into<StdError> + Send + 'static,
{
    type Response = http::Response<tonic::body::Body>;
    type Error = Infallible;
    type Future = Boxed<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<B>) -> Self::Future {
        assert_eq!(request.uri().path(), TUNNEL_PATH);
        let service = self.clone();
        let mut server = tonic::server::Grpc::new(ProstCodec::<Frame, Frame>::default());
        Box::pin(async move { Ok(server.streaming(service, request).await) })
    }
}

/// The frames of the hub; behind the last one the call ends well.
struct Answers(mpsc::Receiver<Frame>);

impl Stream for Answers {
    type Item = Result<Frame, Status>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_recv(cx).map(|frame| frame.map(Ok))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn our_agent_speaks_to_a_hub_made_with_tonic() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (calls, mut called) = mpsc::channel(1);
    let mut tasks = JoinSet::new();
    let server = Server::builder().add_service(TonicHub { calls });
    tasks.spawn(async move { server.serve_with_incoming(TcpIncoming::from(listener)).await.unwrap() });
    let socket = TcpStream::connect(address).await.unwrap();
    let link = grpc::connect(socket, "mctunnel-hub", "test").await.unwrap();
    let (greeting, driver) =
        Session::agent(link, Config::default(), Hello { instance: "ours".into(), ..Hello::default() });
    let mut drivers = JoinSet::new();
    drivers.spawn(driver);
    let mut hub = timeout(LIMIT, called.recv()).await.unwrap().unwrap();

    let Some(Kind::Hello(hello)) = hub.next().await.unwrap() else { panic!("no HELLO") };
    assert_eq!((hello.instance.as_str(), hello.versions.as_slice()), ("ours", &[1][..]));
    let welcome = messages::Welcome { version: 1, generation: 9, early_window: EARLY, ..messages::Welcome::default() };
    hub.send(Kind::Welcome(welcome)).await;
    let (agent, mut offers, welcome) = timeout(LIMIT, greeting.welcomed()).await.unwrap().unwrap();
    assert_eq!(welcome.generation, 9);

    tokio::join!(ask(&agent), hub.serve_one());
    tokio::join!(hub.ask(2, hello.early_window), async { serve_one(offers.next().await.unwrap()).await });

    hub.send(Kind::Close(messages::Close { code: 1, message: "that was all".into() })).await;
    let ending = timeout(LIMIT, agent.ended()).await.unwrap();
    assert_eq!((ending.by, ending.code, &*ending.message), (EndedBy::Peer, Some(CloseCode::Done), "that was all"));
    drop(hub);
    timeout(LIMIT, drivers.join_next()).await.expect("our end hangs up").unwrap().unwrap();
}
