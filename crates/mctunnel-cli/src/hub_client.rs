//! A hub that runs, asked as any client asks it: by HTTPS at its gateway, with the token of whoever asks.

use crate::{process, tls_roots::client_config};
use clap::Args;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::{
    Request, Response,
    body::{Bytes, Incoming},
    client::conn::http1,
    header,
    http::request::Builder,
};
use hyper_util::rt::TokioIo;
use mctunnel::{ErrorCode, Secret};
use rustls::ClientConfig;
use rustls_pki_types::ServerName;
use serde_json::Value;
use std::{
    fs, io,
    net::IpAddr,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    time::timeout,
};
use tokio_rustls::TlsConnector;
use tokio_util::task::AbortOnDropHandle;

/// How long a hub may take until it is there, and how long until it begins to answer.
const PATIENCE: Duration = Duration::from_secs(15);
const PATIENCE_FOR_A_HEAD: Duration = Duration::from_secs(60);
/// A longer answer to a single question is none of ours.
const LONGEST: usize = 64 << 20;

/// Which hub, and as whom.
#[derive(Debug, Args)]
pub(crate) struct HubFlags {
    /// The hub to ask instead of files: its gateway, as in https://hub.example.com:8080
    #[arg(long, value_name = "URL")]
    pub(crate) hub: Option<String>,
    /// Who signed the hub's certificate, as PEM: what 'mctunnel ca show' prints; else the CAs of this system
    #[arg(long, value_name = "FILE", requires = "hub")]
    hub_ca: Option<PathBuf>,
    /// A file with your token for the hub
    #[arg(long, value_name = "FILE", requires = "hub")]
    token_file: Option<PathBuf>,
}

impl HubFlags {
    /// The hub that is named, if one is.
    pub(crate) fn client(&self) -> anyhow::Result<Option<HubClient>> {
        let Some(url) = self.hub.clone() else { return Ok(None) };
        let place = Place::parse(&url)?;
        let token = self.token_file.as_deref().map(token).transpose()?;
        let tls = if place.tls { Some(client_config(self.hub_ca.as_deref())?) } else { None };
        Ok(Some(HubClient { url, place, token, tls }))
    }
}

/// A hub to ask.
pub(crate) struct HubClient {
    url: String,
    place: Place,
    token: Option<Secret>,
    tls: Option<Arc<ClientConfig>>,
}

impl HubClient {
    /// Sends JSON; gives status and answer.
    pub(crate) fn post(&self, path: &str, body: String) -> anyhow::Result<(u16, String)> {
        let request = Request::post(path).header(header::CONTENT_TYPE, "application/json");
        process::block_on(async { Ok(self.whole(request, body).await?) })
    }

    /// Reads a page as a whole.
    pub(crate) fn get(&self, path: &str) -> anyhow::Result<String> {
        let (status, body) = process::block_on(async { Ok(self.whole(Request::get(path), String::new()).await?) })?;
        if status == 200 { Ok(body) } else { Err(refusal(status, &body).into()) }
    }

    /// Reads a page as it comes, until it ends or `take` wants no more.
    pub(crate) fn follow(&self, path: &str, mut take: impl FnMut(&[u8]) -> bool) -> anyhow::Result<()> {
        process::block_on(async {
            let request = Request::get(path).header(header::ACCEPT, "application/x-ndjson");
            let (response, _driving) = self.send(request, String::new()).await?;
            let status = response.status().as_u16();
            if status != 200 {
                return Err(refusal(status, &self.text(response).await?).into());
            }
            let mut body = response.into_body();
            while let Some(frame) = body.frame().await {
                let frame = frame.map_err(|error| self.cut(error))?;
                if frame.data_ref().is_some_and(|bytes| !take(bytes)) {
                    break;
                }
            }
            Ok(())
        })
    }

    async fn whole(&self, request: Builder, body: String) -> Result<(u16, String), AskFailed> {
        let (response, _driving) = self.send(request, body).await?;
        let status = response.status().as_u16();
        Ok((status, self.text(response).await?))
    }

