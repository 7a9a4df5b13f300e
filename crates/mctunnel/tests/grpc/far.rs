//! The server: a service of tonic with a method for each thing a test wants to see at the far end.
#![expect(clippy::unused_async, reason = "the methods of a service are asynchronous, whether they wait or not")]

mod by;

use crate::{
    LIMIT,
    note::{Note, note, sixteenth},
};
use by::By;
use futures_util::{StreamExt, TryStreamExt, stream};
use hyper::{body::Incoming, service::service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo};
use std::{
    convert::Infallible,
    net::SocketAddr,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll},
};
use tokio::{
    net::TcpListener,
    sync::{Semaphore, mpsc},
    task::JoinSet,
    time::timeout,
};
use tokio_util::task::AbortOnDropHandle;
use tonic::{
    Code, Request, Response, Status, Streaming,
    codegen::{Body, Service, StdError, http, tokio_stream::Stream},
    metadata::{KeyAndValueRef, MetadataMap},
    server::{Grpc, NamedService},
    transport::{Server, server::TcpIncoming},
};
use tonic_prost::ProstCodec;

/// A server that runs until dropped.
pub(crate) struct Far {
    pub(crate) address: SocketAddr,
    /// Lets the method `Held` begin to read.
    pub(crate) gate: Arc<Semaphore>,
    /// How many messages `Flood` has given.
    pub(crate) flooded: Arc<AtomicU64>,
    called: mpsc::Receiver<MetadataMap>,
    gone: mpsc::Receiver<()>,
    _serving: AbortOnDropHandle<()>,
}

impl Far {
    /// tonic's own server.
    pub(crate) async fn start() -> Self {
        Self::serve(|listener, methods| async move {
            Server::builder()
                .add_service(methods)
                .serve_with_incoming(TcpIncoming::from(listener).with_nodelay(Some(true)))
                .await
                .unwrap();
        })
        .await
    }

    /// The same, taking so many calls on a connection.
    pub(crate) async fn start_with_few_streams(count: u32) -> Self {
        Self::serve(move |listener, methods| async move {
            Server::builder()
                .max_concurrent_streams(count)
                .add_service(methods)
                .serve_with_incoming(TcpIncoming::from(listener).with_nodelay(Some(true)))
                .await
                .unwrap();
        })
        .await
    }

    /// tonic's methods on a bare HTTP/2 server: nobody at this end looks at deadlines.
    pub(crate) async fn start_without_deadlines() -> Self {
        Self::serve(|listener, methods| async move {
            let mut clients = JoinSet::new();
            while let Ok((socket, _)) = listener.accept().await {
                let methods = methods.clone();
                clients.spawn(async move {
                    let service = service_fn(move |request: http::Request<Incoming>| methods.clone().call(request));
                    let http2 = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
                    let _ = http2.serve_connection(TokioIo::new(socket), service).await;
                });
            }
        })
        .await
    }

    async fn serve<S>(serve: impl FnOnce(TcpListener, Methods) -> S) -> Self
    where
        S: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let ((call, called), (leave, gone)) = (mpsc::channel(16), mpsc::channel(16));
        let (gate, flooded) = (Arc::new(Semaphore::new(0)), Arc::new(AtomicU64::new(0)));
        let methods = Methods { call, leave, gate: Arc::clone(&gate), flooded: Arc::clone(&flooded) };
        let _serving = AbortOnDropHandle::new(tokio::task::spawn(serve(listener, methods)));
        Self { address, gate, flooded, called, gone, _serving }
    }

    /// The metadata of the next call that has reached its method.
    pub(crate) async fn called(&mut self) -> MetadataMap {
        timeout(LIMIT, self.called.recv()).await.expect("a call").unwrap()
    }

    /// Resolves when a method that would never answer is gone.
    pub(crate) async fn gone(&mut self) {
        timeout(LIMIT, self.gone.recv()).await.expect("the method goes on").unwrap();
    }
}

/// How the methods that fail do so.
pub(crate) fn failure(metadata: MetadataMap) -> Status {
    let message = "100 % “no”,\nand that is that";
    Status::with_details_and_metadata(Code::FailedPrecondition, message, note(255).text, metadata)
}

