//! Whoever answers at the hub's address learns nothing before it has proven to be the hub (T26): not the token, not a certificate,
//! not even that HTTP/2 would be spoken.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking, in its helpers too")]

use mctunnel_agent::{
    Agent,
    enrol::{EnrolFailed, Enroller},
    service_proxy::{TokenFile, TokenSource},
};
use mctunnel_core::{Happening, Observe, Secret};
use mctunnel_identity::{AgentStore, CaPin, HUB_SERVER_NAME, JoinBundle, JoinToken, TokenId, TokenSecret};
use parking_lot::Mutex;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, SanType,
};
use rustls::{
    ServerConfig, SupportedProtocolVersion,
    crypto::aws_lc_rs,
    server::WebPkiClientVerifier,
    version::{TLS12, TLS13},
};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};
use time::OffsetDateTime;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf},
    net::{TcpListener, TcpStream},
    sync::Notify,
    task::JoinSet,
    time::timeout,
};
use tokio_rustls::TlsAcceptor;

const LIMIT: Duration = Duration::from_secs(15);

// === certificates ===

struct Ca {
    der: CertificateDer<'static>,
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

fn ca(name: &str) -> Ca {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    let key = KeyPair::generate().unwrap();
    let certificate = params.self_signed(&key).unwrap();
    Ca { der: certificate.der().clone(), pem: certificate.pem(), issuer: Issuer::new(params, key) }
}

type Chain = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

fn days_from_now(days: i64) -> OffsetDateTime {
    OffsetDateTime::from(std::time::SystemTime::now()) + time::Duration::days(days)
}

/// A hub's certificate after `change`, and what is shown behind it.
fn shown(issuer: &Ca, behind: &[&Ca], change: impl FnOnce(&mut CertificateParams)) -> Chain {
    let mut params = CertificateParams::default();
    params.not_before = days_from_now(-1);
    params.not_after = days_from_now(30);
    params.subject_alt_names = vec![SanType::DnsName(HUB_SERVER_NAME.try_into().unwrap())];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    change(&mut params);
    let key = KeyPair::generate().unwrap();
    let mut chain = vec![params.signed_by(&key, &issuer.issuer).unwrap().der().clone()];
    chain.extend(behind.iter().map(|ca| ca.der.clone()));
    (chain, PrivatePkcs8KeyDer::from(key.serialize_der()).into())
}

fn self_signed() -> Chain {
    let params = CertificateParams::new([HUB_SERVER_NAME.to_owned()]).unwrap();
    let key = KeyPair::generate().unwrap();
    let chain = vec![params.self_signed(&key).unwrap().der().clone()];
    (chain, PrivatePkcs8KeyDer::from(key.serialize_der()).into())
}

fn tls(chain: Chain, version: &'static SupportedProtocolVersion, alpn: &str, asks_for: Option<&Ca>) -> Answers {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let builder =
        ServerConfig::builder_with_provider(Arc::clone(&provider)).with_protocol_versions(&[version]).unwrap();
    let builder = match asks_for {
        Some(ca) => {
            let mut roots = rustls::RootCertStore::empty();
            roots.add(ca.der.clone()).unwrap();
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            builder.with_client_cert_verifier(verifier.allow_unauthenticated().build().unwrap())
        }
        None => builder.with_no_client_auth(),
    };
    let mut config = builder.with_single_cert(chain.0, chain.1).unwrap();
    config.alpn_protocols = vec![alpn.as_bytes().to_vec()];
    Answers::Tls(Arc::new(config))
}

// === the fake hub ===

enum Answers {
    Tls(Arc<ServerConfig>),
    Plainly(&'static [u8]),
}

/// What came before it ended.
#[derive(Debug, Default)]
struct Seen {
    raw: Vec<u8>,
    application: Vec<u8>,
    client_certificates: usize,
}

/// Takes down what comes in.
struct Recording {
    socket: TcpStream,
    raw: Arc<Mutex<Vec<u8>>>,
}

impl AsyncRead for Recording {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.socket).poll_read(cx, buf))?;
        self.raw.lock().extend_from_slice(buf.filled().split_at(before).1);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Recording {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(cx)
    }
}

