//! One direction of a carrier in virtual time: it delays, limits, chunks, stalls, cuts and corrupts, but never reorders.

use crate::rng::Rng;
use bytes::{Bytes, BytesMut};
use mctunnel_mux::Moment;
use std::{collections::VecDeque, time::Duration};

/// What a link does to the bytes it carries. The default does nothing: at once, whole, for ever.
#[derive(Debug, Clone)]
pub struct Knobs {
    /// Time from one end to the other.
    pub delay: Duration,
    /// How much passes in a second.
    pub bytes_per_second: Option<u64>,
    /// Bytes the sender's side holds before it takes no more; only with a limit on what passes.
    pub backlog: u64,
    /// The smallest and the largest piece the receiver is handed.
    pub chunk: (usize, usize),
    /// Times in which nothing enters the line.
    pub stalls: Vec<Stall>,
    /// The line breaks behind so many bytes, wherever in a frame that is.
    pub cut_at: Option<u64>,
    /// Positions of bytes that arrive with one bit changed.
    pub flips: Vec<u64>,
    /// Bytes put between two frames, at the first border behind the position.
    pub injections: Vec<(u64, Bytes)>,
}

/// A time in which a link takes nothing.
#[derive(Debug, Clone, Copy)]
pub struct Stall {
    /// Its begin, counted from the start of the run.
    pub from: Duration,
    /// Its end.
    pub until: Duration,
}

impl Default for Knobs {
    fn default() -> Self {
        Self {
            delay: Duration::ZERO,
            bytes_per_second: None,
            backlog: 128 * 1024,
            chunk: (usize::MAX, usize::MAX),
            stalls: Vec::new(),
            cut_at: None,
            flips: Vec::new(),
            injections: Vec::new(),
        }
    }
}

impl Knobs {
    /// A link that only delays.
    #[must_use]
    pub fn delay(delay: Duration) -> Self {
        Self { delay, ..Self::default() }
    }

    /// A link with a delay and a limit on what passes.
    #[must_use]
    pub fn limited(delay: Duration, bytes_per_second: u64) -> Self {
        Self { delay, bytes_per_second: Some(bytes_per_second), ..Self::default() }
    }
}

/// What comes out at the far end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Arrival {
    /// Bytes.
    Bytes(Bytes),
    /// Nothing more: the line broke or was hung up.
    Lost,
}

/// One direction of a carrier.
#[derive(Debug)]
pub struct Link {
    knobs: Knobs,
    rng: Rng,
    /// When the line has taken all it was given; in nanoseconds, because a byte takes less than a microsecond.
    free_at: u64,
    carried: u64,
    under_way: VecDeque<(Moment, Arrival)>,
    broken: bool,
}

/// What a link without a limit takes at one moment.
const BURST: u64 = 256 * 1024;

impl Link {
    /// A link with these knobs; what they leave open follows from the generator.
    #[must_use]
    pub fn new(mut knobs: Knobs, rng: Rng) -> Self {
        knobs.flips.sort_unstable();
        knobs.injections.sort_by_key(|(position, _)| *position);
        Self { knobs, rng, free_at: 0, carried: 0, under_way: VecDeque::new(), broken: false }
    }

    /// How many bytes the sender may hand over now.
    #[must_use]
    pub fn room(&self, now: Moment) -> u64 {
        let waiting = self.free_at.saturating_sub(nanos(now.elapsed()));
        match self.knobs.bytes_per_second {
            _ if self.broken => BURST,
            None if waiting > 0 => 0,
            None => BURST,
            Some(rate) => self.knobs.backlog.saturating_sub(scale(waiting, rate, SECOND)),
        }
    }

    /// When there is room again.
    #[must_use]
    pub fn room_at(&self) -> Moment {
        let half = match self.knobs.bytes_per_second {
            Some(rate) => scale(self.knobs.backlog / 2, SECOND, rate),
            None => 0,
        };
        moment(self.free_at.saturating_sub(half))
    }

    /// Takes whole frames from the sender.
    pub fn send(&mut self, now: Moment, frames: &[u8]) {
        let mut bytes = BytesMut::from(frames);
        while self.knobs.injections.first().is_some_and(|(position, _)| *position <= self.carried) {
            let (_, injected) = self.knobs.injections.remove(0);
            bytes.extend_from_slice(&injected);
        }
        self.corrupt(&mut bytes);
        let mut bytes = bytes.freeze();
        while !bytes.is_empty() && !self.broken {
            let (low, high) = self.knobs.chunk;
            let size = self.rng.size(low, high).clamp(1, bytes.len());
            self.carry(now, bytes.split_to(size));
        }
    }

    /// The sender is done: the receiver learns it behind the last byte.
    pub fn hang_up(&mut self, now: Moment) {
        if !self.broken {
            self.broken = true;
            let at = self.arrival(now, 0);
            self.under_way.push_back((at, Arrival::Lost));
        }
    }

    /// Whether everything it was given has arrived, and it takes more.
    #[must_use]
    pub fn is_idle(&self, now: Moment) -> bool {
        self.under_way.is_empty() && self.room(now) > 0
    }

