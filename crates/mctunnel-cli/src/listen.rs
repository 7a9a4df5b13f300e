//! Listening sockets, made with the options that a restart and a hand-over need. An error says which flag and which address.

use mctunnel::ErrorCode;
use socket2::{Domain, Protocol, Socket, Type};
use std::{io, net::SocketAddr};
use tokio::net::TcpListener;

/// Connections that wait to be accepted: a herd of agents after a restart of the hub.
const BACKLOG: i32 = 4096;

/// Listens on the address. With `shared`, another process may listen on it too.
pub(crate) fn listen(flag: &'static str, address: SocketAddr, shared: bool) -> Result<TcpListener, ListenError> {
    bind(address, shared).map_err(|source| ListenError { flag, address, source })
}

fn bind(address: SocketAddr, shared: bool) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    // Else a restart would have to wait for connections of the process before.
    socket.set_reuse_address(true)?;
    if shared {
        socket.set_reuse_port(true)?;
    }
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    TcpListener::from_std(socket.into())
}

/// The address cannot be listened on.
#[derive(Debug, thiserror::Error)]
#[error("{flag}: cannot listen on {address}")]
pub(crate) struct ListenError {
    flag: &'static str,
    address: SocketAddr,
    source: io::Error,
}

impl ListenError {
    pub(crate) fn code(&self) -> ErrorCode {
        ErrorCode {
            code: "MCT-LISTEN",
            remedy: "check that no other process has the port and that the address is this machine's; port 0 takes any free one",
        }
    }
}
