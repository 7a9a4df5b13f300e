//! What curl would do: GET at the gateway, or CONNECT at the hub and GET through the tunnel.

use super::DemoFailed;
use anyhow::Context;
use rustls::{ClientConfig, RootCertStore, crypto::aws_lc_rs};
use rustls_pki_types::{CertificateDer, ServerName, pem::PemObject};
use std::{path::Path, sync::Arc, time::Duration};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};
use tokio_rustls::TlsConnector;

/// A request to a target in a cluster.
pub(super) enum Visit<'a> {
    /// At the gateway: the path names the cluster and the target.
    Gateway { address: &'a str, ca: &'a Path, path: &'a str },
    /// Through CONNECT.
    Connect { address: &'a str, cluster: &'a str, target: &'a str },
}

/// What came back, from the target or, if it refused, from the hub.
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) reason: String,
    pub(super) body: String,
}

const PATIENCE: Duration = Duration::from_secs(15);
const LONGEST_HEAD: usize = 16 * 1024;

impl Visit<'_> {
    /// The same as a command.
    pub(super) fn as_curl(&self) -> String {
        match self {
            Self::Gateway { address, ca, path } => {
                format!("curl --cacert {} 'https://{address}{path}'", ca.display())
            }
            Self::Connect { address, cluster, target } => {
                format!("curl -p -x http://{address} --proxy-header 'x-mctunnel-cluster: {cluster}' http://{target}/")
            }
        }
    }

    pub(super) async fn send(&self) -> anyhow::Result<Answer> {
        let exchange = async {
            match self {
                Self::Gateway { address, ca, path } => at_gateway(address, ca, path).await,
                Self::Connect { address, cluster, target } => through_connect(address, cluster, target).await,
            }
        };
        timeout(PATIENCE, exchange).await.context("no answer in time")?
    }
}

async fn at_gateway(address: &str, ca: &Path, path: &str) -> anyhow::Result<Answer> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(ca)?)?;
    let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let socket = TcpStream::connect(address).await?;
    let stream = TlsConnector::from(Arc::new(config)).connect(ServerName::try_from("localhost")?, socket).await?;
    get(stream, address, path).await
}

async fn through_connect(address: &str, cluster: &str, target: &str) -> anyhow::Result<Answer> {
    let mut socket = TcpStream::connect(address).await?;
    let open = format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\nx-mctunnel-cluster: {cluster}\r\n\r\n");
    socket.write_all(open.as_bytes()).await?;
    let opened = Answer::parse(&read_head(&mut socket).await?)?;
    if opened.status != 200 {
        return Ok(opened);
    }
    get(socket, target, "/").await
}

async fn get(mut stream: impl AsyncRead + AsyncWrite + Unpin, host: &str, path: &str) -> anyhow::Result<Answer> {
    let get = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    stream.write_all(get.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Answer::parse(&answer)
}

/// Byte by byte: what follows the head belongs to the target.
async fn read_head(socket: &mut TcpStream) -> anyhow::Result<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") && head.len() < LONGEST_HEAD {
        head.push(socket.read_u8().await?);
    }
    Ok(String::from_utf8_lossy(&head).into_owned())
}

impl Answer {
    fn parse(text: &str) -> anyhow::Result<Self> {
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((text, ""));
        let status_line = head.lines().next().unwrap_or_default();
        let mut words = status_line.splitn(3, ' ').skip(1);
        let status = words.next().and_then(|word| word.parse().ok());
        let status = status.ok_or_else(|| DemoFailed(format!("{status_line:?} is not an HTTP answer")))?;
        let reason = words.next().unwrap_or_default().to_owned();
        Ok(Self { status, reason, body: body.to_owned() })
    }

    /// What it says, in one line.
    pub(super) fn to_line(&self) -> &str {
        if self.body.is_empty() { &self.reason } else { self.body.trim() }
    }
}