    async fn text(&self, response: Response<Incoming>) -> Result<String, AskFailed> {
        let body = Limited::new(response.into_body(), LONGEST).collect().await.map_err(|error| self.cut(error))?;
        String::from_utf8(body.to_bytes().to_vec()).map_err(|_| AskFailed::NotAHub)
    }

    /// The head of the answer, and what has to live until its end.
    async fn send(
        &self,
        request: Builder,
        body: String,
    ) -> Result<(Response<Incoming>, AbortOnDropHandle<()>), AskFailed> {
        let mut request = request.header(header::HOST, self.place.authority());
        if let Some(token) = &self.token {
            request = request.header(header::AUTHORIZATION, format!("Bearer {}", token.expose()));
        }
        let request = request.body(Full::new(Bytes::from(body))).map_err(|_| AskFailed::Url(self.url.clone()))?;
        let unreachable = |source| AskFailed::Unreachable { url: self.url.clone(), source };
        let late = || io::Error::new(io::ErrorKind::TimedOut, "it does not answer");
        let stream = timeout(PATIENCE, self.connect()).await.unwrap_or_else(|_| Err(late())).map_err(unreachable)?;
        let shaken = http1::handshake(TokioIo::new(stream)).await;
        let (mut sender, connection) = shaken.map_err(|error| unreachable(io::Error::other(error)))?;
        let driving = process::owned(async move {
            // Whoever reads the answer learns of it.
            let _ = connection.await;
        });
        let answered = timeout(PATIENCE_FOR_A_HEAD, sender.send_request(request)).await;
        let failed = |error: hyper::Error| {
            if error.is_parse() { AskFailed::NotAHub } else { unreachable(io::Error::other(error)) }
        };
        let response = answered.map_err(|_| unreachable(late()))?.map_err(failed)?;
        Ok((response, driving))
    }

    async fn connect(&self) -> io::Result<Box<dyn Wire>> {
        let socket = TcpStream::connect((self.place.host.as_str(), self.place.port)).await?;
        let Some(config) = &self.tls else { return Ok(Box::new(socket)) };
        let name = ServerName::try_from(self.place.host.clone()).map_err(io::Error::other)?;
        Ok(Box::new(TlsConnector::from(Arc::clone(config)).connect(name, socket).await?))
    }

    fn cut(&self, error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> AskFailed {
        AskFailed::Cut { url: self.url.clone(), source: io::Error::other(error) }
    }
}

/// With TLS or without.
trait Wire: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Wire for T {}

/// What a hub says that does not answer.
pub(crate) fn refusal(status: u16, body: &str) -> AskFailed {
    let said: Option<Value> = serde_json::from_str(body).ok();
    match said.as_ref().and_then(|said| said.get("message")).and_then(Value::as_str) {
        Some(message) => AskFailed::Refused { status, message: printable(message) },
        None => AskFailed::NotAHub,
    }
}

/// A text of somebody else as a terminal may have it. Quotes do nothing to a terminal, and are read better as they are.
fn printable(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '\'' | '"' => out.push(letter),
            other => out.extend(other.escape_debug()),
        }
    }
    out
}

fn token(path: &Path) -> Result<Secret, AskFailed> {
    let text = fs::read_to_string(path).map_err(|source| AskFailed::Token { path: path.to_owned(), source })?;
    let token = text.trim();
    if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        let source = io::Error::new(io::ErrorKind::InvalidData, "it is not one token");
        return Err(AskFailed::Token { path: path.to_owned(), source });
    }
    Ok(Secret::new(token))
}

// === Place ===

/// Where the gateway is.
#[derive(Debug, PartialEq, Eq)]
struct Place {
    tls: bool,
    host: String,
    port: u16,
}

impl Place {
    /// Plain HTTP is for this machine alone: a token goes with the question.
    fn parse(url: &str) -> Result<Self, AskFailed> {
        let bad = || AskFailed::Url(url.to_owned());
        let uri: hyper::Uri = url.parse().map_err(|_| bad())?;
        let host = uri.host().ok_or_else(bad)?.trim_matches(['[', ']']).to_owned();
        let is_here = host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
        let has_user = uri.authority().is_some_and(|authority| authority.as_str().contains('@'));
        let (tls, usual) = match uri.scheme_str() {
            Some("https") => (true, 443),
            Some("http") if is_here => (false, 80),
            _ => return Err(bad()),
        };
        if has_user || !matches!(uri.path(), "" | "/") || uri.query().is_some() {
            return Err(bad());
        }
        Ok(Self { tls, host, port: uri.port_u16().unwrap_or(usual) })
    }

