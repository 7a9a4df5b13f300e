//! Follows the chunks of a body to its end, however its bytes arrive, without keeping any of them. Each byte is judged before
//! it is passed on, so that the end of a body is passed on only when all of it was as it must be.

use super::{BadBody, fields::check_trailer_name};

/// More digits do not fit into 64 bits.
const MAX_DIGITS: u8 = 16;
/// More than any extension that is of use. Nobody sends one.
const MAX_EXTENSION: u16 = 256;
/// The most bytes that the trailers of a body may have.
const MAX_TRAILERS: u16 = 16 * 1024;
/// The longest name of a trailer.
const MAX_NAME: usize = 64;

/// Where in a chunked body we are.
#[derive(Debug)]
pub(super) struct Chunks {
    at: At,
    /// The size of this chunk as far as it is read, then what is left of it.
    size: u64,
    trailers: Trailers,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    Size { digits: u8 },
    Extension { length: u16 },
    SizeLf,
    Bytes,
    BytesCr,
    BytesLf,
    Trailer,
}

impl Chunks {
    pub(super) fn new() -> Self {
        Self { at: At::Size { digits: 0 }, size: 0, trailers: Trailers::default() }
    }

    /// Judges the bytes that came; gives how many of them belong to the body, and whether it ends with them.
    pub(super) fn handle(&mut self, bytes: &[u8]) -> (usize, Result<bool, BadBody>) {
        let mut passed = 0;
        while let Some(rest) = bytes.get(passed..)
            && let Some(byte) = rest.first()
        {
            if self.at == At::Bytes {
                let here = rest.len().min(usize::try_from(self.size).unwrap_or(usize::MAX));
                passed += here;
                self.size -= u64::try_from(here).unwrap_or(self.size);
                if self.size == 0 {
                    self.at = At::BytesCr;
                }
                continue;
            }
            match self.handle_byte(*byte) {
                Ok(false) => passed += 1,
                Ok(true) => return (passed + 1, Ok(true)),
                Err(error) => return (passed, Err(error)),
            }
        }
        (passed, Ok(false))
    }

    /// Judges a byte outside of the chunks' own bytes; gives whether the body ends with it.
    fn handle_byte(&mut self, byte: u8) -> Result<bool, BadBody> {
        self.at = match (self.at, byte) {
            (At::Size { digits }, b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F') if digits < MAX_DIGITS => {
                let digit = char::from(byte).to_digit(16).unwrap_or(0);
                self.size = (self.size << 4) | u64::from(digit);
                At::Size { digits: digits + 1 }
            }
            (At::Size { digits: 1.. }, b';') => At::Extension { length: 0 },
            (At::Size { digits: 1.. } | At::Extension { .. }, b'\r') => At::SizeLf,
            (At::Size { .. }, _) => return Err(BadBody("the size of a chunk")),
            (At::Extension { .. }, b'"') => return Err(BadBody("a quote in a chunk's extension")),
            (At::Extension { length }, b'!'..=b'~') if length < MAX_EXTENSION => At::Extension { length: length + 1 },
            (At::Extension { .. }, _) => return Err(BadBody("a chunk's extension")),
            (At::SizeLf, b'\n') if self.size == 0 => At::Trailer,
            (At::SizeLf, b'\n') => At::Bytes,
            (At::BytesCr, b'\r') => At::BytesLf,
            (At::BytesLf, b'\n') => At::Size { digits: 0 },
            (At::SizeLf | At::BytesLf, _) => return Err(BadBody("a CR without LF")),
            (At::BytesCr, _) => return Err(BadBody("a chunk is longer than its size")),
            (At::Trailer, byte) => return self.trailers.handle_byte(byte),
            // Not reached: bytes of a chunk are not handled one by one.
            (At::Bytes, _) => At::Bytes,
        };
        Ok(false)
    }
}

// === Trailers ===

/// Where in the trailers of a body we are.
#[derive(Debug)]
struct Trailers {
    part: Part,
    length: u16,
    name: [u8; MAX_NAME],
    name_length: usize,
}

#[derive(Debug, Clone, Copy)]
enum Part {
    Name,
    Value,
    LineLf,
    LastLf,
}

impl Default for Trailers {
    fn default() -> Self {
        Self { part: Part::Name, length: 0, name: [0; MAX_NAME], name_length: 0 }
    }
}

impl Trailers {
    /// Judges a byte; gives whether the trailers end with it.
    fn handle_byte(&mut self, byte: u8) -> Result<bool, BadBody> {
        self.length += 1;
        if self.length > MAX_TRAILERS {
            return Err(BadBody("the trailers are too long"));
        }
        self.part = match (self.part, byte) {
            (Part::Name, b'\r') if self.name_length == 0 => Part::LastLf,
            (Part::Name, b':') => {
                let name = self.name.get(..self.name_length).and_then(|name| str::from_utf8(name).ok());
                let name = name.filter(|name| !name.is_empty()).ok_or(BadBody("a trailer's name"))?;
                check_trailer_name(name).map_err(|_| BadBody("a trailer that clients may not send"))?;
                self.name_length = 0;
                Part::Value
            }
            (Part::Name, byte) => {
                let slot = self.name.get_mut(self.name_length).filter(|_| is_token(byte));
                *slot.ok_or(BadBody("a trailer's name"))? = byte;
                self.name_length += 1;
                Part::Name
            }
            (Part::Value, b'\r') => Part::LineLf,
            (Part::Value, b'\t' | b' '..=b'~' | 0x80..) => Part::Value,
            (Part::Value, _) => return Err(BadBody("a trailer's value")),
            (Part::LineLf, b'\n') => Part::Name,
            (Part::LastLf, b'\n') => return Ok(true),
            (Part::LineLf | Part::LastLf, _) => return Err(BadBody("a CR without LF")),
        };
        Ok(false)
    }
}

fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}
