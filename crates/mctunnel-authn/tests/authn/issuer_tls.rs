//! The issuer's web server is verified, always: by the CAs of the system, or by the given ones and no others.

use crate::{
    issuer::{claims_of, settings, shared_rsa, token},
    setup::{chain, status_of},
};
use http_body_util::Full;
use hyper::{Request, Response, body::Incoming, service::service_fn};
use hyper_util::rt::TokioIo;
use mctunnel_authn::{AuthnError, Clock, Oidc, OidcSettings};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::{ServerConfig, crypto::aws_lc_rs};
use rustls_pki_types::PrivatePkcs8KeyDer;
use serde_json::json;
use std::{convert::Infallible, sync::Arc};
use tokio::{net::TcpListener, task::JoinSet};
use tokio_rustls::TlsAcceptor;

/// A CA, and an issuer whose certificate it signed for the name.
async fn issuer(name: &str) -> (String, String, JoinSet<()>) {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    let ca_pem = params.self_signed(&key).unwrap().pem();
    let ca = Issuer::new(params, key);
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(vec![name.to_owned()]).unwrap().signed_by(&key, &ca).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], PrivatePkcs8KeyDer::from(key.serialize_der()).into())
        .unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://localhost:{}", listener.local_addr().unwrap().port());
    let mut serving = JoinSet::new();
    serving.spawn(serve(listener, TlsAcceptor::from(Arc::new(config)), url.clone()));
    (url, ca_pem, serving)
}

async fn serve(listener: TcpListener, tls: TlsAcceptor, url: String) {
    let mut connections = JoinSet::new();
    loop {
        let (socket, _) = listener.accept().await.unwrap();
        let (tls, url) = (tls.clone(), url.clone());
        let answer = service_fn(move |request: Request<Incoming>| {
            let document = match request.uri().path() {
                "/keys" => json!({"keys": [shared_rsa().jwk("k1")]}),
                _ => json!({"issuer": url, "jwks_uri": format!("{url}/keys")}),
            };
            std::future::ready(Ok::<_, Infallible>(Response::new(Full::<bytes::Bytes>::from(document.to_string()))))
        });
        connections.spawn(async move {
            if let Ok(socket) = tls.accept(socket).await {
                let _ = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(socket), answer).await;
            }
        });
    }
}

async fn status_with(url: &str, ca_pem: Option<&str>) -> Result<u16, AuthnError> {
    let settings = OidcSettings { ca_pem: ca_pem.map(Into::into), plain_loopback: false, ..settings(url) };
    let chain = chain(Oidc::new("idp", settings, Clock::system())?);
    Ok(status_of(&chain, &token(shared_rsa(), "RS256", "k1", &claims_of(url))).await)
}

#[tokio::test]
async fn an_issuer_is_believed_with_a_certificate_of_its_ca_and_its_name_only() {
    let (url, ca_pem, _serving) = issuer("localhost").await;
    assert_eq!(status_with(&url, Some(&ca_pem)).await.unwrap(), 200);
    let (_, other_ca, _other) = issuer("localhost").await;
    assert_eq!(status_with(&url, Some(&other_ca)).await.unwrap(), 503, "of another CA");
    // A system without CAs cannot have such an issuer at all; one with CAs does not have this one among them.
    assert!(matches!(status_with(&url, None).await, Ok(503) | Err(AuthnError::Provider { .. })), "of no CA we know");
    let (url, ca_pem, _serving) = issuer("idp.example").await;
    assert_eq!(status_with(&url, Some(&ca_pem)).await.unwrap(), 503, "of another name");
}

#[test]
fn a_ca_file_must_have_a_ca() {
    for junk in ["", "junk", "-----BEGIN CERTIFICATE-----\nAQID\n-----END CERTIFICATE-----\n"] {
        let settings = OidcSettings { ca_pem: Some(junk.into()), ..settings("https://idp.example") };
        assert!(matches!(Oidc::new("idp", settings, Clock::system()), Err(AuthnError::Provider { .. })), "{junk}");
    }
}
