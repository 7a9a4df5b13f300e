//! The messages of `http.proto` as prost sees them. Names and values stay slices of the buffer they arrived in.

use bytes::{Bytes, BytesMut};
use prost::Message;

#[derive(Clone, PartialEq, Message)]
pub(crate) struct RequestHead {
    #[prost(bytes = "bytes", tag = "1")]
    pub(crate) method: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    pub(crate) path: Bytes,
    #[prost(bytes = "bytes", tag = "3")]
    pub(crate) authority: Bytes,
    #[prost(message, repeated, tag = "4")]
    pub(crate) fields: Vec<Field>,
    #[prost(uint32, tag = "5")]
    pub(crate) body: u32,
    #[prost(bool, tag = "6")]
    pub(crate) upgrade: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Field {
    #[prost(bytes = "bytes", tag = "1")]
    pub(crate) name: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    pub(crate) value: Bytes,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Answer {
    #[prost(message, tag = "1")]
    pub(crate) head: Option<ResponseHead>,
    #[prost(message, tag = "2")]
    pub(crate) failure: Option<Failure>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ResponseHead {
    #[prost(uint32, tag = "1")]
    pub(crate) status: u32,
    #[prost(message, repeated, tag = "2")]
    pub(crate) fields: Vec<Field>,
    #[prost(uint32, tag = "3")]
    pub(crate) body: u32,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Failure {
    #[prost(uint32, tag = "1")]
    pub(crate) code: u32,
    #[prost(string, tag = "2")]
    pub(crate) message: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Trailers {
    #[prost(message, repeated, tag = "1")]
    pub(crate) fields: Vec<Field>,
}

/// The message with its length in front.
pub(crate) fn delimited(message: &impl Message) -> Bytes {
    message.encode_length_delimited_to_vec().into()
}

/// What stands in front of the data of a chunk.
pub(crate) fn put_data_head(out: &mut BytesMut, len: usize) {
    put_varint(out, 1 + varint_len(len) + len);
    out.extend_from_slice(&[DATA]);
    put_varint(out, len);
}

/// The chunk that carries trailers.
pub(crate) fn trailers_chunk(trailers: &Trailers) -> Bytes {
    let len = trailers.encoded_len();
    let mut out = BytesMut::with_capacity(len + 16);
    put_varint(&mut out, 1 + varint_len(len) + len);
    out.extend_from_slice(&[TRAILERS]);
    put_varint(&mut out, len);
    out.extend_from_slice(&trailers.encode_to_vec());
    out.freeze()
}

/// Field 1 of `Chunk`, length-delimited.
pub(crate) const DATA: u8 = 0x0a;
/// Field 2 of `Chunk`, length-delimited.
pub(crate) const TRAILERS: u8 = 0x12;

/// What stands in front of a chunk's content, once all of it is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ChunkHead {
    /// [`DATA`] or [`TRAILERS`].
    pub(crate) kind: u8,
    /// Bytes of content.
    pub(crate) len: usize,
    /// Bytes of this head.
    pub(crate) size: usize,
}

/// Reads a chunk's head from the front of `bytes`; `Ok(None)` when more bytes are needed.
pub(crate) fn read_chunk_head(bytes: &[u8]) -> Result<Option<ChunkHead>, BadWire> {
    let Some((outer, used)) = read_varint(bytes)? else { return Ok(None) };
    let Some(kind) = bytes.get(used).copied() else { return Ok(None) };
    let rest = bytes.get(used + 1..).unwrap_or_default();
    let Some((len, inner)) = read_varint(rest)? else { return Ok(None) };
    if !matches!(kind, DATA | TRAILERS) || outer.checked_sub(1 + inner) != Some(len) {
        return Err(BadWire);
    }
    Ok(Some(ChunkHead { kind, len, size: used + 1 + inner }))
}

/// Reads a varint of at most four bytes; gives its value and its length.
pub(crate) fn read_varint(bytes: &[u8]) -> Result<Option<(usize, usize)>, BadWire> {
    let mut value = 0_usize;
    for (index, byte) in bytes.iter().enumerate().take(LONGEST_VARINT) {
        value |= usize::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            return Ok(Some((value, index + 1)));
        }
    }
    if bytes.len() < LONGEST_VARINT { Ok(None) } else { Err(BadWire) }
}

/// Four bytes hold 256 MiB; no sender of ours makes a larger message.
const LONGEST_VARINT: usize = 4;

fn put_varint(out: &mut BytesMut, mut value: usize) {
    while value > 0x7f {
        out.extend_from_slice(&[u8::try_from(value & 0x7f).unwrap_or_default() | 0x80]);
        value >>= 7;
    }
    out.extend_from_slice(&[u8::try_from(value).unwrap_or_default()]);
}

fn varint_len(value: usize) -> usize {
    match value {
        0..=0x7f => 1,
        0x80..=0x3fff => 2,
        0x4000..=0x1f_ffff => 3,
        _ => 4,
    }
}

/// The bytes are not what `http.proto` says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BadWire;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunk_heads_survive_any_cut() {
        for len in [0, 1, 0x7f, 0x80, 0x3fff, 0x4000, 65_536, 0x1f_ffff, 0x20_0000] {
            let mut out = BytesMut::new();
            put_data_head(&mut out, len);
            for cut in 0..out.len() {
                assert_eq!(read_chunk_head(&out[..cut]), Ok(None), "{len} cut at {cut}");
            }
            assert_eq!(read_chunk_head(&out), Ok(Some(ChunkHead { kind: DATA, len, size: out.len() })));
        }
    }

    #[test]
    fn contradicting_lengths_are_refused() {
        for bad in [&[3, DATA, 2][..], &[1, DATA, 0], &[2, 0x1a, 0], &[0xff, 0xff, 0xff, 0xff, 1], &[2, 0x08, 0]] {
            assert_eq!(read_chunk_head(bad), Err(BadWire), "{bad:?}");
        }
    }
}
