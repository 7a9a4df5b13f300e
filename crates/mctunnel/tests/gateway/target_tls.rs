//! Targets that speak TLS: the agent believes the roots it was told of, for the name it was told, and sends nobody else a request.

use crate::{
    bodies::http2_client,
    rig::{Rig, get},
};
use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::{body::Incoming, service::service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo};
use mctunnel::{
    Target,
    core::{ExpectedPeer, Locate, LocateError, Located, Roots},
};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::ServerConfig;
use rustls_pki_types::PrivatePkcs8KeyDer;
use std::{
    convert::Infallible,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::SystemTime,
};
use time::OffsetDateTime;
use tokio::{net::TcpListener, task::JoinSet};
use tokio_rustls::TlsAcceptor;
use tokio_util::task::AbortOnDropHandle;

const NAME: &str = "web.default.svc";

struct Ca {
    pem: Arc<str>,
    issuer: Issuer<'static, KeyPair>,
}

impl Ca {
    fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        Self { pem: params.self_signed(&key).unwrap().pem().into(), issuer: Issuer::new(params, key) }
    }

    /// A server of this name whose certificate is good for so many days.
    fn server(&self, days: i64) -> TlsAcceptor {
        let day = |days| OffsetDateTime::from(SystemTime::now()) + time::Duration::days(days);
        let mut params = CertificateParams::new([NAME.to_owned()]).unwrap();
        (params.not_before, params.not_after) = (day(-10), day(days));
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let key = PrivatePkcs8KeyDer::from(key.serialize_der());
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key.into())
            .unwrap();
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        TlsAcceptor::from(Arc::new(config))
    }
}

/// Serves both HTTPs over TLS, and counts its requests.
struct TlsTarget {
    address: SocketAddr,
    seen: Arc<AtomicUsize>,
    _serving: AbortOnDropHandle<()>,
}

impl TlsTarget {
    async fn start(tls: TlsAcceptor) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, seen) = (listener.local_addr().unwrap(), Arc::new(AtomicUsize::new(0)));
        let count = Arc::clone(&seen);
        let serving = tokio::task::spawn(async move {
            let mut clients = JoinSet::new();
            while let Ok((socket, _)) = listener.accept().await {
                let (tls, count) = (tls.clone(), Arc::clone(&count));
                clients.spawn(async move {
                    let Ok(stream) = tls.accept(socket).await else { return };
                    let is_http2 = stream.get_ref().1.alpn_protocol() == Some(&b"h2"[..]);
                    let service = service_fn(|_: Request<Incoming>| {
                        count.fetch_add(1, Ordering::SeqCst);
                        async { Ok::<_, Infallible>(Response::new(Full::<Bytes>::from("secret"))) }
                    });
                    let io = TokioIo::new(stream);
                    if is_http2 {
                        let server = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
                        let _ = server.serve_connection(io, service).await;
                    } else {
                        let _ = hyper::server::conn::http1::Builder::new().serve_connection(io, service).await;
                    }
                });
            }
        });
        Self { address, seen, _serving: AbortOnDropHandle::new(serving) }
    }
}

/// Everything is there, and this is who must answer.
struct There(SocketAddr, ExpectedPeer);

impl Locate for There {
    async fn locate(&self, _: &Target) -> Result<Located, LocateError> {
        let (addresses, authority) = (vec![self.0], format!("{NAME}:443"));
        Ok(Located { addresses, preferred: 0, authority, tls: Some(self.1.clone()), pinned: true })
    }
}

fn over_http1(cluster: &str) -> Request<Full<Bytes>> {
    let path = format!("/{cluster}/api/v1/namespaces/default/services/https:web:443/proxy-service/x");
    Request::get(format!("https://localhost{path}")).body(Full::default()).unwrap()
}

fn over_grpc(cluster: &str) -> Request<Full<Bytes>> {
    Request::post("https://localhost/echo.Echo/Chat")
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .header("x-mctunnel-cluster", cluster)
        .header("x-mctunnel-host", "web.default")
        .header("x-mctunnel-port", "443")
        .header("x-mctunnel-scheme", "https")
        .body(Full::from("question"))
        .unwrap()
}

#[tokio::test]
async fn targets_show_a_certificate_of_their_ca_for_their_name_in_its_time() {
    let rig = Rig::start_tls().await;
    let (own, other) = (Ca::new(), Ca::new());
    let pem = |ca: &Ca| Roots::Pem(Arc::clone(&ca.pem));
    for (number, (what, days, name, roots, is_good)) in [
        ("all as it should be", 10, NAME, pem(&own), true),
        ("another CA", 10, NAME, pem(&other), false),
        ("another name", 10, "api.default.svc", pem(&own), false),
        ("expired", -1, NAME, pem(&own), false),
        ("anybody, by choice", -1, "api.default.svc", Roots::Unchecked, true),
    ]
    .into_iter()
    .enumerate()
    {
        let target = TlsTarget::start(own.server(days)).await;
        let (cluster, peer) = (format!("cluster-{number}"), ExpectedPeer { name: name.to_owned(), roots });
        let _agent = rig.agent_asking(&cluster, Arc::new(There(target.address, peer))).await;
        let (mut client, _connection) = http2_client(&rig).await;

        let answer = client.send_request(over_http1(&cluster)).await.unwrap();
        let status = answer.status();
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        assert_eq!((status == StatusCode::OK, body == "secret"), (is_good, is_good), "{what}: {status} {body:?}");
        assert!(is_good || status == StatusCode::BAD_GATEWAY, "{what}: {status}");

        let answer = client.send_request(over_grpc(&cluster)).await.unwrap();
        let code = answer.headers().get("grpc-status").map(|code| code.to_str().unwrap().to_owned());
        assert_eq!(code.as_deref(), if is_good { None } else { Some("14") }, "{what}");
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(body == "secret", is_good, "{what}: {body:?}");

        assert_eq!(target.seen.load(Ordering::SeqCst), if is_good { 2 } else { 0 }, "{what}");
    }
}

#[tokio::test]
async fn a_target_with_tls_and_no_word_of_whom_to_believe_is_refused() {
    let rig = Rig::start().await;
    let target = TlsTarget::start(Ca::new().server(10)).await;
    let _agent = rig.agent("cluster-a", target.address).await;
    let path = "/cluster-a/api/v1/namespaces/default/services/https:web:443/proxy-service/x";
    let answer = rig.once(&get(path)).await;
    assert!(answer.starts_with("HTTP/1.1 403") && answer.contains("whose certificates to believe"), "{answer}");
    assert_eq!(target.seen.load(Ordering::SeqCst), 0);
}
