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

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::{io::AsyncWriteExt, net::TcpListener};

    /// What is read of a client that says this and no more.
    async fn read(said: &[u8]) -> Result<Hello, BadHello> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (mut socket, _) = listener.accept().await.unwrap();
        let say = async {
            // Who has heard enough does not hear the rest.
            let _ = client.write_all(said).await;
            let _ = client.shutdown().await;
        };
        tokio::join!(read_hello(&mut socket), say).0
    }

    /// Records of a hello that says it is longer than any may be.
    fn endless() -> Vec<u8> {
        const RECORD: usize = 0x4000;
        let mut hello = vec![1, 0, 0xff, 0xf0];
        hello.resize(4 * RECORD, 0);
        hello.chunks(RECORD).flat_map(|part| [&[22, 3, 1, 0x40, 0], part].concat()).collect()
    }

    #[tokio::test]
    async fn a_hello_has_an_end() {
        let endless = endless();
        for (length, bad) in [
            (0, BadHello::Gone),
            (1, BadHello::Short),
            (2, BadHello::Short),
            (LONGEST_HELLO - 1, BadHello::Short),
            (LONGEST_HELLO, BadHello::Long),
            (endless.len(), BadHello::Long),
        ] {
            assert_eq!(read(&endless[..length]).await.unwrap_err(), bad, "{length}");
        }
        assert_eq!(read(b"GET / HTTP/1.1\r\n\r\n").await.unwrap_err(), BadHello::NotTls);
    }
}
