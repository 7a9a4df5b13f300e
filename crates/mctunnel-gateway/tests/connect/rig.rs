//! A gateway on a loopback port, an opener that does what a test says, and a client that speaks raw bytes.

use bytes::{Bytes, BytesMut};
use mctunnel_core::{ByteStream, Happening, Observe, Open, OpenError, OpenRequest};
use mctunnel_gateway::{Checkpoint, ConnectAdapter, ConnectConfig, Gateway};
use parking_lot::Mutex;
use std::{
    io,
    net::SocketAddr,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, ReadBuf},
    net::{TcpListener, TcpStream},
    task::JoinSet,
    time::timeout,
};
use tokio_util::sync::CancellationToken;

/// A gateway that serves.
pub(crate) struct Rig {
    pub(crate) gateway: Arc<Gateway<ConnectAdapter<ScriptedOpen>>>,
    pub(crate) address: SocketAddr,
    pub(crate) stop: CancellationToken,
    pub(crate) serving: JoinSet<()>,
    pub(crate) requests: Arc<Mutex<Vec<OpenRequest>>>,
    pub(crate) happenings: Arc<Mutex<Vec<Happening>>>,
}

impl Rig {
    /// Serves with an opener that answers as `script` says.
    pub(crate) async fn start<F, A>(config: ConnectConfig, script: F) -> Self
    where
        F: Fn(OpenRequest) -> A + Send + Sync + 'static,
        A: Future<Output = Result<DuplexStream, OpenError>> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback");
        let mut rig = Self::idle(config, script, listener.local_addr().expect("bound"));
        rig.serve(listener);
        rig
    }

    /// The same, with clients that have to pass a checkpoint.
    pub(crate) async fn start_behind<F, A>(checkpoint: Checkpoint, script: F) -> Self
    where
        F: Fn(OpenRequest) -> A + Send + Sync + 'static,
        A: Future<Output = Result<DuplexStream, OpenError>> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback");
        let address = listener.local_addr().expect("bound");
        let mut rig = Self::idle_behind(ConnectConfig::default(), checkpoint, script, address);
        rig.serve(listener);
        rig
    }

    /// The adapter alone.
    pub(crate) fn adapter<F, A>(config: ConnectConfig, script: F) -> Arc<ConnectAdapter<ScriptedOpen>>
    where
        F: Fn(OpenRequest) -> A + Send + Sync + 'static,
        A: Future<Output = Result<DuplexStream, OpenError>> + Send + 'static,
    {
        let script = Box::new(move |request| -> Opening { Box::pin(script(request)) });
        let opener = ScriptedOpen { script, requests: Arc::default() };
        Arc::new(ConnectAdapter::new(opener, config, Arc::new(Notes(Arc::default()))))
    }

    /// A gateway that does not serve yet.
    pub(crate) fn idle<F, A>(config: ConnectConfig, script: F, address: SocketAddr) -> Self
    where
        F: Fn(OpenRequest) -> A + Send + Sync + 'static,
        A: Future<Output = Result<DuplexStream, OpenError>> + Send + 'static,
    {
        Self::idle_behind(config, Checkpoint::default(), script, address)
    }

    fn idle_behind<F, A>(config: ConnectConfig, checkpoint: Checkpoint, script: F, address: SocketAddr) -> Self
    where
        F: Fn(OpenRequest) -> A + Send + Sync + 'static,
        A: Future<Output = Result<DuplexStream, OpenError>> + Send + 'static,
    {
        let requests = Arc::new(Mutex::new(Vec::new()));
        let happenings = Arc::new(Mutex::new(Vec::new()));
        let opener = ScriptedOpen {
            script: Box::new(move |request| Box::pin(script(request))),
            requests: Arc::clone(&requests),
        };
        let adapter = ConnectAdapter::new(opener, config, Arc::new(Notes(Arc::clone(&happenings))));
        let gateway = Arc::new(Gateway::new(adapter.checkpoint(checkpoint)));
        Self { gateway, address, stop: CancellationToken::new(), serving: JoinSet::new(), requests, happenings }
    }

    pub(crate) fn serve(&mut self, listener: TcpListener) {
        let (gateway, stop) = (Arc::clone(&self.gateway), self.stop.clone());
        self.serving.spawn(async move { gateway.serve(listener, stop).await });
    }

    pub(crate) async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.expect("the gateway listens")
    }

    /// Sends raw bytes and reads until the gateway ends the connection.
    pub(crate) async fn exchange(&self, request: &[u8]) -> String {
        let mut client = self.connect().await;
        client.write_all(request).await.expect("sent");
        read_all(&mut client).await
    }
}

