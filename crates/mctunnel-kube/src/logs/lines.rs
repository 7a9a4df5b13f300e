//! The answer to a request for a log, cut into lines as its bytes arrive. Pure: it is given bytes and gives pieces. Nothing of a line is
//! changed; only the time in front of it, which was asked for, and the newline are taken off.

#[cfg(test)]
mod tests;

use super::place::{Known, Piece, PieceEnd, Taken};
use k8s_openapi::jiff::Timestamp;

/// The longest piece, in bytes. Each as JSON with every letter escaped must fit into a record, which has 256 KiB.
pub(crate) const MOST_PIECE: usize = 32 << 10;

/// The longest time in front of a line, as in `2026-01-01T00:00:00.000000000+14:00`, with some room.
const MOST_STAMP: usize = 64;

/// Cuts an answer into lines.
#[derive(Debug)]
pub(crate) struct Lines {
    known: Known,
    state: State,
    /// Of the time or of the line, what has arrived and was not given yet.
    pending: Vec<u8>,
    untimed: u64,
}

#[derive(Debug, Clone, Copy)]
enum State {
    /// In the time in front of a line.
    Stamp,
    /// In a line, of which so many bytes were taken before.
    Line { time: i64, taken: usize },
    /// In a line that was taken before, or that is not the container's.
    Skipped,
}

impl Lines {
    /// Leaves out what is known.
    pub(crate) fn new(known: Known) -> Self {
        Self { known, state: State::Stamp, pending: Vec::new(), untimed: 0 }
    }

    /// Takes the next bytes of the answer, and gives each piece that is whole with them.
    pub(crate) fn feed(&mut self, mut bytes: &[u8], mut give: impl FnMut(Piece)) {
        while !bytes.is_empty() {
            bytes = match self.state {
                State::Stamp => self.feed_stamp(bytes),
                State::Line { time, taken } => self.feed_line(time, taken, bytes, &mut give),
                State::Skipped => {
                    let (_, is_whole, rest) = split(bytes, |byte| byte == b'\n');
                    if is_whole {
                        self.state = State::Stamp;
                    }
                    rest
                }
            };
        }
    }

    /// The rest of a last line that has no newline. Only for a log that is over: else the line may be going on.
    pub(crate) fn finish(&mut self) -> Option<Piece> {
        let State::Line { time, .. } = self.state else { return None };
        let bytes = std::mem::take(&mut self.pending);
        self.state = State::Skipped;
        (!bytes.is_empty()).then_some(Piece { time, bytes, end: PieceEnd::Nothing })
    }

    /// How many lines had no time: what the kubelet says itself, or the end of a line whose beginning was not asked for.
    pub(crate) fn untimed(&self) -> u64 {
        self.untimed
    }

    fn feed_stamp<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        let (stamp, is_whole, rest) = split(bytes, |byte| byte == b' ' || byte == b'\n');
        let fits = self.pending.len() + stamp.len() <= MOST_STAMP;
        if fits {
            self.pending.extend_from_slice(stamp);
        }
        if fits && !is_whole {
            return rest;
        }
        let stamp = std::mem::take(&mut self.pending);
        let ends_line = is_whole && bytes.get(bytes.len() - rest.len() - 1) == Some(&b'\n');
        match nanos(&stamp).filter(|_| fits) {
            // A line without a letter may have no space behind its time.
            Some(time) if ends_line => {
                self.begin(time);
                return bytes.get(bytes.len() - rest.len() - 1..).unwrap_or(rest);
            }
            Some(time) => self.begin(time),
            None => {
                self.untimed += 1;
                self.state = if ends_line { State::Stamp } else { State::Skipped };
            }
        }
        rest
    }

    fn begin(&mut self, time: i64) {
        self.state = match self.known.of_line(time) {
            Taken::All => State::Skipped,
            Taken::First(taken) => State::Line { time, taken },
            Taken::Nothing => State::Line { time, taken: 0 },
        };
    }

    fn feed_line<'a>(&mut self, time: i64, taken: usize, bytes: &'a [u8], give: &mut impl FnMut(Piece)) -> &'a [u8] {
        let (text, is_whole, rest) = split(bytes, |byte| byte == b'\n');
        let skipped = taken.min(text.len());
        self.state = State::Line { time, taken: taken - skipped };
        let mut text = text.get(skipped..).unwrap_or_default();
        while let Some((fitting, more)) = text.split_at_checked(MOST_PIECE.saturating_sub(self.pending.len())) {
            if more.is_empty() {
                break;
            }
            self.pending.extend_from_slice(fitting);
            let begun = self.pending.split_off(whole_letters(&self.pending));
            let bytes = std::mem::replace(&mut self.pending, begun);
            give(Piece { time, bytes, end: PieceEnd::More });
            text = more;
        }
        self.pending.extend_from_slice(text);
        if is_whole {
            give(Piece { time, bytes: std::mem::take(&mut self.pending), end: PieceEnd::Newline });
            self.state = State::Stamp;
        }
        rest
    }
}

/// What is before the first such byte, whether there is one, and what is behind it.
fn split(bytes: &[u8], is_end: impl Fn(u8) -> bool) -> (&[u8], bool, &[u8]) {
    match bytes.iter().position(|byte| is_end(*byte)).and_then(|at| Some((bytes.get(..at)?, bytes.get(at + 1..)?))) {
        Some((before, behind)) => (before, true, behind),
        None => (bytes, false, &[]),
    }
}

/// How many of the bytes are whole letters, if they are UTF-8: a cut between two pieces is not to be within a letter.
fn whole_letters(bytes: &[u8]) -> usize {
    for (behind, byte) in bytes.iter().rev().take(4).enumerate() {
        let needs = match byte {
            0x80..=0xBF => continue,
            0xC0..=0xDF => 2,
            0xE0..=0xEF => 3,
            0xF0..=0xF7 => 4,
            _ => 1,
        };
        return if needs > behind + 1 { bytes.len() - behind - 1 } else { bytes.len() };
    }
    bytes.len()
}

/// Nanoseconds since 1970.
fn nanos(stamp: &[u8]) -> Option<i64> {
    let time: Timestamp = std::str::from_utf8(stamp).ok()?.parse().ok()?;
    i64::try_from(time.as_nanosecond()).ok()
}
