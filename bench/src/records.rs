//! The records that are reported in a measurement: lines of a log, in JSON, of one size, the same again from the same seed. Much of each
//! is never twice the same, as in logs that have trace ids.

use std::io::Write as _;

use anyhow::Result;

/// The bytes of every record.
pub(crate) const SIZE: usize = 500;

/// Records without an end.
#[derive(Debug)]
pub(crate) struct Records {
    state: u64,
}

impl Records {
    pub(crate) fn new(seed: u64) -> Self {
        Self { state: seed.wrapping_mul(0x5851_f42d_4c95_7f2d) }
    }

    /// Adds the next record.
    pub(crate) fn write(&mut self, into: &mut Vec<u8>) -> Result<()> {
        let end = into.len() + SIZE - CLOSE.len();
        let (clock, trace, span, peer) = (self.next(), (self.next(), self.next()), self.next(), self.next());
        write!(
            into,
            "{{\"time\":\"2026-03-01T{:02}:{:02}:{:02}.{:06}Z\",\"level\":\"{}\",\"pod\":\"{}-{}\",",
            clock % 24,
            (clock >> 8) % 60,
            (clock >> 16) % 60,
            (clock >> 24) % 1_000_000,
            self.one_of(&LEVELS),
            self.one_of(&WORDS),
            clock >> 60,
        )?;
        write!(into, "\"trace\":\"{:016x}{:016x}\",\"span\":\"{span:016x}\",", trace.0, trace.1)?;
        write!(
            into,
            "\"peer\":\"10.{}.{}.{}:{}\",\"path\":\"/api/v1/{}/{}\",\"status\":{},\"duration_us\":{},\"message\":\"",
            peer % 4,
            (peer >> 8) % 256,
            (peer >> 16) % 256,
            1024 + (peer >> 24) % 60_000,
            self.one_of(&WORDS),
            (peer >> 40) % 1_000_000,
            self.one_of(&STATUSES),
            span % 250_000,
        )?;
        while into.len() < end {
            into.extend_from_slice(self.one_of(&WORDS).as_bytes());
            into.push(b' ');
        }
        into.truncate(end);
        into.extend_from_slice(CLOSE);
        Ok(())
    }

    /// Adds so many records, a line each.
    pub(crate) fn write_lines(&mut self, count: usize, into: &mut Vec<u8>) -> Result<()> {
        for _ in 0..count {
            self.write(into)?;
            into.push(b'\n');
        }
        Ok(())
    }

    /// splitmix64: a few instructions, so that making records takes little of what is measured.
    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.state ^ (self.state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn one_of(&mut self, words: &[&'static str]) -> &'static str {
        let index = usize::try_from(self.next() >> 32).unwrap_or_default() % words.len();
        words.get(index).copied().unwrap_or_default()
    }
}

/// The bytes of these records when they are compressed once: as lines, in pieces of about the size of the product's batches, at its level.
pub(crate) fn packed_bytes(mut records: Records, count: usize) -> Result<u64> {
    let mut bytes = 0;
    let mut left = count;
    while left > 0 {
        let lines = left.min(PIECE / SIZE);
        let mut plain = Vec::with_capacity(PIECE + PIECE / SIZE);
        records.write_lines(lines, &mut plain)?;
        bytes += zstd::bulk::compress(&plain, LEVEL)?.len() as u64;
        left -= lines;
    }
    Ok(bytes)
}

const PIECE: usize = 1 << 20;
const LEVEL: i32 = 1;

const CLOSE: &[u8] = b"\"}";
const LEVELS: [&str; 4] = ["info", "info", "warn", "error"];
const STATUSES: [&str; 5] = ["200", "200", "201", "404", "503"];
const WORDS: [&str; 64] = [
    "orders",
    "cart",
    "user",
    "payment",
    "invoice",
    "stock",
    "search",
    "session",
    "token",
    "cache",
    "queue",
    "worker",
    "request",
    "response",
    "timeout",
    "retry",
    "upstream",
    "backend",
    "connection",
    "closed",
    "opened",
    "reset",
    "by",
    "peer",
    "after",
    "before",
    "while",
    "reading",
    "writing",
    "header",
    "body",
    "from",
    "to",
    "the",
    "of",
    "and",
    "failed",
    "succeeded",
    "started",
    "finished",
    "scheduled",
    "evicted",
    "pod",
    "node",
    "volume",
    "mounted",
    "image",
    "pulled",
    "container",
    "created",
    "killed",
    "probe",
    "ready",
    "not",
    "found",
    "denied",
    "allowed",
    "policy",
    "lease",
    "renewed",
    "leader",
    "elected",
    "synced",
    "deleted",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_record_is_json_of_the_size_and_the_seed_decides_which() {
        let text = |seed: u64| {
            let mut text = Vec::new();
            Records::new(seed).write_lines(1_000, &mut text).unwrap();
            text
        };
        assert_eq!(text(7), text(7));
        assert_ne!(text(7), text(8));
        for line in text(7).split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            assert_eq!(line.len(), SIZE);
            serde_json::from_slice::<serde_json::Value>(line).unwrap();
        }
    }

    #[test]
    fn the_yardstick_counts_every_record_and_is_no_flattery() {
        let packed = packed_bytes(Records::new(1), 10_000).unwrap();
        let plain = (10_000 * SIZE) as u64;
        assert!(packed * 2 < plain && packed * 5 > plain, "{packed} of {plain}");
        assert!(packed_bytes(Records::new(1), 10_001).unwrap() > packed);
    }
}
