//! Port: getting a document from an issuer. Redirects are not followed, certificates are always verified, and neither time nor
//! length is the issuer's to choose.

use http::{Request, Uri, header};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::{ClientConfig, RootCertStore, crypto::aws_lc_rs};
use rustls_pki_types::{CertificateDer, ServerName, pem::PemObject};
use std::{fmt, net::SocketAddr, pin::Pin, sync::Arc, time::Duration};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    task::JoinSet,
    time::timeout,
};
use tokio_rustls::TlsConnector;

/// How long a document may take.
const TIME: Duration = Duration::from_secs(5);
/// A longer document is not read.
const LONGEST: usize = 1 << 20;

/// Gets documents.
///
/// Obligations: 1. it verifies whom it talks to; 2. it goes where it was sent and nowhere else; 3. it ends by itself.
pub trait FetchDocument: Send + Sync + 'static {
    /// The body at the URL; `Err` says why there is none.
    fn fetch<'a>(&'a self, url: &'a str) -> Fetching<'a>;
}

/// A document under way.
pub type Fetching<'a> = Pin<Box<dyn Future<Output = Result<Vec<u8>, String>> + Send + 'a>>;

impl fmt::Debug for dyn FetchDocument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FetchDocument")
    }
}

// === HttpsFetch ===

/// Gets documents by HTTPS, or by plain HTTP from this machine if that was allowed.
pub(crate) struct HttpsFetch {
    tls: TlsConnector,
    plain_loopback: bool,
}

impl HttpsFetch {
    /// With the CAs of the system, or with the given ones instead.
    pub(crate) fn new(ca_pem: Option<&[u8]>, plain_loopback: bool) -> Result<Self, String> {
        let roots = match ca_pem {
            Some(pem) => given_roots(pem)?,
            None => system_roots()?,
        };
        let mut config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self { tls: TlsConnector::from(Arc::new(config)), plain_loopback })
    }

    async fn get(&self, url: &str) -> Result<Vec<u8>, String> {
        let place = Place::parse(url, self.plain_loopback)?;
        let found = tokio::net::lookup_host((place.host.as_str(), place.port)).await;
        let addresses: Vec<SocketAddr> =
            found.map_err(|error| format!("the name does not resolve: {error}"))?.collect();
        let socket = connect(&addresses, place.tls).await?;
        if !place.tls {
            return exchange(socket, &place).await;
        }
        let name =
            ServerName::try_from(place.host.clone()).map_err(|_| "the host cannot have a certificate".to_owned())?;
        let socket = self.tls.connect(name, socket).await.map_err(|error| format!("TLS failed: {error}"))?;
        exchange(socket, &place).await
    }
}

impl FetchDocument for HttpsFetch {
    fn fetch<'a>(&'a self, url: &'a str) -> Fetching<'a> {
        Box::pin(async move {
            let answer = timeout(TIME, self.get(url)).await;
            answer.unwrap_or_else(|_| Err(format!("there was no answer within {TIME:?}")))
        })
    }
}

impl fmt::Debug for HttpsFetch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpsFetch").field("plain_loopback", &self.plain_loopback).finish_non_exhaustive()
    }
}

// === Place ===

/// A URL taken apart.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Place {
    tls: bool,
    host: String,
    port: u16,
    authority: String,
    path: String,
}

impl Place {
    /// Reads `https://HOST[:PORT]/PATH`; `http://` only when that is allowed, and then for this machine alone.
    pub(crate) fn parse(url: &str, plain_loopback: bool) -> Result<Self, String> {
        let uri: Uri = url.parse().map_err(|_| "it is not a URL".to_owned())?;
        let authority = uri.authority().ok_or("it has no host")?;
        if authority.as_str().contains('@') {
            return Err("it has a user".to_owned());
        }
        if uri.query().is_some() || url.contains('#') {
            return Err("it has a query or a fragment".to_owned());
        }
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        let tls = match uri.scheme_str() {
            Some("https") => true,
            Some("http") if plain_loopback && is_loopback_name(&host) => false,
            Some("http") => return Err("plain http is allowed for loopback only, and only if asked for".to_owned()),
            _ => return Err("it does not begin with https://".to_owned()),
        };
        let port = authority.port_u16().unwrap_or(if tls { 443 } else { 80 });
        Ok(Self { tls, host, port, authority: authority.to_string(), path: uri.path().to_owned() })
    }
}

