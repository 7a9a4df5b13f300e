//! Just enough protobuf: varints, tags and length-delimited fields, read from `Bytes` without copying.
//! Not a general protobuf library; `tests/wire_prost.rs` holds it against one.

use crate::error::DecodeError;
use bytes::{Buf, Bytes, BytesMut};

pub(crate) const VARINT: u8 = 0;
pub(crate) const LEN: u8 = 2;

/// Where encoded bytes go: into a buffer, or only into a count (so lengths can be written before what they measure).
pub(crate) trait Sink {
    fn put(&mut self, bytes: &[u8]);

    fn varint(&mut self, mut value: u64) {
        if value < 0x80 {
            // Nearly all: tags, and the lengths of names.
            return self.put(&value.to_le_bytes()[..1]);
        }
        let mut bytes = [0_u8; 10];
        let mut used = 0;
        for slot in &mut bytes {
            used += 1;
            let low = value.to_le_bytes()[0] & 0x7f;
            value >>= 7;
            *slot = if value == 0 { low } else { low | 0x80 };
            if value == 0 {
                break;
            }
        }
        self.put(bytes.get(..used).unwrap_or_default());
    }

    fn tag(&mut self, field: u32, kind: u8) {
        self.varint(u64::from(field) << 3 | u64::from(kind));
    }

    /// A varint field; the default 0 is left out, as proto3 does.
    fn uint(&mut self, field: u32, value: u64) {
        if value != 0 {
            self.tag(field, VARINT);
            self.varint(value);
        }
    }

    fn bytes_always(&mut self, field: u32, value: &[u8]) {
        self.tag(field, LEN);
        self.varint(len_u64(value.len()));
        self.put(value);
    }

    fn bytes(&mut self, field: u32, value: &[u8]) {
        if !value.is_empty() {
            self.bytes_always(field, value);
        }
    }

    /// An embedded message.
    fn message(&mut self, field: u32, body: impl Fn(&mut dyn DynSink))
    where
        Self: Sized,
    {
        let mut count = Count(0);
        body(&mut count);
        self.tag(field, LEN);
        self.varint(count.0);
        body(self);
    }
}

/// The object-safe face of [`Sink`], so that message bodies are compiled once.
pub(crate) trait DynSink {
    fn uint(&mut self, field: u32, value: u64);
    fn bytes(&mut self, field: u32, value: &[u8]);
    fn bytes_always(&mut self, field: u32, value: &[u8]);
    fn packed(&mut self, field: u32, values: &[u32]);
    fn message(&mut self, field: u32, body: &dyn Fn(&mut dyn DynSink));
}

impl<S: Sink> DynSink for S {
    fn uint(&mut self, field: u32, value: u64) {
        Sink::uint(self, field, value);
    }
    fn bytes(&mut self, field: u32, value: &[u8]) {
        Sink::bytes(self, field, value);
    }
    fn bytes_always(&mut self, field: u32, value: &[u8]) {
        Sink::bytes_always(self, field, value);
    }
    fn packed(&mut self, field: u32, values: &[u32]) {
        if values.is_empty() {
            return;
        }
        let mut count = Count(0);
        values.iter().for_each(|v| count.varint(u64::from(*v)));
        self.tag(field, LEN);
        self.varint(count.0);
        values.iter().for_each(|v| self.varint(u64::from(*v)));
    }
    fn message(&mut self, field: u32, body: &dyn Fn(&mut dyn DynSink)) {
        Sink::message(self, field, body);
    }
}

impl Sink for BytesMut {
    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

/// Counts instead of writing.
pub(crate) struct Count(pub(crate) u64);

impl Sink for Count {
    fn put(&mut self, bytes: &[u8]) {
        self.0 += len_u64(bytes.len());
    }

    fn varint(&mut self, value: u64) {
        let bits = u64::from(64 - (value | 1).leading_zeros());
        self.0 += bits.div_ceil(7);
    }

    /// Measured is counted: the body is gone through once, however deep it lies.
    fn message(&mut self, field: u32, body: impl Fn(&mut dyn DynSink)) {
        let mut inner = Self(0);
        body(&mut inner);
        self.tag(field, LEN);
        self.varint(inner.0);
        self.0 += inner.0;
    }
}

/// A `usize` length as the wire counts.
pub(crate) fn len_u64(len: usize) -> u64 {
    u64::try_from(len).unwrap_or(u64::MAX)
}

/// One field of a message.
pub(crate) enum Field {
    Uint(u32, u64),
    Bytes(u32, Bytes),
    /// A kind of field no version of ours uses; skipped.
    Other,
}

/// Reads the next field, `None` at the end.
pub(crate) fn next_field(buf: &mut Bytes) -> Result<Option<Field>, DecodeError> {
    if buf.is_empty() {
        return Ok(None);
    }
    let tag = varint(buf)?;
    let field = u32::try_from(tag >> 3).ok().filter(|f| *f != 0 && *f < 1 << 29);
    let field = field.ok_or(DecodeError("a field number is out of range"))?;
    Ok(Some(match tag & 7 {
        0 => Field::Uint(field, varint(buf)?),
        1 => {
            skip(buf, 8)?;
            Field::Other
        }
        2 => {
            let len = usize::try_from(varint(buf)?).ok().filter(|len| *len <= buf.len());
            let len = len.ok_or(DecodeError("a field is longer than its message"))?;
            Field::Bytes(field, buf.split_to(len))
        }
        5 => {
            skip(buf, 4)?;
            Field::Other
        }
        _ => return Err(DecodeError("a field has an unknown wire type")),
    }))
}

/// Reads a varint of at most ten bytes and 64 bits.
pub(crate) fn varint(buf: &mut Bytes) -> Result<u64, DecodeError> {
    let mut value = 0_u64;
    for shift in (0..64).step_by(7) {
        let Some(byte) = buf.first().copied() else {
            return Err(DecodeError("a message ends inside a number"));
        };
        buf.advance(1);
        let low = u64::from(byte & 0x7f);
        if shift == 63 && low > 1 {
            return Err(DecodeError("a number has more than 64 bits"));
        }
        value |= low << shift;
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err(DecodeError("a number has more than ten bytes"))
}

fn skip(buf: &mut Bytes, len: usize) -> Result<(), DecodeError> {
    if buf.len() < len {
        return Err(DecodeError("a message ends inside a field"));
    }
    buf.advance(len);
    Ok(())
}
