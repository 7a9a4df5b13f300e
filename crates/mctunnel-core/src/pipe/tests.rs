//! What arrives when one side, or one direction of it, gives up.

use super::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex, join, repeat};

/// Takes nothing: whoever reads there is gone.
struct Gone;

impl AsyncWrite for Gone {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, _: &[u8]) -> Poll<io::Result<usize>> {
        Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()))
    }
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// Gives some bytes and then breaks.
struct Breaking(usize);

impl AsyncRead for Breaking {
    fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.0 == 0 {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        let length = this.0.min(buf.remaining());
        buf.put_slice(&vec![b'b'; length]);
        this.0 -= length;
        Poll::Ready(Ok(()))
    }
}

const LENGTH: u64 = 1_000_000;

/// Reads all of it, through a small pipe; gives how long it was.
async fn read_slowly(mut from: tokio::io::DuplexStream) -> u64 {
    let (mut length, mut chunk) = (0, [0; 700]);
    loop {
        match from.read(&mut chunk).await.unwrap() {
            0 => return length,
            read => length += read as u64,
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn bytes_go_both_ways_and_each_end_is_passed_on() {
    let ((mut left, mut one), (mut other, mut right)) = (duplex(100), duplex(100));
    let far = async {
        left.write_all(&[b'l'; 5000]).await.unwrap();
        left.shutdown().await.unwrap();
        read_slowly(left).await
    };
    let near = async {
        let mut got = Vec::new();
        right.read_to_end(&mut got).await.unwrap();
        assert_eq!(got, [b'l'; 5000], "the other direction is still open");
        right.write_all(&[b'r'; 3000]).await.unwrap();
        drop(right);
    };
    let (piped, back, ()) = tokio::join!(pipe(&mut one, &mut other), far, near);
    assert_eq!(back, 3000);
    assert_eq!(piped.up, Way { bytes: 5000, is_whole: true });
    assert_eq!(piped.down, Way { bytes: 3000, is_whole: true });
    assert!(piped.error.is_none());
}

/// A server that has said all it had to say does not read what its client still sends.
#[tokio::test]
async fn what_a_peer_has_said_is_delivered_though_it_takes_nothing_more() {
    let mut target = join(repeat(b't').take(LENGTH), Gone);
    let (sending, slow) = duplex(1000);
    let mut stream = join(repeat(b's'), sending);
    let piped = async {
        let piped = pipe(&mut target, &mut stream).await;
        drop(stream);
        piped
    };
    let (piped, length) = tokio::join!(piped, read_slowly(slow));
    assert_eq!(length, LENGTH);
    assert_eq!(piped.up, Way { bytes: LENGTH, is_whole: true });
    assert!(!piped.down.is_whole);
    assert_eq!(piped.error.unwrap().kind(), io::ErrorKind::BrokenPipe);
}

#[tokio::test]
async fn what_came_before_a_break_is_delivered_and_the_break_is_told() {
    let mut target = join(Breaking(100_000), tokio::io::sink());
    let (sending, slow) = duplex(1000);
    let mut stream = join(tokio::io::empty(), sending);
    let piped = async {
        let piped = pipe(&mut target, &mut stream).await;
        drop(stream);
        piped
    };
    let (piped, length) = tokio::join!(piped, read_slowly(slow));
    assert_eq!((length, piped.up), (100_000, Way { bytes: 100_000, is_whole: false }));
    assert_eq!(piped.error.unwrap().kind(), io::ErrorKind::ConnectionReset);
}

#[tokio::test]
async fn a_pipe_that_is_told_to_stop_says_why_and_what_it_moved() {
    let ((mut left, mut one), (mut other, mut right)) = (duplex(100), duplex(100));
    let (stop, stopped) = tokio::sync::oneshot::channel();
    let stopped = async { stopped.await.unwrap() };
    let far = async {
        left.write_all(b"four").await.unwrap();
        let mut got = [0; 4];
        right.read_exact(&mut got).await.unwrap();
        stop.send(io::Error::other("enough")).unwrap();
        // Both are open, and nobody says anything more.
        (left, right)
    };
    let (piped, _open) = tokio::join!(pipe_until(&mut one, &mut other, stopped), far);
    assert_eq!((piped.up, piped.down), (Way { bytes: 4, is_whole: false }, Way::default()));
    assert_eq!(piped.error.unwrap().to_string(), "enough");
}