/// Serves one connection and gives what it saw.
async fn serve(listener: TcpListener, answers: Answers) -> Seen {
    let (socket, _) = listener.accept().await.unwrap();
    let raw = Arc::new(Mutex::new(Vec::new()));
    let mut io = Recording { socket, raw: Arc::clone(&raw) };
    let mut seen = Seen::default();
    match answers {
        Answers::Tls(config) => {
            if let Ok(mut tls) = TlsAcceptor::from(config).accept(io).await {
                let mut first = vec![0; 4096];
                // What an agent would say first; it says nothing more until it is answered. One that says nothing hangs up at once.
                let read = timeout(LIMIT, tls.read(&mut first)).await;
                first.truncate(read.map_or(0, Result::unwrap_or_default));
                seen.application = first;
                seen.client_certificates = tls.get_ref().1.peer_certificates().map_or(0, <[_]>::len);
            }
        }
        Answers::Plainly(text) => {
            io.write_all(text).await.unwrap();
            let mut rest = Vec::new();
            let _ = timeout(LIMIT, io.read_to_end(&mut rest)).await.expect("it hangs up");
        }
    }
    seen.raw = raw.lock().clone();
    seen
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

/// Everybody who is not the hub with that CA.
fn impostors(real: &Ca, alpn: &str, asks_for: Option<&Ca>) -> Vec<(&'static str, Answers)> {
    let other = ca("another CA");
    let namesake = ca("the hub's CA");
    let modern = |chain| tls(chain, &TLS13, alpn, asks_for);
    let expired = |params: &mut CertificateParams| {
        params.not_before = days_from_now(-30);
        params.not_after = days_from_now(-1);
    };
    let other_name = |params: &mut CertificateParams| {
        params.subject_alt_names = vec![SanType::DnsName("hub.example".try_into().unwrap())]
    };
    let for_agents =
        |params: &mut CertificateParams| params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    vec![
        ("of another CA, which it offers", modern(shown(&other, &[&other], |_| {}))),
        ("of a CA with the same name", modern(shown(&namesake, &[&namesake], |_| {}))),
        ("of another CA, with the hub's behind it", modern(shown(&other, &[real], |_| {}))),
        ("of another CA, with both behind it", modern(shown(&namesake, &[real, &namesake], |_| {}))),
        ("self-signed", modern(self_signed())),
        ("expired", modern(shown(real, &[real], expired))),
        ("of tomorrow", modern(shown(real, &[real], |params| params.not_before = days_from_now(1)))),
        ("of another name", modern(shown(real, &[real], other_name))),
        ("of an agent", modern(shown(real, &[real], for_agents))),
        ("of TLS 1.2", tls(shown(real, &[real], |_| {}), &TLS12, alpn, asks_for)),
        ("of another protocol", tls(shown(real, &[real], |_| {}), &TLS13, "http/1.1", asks_for)),
        ("in plain text", Answers::Plainly(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")),
        ("in plain HTTP/2", Answers::Plainly(b"\0\0\0\x04\0\0\0\0\0")),
    ]
}

#[tokio::test]
async fn t26_no_token_is_sent_to_anybody_but_the_hub_it_pins() {
    let real = ca("the hub's CA");
    let mut table = impostors(&real, "mctunnel-enrol", None);
    table.push(("without its CA", tls(shown(&real, &[], |_| {}), &TLS13, "mctunnel-enrol", None)));
    for (what, answers) in table {
        let (failed, seen, home, token) = enrol_at(&real, answers).await;
        let failed = failed.expect(what);
        assert!(seen.application.is_empty(), "{what}: {:?}", seen.application);
        assert!(!contains(&seen.raw, token.secret.expose()) && !contains(&seen.raw, token.id.as_bytes()), "{what}");
        assert!(seen.raw.len() < 3000, "{what}: a greeting and an alert, not {} bytes", seen.raw.len());
        assert!(!home.path().join("identity.json").exists(), "{what}");
        if !["of TLS 1.2", "of another protocol", "in plain text", "in plain HTTP/2"].contains(&what) {
            assert_eq!(
                (failed.may_pass(), failed.code().code),
                (false, "MCT-AGENT-ENROL-WRONG-HUB"),
                "{what}: {failed}"
            );
        }
        let said = format!("{failed} {failed:?}");
        assert!(!said.contains(token.text().expose()), "{what}: {said}");
    }
    let honest = tls(shown(&real, &[&real], |_| {}), &TLS13, "mctunnel-enrol", None);
    let (_, seen, ..) = enrol_at(&real, honest).await;
    assert!(
        seen.application.starts_with(b"PRI * HTTP/2.0"),
        "the table is refused for its certificates alone: {seen:?}"
    );
}

const ACCOUNT_TOKEN: &str = "canary-of-a-service-account";

/// A token that is another one each time it is asked for, as one that Kubernetes keeps fresh.
#[derive(Debug, Default)]
struct Rotating(std::sync::atomic::AtomicUsize);

impl TokenSource for Rotating {
    fn token(&self) -> Result<Secret, String> {
        let asked = self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        Ok(Secret::new(format!("{ACCOUNT_TOKEN}-{asked}")))
    }
}

/// Enrols at a fake hub as a ServiceAccount that knows the hub by these CAs.
async fn enrol_account_at(known: &[&Ca], answers: Answers) -> (Option<EnrolFailed>, Seen, tempfile::TempDir) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let hub = listener.local_addr().unwrap().to_string();
    let home = tempfile::tempdir().unwrap();
    let ca_file = home.path().join("hub-ca.pem");
    std::fs::write(&ca_file, known.iter().map(|ca| ca.pem.as_str()).collect::<String>()).unwrap();
    let pins = CaPin::read(&ca_file).unwrap();
    let enroller = Enroller::of_service_account(Rotating::default(), pins, hub).unwrap();
    let store = AgentStore::new(home.path());
    let (seen, enrolled) = tokio::join!(serve(listener, answers), enroller.enrol(&store));
    (enrolled.err(), seen, home)
}

#[tokio::test]
async fn t26_t36_no_service_account_token_is_sent_to_anybody_but_the_hub() {
    let (real, spare) = (ca("the hub's CA"), ca("the hub's next CA"));
    let mut table = impostors(&real, "mctunnel-enrol", None);
    table.push(("without its CA", tls(shown(&real, &[], |_| {}), &TLS13, "mctunnel-enrol", None)));
    for (what, answers) in table {
        let (failed, seen, home) = enrol_account_at(&[&spare, &real], answers).await;
        let failed = failed.expect(what);
        assert!(seen.application.is_empty(), "{what}: {:?}", seen.application);
        assert!(!contains(&seen.raw, ACCOUNT_TOKEN.as_bytes()), "{what}");
        assert!(seen.raw.len() < 3000, "{what}: a greeting and an alert, not {} bytes", seen.raw.len());
        assert!(!home.path().join("identity.json").exists(), "{what}");
        let said = format!("{failed} {failed:?} {:?}", failed.code());
        assert!(!said.contains(ACCOUNT_TOKEN), "{what}: {said}");
    }
    for (known, chain) in [
        (vec![&real], shown(&real, &[&real], |_| {})),
        (vec![&spare, &real], shown(&real, &[&real], |_| {})),
        (vec![&spare, &real], shown(&spare, &[&real, &spare], |_| {})),
    ] {
        let (_, seen, _) = enrol_account_at(&known, tls(chain, &TLS13, "mctunnel-enrol", None)).await;
        assert!(seen.application.starts_with(b"PRI * HTTP/2.0"), "refused for its certificates alone: {seen:?}");
    }
}

#[tokio::test]
async fn an_account_without_a_token_asks_nobody() {
    let real = ca("the hub's CA");
    let home = tempfile::tempdir().unwrap();
    let store = AgentStore::new(home.path());
    let pins = vec![CaPin::of(&real.der).unwrap()];
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let hub = listener.local_addr().unwrap().to_string();
    let path = home.path().join("token");
    let enroller = Enroller::of_service_account(TokenFile::read_each_time(&path), pins, hub).unwrap();
    for content in [None, Some("\n".to_owned()), Some("x".repeat(16 * 1024 + 1))] {
        if let Some(content) = content {
            std::fs::write(&path, content).unwrap();
        }
        let failed = enroller.enrol(&store).await.unwrap_err();
        assert_eq!((failed.may_pass(), failed.code().code), (false, "MCT-AGENT-ENROL-TOKEN"), "{failed}");
    }
    assert!(timeout(Duration::ZERO, listener.accept()).await.is_err(), "nobody came");
}

/// Enrols at a fake hub with a token that pins the CA.
async fn enrol_at(real: &Ca, answers: Answers) -> (Option<EnrolFailed>, Seen, tempfile::TempDir, JoinToken) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let token = JoinToken {
        id: TokenId::random().unwrap(),
        secret: TokenSecret::random().unwrap(),
        pin: CaPin::of(&real.der).unwrap(),
        hub: listener.local_addr().unwrap().to_string(),
    };
    let home = tempfile::tempdir().unwrap();
    let store = AgentStore::new(home.path());
    let enroller = Enroller::new(token.clone()).unwrap();
    let (seen, enrolled) = tokio::join!(serve(listener, answers), enroller.enrol(&store));
    (enrolled.err(), seen, home, token)
}

/// Waits for the first attempt to fail.
#[derive(Default)]
struct Failure(Notify);

impl Observe for Failure {
    fn observe(&self, happening: &Happening) {
        if matches!(happening, Happening::Reconnecting { .. }) {
            self.0.notify_one();
        }
    }
}

#[tokio::test]
async fn t26_no_certificate_is_shown_to_anybody_but_the_hub() {
    let real = ca("the hub's CA");
    for (what, answers) in impostors(&real, "h2", Some(&real)) {
        let seen = connect_to(&real, answers).await;
        assert!(seen.application.is_empty(), "{what}: {:?}", seen.application);
        assert_eq!(seen.client_certificates, 0, "{what}");
        assert!(seen.raw.len() < 3000, "{what}: a greeting and an alert, not {} bytes", seen.raw.len());
    }
    let honest = tls(shown(&real, &[], |_| {}), &TLS13, "h2", Some(&real));
    let seen = connect_to(&real, honest).await;
    assert!(seen.application.starts_with(b"PRI * HTTP/2.0") && seen.client_certificates == 1, "{seen:?}");
}

/// Lets an agent with a certificate of the CA connect to a fake hub.
async fn connect_to(real: &Ca, answers: Answers) -> Seen {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut params = CertificateParams::default();
    params.not_before = days_from_now(-1);
    params.not_after = days_from_now(30);
    params.subject_alt_names = vec![SanType::URI("spiffe://mctunnel/cluster/c1".try_into().unwrap())];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    let key = KeyPair::generate().unwrap();
    let bundle = JoinBundle {
        version: JoinBundle::VERSION,
        cluster: "c1".parse().unwrap(),
        hub: listener.local_addr().unwrap().to_string(),
        hub_server_name: HUB_SERVER_NAME.to_owned(),
        ca_pem: real.pem.clone(),
        certificate_pem: params.signed_by(&key, &real.issuer).unwrap().pem(),
        key_pem: Secret::new(key.serialize_pem()),
    };
    let failure = Arc::new(Failure::default());
    let agent = Agent::builder(&bundle).observer(failure.clone()).build().unwrap();
    let mut running = JoinSet::new();
    let run = agent.clone();
    running.spawn(async move { run.run().await });
    let seen = timeout(LIMIT, serve(listener, answers)).await.unwrap();
    timeout(LIMIT, failure.0.notified()).await.expect("it fails and says so");
    agent.stop();
    seen
}
