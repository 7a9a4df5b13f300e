//! Bytes wait for their quota, in each direction and on each way, and none is lost.

use super::*;
use crate::{Admitted, Checkpoint};
use bytes::BytesMut;
use http_body_util::{BodyExt, Full, StreamBody};
use mctunnel_core::{
    Access, Action, Decision, Destination, Identity, Limit, PassThrough, Place, Protocol, Target, Unaudited,
};
use parking_lot::Mutex;
use std::{convert::Infallible, future::poll_fn, time::Duration};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, DuplexStream, copy_bidirectional, duplex},
    time::Instant,
};

/// A thousand bytes a second, without anything for free.
#[derive(Clone, Default)]
struct Slow(Arc<Mutex<Option<Instant>>>);

impl Limit for Slow {
    fn take(&self, _: &Access<'_>) -> Result<Box<dyn Place>, Decision> {
        Ok(Box::new(self.clone()))
    }
}

impl Place for Slow {
    fn moved(&self, bytes: u64) -> Duration {
        let mut paid = self.0.lock();
        let now = Instant::now();
        let until = paid.unwrap_or(now).max(now) + Duration::from_millis(bytes);
        *paid = Some(until);
        until - now
    }
}

fn slow() -> Arc<Account> {
    let checkpoint = Checkpoint::new(Arc::new(PassThrough), Arc::new(PassThrough), Arc::new(Unaudited));
    let checkpoint = checkpoint.with_limit(Arc::new(Slow::default()));
    let recording = checkpoint.record("test", "r").unwrap();
    let destination = Destination { cluster: "c1".parse().unwrap(), target: Target::KubeApi };
    let (identity, action, protocol) = (Identity::Anonymous, Action::Bytes, Protocol::tcp());
    let admitted = Admitted { identity, as_of: 0, destination, action, protocol, source: None };
    Arc::new(Account::new(checkpoint.admit(admitted, &recording).unwrap()))
}

/// One end of a pipe, as a stream.
#[derive(Debug)]
struct Piped(DuplexStream);

impl ByteStream for Piped {
    fn poll_read_bytes(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Option<Bytes>>> {
        let mut bytes = BytesMut::zeroed(1000);
        let mut buffer = ReadBuf::new(&mut bytes);
        ready!(Pin::new(&mut self.0).poll_read(cx, &mut buffer))?;
        let read = buffer.filled().len();
        bytes.truncate(read);
        Poll::Ready(Ok((read > 0).then(|| bytes.freeze())))
    }

    fn poll_write_capacity(&mut self, _: &mut Context<'_>) -> Poll<io::Result<usize>> {
        Poll::Ready(Ok(1000))
    }

    fn poll_write_bytes(&mut self, cx: &mut Context<'_>, bytes: &mut Bytes) -> Poll<io::Result<()>> {
        let front = bytes.len().min(1000);
        let written = ready!(Pin::new(&mut self.0).poll_write(cx, bytes.get(..front).unwrap_or_default()))?;
        drop(bytes.split_to(written));
        Poll::Ready(Ok(()))
    }

    fn poll_cut(&mut self, _: &mut Context<'_>) -> Poll<()> {
        Poll::Pending
    }

    fn abort(&mut self) {}
}

impl AsyncRead for Piped {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Piped {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

/// Bytes that are all different in their place.
fn pattern(count: usize) -> Vec<u8> {
    (0..count).map(|at| u8::try_from(at % 251).unwrap()).collect()
}

/// Between the seconds that bytes cost, and one more chunk of them.
fn took(begun: Instant, bytes: u64) {
    let (least, most) = (Duration::from_millis(bytes - 1000), Duration::from_millis(bytes + 1000));
    let took = begun.elapsed();
    assert!((least..=most).contains(&took), "{bytes} bytes took {took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_splice_goes_at_the_pace_of_its_quota_both_ways() {
    for is_up in [true, false] {
        let (near, mut far) = duplex(1 << 20);
        let mut metered = Metered::new(Piped(near), &slow(), 0);
        let begun = Instant::now();
        let sent = pattern(10_000);
        let arrived = if is_up {
            let mut bytes = Bytes::from(sent.clone());
            while !bytes.is_empty() {
                poll_fn(|cx| metered.poll_write_capacity(cx)).await.unwrap();
                poll_fn(|cx| metered.poll_write_bytes(cx, &mut bytes)).await.unwrap();
            }
            metered.shutdown().await.unwrap();
            took(begun, 10_000);
            let mut arrived = Vec::new();
            far.read_to_end(&mut arrived).await.unwrap();
            arrived
        } else {
            far.write_all(&sent).await.unwrap();
            drop(far);
            let mut arrived = Vec::new();
            while let Some(bytes) = poll_fn(|cx| metered.poll_read_bytes(cx)).await.unwrap() {
                arrived.extend_from_slice(&bytes);
            }
            took(begun, 10_000);
            arrived
        };
        assert_eq!(arrived, sent, "up: {is_up}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_upgraded_request_goes_at_the_pace_of_its_quota_both_ways() {
    let (near, mut far) = duplex(1 << 20);
    let (mut client, mut served) = duplex(1 << 20);
    let mut metered = Metered::new(Piped(near), &slow(), 0);
    let begun = Instant::now();
    client.write_all(&pattern(5_000)).await.unwrap();
    client.shutdown().await.unwrap();
    far.write_all(&pattern(4_000)).await.unwrap();
    far.shutdown().await.unwrap();
    assert_eq!(copy_bidirectional(&mut served, &mut metered).await.unwrap(), (5_000, 4_000));
    // Large pieces: each direction may be one piece ahead of its time.
    assert!(begun.elapsed() >= Duration::from_secs(4), "{:?}", begun.elapsed());
    drop((served, metered));
    let (mut up, mut down) = (Vec::new(), Vec::new());
    far.read_to_end(&mut up).await.unwrap();
    client.read_to_end(&mut down).await.unwrap();
    assert_eq!((up, down), (pattern(5_000), pattern(4_000)));
}

#[tokio::test(start_paused = true)]
async fn what_went_with_the_opening_is_counted_too() {
    let (near, _far) = duplex(1 << 20);
    let mut metered = Metered::new(Piped(near), &slow(), 7_000);
    let begun = Instant::now();
    poll_fn(|cx| metered.poll_write_capacity(cx)).await.unwrap();
    took(begun, 7_000);
}

#[tokio::test(start_paused = true)]
async fn the_body_of_a_request_goes_at_the_pace_of_its_quota() {
    let parts = (0..10).map(|_| Ok::<_, Infallible>(Frame::data(Bytes::from(pattern(1_000)))));
    let body = StreamBody::new(futures_util::stream::iter(parts));
    let begun = Instant::now();
    let arrived = MeteredBody::new(body, &slow()).collect().await.unwrap().to_bytes();
    took(begun, 10_000);
    assert_eq!(arrived, pattern(1_000).repeat(10));
    // Nobody waits where there is no permit.
    let begun = Instant::now();
    MeteredBody::new(Full::new(Bytes::from(pattern(10_000))), &Arc::default()).collect().await.unwrap();
    assert!(begun.elapsed().is_zero());
}
