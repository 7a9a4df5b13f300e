//! How many exchanges a target takes on one HTTP/2 connection at once. It says so in the first frame it sends, which is read as it goes
//! by: the HTTP/2 library keeps what is too much waiting, and does not say that it does.

use mctunnel_core::h2_meter::{Scanner, Seen};
use std::{
    io::{self, IoSlice},
    pin::Pin,
    task::{Context, Poll, ready},
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    sync::oneshot,
};

const SETTINGS: u8 = 4;
const MAX_CONCURRENT_STREAMS: u16 = 3;
/// Bytes of one setting.
const SETTING: u32 = 6;

/// A connection of which no byte was read, and how many streams its peer takes, once that is known. `None` is any number.
pub(super) fn first_settings<IO>(io: IO) -> (FirstSettings<IO>, oneshot::Receiver<Option<u32>>) {
    let (tell, told) = oneshot::channel();
    let listening = Listening { scanner: Scanner::default(), left: None, streams: None, tell };
    (FirstSettings { io, listening: Some(listening) }, told)
}

/// A connection whose first frame is looked at, and nothing behind it.
pub(super) struct FirstSettings<IO> {
    io: IO,
    listening: Option<Listening>,
}

struct Listening {
    scanner: Scanner,
    /// Settings that are still to come.
    left: Option<u32>,
    streams: Option<u32>,
    tell: oneshot::Sender<Option<u32>>,
}

impl Listening {
    /// Goes on with the next bytes; gives itself back while there is more to come.
    fn hear(mut self, bytes: &[u8]) -> Option<Self> {
        let Self { scanner, left, streams, .. } = &mut self;
        scanner.scan(bytes, |seen| match (seen, *left) {
            (Seen::Frame { kind: SETTINGS, length, .. }, None) => *left = Some(length / SETTING),
            // No server begins so; the library ends the connection.
            (Seen::Frame { .. }, None) => *left = Some(0),
            (Seen::Setting { id, value }, Some(more @ 1..)) => {
                *left = Some(more - 1);
                if id == MAX_CONCURRENT_STREAMS {
                    *streams = Some(value);
                }
            }
            _ => {}
        });
        if self.left != Some(0) {
            return Some(self);
        }
        // Nobody waits for it when the dial was given up.
        let _ = self.tell.send(self.streams);
        None
    }
}

impl<IO: AsyncRead + Unpin> AsyncRead for FirstSettings<IO> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buffer.filled().len();
        ready!(Pin::new(&mut this.io).poll_read(cx, buffer))?;
        if let Some(listening) = this.listening.take() {
            this.listening = listening.hear(buffer.filled().get(before..).unwrap_or_default());
        }
        Poll::Ready(Ok(()))
    }
}

impl<IO: AsyncWrite + Unpin> AsyncWrite for FirstSettings<IO> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().io).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().io).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().io).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().io).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    /// What is told of these bytes, which come in pieces of any size and arrive unchanged.
    async fn told(bytes: &[u8]) -> Option<Option<u32>> {
        let mut answer = None;
        for size in 1..=bytes.len() {
            let (near, mut far) = tokio::io::duplex(size);
            let (mut near, mut told) = first_settings(near);
            let mut read = Vec::new();
            let write = async {
                far.write_all(bytes).await.unwrap();
                drop(far);
            };
            let (_, all) = tokio::join!(write, near.read_to_end(&mut read));
            assert_eq!((all.unwrap(), &*read), (bytes.len(), bytes));
            let now = told.try_recv().ok();
            assert!(size == 1 || now == answer, "{size}");
            answer = now;
        }
        answer
    }

    #[tokio::test]
    async fn the_first_settings_are_told_however_they_come() {
        let head = |length| [0, 0, length, SETTINGS, 0, 0, 0, 0, 0];
        let (window, streams) = ([0, 4, 0, 0, 255, 255], [0, 3, 0, 0, 0, 2]);
        assert_eq!(told(&[&head(12)[..], &window, &streams].concat()).await, Some(Some(2)));
        assert_eq!(told(&[&head(6)[..], &window].concat()).await, Some(None));
        assert_eq!(told(&head(0)).await, Some(None));
        let later = [&head(0)[..], &head(6), &streams].concat();
        assert_eq!(told(&later).await, Some(None), "only the first are looked at");
        assert_eq!(told(&[&head(12)[..], &window].concat()).await, None, "half of them");
        assert_eq!(told(b"HTTP/1.1 400 Bad Request\r\n\r\n").await, Some(None));
    }
}
