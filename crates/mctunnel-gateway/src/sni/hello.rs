//! Reads a TLS client's first words, finds out whom it wants, and keeps the bytes for whoever that is.

use bytes::{Bytes, BytesMut};
use rustls::server::Acceptor;
use tokio::{io::AsyncReadExt, net::TcpStream};

/// A client's hello.
#[derive(Debug)]
pub(super) struct Hello {
    /// The name it asks for.
    pub(super) name: String,
    /// All that it has sent, to be passed on.
    pub(super) bytes: Bytes,
}

/// Reads until the hello is complete.
pub(super) async fn read_hello(socket: &mut TcpStream) -> Result<Hello, BadHello> {
    let mut acceptor = Acceptor::default();
    let mut bytes = BytesMut::new();
    loop {
        let before = bytes.len();
        if before >= LONGEST_HELLO {
            return Err(BadHello::Long);
        }
        if socket.read_buf(&mut bytes).await.unwrap_or(0) == 0 {
            return Err(if before == 0 { BadHello::Gone } else { BadHello::Short });
        }
        let mut unread = bytes.get(before..).unwrap_or_default();
        while !unread.is_empty() {
            acceptor.read_tls(&mut unread).map_err(|_| BadHello::NotTls)?;
            match acceptor.accept() {
                Ok(None) => {}
                Ok(Some(accepted)) => {
                    let name = accepted.client_hello().server_name().map(str::to_owned).ok_or(BadHello::NoName)?;
                    return Ok(Hello { name, bytes: bytes.freeze() });
                }
                Err(_) => return Err(BadHello::NotTls),
            }
        }
    }
}

/// More than any client says, also with keys that withstand quantum computers.
const LONGEST_HELLO: usize = 32 * 1024;

/// A client that cannot be passed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum BadHello {
    #[error("the client does not speak TLS")]
    NotTls,
    #[error("the client names no server")]
    NoName,
    #[error("the client names a server that is no cluster here")]
    OtherName,
    #[error("the client's first words have no end")]
    Long,
    #[error("the client took too long to say whom it wants")]
    Slow,
    #[error("the client went away before it said whom it wants")]
    Short,
    #[error("the client went away without a word")]
    Gone,
}
