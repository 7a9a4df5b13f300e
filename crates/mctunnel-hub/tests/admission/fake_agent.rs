//! An agent made by hand from TLS, HTTP/2 and frames, so that it can do what ours never does.

use crate::stage::{LIMIT, Stage};
use bytes::{Bytes, BytesMut};
use h2::{RecvStream, SendStream, client::SendRequest};
use http::{HeaderMap, Request, Response};
use mctunnel_identity::{AgentIdentity, EnrolledAgent, HUB_SERVER_NAME, JoinBundle};
use mctunnel_mux::{Deframer, Frame, Hello, Welcome};
use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, SanType};
use rustls::{ClientConfig, RootCertStore, SupportedProtocolVersion, crypto::aws_lc_rs, version::TLS13};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, pem::PemObject};
use std::{future::poll_fn, io, sync::Arc};
use time::OffsetDateTime;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    task::JoinSet,
    time::timeout,
};
use tokio_rustls::{TlsConnector, client::TlsStream};

pub(crate) const PATH: &str = "/mctunnel.tunnel.v1.TunnelService/Tunnel";

// === certificates ===

/// What a peer shows in the TLS handshake.
pub(crate) struct Shown {
    pub(crate) certificate: CertificateDer<'static>,
    key: PrivateKeyDer<'static>,
}

impl Shown {
    /// What an honest agent shows.
    pub(crate) fn honest(bundle: &JoinBundle) -> Self {
        Self {
            certificate: CertificateDer::from_pem_slice(bundle.certificate_pem.as_bytes()).unwrap(),
            key: PrivateKeyDer::from_pem_slice(bundle.key_pem.expose().as_bytes()).unwrap(),
        }
    }

    /// A certificate for c1 signed with the hub's own key, after `change`; the hub is told its serial as one of c1's.
    pub(crate) fn forged(stage: &Stage, change: impl FnOnce(&mut CertificateParams)) -> Self {
        let read = |file| std::fs::read_to_string(stage.dir.path().join("pki").join(file)).unwrap();
        let key = KeyPair::from_pem(&read("ca.key")).unwrap();
        let shown = Self::signed(&Issuer::from_ca_cert_pem(&read("ca.pem"), key).unwrap(), change);
        if let Ok(identity) = AgentIdentity::from_certificates(std::slice::from_ref(&shown.certificate)) {
            stage.clusters.add(&identity.cluster, &identity.serial, true).unwrap();
        }
        shown
    }

    /// What an agent shows that has enrolled.
    pub(crate) fn enrolled(agent: &EnrolledAgent) -> Self {
        Self::honest(&agent.bundle)
    }

    /// As an agent of c1 has it, after `change`, from any CA.
    pub(crate) fn signed(issuer: &Issuer<'_, KeyPair>, change: impl FnOnce(&mut CertificateParams)) -> Self {
        let mut params = CertificateParams::default();
        params.not_before = days_from_now(-1);
        params.not_after = days_from_now(30);
        params.is_ca = IsCa::ExplicitNoCa;
        params.distinguished_name.push(DnType::CommonName, "c1");
        params.subject_alt_names = vec![uri("spiffe://mctunnel/cluster/c1")];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, issuer).unwrap().der().clone();
        Self { certificate, key: PrivatePkcs8KeyDer::from(key.serialize_der()).into() }
    }
}

pub(crate) fn uri(text: &str) -> SanType {
    SanType::URI(text.try_into().unwrap())
}

pub(crate) fn days_from_now(days: i64) -> OffsetDateTime {
    OffsetDateTime::from(std::time::SystemTime::now()) + time::Duration::days(days)
}

// === TLS ===

/// How a peer speaks TLS.
pub(crate) struct Manner {
    pub(crate) shown: Option<Shown>,
    pub(crate) alpn: &'static [&'static str],
    pub(crate) version: &'static SupportedProtocolVersion,
}

impl Manner {
    pub(crate) fn usual(shown: Shown) -> Self {
        Self { shown: Some(shown), alpn: &["h2"], version: &TLS13 }
    }

