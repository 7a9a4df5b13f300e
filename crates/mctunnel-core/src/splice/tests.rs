//! What one end had finished is delivered, although it takes nothing more.

use super::*;
use parking_lot::Mutex;
use std::sync::Arc;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf},
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

/// A stream whose other end sends without end, and takes a little at a time.
#[derive(Default)]
struct Talking {
    taken: Arc<Mutex<Taken>>,
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Taken {
    bytes: usize,
    is_finished: bool,
    is_aborted: bool,
}

impl ByteStream for Talking {
    fn poll_read_bytes(&mut self, _: &mut Context<'_>) -> Poll<io::Result<Option<Bytes>>> {
        Poll::Ready(Ok(Some(Bytes::from_static(&[7; PIECE]))))
    }
    fn poll_write_capacity(&mut self, _: &mut Context<'_>) -> Poll<io::Result<usize>> {
        Poll::Ready(Ok(1000))
    }
    fn poll_write_bytes(&mut self, _: &mut Context<'_>, bytes: &mut Bytes) -> Poll<io::Result<()>> {
        self.taken.lock().bytes += bytes.split_to(bytes.len().min(1000)).len();
        Poll::Ready(Ok(()))
    }
    fn poll_cut(&mut self, _: &mut Context<'_>) -> Poll<()> {
        Poll::Pending
    }
    fn abort(&mut self) {
        self.taken.lock().is_aborted = true;
    }
}

impl AsyncRead for Talking {
    fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, _: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Err(io::ErrorKind::Unsupported.into()))
    }
}

impl AsyncWrite for Talking {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, _: &[u8]) -> Poll<io::Result<usize>> {
        Poll::Ready(Err(io::ErrorKind::Unsupported.into()))
    }
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.taken.lock().is_finished = true;
        Poll::Ready(Ok(()))
    }
}

#[tokio::test]
async fn what_a_target_said_before_it_closed_is_delivered_though_it_takes_nothing_more() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (target, dialled) = tokio::join!(TcpStream::connect(listener.local_addr().unwrap()), listener.accept());
    let (mut target, (dialled, _)) = (target.unwrap(), dialled.unwrap());
    target.write_all(&[1; 30_000]).await.unwrap();
    target.shutdown().await.unwrap();
    drop(target);
    let stream = Talking::default();
    let taken = Arc::clone(&stream.taken);
    let spliced = splice(dialled, stream).await;
    assert!(matches!(spliced.error, Some(SpliceError::SocketWrite(_))), "{:?}", spliced.error);
    assert_eq!(*taken.lock(), Taken { bytes: 30_000, is_finished: true, is_aborted: false });
}