#[derive(Clone)]
struct Methods {
    call: mpsc::Sender<MetadataMap>,
    leave: mpsc::Sender<()>,
    gate: Arc<Semaphore>,
    flooded: Arc<AtomicU64>,
}

type Answer<T> = Result<Response<T>, Status>;
type Notes = Pin<Box<dyn Stream<Item = Result<Note, Status>> + Send>>;

// === One message there, one back ===

impl Methods {
    /// The next number, and what the client said in metadata.
    async fn echo(self, request: Request<Note>) -> Answer<Note> {
        let metadata = self.called(&request);
        let Note { number, text } = request.into_inner();
        let mut response = Response::new(Note { number: number + 1, text });
        *response.metadata_mut() = metadata;
        Ok(response)
    }

    async fn fail(self, request: Request<Note>) -> Answer<Note> {
        Err(failure(self.called(&request)))
    }

    async fn never(self, request: Request<Note>) -> Answer<Note> {
        let _leaving = Leaving(self.leave.clone());
        self.called(&request);
        std::future::pending().await
    }
}

// === Many there, one back ===

impl Methods {
    /// How many there were, each the right one.
    async fn collect(self, request: Request<Streaming<Note>>) -> Answer<Note> {
        self.called(&request);
        gather(request.into_inner(), note).await
    }

    /// The same with large ones, but reads nothing before it may.
    async fn held(self, request: Request<Streaming<Note>>) -> Answer<Note> {
        self.called(&request);
        self.gate.acquire().await.unwrap().forget();
        gather(request.into_inner(), sixteenth).await
    }

    /// Has enough after three, and fails or not.
    async fn three(self, request: Request<Streaming<Note>>, well: bool) -> Answer<Note> {
        let metadata = self.called(&request);
        let first: Vec<Note> = request.into_inner().take(3).try_collect().await?;
        assert_eq!(first, [note(0), note(1), note(2)]);
        if well { Ok(Response::new(note(3))) } else { Err(failure(metadata)) }
    }

    async fn never_collect(self, request: Request<Streaming<Note>>) -> Answer<Note> {
        let _leaving = Leaving(self.leave.clone());
        self.called(&request);
        let mut notes = request.into_inner();
        while notes.message().await?.is_some() {}
        std::future::pending().await
    }
}

async fn gather(mut notes: Streaming<Note>, due: fn(u64) -> Note) -> Answer<Note> {
    let mut number = 0;
    while let Some(got) = notes.message().await? {
        if got != due(number) {
            return Err(Status::data_loss(format!("note {} where {number} was due", got.number)));
        }
        number += 1;
    }
    Ok(Response::new(Note { number, ..Note::default() }))
}

// === One there, many back ===

impl Methods {
    /// So many as the request says.
    async fn count(self, request: Request<Note>) -> Answer<Notes> {
        self.called(&request);
        let notes = stream::iter((0..request.into_inner().number).map(note).map(Ok));
        Ok(Response::new(Box::pin(notes)))
    }

    /// The same, and then the failure.
    async fn count_and_fail(self, request: Request<Note>) -> Answer<Notes> {
        let metadata = self.called(&request);
        let notes = stream::iter((0..request.into_inner().number).map(note).map(Ok));
        Ok(Response::new(Box::pin(notes.chain(stream::iter([Err(failure(metadata))])))))
    }

    /// So many large ones as the request says, counted as they are given away.
    async fn flood(self, request: Request<Note>) -> Answer<Notes> {
        let flooded = Arc::clone(&self.flooded);
        let notes = stream::iter((0..request.into_inner().number).map(move |number| {
            flooded.fetch_add(1, Ordering::Relaxed);
            Ok(sixteenth(number))
        }));
        Ok(Response::new(Box::pin(notes)))
    }

    /// One, and then nothing any more.
    async fn never_end(self, request: Request<Note>) -> Answer<Notes> {
        let leaving = Leaving(self.leave.clone());
        self.called(&request);
        Ok(Response::new(Box::pin(one_and_silence(leaving))))
    }
}

// === Many both ways ===

