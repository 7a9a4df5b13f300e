//! How a client reaches the target: directly, through an HTTP CONNECT proxy, or by HTTP at a gateway.

use std::{
    fmt,
    path::{Path, PathBuf},
    str::FromStr,
    sync::Arc,
};

use anyhow::{Context as _, Result, bail};
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject as _};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::TcpStream,
};
use tokio_rustls::TlsConnector;

use crate::order::Order;

/// A way to one target.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Route {
    /// How to reach the target: direct, or connect:HOST:PORT
    #[arg(long, default_value_t = Via::Direct)]
    pub(crate) via: Via,
    /// The address of the target, as the dialling side sees it; for HTTP, of whoever takes the request
    #[arg(long)]
    pub(crate) target: String,
    /// The cluster to ask a CONNECT proxy or a gateway for
    #[arg(long)]
    pub(crate) cluster: Option<String>,
    /// The path that HTTP requests ask for
    #[arg(long, default_value = "/small")]
    pub(crate) path: String,
    /// Who signed the gateway's certificate, PEM; with TLS only then
    #[arg(long)]
    pub(crate) tls_ca: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) shown: Shown,
}

/// What a client shows of itself.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct Shown {
    /// A bearer token for HTTP requests
    #[arg(long)]
    pub(crate) token: Option<String>,
    /// A client certificate, PEM; with TLS only
    #[arg(long, requires = "key")]
    pub(crate) certificate: Option<PathBuf>,
    /// Its key, PEM
    #[arg(long)]
    pub(crate) key: Option<PathBuf>,
}

impl Shown {
    pub(crate) fn token(token: &str) -> Self {
        Self { token: Some(token.to_owned()), ..Self::default() }
    }

    /// The flags that say the same.
    pub(crate) fn args(&self) -> Vec<String> {
        let Self { token, certificate, key } = self;
        let path = |path: &Option<PathBuf>| path.as_ref().map(|path| path.display().to_string());
        let all = [("--token", token.clone()), ("--certificate", path(certificate)), ("--key", path(key))];
        all.into_iter().filter_map(|(flag, value)| Some([flag.to_owned(), value?])).flatten().collect()
    }
}

/// A connection for HTTP, with TLS or without.
pub(crate) type Connected = Box<dyn Duplex>;

pub(crate) trait Duplex: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Duplex for T {}

impl Route {
    /// A way on which nothing is shown.
    pub(crate) fn new(via: Via, target: &str, cluster: Option<&str>) -> Self {
        let (target, cluster, path) = (target.to_owned(), cluster.map(str::to_owned), "/small".to_owned());
        Self { via, target, cluster, path, tls_ca: None, shown: Shown::default() }
    }

    /// Connects and gives the order.
    pub(crate) async fn start(&self, order: Order) -> Result<TcpStream> {
        let mut stream = match &self.via {
            Via::Direct => connect(&self.target).await?,
            Via::Connect(proxy) => self.connect_through(proxy).await?,
        };
        stream.write_all(&order.encode()).await?;
        Ok(stream)
    }

    /// Connects, has the sink answer one byte, and leaves the connection idle.
    pub(crate) async fn hold(&self) -> Result<TcpStream> {
        let mut stream = self.start(Order::Hold).await?;
        stream.read_u8().await.context("no answer to the hold order")?;
        Ok(stream)
    }

    /// Connects for HTTP requests, and gives the one to send: the cluster, if there is one, is the first part of its path.
    pub(crate) async fn http(&self) -> Result<(Connected, String)> {
        let Self { target, path, .. } = self;
        let prefix = self.cluster.as_ref().map(|cluster| format!("/{cluster}")).unwrap_or_default();
        let token = self.shown.token.as_ref().map(|token| format!("Authorization: Bearer {token}\r\n"));
        let request = format!("GET {prefix}{path} HTTP/1.1\r\nHost: {target}\r\n{}\r\n", token.unwrap_or_default());
        let stream = connect(target).await?;
        let Some(ca) = &self.tls_ca else { return Ok((Box::new(stream), request)) };
        let tls = TlsConnector::from(Arc::new(tls_config(ca, &self.shown)?));
        Ok((Box::new(tls.connect(ServerName::try_from("localhost")?, stream).await?), request))
    }

    async fn connect_through(&self, proxy: &str) -> Result<TcpStream> {
        let target = &self.target;
        let mut request = format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n");
        if let Some(cluster) = &self.cluster {
            request.push_str("x-mctunnel-cluster: ");
            request.push_str(cluster);
            request.push_str("\r\n");
        }
        request.push_str("\r\n");
        let mut stream = connect(proxy).await?;
        stream.write_all(request.as_bytes()).await?;
        expect_established(&mut stream).await?;
        Ok(stream)
    }
}

fn tls_config(ca: &Path, shown: &Shown) -> Result<ClientConfig> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(ca)? {
        roots.add(certificate?)?;
    }
    let builder = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots);
    Ok(match (&shown.certificate, &shown.key) {
        (Some(certificate), Some(key)) => {
            let chain = CertificateDer::pem_file_iter(certificate)?.collect::<Result<_, _>>()?;
            builder.with_client_auth_cert(chain, PrivateKeyDer::from_pem_file(key)?)?
        }
        _ => builder.with_no_client_auth(),
    })
}

async fn connect(address: &str) -> Result<TcpStream> {
    let stream = TcpStream::connect(address).await.with_context(|| format!("connect to {address}"))?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Reads the answer to CONNECT. The sink never speaks first, so nothing may follow the head.
async fn expect_established(stream: &mut TcpStream) -> Result<()> {
    let mut head = Vec::with_capacity(HEAD_LIMIT);
    while !head.ends_with(b"\r\n\r\n") {
        if head.len() >= HEAD_LIMIT || stream.read_buf(&mut head).await? == 0 {
            bail!("no complete answer to CONNECT: {:?}", String::from_utf8_lossy(&head));
        }
    }
    if !head.starts_with(b"HTTP/1.1 200") {
        bail!("CONNECT refused: {:?}", String::from_utf8_lossy(&head));
    }
    Ok(())
}

const HEAD_LIMIT: usize = 1024;

/// What to dial.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Via {
    Direct,
    Connect(String),
}

impl FromStr for Via {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.strip_prefix("connect:") {
            Some(proxy) => Ok(Self::Connect(proxy.to_owned())),
            None if text == "direct" => Ok(Self::Direct),
            None => Err(format!("{text:?} is neither direct nor connect:HOST:PORT")),
        }
    }
}

impl fmt::Display for Via {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Direct => f.write_str("direct"),
            Self::Connect(proxy) => write!(f, "connect:{proxy}"),
        }
    }
}
