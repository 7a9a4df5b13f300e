//! The CONNECT exchange with a proxy. It takes exactly the answer's head from the socket: the first byte after it is the hub's.

use super::Proxy;
use crate::{
    dial::Resolve,
    hub_address::{ConnectError, HubAddress, connect_endpoint},
};
use std::{io, time::Duration};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

/// Connects to the proxy and has it connect to the hub. The proxy resolves the hub's name.
pub async fn connect_through(
    proxy: &Proxy,
    hub: &HubAddress,
    resolver: &dyn Resolve,
) -> Result<TcpStream, ConnectError> {
    let mut socket = connect_endpoint(&proxy.endpoint, resolver).await?;
    let broken = |reason: String| ConnectError::ProxyBroken { proxy: proxy.endpoint.to_string(), reason };
    let head = match timeout(ANSWER_TIMEOUT, exchange(&mut socket, proxy, hub)).await {
        Ok(head) => head.map_err(|error| broken(error.to_string()))?,
        Err(_) => return Err(broken(format!("no answer within {ANSWER_TIMEOUT:?}"))),
    };
    match status_of(&head) {
        Some(200) => Ok(socket),
        Some(_) => Err(ConnectError::ProxyRefused {
            proxy: proxy.endpoint.to_string(),
            status_line: printable_first_line(&head),
        }),
        None => Err(broken("its answer is not HTTP/1".to_owned())),
    }
}

/// The longest that the proxy may take to reach the hub and answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// The longest head of an answer.
const MAX_HEAD: usize = 16 * 1024;
const END: &[u8] = b"\r\n\r\n";

async fn exchange(socket: &mut TcpStream, proxy: &Proxy, hub: &HubAddress) -> io::Result<Vec<u8>> {
    let mut request = format!("CONNECT {hub} HTTP/1.1\r\nHost: {hub}\r\n");
    if let Some(authorization) = &proxy.authorization {
        request.push_str("Proxy-Authorization: ");
        request.push_str(authorization.expose());
        request.push_str("\r\n");
    }
    request.push_str("\r\n");
    socket.write_all(request.as_bytes()).await?;
    read_head(socket).await
}

/// Reads up to and including the empty line, and not one byte more: what is there is looked at first, then taken.
async fn read_head(socket: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    let mut seen = [0; 1024];
    while head.len() < MAX_HEAD {
        let there = socket.peek(&mut seen).await?;
        if there == 0 {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it hung up before its answer was complete"));
        }
        let before = head.len();
        head.extend(seen.iter().take(there));
        let from = before.saturating_sub(END.len() - 1);
        let end = head.windows(END.len()).skip(from).position(|window| window == END).map(|at| from + at + END.len());
        head.truncate(end.unwrap_or(head.len()));
        let take = head.len() - before;
        if let Some(taken) = seen.get_mut(..take) {
            socket.read_exact(taken).await?;
        }
        if end.is_some() {
            return Ok(head);
        }
    }
    Err(io::Error::other(format!("the head of its answer is longer than {MAX_HEAD} bytes")))
}

fn status_of(head: &[u8]) -> Option<u16> {
    let mut headers = [httparse::EMPTY_HEADER; 64];
    let mut answer = httparse::Response::new(&mut headers);
    match answer.parse(head) {
        Ok(_) => answer.code,
        Err(_) => None,
    }
}

/// The status line for an error message: no control characters, not endless.
fn printable_first_line(head: &[u8]) -> String {
    let line = head.split(|byte| *byte == b'\r' || *byte == b'\n').next().unwrap_or_default();
    let shown = |byte: &u8| {
        if (b' '..=b'~').contains(byte) { char::from(*byte) } else { '?' }
    };
    line.iter().take(200).map(shown).collect()
}
