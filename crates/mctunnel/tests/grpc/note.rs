//! The one message of the tests: numbered, and filled with bytes that follow from its number.

use bytes::Bytes;
use std::sync::LazyLock;

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Note {
    #[prost(uint64, tag = "1")]
    pub(crate) number: u64,
    #[prost(bytes = "bytes", tag = "2")]
    pub(crate) text: Bytes,
}

/// A message of up to 300 bytes.
pub(crate) fn note(number: u64) -> Note {
    sized(number, usize::try_from(number % 300).unwrap())
}

/// A message of the sixteenth part of a MiB.
pub(crate) fn sixteenth(number: u64) -> Note {
    sized(number, SIXTEENTH)
}

/// A message of a MiB.
pub(crate) fn whole(number: u64) -> Note {
    sized(number, MIB)
}

pub(crate) const SIXTEENTH: usize = MIB / 16;
const MIB: usize = 1024 * 1024;

fn sized(number: u64, len: usize) -> Note {
    let start = usize::try_from(number.wrapping_mul(7919) % u64::try_from(MIB).unwrap()).unwrap();
    Note { number, text: NOISE.slice(start..start + len) }
}

/// Two MiB in which no two places look alike.
static NOISE: LazyLock<Bytes> = LazyLock::new(|| {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let words = (0..2 * MIB / 8).flat_map(|_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state ^ (state >> 29)).to_le_bytes()
    });
    words.collect::<Vec<u8>>().into()
});