    /// As the field `host` has it.
    fn authority(&self) -> String {
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        format!("{host}:{}", self.port)
    }
}

// === AskFailed ===

/// There is no answer. That is not a no.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AskFailed {
    /// Neither files nor a hub were named.
    #[error("nobody is named to be asked")]
    Nobody,
    /// The address of the hub cannot be used.
    #[error("{0:?} is not the address of a gateway")]
    Url(String),
    /// The token cannot be read.
    #[error("the token in {} cannot be read", path.display())]
    Token { path: PathBuf, source: io::Error },
    /// The hub cannot be reached.
    #[error("{url} cannot be asked")]
    Unreachable { url: String, source: io::Error },
    /// Something else answered.
    #[error("what answered is not a hub that can be asked")]
    NotAHub,
    /// The answer broke off.
    #[error("the answer of {url} broke off")]
    Cut { url: String, source: io::Error },
    /// The hub refused to answer.
    #[error("the hub refused to answer ({status}): {message}")]
    Refused { status: u16, message: String },
}

impl AskFailed {
    pub(crate) fn code(&self) -> ErrorCode {
        let (code, remedy) = match self {
            Self::Nobody => (
                "MCT-ASK-NOBODY",
                "name a hub with --hub; or a policy with --policy, or the hub's files with --data-dir",
            ),
            Self::Url(_) => {
                ("MCT-ASK-BAD-URL", "write it as https://hub.example.com:8080; http:// is for loopback alone")
            }
            Self::Token { .. } => {
                ("MCT-ASK-TOKEN", "give a file that this user may read and that has one token in it, nothing else")
            }
            Self::Unreachable { .. } => (
                "MCT-ASK-UNREACHABLE",
                "check the address, and that --hub-ca is what 'mctunnel ca show' prints at that hub",
            ),
            Self::Cut { .. } => (
                "MCT-ASK-CUT",
                "ask again; a hub ends answers that go on when it stops, or when the permission for them goes away",
            ),
            Self::NotAHub => ("MCT-ASK-NOT-A-HUB", "check the address; the hub needs --auth-config and --policy"),
            Self::Refused { .. } => (
                "MCT-ASK-REFUSED",
                "give a valid token with --token-file; to ask about others, a policy has to allow it",
            ),
        };
        ErrorCode { code, remedy }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_goes_nowhere_but_to_a_gateway() {
        let is = |tls, host: &str, port| Place { tls, host: host.to_owned(), port };
        assert_eq!(Place::parse("https://hub.example.com:8080").unwrap(), is(true, "hub.example.com", 8080));
        assert_eq!(Place::parse("https://[::1]/").unwrap(), is(true, "::1", 443));
        assert_eq!(Place::parse("http://127.0.0.1:8080").unwrap(), is(false, "127.0.0.1", 8080));
        for bad in [
            "http://hub.example.com:8080",
            "http://10.0.0.1:8080",
            "hub.example.com:8080",
            "ftp://127.0.0.1",
            "https://hub/cluster-a",
            "https://hub/?x=1",
            "https://user@hub",
            "https://",
            "",
        ] {
            assert!(Place::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_refusal_is_one_of_a_hub_and_cannot_colour_the_terminal() {
        let refused = refusal(403, r#"{"kind":"Status","message":"no\u001b[2J"}"#);
        assert_eq!(refused.to_string(), "the hub refused to answer (403): no\\u{1b}[2J");
        let quoted = refusal(403, r#"{"message":"the hub's \"operator\"\u202e\n"}"#);
        assert_eq!(quoted.to_string(), "the hub refused to answer (403): the hub's \"operator\"\\u{202e}\\n");
        for body in ["", "{}", "<html>", r#"{"message":1}"#] {
            assert!(matches!(refusal(403, body), AskFailed::NotAHub), "{body}");
        }
    }
}
