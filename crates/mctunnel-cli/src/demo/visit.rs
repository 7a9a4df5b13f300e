//! What curl would do: CONNECT at the hub, then GET through the tunnel.

use super::DemoFailed;
use anyhow::Context;
use std::time::Duration;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

/// A request to a target in a cluster.
pub(super) struct Visit<'a> {
    pub(super) connect: &'a str,
    pub(super) cluster: &'a str,
    pub(super) target: &'a str,
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
        let Self { connect, cluster, target } = self;
        format!("curl -p -x http://{connect} --proxy-header 'x-mctunnel-cluster: {cluster}' http://{target}/")
    }

    pub(super) async fn send(&self) -> anyhow::Result<Answer> {
        timeout(PATIENCE, self.exchange()).await.context("no answer in time")?
    }

    async fn exchange(&self) -> anyhow::Result<Answer> {
        let Self { connect, cluster, target } = self;
        let mut socket = TcpStream::connect(connect).await?;
        let open = format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\nx-mctunnel-cluster: {cluster}\r\n\r\n");
        socket.write_all(open.as_bytes()).await?;
        let opened = Answer::parse(&read_head(&mut socket).await?)?;
        if opened.status != 200 {
            return Ok(opened);
        }
        let get = format!("GET / HTTP/1.1\r\nHost: {target}\r\nConnection: close\r\n\r\n");
        socket.write_all(get.as_bytes()).await?;
        let mut answer = String::new();
        socket.read_to_string(&mut answer).await?;
        Answer::parse(&answer)
    }
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