fn is_loopback_name(host: &str) -> bool {
    host == "localhost" || host.parse().is_ok_and(|ip: std::net::IpAddr| ip.is_loopback())
}

async fn connect(addresses: &[SocketAddr], tls: bool) -> Result<TcpStream, String> {
    let mut last = "the name has no address".to_owned();
    // The address that was checked is the one that is dialled.
    for address in addresses.iter().filter(|address| tls || address.ip().is_loopback()) {
        match TcpStream::connect(address).await {
            Ok(socket) => return Ok(socket),
            Err(error) => last = format!("there is no connection: {error}"),
        }
    }
    Err(last)
}

async fn exchange<S>(socket: S, place: &Place) -> Result<Vec<u8>, String>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let failed = |error: hyper::Error| format!("the request failed: {error}");
    let (mut sender, connection) = http1::handshake(TokioIo::new(socket)).await.map_err(failed)?;
    let mut driving = JoinSet::new();
    driving.spawn(connection);
    let request = Request::get(&place.path)
        .header(header::HOST, &place.authority)
        .header(header::ACCEPT, "application/json")
        .header(header::CONNECTION, "close")
        .body(Empty::<bytes::Bytes>::new())
        .map_err(|error| error.to_string())?;
    let answer = sender.send_request(request).await.map_err(failed)?;
    if answer.status() != http::StatusCode::OK {
        return Err(format!("the answer is {}", answer.status().as_u16()));
    }
    let body = Limited::new(answer.into_body(), LONGEST).collect().await;
    body.map(|body| body.to_bytes().to_vec()).map_err(|error| format!("the answer cannot be read: {error}"))
}

fn given_roots(pem: &[u8]) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    for authority in CertificateDer::pem_slice_iter(pem) {
        let authority = authority.map_err(|error| format!("the CA certificates are not PEM: {error}"))?;
        roots.add(authority).map_err(|error| format!("a CA certificate cannot be used: {error}"))?;
    }
    if roots.is_empty() { Err("there is no CA certificate".to_owned()) } else { Ok(roots) }
}

fn system_roots() -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        return Err("this system has no CA certificates: name a file with the issuer's CA".to_owned());
    }
    Ok(roots)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_come_by_https_or_from_this_machine() {
        let place =
            |url: &str, plain| Place::parse(url, plain).map(|place| (place.tls, place.host, place.port, place.path));
        let is = |tls, host: &str, port, path: &str| Ok((tls, host.to_owned(), port, path.to_owned()));
        assert_eq!(place("https://idp.example/a/b", false), is(true, "idp.example", 443, "/a/b"));
        assert_eq!(place("https://[2001:db8::1]:8443", true), is(true, "2001:db8::1", 8443, "/"));
        assert_eq!(place("http://127.0.0.1:8080/x", true), is(false, "127.0.0.1", 8080, "/x"));
        assert_eq!(place("http://localhost/x", true), is(false, "localhost", 80, "/x"));
        for (url, plain) in [
            ("http://127.0.0.1:8080/x", false),
            ("http://idp.example/x", true),
            ("http://127.0.0.1.evil.example/x", true),
            ("http://localhost.evil.example/x", true),
            ("http://10.0.0.1/x", true),
            ("ftp://idp.example/x", true),
            ("file:///etc/passwd", true),
            ("/x", true),
            ("https://", true),
            ("https://user@idp.example/x", true),
            ("https://idp.example/x?y", true),
            ("https://idp.example/x#y", true),
            ("", true),
        ] {
            assert!(place(url, plain).is_err(), "{url}");
        }
    }
}
