//! How a client reaches the target: directly, through an HTTP CONNECT proxy, or by HTTP at a gateway.

use std::{fmt, str::FromStr};

use anyhow::{Context as _, Result, bail};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

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
}

impl Route {
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
    pub(crate) async fn http(&self) -> Result<(TcpStream, String)> {
        let target = &self.target;
        let prefix = self.cluster.as_ref().map(|cluster| format!("/{cluster}")).unwrap_or_default();
        Ok((connect(target).await?, format!("GET {prefix}/small HTTP/1.1\r\nHost: {target}\r\n\r\n")))
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
