//! Reading frames: strict about what we understand, deaf to fields of a later version.

use super::{Drain, Frame, Header, Hello, MAX_PAYLOAD, MAX_TEXT, Open, OpenUser, StreamId, User, Welcome};
use crate::{
    CloseCode, DrainReason, Priority, RefuseCode, ResetCode,
    error::DecodeError,
    wire::{Field, next_field, varint},
};
use alloc::{string::String, sync::Arc, vec::Vec};
use bytes::Bytes;

/// Lists in HELLO and WELCOME are read up to this many entries.
const MAX_LIST: usize = 64;

impl Frame {
    /// Reads one message (without its gRPC prefix). A DATA payload is a slice of `message`, not a copy.
    pub fn decode(mut message: Bytes) -> Result<Self, DecodeError> {
        let mut kind = None;
        while let Some(field) = next_field(&mut message)? {
            if let Field::Bytes(number @ 1..=12, body) = field
                && kind.replace((number, body)).is_some()
            {
                return Err(DecodeError("a message has two frames"));
            }
        }
        let Some((number, body)) = kind else {
            return Err(DecodeError("a frame is of an unknown kind"));
        };
        match number {
            1 => data(body),
            3 => open(body),
            5 | 11 | 12 => with_text(number, body),
            9 => hello(body).map(Self::Hello),
            10 => welcome(body).map(Self::Welcome),
            _ => two_numbers(number, body),
        }
    }
}

fn data(mut body: Bytes) -> Result<Frame, DecodeError> {
    let (mut stream, mut fin, mut payload) = (0, false, Bytes::new());
    while let Some(field) = next_field(&mut body)? {
        match field {
            Field::Uint(1, value) => stream = value,
            Field::Uint(2, value) => fin = value != 0,
            Field::Bytes(3, value) => payload = value,
            Field::Uint(..) | Field::Bytes(..) | Field::Other => {}
        }
    }
    if payload.len() > MAX_PAYLOAD_ACCEPTED {
        return Err(DecodeError("a DATA frame has more than 65536 bytes"));
    }
    Ok(Frame::Data { stream: id(stream)?, fin, payload })
}

/// The protocol's limit, which is a little above what we send.
const MAX_PAYLOAD_ACCEPTED: usize = 64 * 1024;
const _: () = assert!(MAX_PAYLOAD <= MAX_PAYLOAD_ACCEPTED);

/// WINDOW, JOINED, RESET, PING, PONG.
fn two_numbers(kind: u32, mut body: Bytes) -> Result<Frame, DecodeError> {
    let (mut first, mut second) = (0, 0);
    while let Some(field) = next_field(&mut body)? {
        match field {
            Field::Uint(1, value) => first = value,
            Field::Uint(2, value) => second = value,
            Field::Uint(..) | Field::Bytes(..) | Field::Other => {}
        }
    }
    Ok(match kind {
        2 => Frame::Window { stream: id(first)?, credit: second },
        4 => Frame::Joined { stream: id(first)?, window: second },
        6 => Frame::Reset { stream: id(first)?, code: ResetCode::from_wire(second) },
        7 => Frame::Ping(first),
        _ => Frame::Pong(first),
    })
}

/// REFUSED, DRAIN, CLOSE: numbers and one text.
fn with_text(kind: u32, mut body: Bytes) -> Result<Frame, DecodeError> {
    let text_field = if kind == 5 { 3 } else { 2 };
    let (mut one, mut two, mut three, mut text) = (0, 0, 0, String::new());
    while let Some(field) = next_field(&mut body)? {
        match field {
            Field::Uint(1, value) => one = value,
            Field::Uint(2, value) => two = value,
            Field::Uint(3, value) => three = value,
            Field::Bytes(number, value) if number == text_field => text = string(&value)?,
            Field::Uint(..) | Field::Bytes(..) | Field::Other => {}
        }
    }
    Ok(match kind {
        5 => Frame::Refused { stream: id(one)?, code: RefuseCode::from_wire(two), message: text },
        11 => Frame::Drain(Drain { reason: DrainReason::from_wire(one), message: text, reconnect_after_ms: three }),
        _ => Frame::Close { code: CloseCode::from_wire(one), message: text },
    })
}

fn open(mut body: Bytes) -> Result<Frame, DecodeError> {
    let (mut stream, mut window, mut open) = (0, 0, Open::default());
    while let Some(field) = next_field(&mut body)? {
        match field {
            Field::Uint(1, value) => stream = value,
            Field::Uint(2, value) => window = value,
            Field::Uint(3, value) => open.priority = Priority::from_wire(value),
            Field::Bytes(4, value) => open.headers.push(header(value)?),
            Field::Bytes(5, value) => {
                if open.user.replace(Arc::new(OpenUser::from(user(value)?))).is_some() {
                    return Err(DecodeError("an OPEN names two users"));
                }
            }
            Field::Uint(..) | Field::Bytes(..) | Field::Other => {}
        }
    }
    Ok(Frame::Open(id(stream)?, window, open))
}