    pub(crate) fn config(self, stage: &Stage) -> ClientConfig {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(stage.authority.ca_pem().as_bytes()).unwrap()).unwrap();
        let builder = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_protocol_versions(&[self.version])
            .unwrap()
            .with_root_certificates(roots);
        let mut config = match self.shown {
            Some(shown) => builder.with_client_auth_cert(vec![shown.certificate], shown.key).unwrap(),
            None => builder.with_no_client_auth(),
        };
        config.alpn_protocols = self.alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
        config
    }

    pub(crate) async fn connect(self, stage: &Stage) -> io::Result<TlsStream<TcpStream>> {
        let socket = TcpStream::connect(stage.address).await.unwrap();
        self.connect_over(stage, socket).await
    }

    pub(crate) async fn connect_over(self, stage: &Stage, socket: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        socket.set_nodelay(true).unwrap();
        let name = ServerName::try_from(HUB_SERVER_NAME).unwrap();
        timeout(LIMIT, TlsConnector::from(Arc::new(self.config(stage))).connect(name, socket)).await.unwrap()
    }

    /// Greets with HTTP/2 and counts the bytes the hub answers before it hangs up: the hub must hang up.
    pub(crate) async fn application_bytes(self, stage: &Stage) -> usize {
        let Ok(mut tls) = self.connect(stage).await else { return 0 };
        let mut answer = Vec::new();
        let ended = timeout(LIMIT, async {
            // The preface and an empty SETTINGS frame.
            let _ = tls.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await;
            let _ = tls.flush().await;
            tls.read_to_end(&mut answer).await
        });
        let _ = ended.await.expect("the hub hangs up");
        answer.len()
    }
}

// === the call ===

/// A connection with HTTP/2 on it.
pub(crate) struct Caller {
    requests: SendRequest<Bytes>,
    /// Polls the connection.
    driver: JoinSet<()>,
}

impl Caller {
    pub(crate) async fn new(stage: &Stage, shown: Shown) -> Self {
        Self::over(Manner::usual(shown).connect(stage).await.unwrap()).await
    }

    pub(crate) async fn over(tls: TlsStream<TcpStream>) -> Self {
        let (requests, connection) = h2::client::handshake(tls).await.unwrap();
        let mut driver = JoinSet::new();
        driver.spawn(async move { drop(connection.await) });
        Self { requests, driver }
    }

    /// Makes a call; gives the direction to the hub and the hub's answer.
    pub(crate) async fn call(&mut self, request: Request<()>) -> (SendStream<Bytes>, Response<RecvStream>) {
        poll_fn(|cx| self.requests.poll_ready(cx)).await.unwrap();
        let (response, send) = self.requests.send_request(request, false).unwrap();
        (send, timeout(LIMIT, response).await.expect("the hub answers").unwrap())
    }

    /// The grpc-status a call is refused with.
    pub(crate) async fn refusal(&mut self, request: Request<()>) -> (String, String) {
        let (_, response) = self.call(request).await;
        let text = |name| response.headers().get(name).map(|v| v.to_str().unwrap().to_owned());
        (text("grpc-status").expect("a refusal"), text("grpc-message").unwrap_or_default())
    }

    /// Makes a call of one message; gives the status, and the answer or the reason why there is none.
    pub(crate) async fn unary(&mut self, path: &str, body: Bytes) -> (String, Bytes) {
        poll_fn(|cx| self.requests.poll_ready(cx)).await.unwrap();
        let (response, mut send) = self.requests.send_request(call_with(path, "application/grpc", &[]), false).unwrap();
        let _ = send.send_data(body, true);
        let text = |headers: &HeaderMap, name| headers.get(name).map(|v| v.to_str().unwrap().to_owned());
        let Ok(response) = timeout(LIMIT, response).await.expect("the hub answers or hangs up") else {
            return ("hung up".to_owned(), Bytes::new());
        };
        if let Some(status) = text(response.headers(), "grpc-status") {
            return (status, text(response.headers(), "grpc-message").unwrap_or_default().into());
        }
        let mut body = response.into_body();
        let mut deframer = Deframer::default();
        let mut answer = Bytes::new();
        while let Some(chunk) = body.data().await {
            deframer.push(chunk.unwrap());
            while let Some(message) = deframer.next_message().unwrap() {
                answer = message;
            }
        }
        let trailers = body.trailers().await.unwrap().expect("trailers");
        (text(&trailers, "grpc-status").unwrap(), answer)
    }

