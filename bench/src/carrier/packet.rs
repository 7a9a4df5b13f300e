//! gRPC messages without a copy: a DATA frame of the tunnel as one `Buf`, and its way back out of received bytes.

use std::io::IoSlice;

use anyhow::{Result, bail};
use bytes::{Buf, BufMut as _, Bytes, BytesMut};
use prost::Message as _;

use super::wire;

/// Small messages are copied together up to this size, as tonic does.
pub(crate) const COALESCE: usize = 32 << 10;
/// The gRPC prefix: a flag and a length.
const PREFIX: usize = 5;
const HEAD: usize = 32;

/// One or more gRPC messages on their way out.
#[derive(Debug)]
pub(crate) struct Packet {
    head: [u8; HEAD],
    at: usize,
    end: usize,
    payload: Bytes,
}

impl Packet {
    /// One message; the payload is passed on, not copied.
    pub(crate) fn single(stream: u64, payload: Bytes) -> Self {
        let mut head = [0; HEAD];
        let mut rest = &mut head[..];
        put_head(&mut rest, stream, payload.len());
        let end = HEAD - rest.len();
        Self { head, at: 0, end, payload }
    }

    /// Messages that were copied together.
    pub(crate) fn batch(messages: Bytes) -> Self {
        Self { head: [0; HEAD], at: 0, end: 0, payload: messages }
    }

    fn head(&self) -> &[u8] {
        self.head.get(self.at..self.end).unwrap_or_default()
    }
}

impl Buf for Packet {
    fn remaining(&self) -> usize {
        self.head().len() + self.payload.len()
    }

    fn chunk(&self) -> &[u8] {
        if self.head().is_empty() { &self.payload } else { self.head() }
    }

    fn chunks_vectored<'a>(&'a self, into: &mut [IoSlice<'a>]) -> usize {
        let parts = [self.head(), &self.payload];
        let filled = parts.into_iter().filter(|part| !part.is_empty());
        into.iter_mut().zip(filled).map(|(slice, part)| *slice = IoSlice::new(part)).count()
    }

    fn advance(&mut self, count: usize) {
        let of_head = count.min(self.head().len());
        self.at += of_head;
        self.payload.advance(count - of_head);
    }
}

/// Appends one message to a batch.
pub(crate) fn append(batch: &mut BytesMut, stream: u64, payload: &[u8]) {
    put_head(batch, stream, payload.len());
    batch.put_slice(payload);
}

/// The gRPC prefix, and everything of `Frame { data: Data { stream, payload } }` that comes before the payload.
fn put_head(out: &mut impl bytes::BufMut, stream: u64, payload: usize) {
    let data = 1 + varint_len(stream) + 1 + varint_len(payload as u64) + payload;
    let frame = 1 + varint_len(data as u64) + data;
    out.put_u8(0);
    out.put_uint(frame as u64, 4);
    out.put_u8(0x0a);
    put_varint(out, data as u64);
    out.put_u8(0x08);
    put_varint(out, stream);
    out.put_u8(0x1a);
    put_varint(out, payload as u64);
}

fn put_varint(out: &mut impl bytes::BufMut, value: u64) {
    prost::encoding::encode_varint(value, out);
}

fn varint_len(value: u64) -> usize {
    prost::encoding::encoded_len_varint(value)
}

/// Turns received bytes into payloads.
#[derive(Debug, Default)]
pub(crate) struct Unpack {
    /// The beginning of a message whose end is still under way.
    partial: BytesMut,
}

impl Unpack {
    /// Takes what arrived, and returns the bytes of payload in the messages it completed.
    pub(crate) fn push(&mut self, mut chunk: Bytes) -> Result<u64> {
        let mut total = 0;
        if !self.partial.is_empty() {
            self.partial.extend_from_slice(&chunk);
            chunk = self.partial.split().freeze();
        }
        while let Some(message) = split_message(&mut chunk)? {
            total += payload_of(message)?.len() as u64;
        }
        self.partial.extend_from_slice(&chunk);
        Ok(total)
    }
}

fn split_message(chunk: &mut Bytes) -> Result<Option<Bytes>> {
    let Some(mut prefix) = chunk.get(..PREFIX) else {
        return Ok(None);
    };
    if prefix.get_u8() != 0 {
        bail!("a compressed message");
    }
    let length = usize::try_from(prefix.get_u32())?;
    if chunk.len() < PREFIX + length {
        return Ok(None);
    }
    chunk.advance(PREFIX);
    Ok(Some(chunk.split_to(length)))
}

fn payload_of(message: Bytes) -> Result<Bytes> {
    let kind = wire::Frame::decode(message)?.kind;
    let Some(wire::frame::Kind::Data(data)) = kind else {
        bail!("not a data frame: {kind:?}");
    };
    Ok(data.payload)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_is_the_message_that_prost_would_write() {
        let payload = Bytes::from(vec![7; 70_000]);
        let mut packet = Packet::single(300, payload.clone());
        let bytes = packet.copy_to_bytes(packet.remaining());
        let data = wire::Data { stream: 300, fin: false, payload };
        let frame = wire::Frame { kind: Some(wire::frame::Kind::Data(data)) };
        assert_eq!(bytes.get(PREFIX..).unwrap(), frame.encode_to_vec());
        assert_eq!(bytes.get(1..PREFIX).unwrap(), u32::try_from(bytes.len() - PREFIX).unwrap().to_be_bytes());
    }

    #[test]
    fn messages_survive_any_cut() {
        let mut batch = BytesMut::new();
        append(&mut batch, 2, &[1; 40]);
        append(&mut batch, 4, &[2; 500]);
        let bytes = batch.freeze();
        for cut in 0..=bytes.len() {
            let mut unpack = Unpack::default();
            let first = unpack.push(bytes.slice(..cut)).unwrap();
            assert_eq!(first + unpack.push(bytes.slice(cut..)).unwrap(), 540);
        }
    }
}