    /// When the next piece arrives.
    #[must_use]
    pub fn next_arrival(&self) -> Option<Moment> {
        self.under_way.front().map(|(at, _)| *at)
    }

    /// Takes what has arrived by now.
    pub fn arrive(&mut self, now: Moment) -> Option<Arrival> {
        self.under_way.pop_front_if(|(at, _)| *at <= now).map(|(_, arrival)| arrival)
    }

    fn carry(&mut self, now: Moment, mut chunk: Bytes) {
        let left = self.knobs.cut_at.map_or(u64::MAX, |cut| cut.saturating_sub(self.carried));
        chunk.truncate(usize::try_from(left).unwrap_or(usize::MAX));
        let len = u64::try_from(chunk.len()).unwrap_or(u64::MAX);
        self.carried += len;
        let at = self.arrival(now, len);
        if !chunk.is_empty() {
            self.under_way.push_back((at, Arrival::Bytes(chunk)));
        }
        if self.knobs.cut_at.is_some_and(|cut| cut <= self.carried) {
            self.broken = true;
            self.under_way.push_back((at, Arrival::Lost));
        }
    }

    /// Occupies the line for `len` bytes and tells when the last of them arrives.
    fn arrival(&mut self, now: Moment, len: u64) -> Moment {
        let mut start = self.free_at.max(nanos(now.elapsed()));
        for stall in &self.knobs.stalls {
            if (nanos(stall.from)..nanos(stall.until)).contains(&start) {
                start = nanos(stall.until);
            }
        }
        self.free_at = start + self.knobs.bytes_per_second.map_or(0, |rate| scale(len, SECOND, rate));
        moment(self.free_at + nanos(self.knobs.delay))
    }

    fn corrupt(&mut self, bytes: &mut BytesMut) {
        let from = self.carried;
        while let Some(position) = self.knobs.flips.first().copied() {
            let index = usize::try_from(position.saturating_sub(from)).unwrap_or(usize::MAX);
            let Some(byte) = bytes.get_mut(index) else { break };
            *byte ^= 1 << self.rng.within(0, 7);
            self.knobs.flips.remove(0);
        }
    }
}

const SECOND: u64 = 1_000_000_000;

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Never before it happens.
fn moment(nanos: u64) -> Moment {
    Moment::after_start(Duration::from_micros(nanos.div_ceil(1000)))
}

fn scale(value: u64, by: u64, over: u64) -> u64 {
    let scaled = u128::from(value) * u128::from(by) / u128::from(over.max(1));
    u64::try_from(scaled).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// Everything that arrives, with the millisecond of its arrival.
    fn carried(knobs: Knobs, frames: &[&[u8]]) -> Vec<(u128, Arrival)> {
        let mut link = Link::new(knobs, Rng::new(1));
        frames.iter().for_each(|frame| link.send(Moment::ZERO, frame));
        let mut arrivals = Vec::new();
        while let Some(at) = link.next_arrival() {
            arrivals.push((at.elapsed().as_millis(), link.arrive(at).unwrap()));
        }
        arrivals
    }

    fn bytes(text: &'static str) -> Arrival {
        Arrival::Bytes(text.into())
    }

    #[test]
    fn each_knob_does_its_own() {
        assert_eq!(carried(Knobs::delay(MS * 5), &[b"ab", b"c"]), [(5, bytes("ab")), (5, bytes("c"))]);
        assert_eq!(carried(Knobs::limited(MS * 5, 1000), &[b"ab", b"c"]), [(7, bytes("ab")), (8, bytes("c"))]);
        let single = Knobs { chunk: (1, 1), ..Knobs::default() };
        assert_eq!(carried(single, &[b"ab"]), [(0, bytes("a")), (0, bytes("b"))]);
        let stalls = vec![Stall { from: Duration::ZERO, until: MS * 9 }];
        assert_eq!(carried(Knobs { stalls, ..Knobs::default() }, &[b"a"]), [(9, bytes("a"))]);
        let cut = Knobs { cut_at: Some(3), ..Knobs::default() };
        assert_eq!(carried(cut, &[b"ab", b"cd", b"e"]), [(0, bytes("ab")), (0, bytes("c")), (0, Arrival::Lost)]);
        let injections = vec![(1, Bytes::from_static(b"X"))];
        let injected = Knobs { injections, ..Knobs::default() };
        assert_eq!(carried(injected, &[b"ab", b"c"]), [(0, bytes("ab")), (0, bytes("cX"))]);
        let flipped = carried(Knobs { flips: vec![1], ..Knobs::default() }, &[b"ab"]);
        assert!(
            matches!(&flipped[..], [(0, Arrival::Bytes(got))] if got[0] == b'a' && (got[1] ^ b'b').count_ones() == 1)
        );
    }

    #[test]
    fn a_full_line_takes_no_more_until_half_has_left() {
        let mut link = Link::new(Knobs { backlog: 100, ..Knobs::limited(Duration::ZERO, 1000) }, Rng::new(1));
        link.send(Moment::ZERO, &[0; 100]);
        assert_eq!(link.room(Moment::ZERO), 0);
        assert_eq!(link.room_at(), Moment::ZERO + MS * 50);
        assert_eq!(link.room(link.room_at()), 50);
    }
}
