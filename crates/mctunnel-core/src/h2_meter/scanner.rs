//! Finds the frames in a stream of bytes that comes in pieces of any size.

/// What stands in front of the frames of a client.
pub(super) const PREFACE: usize = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".len();

const HEAD: usize = 9;
const SETTING: usize = 6;
const SETTINGS: u8 = 4;
const CODE: usize = 4;
const RST_STREAM: u8 = 3;

/// What went by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seen {
    /// The head of a frame, as RFC 9113 numbers its parts.
    #[expect(missing_docs, reason = "the names are those of the RFC")]
    Frame { kind: u8, flags: u8, stream: u32, length: u32 },
    /// One setting of a SETTINGS frame.
    #[expect(missing_docs, reason = "the names are those of the RFC")]
    Setting { id: u16, value: u32 },
    /// The reason in a `RST_STREAM` frame.
    Reason(u32),
}

/// Where in the stream of bytes we are.
#[derive(Debug, Default)]
pub struct Scanner {
    /// Bytes to be passed over: the preface, then payloads.
    skip: usize,
    /// Bytes of settings that are still to come.
    settings: usize,
    /// The reason of a reset is still to come.
    reason: bool,
    /// The part of a head, of a setting or of a reason that has come.
    part: [u8; HEAD],
    filled: usize,
}

impl Scanner {
    /// For the bytes of a client.
    pub fn behind_preface() -> Self {
        Self { skip: PREFACE, ..Self::default() }
    }

    /// Goes on with the next bytes.
    pub fn scan(&mut self, mut bytes: &[u8], mut see: impl FnMut(Seen)) {
        loop {
            let passed = self.skip.min(bytes.len());
            self.skip -= passed;
            bytes = bytes.get(passed..).unwrap_or_default();
            if bytes.is_empty() {
                return;
            }
            let whole = match (self.settings > 0, self.reason) {
                (true, _) => SETTING,
                (false, true) => CODE,
                (false, false) => HEAD,
            };
            let taken = (whole - self.filled).min(bytes.len());
            let (front, rest) = bytes.split_at(taken);
            if let Some(room) = self.part.get_mut(self.filled..self.filled + taken) {
                room.copy_from_slice(front);
            }
            bytes = rest;
            self.filled += taken;
            if self.filled == whole {
                self.filled = 0;
                see(match whole {
                    SETTING => self.setting(),
                    CODE => self.reason(),
                    _ => self.frame(),
                });
            }
        }
    }

    fn frame(&mut self) -> Seen {
        let [a, b, c, kind, flags, d, e, f, g] = self.part;
        let length = u32::from_be_bytes([0, a, b, c]);
        let stream = u32::from_be_bytes([d & 0x7f, e, f, g]);
        let length_here = usize::try_from(length).unwrap_or(usize::MAX);
        // What does not divide into settings is an error that ends the connection.
        self.settings = if kind == SETTINGS { length_here / SETTING * SETTING } else { 0 };
        self.reason = kind == RST_STREAM && length_here == CODE;
        // A remainder comes behind the settings, where the connection has ended.
        self.skip = if self.settings > 0 || self.reason { 0 } else { length_here };
        Seen::Frame { kind, flags, stream, length }
    }

    fn reason(&mut self) -> Seen {
        let [a, b, c, d, ..] = self.part;
        self.reason = false;
        Seen::Reason(u32::from_be_bytes([a, b, c, d]))
    }

    fn setting(&mut self) -> Seen {
        let [a, b, c, d, e, f, ..] = self.part;
        self.settings -= SETTING;
        Seen::Setting { id: u16::from_be_bytes([a, b]), value: u32::from_be_bytes([c, d, e, f]) }
    }
}
