//! gRPC's length-prefixed messages: one byte of flags, four of length, then the message. Cuts a byte stream into messages.

use crate::error::DecodeError;
use bytes::{Buf, Bytes, BytesMut};

/// The longest message a peer may send: a full DATA frame and its head.
pub const MAX_MESSAGE: usize = crate::MAX_PAYLOAD + 1024;

/// The prefix of every message.
pub(crate) const PREFIX: usize = 5;

/// Cuts arriving chunks into messages; a message that lies within one chunk is not copied.
#[derive(Debug, Default)]
pub struct Deframer {
    /// The beginning of a message whose rest has not come yet. Bounded by `MAX_MESSAGE + PREFIX`.
    partial: BytesMut,
    chunk: Bytes,
}

impl Deframer {
    /// Takes the next bytes of the stream. The messages of the previous chunk must have been taken out.
    pub fn push(&mut self, chunk: Bytes) {
        debug_assert!(self.chunk.is_empty(), "drain before pushing");
        self.chunk = chunk;
    }

    /// Gives the next whole message.
    pub fn next_message(&mut self) -> Result<Option<Bytes>, DecodeError> {
        if !self.partial.is_empty() {
            return self.next_joined();
        }
        let Some(len) = message_len(&self.chunk)? else {
            return Ok(self.keep_rest());
        };
        if self.chunk.len() < PREFIX + len {
            return Ok(self.keep_rest());
        }
        self.chunk.advance(PREFIX);
        Ok(Some(self.chunk.split_to(len)))
    }

    /// The case of a message that began in an earlier chunk: completes it from this one, and takes no byte more.
    fn next_joined(&mut self) -> Result<Option<Bytes>, DecodeError> {
        self.take_into_partial(PREFIX);
        let Some(len) = message_len(&self.partial)? else {
            return Ok(None);
        };
        self.take_into_partial(PREFIX + len);
        if self.partial.len() < PREFIX + len {
            return Ok(None);
        }
        let mut whole = core::mem::take(&mut self.partial).freeze();
        whole.advance(PREFIX);
        Ok(Some(whole))
    }

    fn take_into_partial(&mut self, wanted: usize) {
        let missing = wanted.saturating_sub(self.partial.len()).min(self.chunk.len());
        self.partial.reserve(wanted.saturating_sub(self.partial.len()));
        self.partial.extend_from_slice(&self.chunk.split_to(missing));
    }

    fn keep_rest(&mut self) -> Option<Bytes> {
        let rest = core::mem::take(&mut self.chunk);
        self.partial.extend_from_slice(&rest);
        None
    }
}

fn message_len(bytes: &[u8]) -> Result<Option<usize>, DecodeError> {
    let Some((&[flags, a, b, c, d], _)) = bytes.split_first_chunk::<PREFIX>() else {
        return Ok(None);
    };
    if flags != 0 {
        return Err(DecodeError("a message is compressed, which was not agreed"));
    }
    match usize::try_from(u32::from_be_bytes([a, b, c, d])) {
        Ok(len) if len <= MAX_MESSAGE => Ok(Some(len)),
        _ => Err(DecodeError("a message is larger than any frame may be")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::{vec, vec::Vec};

    #[test]
    fn any_chunking_gives_the_same_messages() {
        let messages: [&[u8]; 4] = [b"a", b"", b"hello", &[7; 300]];
        let mut wire = Vec::new();
        for m in messages {
            wire.extend_from_slice(&[0]);
            wire.extend_from_slice(&u32::try_from(m.len()).unwrap().to_be_bytes());
            wire.extend_from_slice(m);
        }
        for size in 1..wire.len() {
            let mut deframer = Deframer::default();
            let mut got = vec![];
            for chunk in wire.chunks(size) {
                deframer.push(Bytes::copy_from_slice(chunk));
                while let Some(m) = deframer.next_message().unwrap() {
                    got.push(m);
                }
            }
            assert_eq!(got, messages, "chunks of {size}");
        }
    }

    #[test]
    fn oversized_and_compressed_messages_are_refused_by_their_prefix() {
        for prefix in [[0, 0xff, 0xff, 0xff, 0xff], [1, 0, 0, 0, 1]] {
            let mut deframer = Deframer::default();
            deframer.push(Bytes::copy_from_slice(&prefix));
            assert!(deframer.next_message().is_err());
        }
    }
}