    pub(crate) async fn tunnel(mut self) -> FakeAgent {
        let (send, response) = self.call(tunnel_call()).await;
        assert!(response.headers().get("grpc-status").is_none(), "{response:?}");
        FakeAgent { send, receive: response.into_body(), deframer: Deframer::default(), caller: self }
    }
}

/// A message with gRPC's prefix.
pub(crate) fn framed(message: &[u8]) -> Bytes {
    let mut bytes = BytesMut::from(&[0_u8][..]);
    bytes.extend_from_slice(&u32::try_from(message.len()).unwrap().to_be_bytes());
    bytes.extend_from_slice(message);
    bytes.freeze()
}

/// The request an agent makes.
pub(crate) fn tunnel_call() -> Request<()> {
    call_with(PATH, "application/grpc", &[])
}

pub(crate) fn call_with(path: &str, content_type: &str, metadata: &[(&str, &str)]) -> Request<()> {
    let mut request = Request::post(format!("https://{HUB_SERVER_NAME}{path}"))
        .header("content-type", content_type)
        .header("te", "trailers");
    for (name, value) in metadata {
        request = request.header(*name, *value);
    }
    request.body(()).unwrap()
}

/// An agent whose call was taken.
pub(crate) struct FakeAgent {
    pub(crate) send: SendStream<Bytes>,
    receive: RecvStream,
    deframer: Deframer,
    pub(crate) caller: Caller,
}

impl FakeAgent {
    /// Registers as an honest agent does.
    pub(crate) async fn register(stage: &Stage, shown: Shown, instance: &str) -> (Self, Welcome) {
        let mut agent = Caller::new(stage, shown).await.tunnel().await;
        let hello = Hello { instance: instance.to_owned(), early_window: 32 * 1024, ..Hello::default() };
        agent.send(&Frame::Hello(hello));
        match agent.next().await {
            Some(Frame::Welcome(welcome)) => (agent, welcome),
            other => panic!("no welcome but {other:?}"),
        }
    }

    pub(crate) fn send(&mut self, frame: &Frame) {
        let mut bytes = BytesMut::new();
        frame.encode(&mut bytes);
        self.send_raw(bytes.freeze());
    }

    pub(crate) fn send_raw(&mut self, bytes: Bytes) {
        self.send.send_data(bytes, false).unwrap();
    }

    /// The hub's next frame but PING, which is answered; `None` when the call has ended.
    pub(crate) async fn next(&mut self) -> Option<Frame> {
        loop {
            while let Some(message) = self.deframer.next_message().unwrap() {
                let frame = Frame::decode(message).unwrap();
                let Frame::Ping(nonce) = frame else { return Some(frame) };
                self.send(&Frame::Pong(nonce));
            }
            let chunk = timeout(LIMIT, self.receive.data()).await.expect("the hub says something")?.ok()?;
            self.receive.flow_control().release_capacity(chunk.len()).unwrap();
            self.deframer.push(chunk);
        }
    }

    /// The trailers behind the last frame.
    pub(crate) async fn trailers(&mut self) -> HeaderMap {
        timeout(LIMIT, self.receive.trailers()).await.unwrap().unwrap().expect("trailers")
    }

    /// Whether the tunnel still answers.
    pub(crate) async fn is_alive(&mut self) -> bool {
        self.send(&Frame::Ping(77));
        matches!(self.next().await, Some(Frame::Pong(77)))
    }

    /// Takes the next stream the hub opens; gives its id.
    pub(crate) async fn join_next(&mut self) -> mctunnel_mux::StreamId {
        match self.next().await {
            Some(Frame::Open(stream, ..)) => {
                self.send(&Frame::Joined { stream, window: 64 * 1024 });
                stream
            }
            other => panic!("no OPEN but {other:?}"),
        }
    }

    /// Hangs up without a word.
    pub(crate) async fn hang_up(mut self) {
        self.caller.driver.shutdown().await;
    }
}
