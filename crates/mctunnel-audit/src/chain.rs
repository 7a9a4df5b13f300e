//! The chain: each line carries the hash of the line before it, and its own. Also the one place that knows the form of a line.
//!
//! ```text
//! {"seq":7, ... ,"prev":"<64 hex>","hash":"<64 hex>"}
//! hash = SHA-256(prev in hex, then the line without its member "hash")
//! ```
//!
//! So a shell can check a line: `printf '%s' "$prev$line_without_hash" | sha256sum`.

use aws_lc_rs::digest::{Context, SHA256, digest};
use std::fmt;

/// A place in the chain: the number of a record and its hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// The record's number; the first record has 1, and 0 is the place before it.
    pub seq: u64,
    /// The record's hash.
    pub hash: Hash,
}

impl Head {
    /// Before the first record.
    pub const START: Self = Self { seq: 0, hash: Hash([b'0'; HEX]) };

    /// Parses `SEQ:HASH`, as it is shown.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (seq, hash) = text.trim().split_once(':')?;
        Some(Self { seq: number(seq.as_bytes())?, hash: Hash::parse(hash.as_bytes())? })
    }
}

impl fmt::Display for Head {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.seq, self.hash)
    }
}

const HEX: usize = 64;

/// A SHA-256 as it is written: 64 digits in lower case.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Hash([u8; HEX]);

impl Hash {
    /// Of some bytes.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self::hex(digest(&SHA256, bytes).as_ref())
    }

    fn hex(digest: &[u8]) -> Self {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let digit = |nibble: u8| DIGITS.get(usize::from(nibble)).copied().unwrap_or(b'0');
        let mut hex = [b'0'; HEX];
        for ([high, low], byte) in hex.as_chunks_mut().0.iter_mut().zip(digest) {
            (*high, *low) = (digit(byte >> 4), digit(byte & 15));
        }
        Self(hex)
    }

    fn parse(hex: &[u8]) -> Option<Self> {
        let hex: [u8; HEX] = hex.try_into().ok()?;
        hex.iter().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f')).then_some(Self(hex))
    }

    /// The digits.
    #[must_use]
    pub fn as_str(&self) -> &str {
        str::from_utf8(&self.0).unwrap_or_default()
    }
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

const OPENING: &[u8] = b"{\"seq\":";
const PREVIOUS: &[u8] = b",\"prev\":\"";
const OWN: &[u8] = b",\"hash\":\"";
const CLOSING: &[u8] = b"\"}";

/// Appends the next record with its line end, and moves the head to it. `members` is the record's own part.
pub(crate) fn seal(out: &mut Vec<u8>, head: &mut Head, members: &str) {
    let start = out.len();
    let seq = head.seq + 1;
    out.extend_from_slice(OPENING);
    out.extend_from_slice(seq.to_string().as_bytes());
    out.push(b',');
    out.extend_from_slice(members.as_bytes());
    out.extend_from_slice(PREVIOUS);
    out.extend_from_slice(&head.hash.0);
    out.push(b'"');
    let hash = hash(&head.hash, out.get(start..).unwrap_or_default());
    out.extend_from_slice(OWN);
    out.extend_from_slice(&hash.0);
    out.extend_from_slice(CLOSING);
    out.push(b'\n');
    *head = Head { seq, hash };
}

/// Of a line up to where its member "hash" begins.
fn hash(previous: &Hash, line: &[u8]) -> Hash {
    let mut context = Context::new(&SHA256);
    context.update(&previous.0);
    context.update(line);
    context.update(b"}");
    Hash::hex(context.finish().as_ref())
}

/// What a line says of its place. Its hash is right; whether it follows the line before is the reader's to compare.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sealed {
    pub(crate) head: Head,
    pub(crate) previous: Hash,
}

/// Reads a line, without its line end; `None` if it is not one of ours or was changed.
pub(crate) fn unseal(line: &[u8]) -> Option<Sealed> {
    let rest = line.strip_suffix(CLOSING)?;
    let (rest, own) = rest.split_last_chunk::<HEX>()?;
    let unsealed = rest.strip_suffix(OWN)?;
    let (rest, previous) = unsealed.strip_suffix(b"\"")?.split_last_chunk::<HEX>()?;
    rest.strip_suffix(PREVIOUS)?;
    let (own, previous) = (Hash::parse(own)?, Hash::parse(previous)?);
    let behind = line.strip_prefix(OPENING)?;
    let digits = behind.split(|byte| *byte == b',').next()?;
    let seq = number(digits)?;
    (hash(&previous, unsealed) == own).then_some(Sealed { head: Head { seq, hash: own }, previous })
}

/// A number as we write it: no sign, no zero in front.
fn number(digits: &[u8]) -> Option<u64> {
    let plain = digits.iter().all(u8::is_ascii_digit) && digits.first() != Some(&b'0');
    str::from_utf8(digits).ok().filter(|_| plain)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_what_the_documentation_says() {
        let (mut out, mut head) = (Vec::new(), Head::START);
        seal(&mut out, &mut head, r#""a":1"#);
        let line = String::from_utf8(out).unwrap();
        let zeros = "0".repeat(64);
        let without_hash = format!(r#"{{"seq":1,"a":1,"prev":"{zeros}"}}"#);
        let hash = Hash::of(format!("{zeros}{without_hash}").as_bytes());
        assert_eq!(line, format!(r#"{{"seq":1,"a":1,"prev":"{zeros}","hash":"{hash}"}}{}"#, "\n"));
        // Computed with another program: printf '%s' "$zeros$without_hash" | sha256sum
        assert_eq!(hash.as_str(), "c86df055cd2104f24a4cd1475f8199bdbb7eef191bc9c8243c1a7d7212f72863");
        assert_eq!(head, Head { seq: 1, hash });
    }

    #[test]
    fn a_line_reads_back_and_no_byte_of_it_can_change() {
        let (mut out, mut head) = (Vec::new(), Head::START);
        seal(&mut out, &mut head, r#""a":1"#);
        let first = head;
        out.clear();
        seal(&mut out, &mut head, r#""user":"alice","b":2"#);
        let line = out.strip_suffix(b"\n").unwrap().to_vec();
        assert_eq!(unseal(&line), Some(Sealed { head, previous: first.hash }));
        for at in 0..line.len() {
            for with in [b' ', b'0', b'1', b'a', b'"', b',', line[at] ^ 1] {
                let mut changed = line.clone();
                changed[at] = with;
                assert!(changed == line || unseal(&changed).is_none(), "byte {at}");
            }
            assert_eq!(unseal(&line[..at]), None);
        }
    }

    #[test]
    fn a_head_reads_back_as_it_is_shown() {
        let (mut out, mut head) = (Vec::new(), Head::START);
        seal(&mut out, &mut head, r#""a":1"#);
        assert_eq!(Head::parse(&head.to_string()), Some(head));
        for bad in [
            "",
            "1",
            "1:ab",
            "01:",
            &format!("01:{}", head.hash),
            &format!("+1:{}", head.hash),
            &format!("1:{}", head.hash.as_str().to_uppercase()),
        ] {
            assert_eq!(Head::parse(bad), None, "{bad}");
        }
    }
}
