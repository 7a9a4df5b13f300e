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
