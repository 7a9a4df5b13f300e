//! Reads the head of a request: checks each byte once as it comes, and keeps what follows the head. It does not parse it.

use super::Refusal;
use bytes::{BufMut, Bytes, BytesMut};
use mctunnel_core::splice::SpliceSocket;
use tokio::io::AsyncReadExt;

/// A complete head and the bytes that came right behind it.
#[derive(Debug)]
pub(super) struct Head {
    /// Up to and including the empty line.
    pub(super) text: BytesMut,
    /// What the client sent already without waiting for our answer; at most [`LARGEST_READ`] bytes, the rest is in the socket.
    pub(super) rest: Bytes,
}

/// Reads a head of at most `limit` bytes. `Ok(None)` when the client went away or never said anything.
pub(super) async fn read_head<T: SpliceSocket>(socket: &mut T, limit: usize) -> Result<Option<Head>, Refusal> {
    // Nothing is allocated for a client that is silent. With TLS the handshake may have brought the head along.
    if T::PLAIN && socket.tcp().readable().await.is_err() {
        return Ok(None);
    }
    let mut text = BytesMut::new();
    let mut scanner = Scanner::default();
    loop {
        let room = limit.saturating_sub(text.len());
        if room == 0 {
            return Err(Refusal::LongHead { limit });
        }
        let size = text.len().clamp(FIRST_READ, LARGEST_READ).min(room);
        text.reserve(size);
        match socket.read_buf(&mut (&mut text).limit(size)).await {
            Ok(0) if text.is_empty() => return Ok(None),
            Ok(0) => return Err(Refusal::BadHead("it ends before the empty line")),
            Ok(_) => {}
            Err(_) => return Ok(None),
        }
        if let Some(end) = scanner.scan(&text)? {
            let rest = if end == text.len() { Bytes::new() } else { text.split_off(end).freeze() };
            return Ok(Some(Head { text, rest }));
        }
    }
}

/// Enough for a usual head and a TLS client's first words behind it.
const FIRST_READ: usize = 1024;
/// No read is larger, so no more than this can follow the head in the buffer.
const LARGEST_READ: usize = 16 * 1024;

// === Scanner ===

/// Looks for the empty line, and refuses what some parser might take for one: bare CR or LF, control characters, non-ASCII.
#[derive(Debug, Default)]
struct Scanner {
    scanned: usize,
    after_cr: bool,
    line_ends: u8,
}

impl Scanner {
    /// Scans what is new in `text`; gives where the head ends.
    fn scan(&mut self, text: &[u8]) -> Result<Option<usize>, Refusal> {
        for byte in text.iter().skip(self.scanned) {
            self.scanned += 1;
            match (byte, self.after_cr) {
                (b'\n', true) => {
                    self.line_ends += 1;
                    if self.line_ends == 2 {
                        return Ok(Some(self.scanned));
                    }
                }
                (_, true) => return Err(Refusal::BadHead("a CR without LF")),
                (b'\n', false) => return Err(Refusal::BadHead("a LF without CR")),
                (b'\r', false) if self.scanned == 1 => {
                    return Err(Refusal::BadHead("it begins with an empty line"));
                }
                (b'\r', false) => {}
                (b'\t' | b' '..=b'~', false) => self.line_ends = 0,
                (0x80.., false) => return Err(Refusal::BadHead("a byte that is not ASCII")),
                (_, false) => return Err(Refusal::BadHead("a control character")),
            }
            self.after_cr = *byte == b'\r';
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        io,
        pin::Pin,
        task::{Context, Poll},
    };
    use tokio::{
        io::{AsyncRead, AsyncWrite, ReadBuf},
        net::TcpStream,
    };

    /// A client whose bytes come in these pieces, and then no more.
    struct Pieces(Vec<Vec<u8>>);

    impl AsyncRead for Pieces {
        fn poll_read(mut self: Pin<&mut Self>, _: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
            if let Some(piece) = self.0.first_mut() {
                let rest = piece.split_off(piece.len().min(into.remaining()));
                into.put_slice(piece);
                *piece = rest;
            }
            self.0.retain(|piece| !piece.is_empty());
            Poll::Ready(Ok(()))
        }
    }

    impl AsyncWrite for Pieces {
        fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
            Poll::Ready(Ok(bytes.len()))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    impl SpliceSocket for Pieces {
        const PLAIN: bool = false;

        fn tcp(&self) -> &TcpStream {
            panic!("there is no connection below")
        }
    }

    #[tokio::test]
    async fn a_head_has_its_limit_however_it_comes() {
        let head = format!("CONNECT a:1 HTTP/1.1\r\nx: {}\r\n\r\n", "y".repeat(2000)).into_bytes();
        for first in [1, 20, 1024, 1500, head.len() - 1, head.len()] {
            let (one, other) = head.split_at(first);
            let pieces = || Pieces(vec![one.to_vec(), [other, b"more"].concat()]);
            let limit = head.len() - 1;
            assert_eq!(read_head(&mut pieces(), limit).await.unwrap_err(), Refusal::LongHead { limit }, "{first}");
            let read = read_head(&mut pieces(), head.len() + 4).await.unwrap().unwrap();
            assert!(read.text == head && b"more".starts_with(&read.rest), "{first}");
        }
    }

    #[test]
    fn the_end_is_found_however_the_head_is_cut() {
        let text = b"CONNECT a:1 HTTP/1.1\r\nx: y\r\n\r\n\r\n\xff\0rest";
        let end = text.len() - b"\r\n\xff\0rest".len();
        for cut in 0..end {
            let mut scanner = Scanner::default();
            assert_eq!(scanner.scan(&text[..cut]), Ok(None), "cut at {cut}");
            assert_eq!(scanner.scan(text), Ok(Some(end)), "cut at {cut}");
        }
    }

    #[test]
    fn other_line_ends_and_bytes_are_refused() {
        for bad in ["\r\nGET", "a\n", "a\rb", "a\r\r\n", "a\0", "a\x7f", "a\x1b", "é", "\x16\x03\x01", "\n", "a\r\n\n"]
        {
            assert!(Scanner::default().scan(bad.as_bytes()).is_err(), "{bad:?}");
        }
    }
}
