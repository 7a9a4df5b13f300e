//! What the fuzz targets do with their bytes. It lives here so that `cargo test` replays the corpus without a fuzzer.
//! A broken promise is a panic, as fuzzers expect.

mod peer;

pub use peer::hostile_peer;

use bytes::{Bytes, BytesMut};
use mctunnel_mux::{
    CloseCode, Deframer, Drain, DrainReason, Frame, Header, Hello, Open, OpenUser, Priority, RefuseCode, ResetCode,
    User, Welcome,
};
use std::sync::Arc;

/// Reads any bytes as frames: whole, and as a stream in two chunkings, which must agree.
pub fn decode(bytes: &[u8]) {
    if let Ok(frame) = Frame::decode(Bytes::copy_from_slice(bytes)) {
        let mut again = BytesMut::new();
        frame.encode(&mut again);
        assert_eq!(
            Frame::decode(again.freeze().split_off(PREFIX)),
            Ok(frame),
            "what was read can be written and read again"
        );
    }
    let size = usize::from(bytes.first().copied().unwrap_or(0)) + 1;
    let whole = messages(&[bytes]);
    assert_eq!(messages(&bytes.chunks(size).collect::<Vec<_>>()), whole, "chunking changes nothing");
}

/// gRPC's prefix of every message.
const PREFIX: usize = 5;

/// All messages of a stream, and why it ended if not by its end.
fn messages(chunks: &[&[u8]]) -> (Vec<Bytes>, Option<String>) {
    let mut deframer = Deframer::default();
    let mut messages = Vec::new();
    for chunk in chunks {
        deframer.push(Bytes::copy_from_slice(chunk));
        loop {
            match deframer.next_message() {
                Ok(Some(message)) => messages.push(message),
                Ok(None) => break,
                Err(error) => return (messages, Some(error.to_string())),
            }
        }
    }
    (messages, None)
}

/// Bytes as a source of choices; zeros behind the last one.
#[derive(Debug)]
pub struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    /// Chooses by these bytes.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// Whether all are used up.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The next byte.
    pub fn byte(&mut self) -> u8 {
        match self.0.split_first() {
            Some((first, rest)) => {
                self.0 = rest;
                *first
            }
            None => 0,
        }
    }

    /// Up to so many of the next bytes.
    pub fn bytes(&mut self, len: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(len.min(self.0.len()));
        self.0 = rest;
        taken
    }

    /// A number: mostly a small one, now and then one at a border.
    pub fn number(&mut self) -> u64 {
        match self.byte() {
            small @ 0..=127 => u64::from(small),
            byte @ 128..=250 => u64::from(byte - 127) << (self.byte() % 57),
            251 => 1 << 40,
            252 => (1 << 40) + 1,
            253 => u64::from(u32::MAX),
            254 => u64::MAX - 1,
            255 => u64::MAX,
        }
    }

    fn id(&mut self) -> u64 {
        let byte = self.byte();
        if byte < 248 { 1 + u64::from(byte % 16) } else { self.number().max(1) }
    }

    fn text(&mut self) -> String {
        let len = usize::from(self.byte() % 16);
        String::from_utf8_lossy(self.bytes(len)).into_owned()
    }
}

/// Any frame, with the ids and numbers where rules begin and end.
pub fn frame(input: &mut Input<'_>) -> Frame {
    let kind = input.byte() % 16;
    let stream = input.id().into();
    match kind {
        0..=3 => {
            let len = usize::try_from(input.number()).unwrap_or(0).min(70_000);
            Frame::Data { stream, fin: input.byte().is_multiple_of(4), payload: vec![b'd'; len].into() }
        }
        4 => Frame::Window { stream, credit: input.number() },
        5..=7 => Frame::Open(stream, input.number(), open(input)),
        8 => Frame::Joined { stream, window: input.number() },
        9 => Frame::Refused { stream, code: RefuseCode::from_wire(input.number()), message: input.text() },
        10 => Frame::Reset { stream, code: ResetCode::from_wire(input.number()) },
        11 => Frame::Ping(input.number()),
        12 => Frame::Pong(u64::from(input.byte() % 4)),
        13 => greeting(input),
        14 => Frame::Drain(Drain {
            reason: DrainReason::from_wire(input.number()),
            message: input.text(),
            reconnect_after_ms: input.number(),
        }),
        _ => Frame::Close { code: CloseCode::from_wire(input.number()), message: input.text() },
    }
}

fn open(input: &mut Input<'_>) -> Open {
    let priority = Priority::from_wire(u64::from(input.byte() % 4));
    let headers = (0..input.byte() % 8).map(|_| Header::text("x-mctunnel-host", &input.text()));
    let headers = headers.collect();
    let named = input.byte().is_multiple_of(4);
    let user = named.then(|| User { name: input.text().into(), groups: vec![input.text().into()], ..User::default() });
    let user = user.map(|user| Arc::new(OpenUser::new(user)));
    Open { priority, headers, user }
}

fn greeting(input: &mut Input<'_>) -> Frame {
    let early_window = input.number();
    let versions = vec![u32::from(input.byte() % 3)];
    if input.byte().is_multiple_of(2) {
        Frame::Hello(Hello { versions, instance: input.text(), early_window, ..Hello::default() })
    } else {
        let version = u32::from(input.byte() % 3);
        Frame::Welcome(Welcome { version, tunnel: input.text(), early_window, ..Welcome::default() })
    }
}
