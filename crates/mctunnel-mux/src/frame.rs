//! The frames of `tunnel.proto`, as values and as bytes.
//!
//! Flow: `HELLO` and `WELCOME`, then for each stream `OPEN`, `JOINED` or `REFUSED`, `DATA` and `WINDOW` both ways, a `fin` each way
//! or one `RESET`; `PING`/`PONG` throughout; `DRAIN` and `CLOSE` at the end.

use crate::{
    CloseCode, DrainReason, Priority, RefuseCode, ResetCode,
    wire::{Count, DynSink, LEN, Sink, len_u64},
};
use alloc::{string::String, sync::Arc, vec::Vec};
use bytes::{Bytes, BytesMut};
use core::fmt;

mod decode;
mod open_user;
#[cfg(test)]
mod tests;

pub use open_user::{OpenUser, User};

/// The most bytes of a stream in one DATA frame. A few bytes below 64 KiB, so that frame, gRPC prefix and HTTP/2 head together
/// fill four TLS records and do not spill into a fifth.
pub const MAX_PAYLOAD: usize = 64 * 1024 - 136;

/// Texts for people are cut at this length.
const MAX_TEXT: usize = 1024;

/// The id of a stream: even when the hub opened it, odd when the agent did. Never used twice in a tunnel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub(crate) u64);

impl StreamId {
    /// The number on the wire.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl From<u64> for StreamId {
    fn from(id: u64) -> Self {
        Self(id)
    }
}

/// One unit on the wire.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "each field is documented in tunnel.proto, which this mirrors")]
pub enum Frame {
    Data { stream: StreamId, fin: bool, payload: Bytes },
    Window { stream: StreamId, credit: u64 },
    Open(StreamId, u64, Open),
    Joined { stream: StreamId, window: u64 },
    Refused { stream: StreamId, code: RefuseCode, message: String },
    Reset { stream: StreamId, code: ResetCode },
    Ping(u64),
    Pong(u64),
    Hello(Hello),
    Welcome(Welcome),
    Drain(Drain),
    Close { code: CloseCode, message: String },
}

/// What to open: the scheduling class and the routing metadata.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Open {
    /// Scheduling class.
    pub priority: Priority,
    /// Routing metadata; `x-mctunnel-*` is reserved.
    pub headers: Vec<Header>,
    /// Whom the stream is for; `None` when nobody was asked who they are.
    pub user: Option<Arc<OpenUser>>,
}

impl Open {
    /// The bytes of all names and values, the user's included, as the header budget counts them.
    #[must_use]
    pub fn header_bytes(&self) -> usize {
        let headers: usize = self.headers.iter().map(|h| h.name.len() + h.value.len()).sum();
        headers + self.user.as_ref().map_or(0, |user| user.bytes())
    }

    /// What it takes in memory, roughly.
    pub(crate) fn footprint(&self) -> usize {
        self.header_bytes() + self.headers.len() * size_of::<Header>()
    }
}

/// One piece of routing metadata.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// Lower case.
    pub name: String,
    /// Any bytes.
    pub value: Bytes,
}

impl Header {
    /// A header of text.
    #[must_use]
    pub fn text(name: &str, value: &str) -> Self {
        Self { name: name.into(), value: Bytes::copy_from_slice(value.as_bytes()) }
    }

    /// Whether a peer takes the name: a-z, 0-9 and '-', not too long.
    pub(crate) fn has_valid_name(&self) -> bool {
        let token = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
        (1..=MAX_TEXT).contains(&self.name.len()) && self.name.bytes().all(token)
    }
}

/// How an agent introduces itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hello {
    /// Protocol versions it speaks.
    pub versions: Vec<u32>,
    /// Names the process: new at every start, the same at every reconnect.
    pub instance: String,
    /// Software version, for people.
    pub software: String,
    /// Optional features.
    pub capabilities: Vec<String>,
    /// Bytes it takes on a stream before it has answered the OPEN. Set by the connection.
    pub early_window: u64,
}

impl Default for Hello {
    fn default() -> Self {
        Self {
            versions: alloc::vec![VERSION],
            instance: String::new(),
            software: String::new(),
            capabilities: Vec::new(),
            early_window: 0,
        }
    }
}

/// The protocol version of this crate.
pub(crate) const VERSION: u32 = 1;

/// How a hub takes an agent in.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Welcome {
    /// The version both use. Set by the connection.
    pub version: u32,
    /// Names this tunnel in the logs of both sides.
    pub tunnel: String,
    /// Counts the registrations of this cluster.
    pub generation: u64,
    /// Software version, for people.
    pub software: String,
    /// Optional features.
    pub capabilities: Vec<String>,
    /// Bytes the hub takes on a stream before it has answered the OPEN. Set by the connection.
    pub early_window: u64,
}

/// Notice that the sender will soon close.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Drain {
    /// Why.
    pub reason: DrainReason,
    /// Why, for people.
    pub message: String,
    /// When the agent should dial again.
    pub reconnect_after_ms: u64,
}