/// Reads to the end of the connection, which must be a clean one.
pub(crate) async fn read_all(client: &mut TcpStream) -> String {
    let mut answer = Vec::new();
    timeout(PATIENCE, client.read_to_end(&mut answer)).await.expect("an end").expect("a clean end");
    String::from_utf8(answer).expect("text")
}

/// Reads exactly as many bytes as expected.
pub(crate) async fn read_some(from: &mut (impl AsyncRead + Unpin), count: usize) -> String {
    let mut bytes = vec![0; count];
    timeout(PATIENCE, from.read_exact(&mut bytes)).await.expect("bytes").expect("bytes");
    String::from_utf8(bytes).expect("text")
}

/// Longer than anything here takes; a test that waits this long has failed.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// What a good request looks like.
pub(crate) const REQUEST: &[u8] = b"CONNECT db:1 HTTP/1.1\r\nx-mctunnel-cluster: c1\r\n\r\n";
/// What its answer looks like.
pub(crate) const ESTABLISHED: &str = "HTTP/1.1 200 OK\r\n\r\n";

// === ScriptedOpen ===

type Opening = Pin<Box<dyn Future<Output = Result<DuplexStream, OpenError>> + Send>>;

/// Keeps every request and answers as it was told. First bytes are written to the stream before it is handed out.
pub(crate) struct ScriptedOpen {
    script: Box<dyn Fn(OpenRequest) -> Opening + Send + Sync>,
    requests: Arc<Mutex<Vec<OpenRequest>>>,
}

/// An opener alone, for another adapter.
pub(crate) fn opener<F, A>(script: F) -> ScriptedOpen
where
    F: Fn(OpenRequest) -> A + Send + Sync + 'static,
    A: Future<Output = Result<DuplexStream, OpenError>> + Send + 'static,
{
    ScriptedOpen { script: Box::new(move |request| Box::pin(script(request))), requests: Arc::default() }
}

impl Open for ScriptedOpen {
    type Stream = Piped;

    async fn open(&self, request: OpenRequest) -> Result<Piped, OpenError> {
        self.requests.lock().push(request.clone());
        let first = request.first_bytes.clone();
        let mut pipe = (self.script)(request).await?;
        pipe.write_all(&first).await.expect("room for the first bytes");
        Ok(Piped(pipe))
    }
}

/// Keeps what was reported.
pub(crate) struct Notes(pub(crate) Arc<Mutex<Vec<Happening>>>);

impl Observe for Notes {
    fn observe(&self, happening: &Happening) {
        self.0.lock().push(happening.clone());
    }
}

// === Piped ===

/// One end of an in-memory pipe, as a stream.
#[derive(Debug)]
pub(crate) struct Piped(DuplexStream);

impl ByteStream for Piped {
    fn poll_read_bytes(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Option<Bytes>>> {
        let mut bytes = BytesMut::zeroed(4096);
        let mut buffer = ReadBuf::new(&mut bytes);
        ready!(Pin::new(&mut self.0).poll_read(cx, &mut buffer))?;
        let read = buffer.filled().len();
        bytes.truncate(read);
        Poll::Ready(Ok((read > 0).then(|| bytes.freeze())))
    }

    fn poll_write_capacity(&mut self, _: &mut Context<'_>) -> Poll<io::Result<usize>> {
        Poll::Ready(Ok(4096))
    }

    fn poll_write_bytes(&mut self, cx: &mut Context<'_>, bytes: &mut Bytes) -> Poll<io::Result<()>> {
        let written = ready!(Pin::new(&mut self.0).poll_write(cx, bytes))?;
        drop(bytes.split_to(written));
        Poll::Ready(Ok(()))
    }

    fn poll_cut(&mut self, _: &mut Context<'_>) -> Poll<()> {
        Poll::Pending
    }

    fn abort(&mut self) {}
}

impl AsyncRead for Piped {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Piped {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}