fn user(mut body: Bytes) -> Result<User, DecodeError> {
    let mut user = User::default();
    while let Some(field) = next_field(&mut body)? {
        match field {
            Field::Bytes(1, value) => user.name = text(&value)?.into(),
            Field::Bytes(2, value) => user.groups.push(text(&value)?.into()),
            Field::Bytes(3, value) => user.uid = text(&value)?.into(),
            Field::Bytes(4, value) => user.extra.push(extra(value)?),
            Field::Uint(..) | Field::Bytes(..) | Field::Other => {}
        }
    }
    if user.name.is_empty() {
        return Err(DecodeError("an OPEN names a user without a name"));
    }
    Ok(user)
}

fn extra(mut body: Bytes) -> Result<(String, Vec<String>), DecodeError> {
    let (mut key, mut values) = (String::new(), Vec::new());
    while let Some(field) = next_field(&mut body)? {
        match field {
            Field::Bytes(1, value) => key = string(&value)?,
            Field::Bytes(2, value) => values.push(string(&value)?),
            Field::Uint(..) | Field::Bytes(..) | Field::Other => {}
        }
    }
    if key.is_empty() {
        return Err(DecodeError("an OPEN has an extra fact without a key"));
    }
    Ok((key, values))
}

fn header(mut body: Bytes) -> Result<Header, DecodeError> {
    let (mut name, mut content) = (String::new(), Bytes::new());
    while let Some(field) = next_field(&mut body)? {
        match field {
            Field::Bytes(1, value) => name = string(&value)?,
            Field::Bytes(2, value) => content = Bytes::copy_from_slice(&value),
            Field::Uint(..) | Field::Bytes(..) | Field::Other => {}
        }
    }
    let header = Header { name, value: content };
    if !header.has_valid_name() {
        return Err(DecodeError("a header name is not made of a-z, 0-9 and '-'"));
    }
    Ok(header)
}

fn hello(mut body: Bytes) -> Result<Hello, DecodeError> {
    let mut hello = Hello { versions: Vec::new(), ..Hello::default() };
    while let Some(field) = next_field(&mut body)? {
        match field {
            Field::Uint(1, value) => push(&mut hello.versions, u32::try_from(value).unwrap_or(u32::MAX))?,
            Field::Bytes(1, mut packed) => {
                while !packed.is_empty() {
                    push(&mut hello.versions, u32::try_from(varint(&mut packed)?).unwrap_or(u32::MAX))?;
                }
            }
            Field::Bytes(2, value) => hello.instance = string(&value)?,
            Field::Bytes(3, value) => hello.software = string(&value)?,
            Field::Bytes(4, value) => push(&mut hello.capabilities, string(&value)?)?,
            Field::Uint(5, value) => hello.early_window = value,
            Field::Uint(..) | Field::Bytes(..) | Field::Other => {}
        }
    }
    Ok(hello)
}

fn welcome(mut body: Bytes) -> Result<Welcome, DecodeError> {
    let mut welcome = Welcome::default();
    while let Some(field) = next_field(&mut body)? {
        match field {
            Field::Uint(1, value) => welcome.version = u32::try_from(value).unwrap_or(u32::MAX),
            Field::Bytes(2, value) => welcome.tunnel = string(&value)?,
            Field::Uint(3, value) => welcome.generation = value,
            Field::Bytes(4, value) => welcome.software = string(&value)?,
            Field::Bytes(5, value) => push(&mut welcome.capabilities, string(&value)?)?,
            Field::Uint(6, value) => welcome.early_window = value,
            Field::Uint(..) | Field::Bytes(..) | Field::Other => {}
        }
    }
    Ok(welcome)
}

fn id(value: u64) -> Result<StreamId, DecodeError> {
    if value == 0 { Err(DecodeError("a frame names stream 0")) } else { Ok(StreamId(value)) }
}

fn string(bytes: &Bytes) -> Result<String, DecodeError> {
    text(bytes).map(String::from)
}

fn text(bytes: &Bytes) -> Result<&str, DecodeError> {
    if bytes.len() > MAX_TEXT {
        return Err(DecodeError("a text is longer than 1024 bytes"));
    }
    core::str::from_utf8(bytes).map_err(|_| DecodeError("a text is not UTF-8"))
}

fn push<T>(list: &mut Vec<T>, item: T) -> Result<(), DecodeError> {
    if list.len() == MAX_LIST {
        return Err(DecodeError("a list has more than 64 entries"));
    }
    list.push(item);
    Ok(())
}