impl Frame {
    /// Writes the frame with its gRPC prefix.
    pub fn encode(&self, out: &mut BytesMut) {
        let mut count = Count(0);
        self.body(&mut count);
        put_prefix(out, count.0);
        self.body(out);
    }

    /// The `Frame` message: one field whose number is the kind.
    fn body(&self, out: &mut impl Sink) {
        match self {
            Self::Data { stream, fin, payload } => out.message(1, |m| {
                m.uint(1, stream.0);
                m.uint(2, u64::from(*fin));
                m.bytes(3, payload);
            }),
            Self::Window { stream, credit } => pair(out, 2, stream.0, *credit),
            Self::Open(stream, window, open) => {
                let user = open.user.as_ref().map(|user| user.on_the_wire());
                out.message(3, |m| open.body(m, *stream, *window, user.as_deref()));
            }
            Self::Joined { stream, window } => pair(out, 4, stream.0, *window),
            Self::Refused { stream, code, message } => out.message(5, |m| {
                m.uint(1, stream.0);
                m.uint(2, code.to_wire());
                m.bytes(3, cut(message).as_bytes());
            }),
            Self::Reset { stream, code } => pair(out, 6, stream.0, code.to_wire()),
            Self::Ping(nonce) => pair(out, 7, *nonce, 0),
            Self::Pong(nonce) => pair(out, 8, *nonce, 0),
            Self::Hello(hello) => out.message(9, |m| hello.body(m)),
            Self::Welcome(welcome) => out.message(10, |m| welcome.body(m)),
            Self::Drain(drain) => out.message(11, |m| {
                m.uint(1, drain.reason.to_wire());
                m.bytes(2, cut(&drain.message).as_bytes());
                m.uint(3, drain.reconnect_after_ms);
            }),
            Self::Close { code, message } => out.message(12, |m| {
                m.uint(1, code.to_wire());
                m.bytes(2, cut(message).as_bytes());
            }),
        }
    }
}

impl Open {
    fn body(&self, m: &mut dyn DynSink, stream: StreamId, window: u64, user: Option<&[u8]>) {
        m.uint(1, stream.0);
        m.uint(2, window);
        m.uint(3, self.priority.to_wire());
        for header in &self.headers {
            m.message(4, &|m| {
                m.bytes(1, header.name.as_bytes());
                m.bytes(2, &header.value);
            });
        }
        if let Some(user) = user {
            m.bytes_always(5, user);
        }
    }
}

impl Hello {
    fn body(&self, m: &mut dyn DynSink) {
        m.packed(1, &self.versions);
        m.bytes(2, cut(&self.instance).as_bytes());
        m.bytes(3, cut(&self.software).as_bytes());
        self.capabilities.iter().for_each(|c| m.bytes_always(4, cut(c).as_bytes()));
        m.uint(5, self.early_window);
    }
}

impl Welcome {
    fn body(&self, m: &mut dyn DynSink) {
        m.uint(1, u64::from(self.version));
        m.bytes(2, cut(&self.tunnel).as_bytes());
        m.uint(3, self.generation);
        m.bytes(4, cut(&self.software).as_bytes());
        self.capabilities.iter().for_each(|c| m.bytes_always(5, cut(c).as_bytes()));
        m.uint(6, self.early_window);
    }
}

/// Writes everything of a DATA frame but its payload, which must follow.
pub(crate) fn encode_data_head(out: &mut BytesMut, stream: StreamId, fin: bool, payload: usize) {
    let payload = len_u64(payload);
    let mut inner = Count(0);
    data_fields(&mut inner, stream, fin, payload);
    let inner = inner.0 + payload;
    let mut outer = Count(0);
    outer.tag(1, LEN);
    outer.varint(inner);
    put_prefix(out, outer.0 + inner);
    out.tag(1, LEN);
    out.varint(inner);
    data_fields(out, stream, fin, payload);
}

fn data_fields(out: &mut impl Sink, stream: StreamId, fin: bool, payload: u64) {
    out.uint(1, stream.0);
    out.uint(2, u64::from(fin));
    if payload > 0 {
        out.tag(3, LEN);
        out.varint(payload);
    }
}

fn put_prefix(out: &mut BytesMut, len: u64) {
    out.put(&[0]);
    out.put(&u32::try_from(len).unwrap_or(u32::MAX).to_be_bytes());
}

fn pair(out: &mut impl Sink, kind: u32, first: u64, second: u64) {
    out.message(kind, |m| {
        m.uint(1, first);
        m.uint(2, second);
    });
}

/// The text, cut to what a peer takes, at a character's border.
fn cut(text: &str) -> &str {
    let end = (0..=MAX_TEXT.min(text.len())).rev().find(|i| text.is_char_boundary(*i));
    text.get(..end.unwrap_or(0)).unwrap_or_default()
}