impl Methods {
    /// Sends each back as it comes.
    async fn chat(self, request: Request<Streaming<Note>>) -> Answer<Notes> {
        Ok(Response::new(Box::pin(request.into_inner())))
    }

    /// Sends them back in reverse, which it can do only when the client is through.
    async fn reverse(self, request: Request<Streaming<Note>>) -> Answer<Notes> {
        let mut notes: Vec<Note> = request.into_inner().try_collect().await?;
        notes.reverse();
        Ok(Response::new(Box::pin(stream::iter(notes.into_iter().map(Ok)))))
    }

    async fn never_chat(self, request: Request<Streaming<Note>>) -> Answer<Notes> {
        let leaving = Leaving(self.leave.clone());
        self.called(&request);
        let unread = request.into_inner();
        let notes = one_and_silence(leaving).map(move |note| {
            let _keep = &unread;
            note
        });
        Ok(Response::new(Box::pin(notes)))
    }
}

fn one_and_silence(leaving: Leaving) -> impl Stream<Item = Result<Note, Status>> + Send {
    stream::iter([Ok(note(0))]).chain(stream::pending()).map(move |note| {
        let _keep = &leaving;
        note
    })
}

/// Tells the test when the method is gone.
struct Leaving(mpsc::Sender<()>);

impl Drop for Leaving {
    fn drop(&mut self) {
        let _ = self.0.try_send(());
    }
}

// === What tonic generates for a service ===

impl Methods {
    /// Shows the test the metadata; gives what the client's program set of it.
    fn called<T>(&self, request: &Request<T>) -> MetadataMap {
        // Full when the test does not look.
        let _ = self.call.try_send(request.metadata().clone());
        let mut own = MetadataMap::new();
        for entry in request.metadata().iter() {
            match entry {
                KeyAndValueRef::Ascii(key, value) if key.as_str().starts_with("my-") => {
                    own.append(key, value.clone());
                }
                KeyAndValueRef::Binary(key, value) => {
                    own.append_bin(key, value.clone());
                }
                KeyAndValueRef::Ascii(..) => {}
            }
        }
        own
    }
}

impl NamedService for Methods {
    const NAME: &'static str = "test.Far";
}

impl<B> Service<http::Request<B>> for Methods
where
    B: Body + Send + 'static,
    B::Error: Into<StdError> + Send + 'static,
{
    type Response = http::Response<tonic::body::Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<B>) -> Self::Future {
        let (far, path) = (self.clone(), request.uri().path().to_owned());
        let mut grpc = Grpc::new(ProstCodec::<Note, Note>::default());
        Box::pin(async move {
            let method = path.strip_prefix("/test.Far/").unwrap_or_default();
            Ok(match method {
                "Echo" => grpc.unary(By(|r| far.clone().echo(r)), request).await,
                "Fail" => grpc.unary(By(|r| far.clone().fail(r)), request).await,
                "Never" => grpc.unary(By(|r| far.clone().never(r)), request).await,
                "Collect" => grpc.client_streaming(By(|r| far.clone().collect(r)), request).await,
                "Held" => grpc.client_streaming(By(|r| far.clone().held(r)), request).await,
                "Three" => grpc.client_streaming(By(|r| far.clone().three(r, true)), request).await,
                "ThreeAndFail" => grpc.client_streaming(By(|r| far.clone().three(r, false)), request).await,
                "NeverCollect" => grpc.client_streaming(By(|r| far.clone().never_collect(r)), request).await,
                "Count" => grpc.server_streaming(By(|r| far.clone().count(r)), request).await,
                "CountAndFail" => grpc.server_streaming(By(|r| far.clone().count_and_fail(r)), request).await,
                "Flood" => grpc.server_streaming(By(|r| far.clone().flood(r)), request).await,
                "NeverEnd" => grpc.server_streaming(By(|r| far.clone().never_end(r)), request).await,
                "Chat" => grpc.streaming(By(|r| far.clone().chat(r)), request).await,
                "Reverse" => grpc.streaming(By(|r| far.clone().reverse(r)), request).await,
                "NeverChat" => grpc.streaming(By(|r| far.clone().never_chat(r)), request).await,
                other => Status::unimplemented(other).into_http(),
            })
        })
    }
}
