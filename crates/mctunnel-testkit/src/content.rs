//! What streams carry: bytes that follow from stream, direction and position, so that a lost, repeated or misplaced byte shows.

use crate::rng::Rng;
use bytes::Bytes;
use mctunnel_mux::StreamId;
use std::sync::OnceLock;

/// The bytes repeat after this many: a prime, so that no window or frame size is a multiple of it.
const PERIOD: usize = 65_521;

static BLOCK: OnceLock<Bytes> = OnceLock::new();

/// The endless content of one direction of one stream.
#[derive(Debug, Clone, Copy)]
pub struct Content {
    start: u64,
}

impl Content {
    /// What the opener sends on the stream, or what the other side does.
    #[must_use]
    pub fn of(stream: StreamId, from_opener: bool) -> Self {
        let key = stream.get().wrapping_mul(2).wrapping_add(u64::from(from_opener));
        Self { start: Rng::new(key).word() >> 1 }
    }

    /// Up to `len` bytes from a position on; fewer when they do not lie together.
    #[must_use]
    pub fn slice(&self, position: u64, len: usize) -> Bytes {
        let period = u64::try_from(PERIOD).unwrap_or(u64::MAX);
        let start = usize::try_from(self.start.wrapping_add(position) % period).unwrap_or(0);
        block().slice(start..start + len.min(PERIOD))
    }

    /// Whether these are the bytes at the position.
    #[must_use]
    pub fn matches(&self, mut position: u64, mut bytes: &[u8]) -> bool {
        while !bytes.is_empty() {
            let expected = self.slice(position, bytes.len());
            let Some(rest) = bytes.strip_prefix(expected.as_ref()) else { return false };
            position += u64::try_from(expected.len()).unwrap_or(u64::MAX);
            bytes = rest;
        }
        true
    }
}

/// Two periods in one buffer, so that a slice of a whole period starts anywhere.
fn block() -> &'static Bytes {
    BLOCK.get_or_init(|| Rng::new(0).bytes(PERIOD).repeat(2).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_repeated_or_foreign_byte_shows() {
        let content = Content::of(7.into(), true);
        let mut whole = content.slice(0, PERIOD).to_vec();
        whole.extend_from_slice(&content.slice(u64::try_from(PERIOD).unwrap(), 100));
        assert!(content.matches(0, &whole) && content.matches(10, &whole[10..]));
        assert!(!content.matches(0, &whole[1..]) && !content.matches(1, &whole));
        assert!(!Content::of(7.into(), false).matches(0, &whole[..100]));
        assert!(!Content::of(9.into(), true).matches(0, &whole[..100]));
    }
}
