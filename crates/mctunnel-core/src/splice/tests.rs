//! What the other end had finished is delivered, although it takes nothing more.

use super::*;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf},
    net::{TcpListener, TcpStream},
};

/// A stream whose other end sent this much, finished, and then cut our direction.
struct Answered(usize);

const PIECE: usize = 64 * 1024;

impl ByteStream for Answered {
    fn poll_read_bytes(&mut self, _: &mut Context<'_>) -> Poll<io::Result<Option<Bytes>>> {
        let len = self.0.min(PIECE);
        self.0 -= len;
        Poll::Ready(Ok((len > 0).then(|| Bytes::from(vec![7; len]))))
    }
    fn poll_write_capacity(&mut self, _: &mut Context<'_>) -> Poll<io::Result<usize>> {
        Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()))
    }
    fn poll_write_bytes(&mut self, _: &mut Context<'_>, _: &mut Bytes) -> Poll<io::Result<()>> {
        Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()))
    }
    fn poll_cut(&mut self, _: &mut Context<'_>) -> Poll<()> {
        Poll::Pending
    }

    fn abort(&mut self) {}
}

impl AsyncRead for Answered {
    fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, _: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Err(io::ErrorKind::Unsupported.into()))
    }
}

impl AsyncWrite for Answered {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, _: &[u8]) -> Poll<io::Result<usize>> {
        Poll::Ready(Err(io::ErrorKind::Unsupported.into()))
    }
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

#[tokio::test]
async fn a_finished_answer_is_delivered_whole_though_our_direction_is_cut() {
    // More than the sockets hold, so that it is still under way when the cut is noticed.
    let answer = 32 * 1024 * 1024;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (client, served) = tokio::join!(TcpStream::connect(listener.local_addr().unwrap()), listener.accept());
    let (mut client, (served, _)) = (client.unwrap(), served.unwrap());
    let mut got = Vec::new();
    let (read, spliced) = tokio::join!(client.read_to_end(&mut got), splice(served, Answered(answer)));
    assert_eq!(read.unwrap(), answer, "every byte, then a clean end");
    assert_eq!(spliced.bytes_down, u64::try_from(answer).unwrap());
    assert!(spliced.error.is_some(), "and the cut is reported");
}
