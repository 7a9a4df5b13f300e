//! The messages of `report.proto` but the batch, and how messages are cut out of a stream. Reading can be given up at any point and
//! taken up again: what had arrived stays.

use bytes::{Buf, Bytes, BytesMut};
use prost::Message;
use std::{io, time::Duration};
use tokio::{
    io::{AsyncRead, AsyncReadExt},
    time::{Instant, timeout_at},
};

/// The most bytes of a message that is not a batch.
pub(crate) const MOST_SMALL: usize = 4096;

/// How long a message may take from its first byte to its last: the largest at 9 KiB a second. Who stops in between has us keep
/// what has come.
pub(crate) const MOST_TIME: Duration = Duration::from_secs(120);

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Hello {
    #[prost(bytes = "bytes", tag = "1")]
    pub(crate) spool: Bytes,
    #[prost(string, tag = "2")]
    pub(crate) kind: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Wanted {
    #[prost(uint64, tag = "1")]
    pub(crate) next: u64,
    #[prost(string, tag = "2")]
    pub(crate) problem: String,
}

/// Cuts messages out of a stream.
#[derive(Debug)]
pub(crate) struct Messages<R> {
    io: R,
    buffer: BytesMut,
    /// When the message that is coming was begun.
    begun: Option<Instant>,
}

impl<R: AsyncRead + Unpin> Messages<R> {
    pub(crate) fn new(io: R) -> Self {
        Self { io, buffer: BytesMut::new(), begun: None }
    }

    /// We do not read for a while: that is not the other side's fault.
    pub(crate) fn pause(&mut self) {
        self.begun = None;
    }

    /// The next message, of at most so many bytes; `None` at a clean end between two. Cancel safe.
    pub(crate) async fn next<M: Message + Default>(&mut self, most: usize) -> io::Result<Option<M>> {
        loop {
            if let Some(bytes) = self.whole(most)? {
                self.begun = None;
                return M::decode(bytes).map(Some).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error));
            }
            if self.read().await? == 0 {
                let cut = || io::Error::new(io::ErrorKind::UnexpectedEof, "the stream ended inside a message");
                return if self.buffer.is_empty() { Ok(None) } else { Err(cut()) };
            }
        }
    }

    async fn read(&mut self) -> io::Result<usize> {
        if self.buffer.is_empty() {
            return self.io.read_buf(&mut self.buffer).await;
        }
        let begun = *self.begun.get_or_insert_with(Instant::now);
        let late = |_| io::Error::new(io::ErrorKind::TimedOut, "a message was begun and not finished in time");
        timeout_at(begun + MOST_TIME, self.io.read_buf(&mut self.buffer)).await.map_err(late)?
    }

    /// A message that has arrived as a whole.
    fn whole(&mut self, most: usize) -> io::Result<Option<Bytes>> {
        let Some((len, head)) = length(&self.buffer)? else { return Ok(None) };
        if len > most {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!("a message of {len} bytes, {most} are allowed"),
            ));
        }
        if self.buffer.len() - head < len {
            self.buffer.reserve(head + len - self.buffer.len());
            return Ok(None);
        }
        self.buffer.advance(head);
        Ok(Some(self.buffer.split_to(len).freeze()))
    }
}

/// The length in front of a message and how many bytes it takes, once it is there.
fn length(buffer: &[u8]) -> io::Result<Option<(usize, usize)>> {
    let mut len = 0;
    // Five groups of seven bits are more than any message may have.
    for (index, byte) in buffer.iter().take(5).enumerate() {
        len |= usize::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            return Ok(Some((len, index + 1)));
        }
    }
    if buffer.len() < 5 { Ok(None) } else { Err(io::Error::new(io::ErrorKind::InvalidData, "a length is none")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncWriteExt as _;

    #[tokio::test]
    async fn messages_come_out_as_they_went_in_however_they_are_cut() {
        let sent: Vec<Wanted> =
            [0, 1, 127, 128, 70_000, u64::MAX].map(|next| Wanted { next, problem: "x".repeat(200) }).into();
        let bytes: Vec<u8> = sent.iter().flat_map(Message::encode_length_delimited_to_vec).collect();
        for chunk in [1, 2, 3, 7, 64, bytes.len()] {
            let mut mock = tokio::io::join(Chunks { bytes: &bytes, chunk }, tokio::io::sink());
            let mut messages = Messages::new(&mut mock);
            for message in &sent {
                assert_eq!(messages.next::<Wanted>(MOST_SMALL).await.unwrap().as_ref(), Some(message));
            }
            assert_eq!(messages.next::<Wanted>(MOST_SMALL).await.unwrap(), None);
        }
    }

    #[tokio::test]
    async fn a_message_that_is_too_long_or_cut_is_an_error() {
        let long = Wanted { next: 1, problem: "x".repeat(MOST_SMALL) }.encode_length_delimited_to_vec();
        let whole = Wanted { next: 1, problem: String::new() }.encode_length_delimited_to_vec();
        for bytes in [long.as_slice(), &whole[..whole.len() - 1], &[0xff; 9], &[0x80]] {
            assert!(Messages::new(bytes).next::<Wanted>(MOST_SMALL).await.is_err(), "{bytes:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn t40_a_message_that_is_begun_is_finished_in_time_or_given_up() {
        let whole = Wanted { next: 7, problem: "x".repeat(200) }.encode_length_delimited_to_vec();
        let (mut slow, io) = tokio::io::duplex(1 << 10);
        let mut messages = Messages::new(io);
        // Between two messages there is all the time in the world.
        let quiet = tokio::time::timeout(MOST_TIME * 9, messages.next::<Wanted>(MOST_SMALL)).await;
        assert!(quiet.is_err());
        let began = Instant::now();
        let trickling = async {
            for byte in &whole {
                slow.write_all(&[*byte]).await.unwrap();
                // tidy: sleep because the clock is paused, and moves when everybody waits
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        };
        let (heard, ()) = tokio::join!(messages.next::<Wanted>(MOST_SMALL), trickling);
        assert_eq!(heard.unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert!(began.elapsed() >= MOST_TIME, "{:?}", began.elapsed());
    }

    /// Gives a few bytes at a time.
    struct Chunks<'a> {
        bytes: &'a [u8],
        chunk: usize,
    }

    impl AsyncRead for Chunks<'_> {
        fn poll_read(
            mut self: std::pin::Pin<&mut Self>,
            _: &mut std::task::Context<'_>,
            out: &mut tokio::io::ReadBuf<'_>,
        ) -> std::task::Poll<io::Result<()>> {
            let (now, rest) = self.bytes.split_at(self.chunk.min(self.bytes.len()).min(out.remaining()));
            out.put_slice(now);
            self.bytes = rest;
            std::task::Poll::Ready(Ok(()))
        }
    }
}
