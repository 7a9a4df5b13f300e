//! A stream that follows a plan: so many bytes out, at that pace in, and that ending.

use crate::{
    content::Content,
    host::{Talk, Turn},
    outcome::ReadEnd,
    rng::Rng,
};
use mctunnel_mux::{Moment, Read, ResetCode};
use std::time::Duration;

/// What one end does on one stream.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Bytes to send.
    pub send: u64,
    /// The smallest and the largest single write.
    pub write: (usize, usize),
    /// When sending begins.
    pub start: Start,
    /// The pace of reading.
    pub read: Reading,
    /// What happens when all is sent.
    pub ending: Ending,
    /// Lets go after this time, whatever the state.
    pub hold: Option<Duration>,
}

impl Default for Plan {
    /// Sends nothing, reads all, ends cleanly.
    fn default() -> Self {
        Self {
            send: 0,
            write: (16 * 1024, 64 * 1024),
            start: Start::AtOnce,
            read: Reading::Eager,
            ending: Ending::Finish,
            hold: None,
        }
    }
}

impl Plan {
    /// Sends so many bytes and is otherwise the default.
    #[must_use]
    pub fn send(bytes: u64) -> Self {
        Self { send: bytes, ..Self::default() }
    }

    /// Sends without end.
    #[must_use]
    pub fn endless() -> Self {
        Self::send(u64::MAX)
    }

    /// Sends nothing and reads nothing, for ever.
    #[must_use]
    pub fn deaf() -> Self {
        Self { read: Reading::Never, ending: Ending::KeepOpen, ..Self::default() }
    }
}

/// When sending begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Start {
    /// Behind the OPEN, or as soon as offered.
    #[default]
    AtOnce,
    /// When joined.
    Joined,
    /// When the other end has finished.
    PeerEnded,
}

/// The pace of reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Reading {
    /// All there is, at once.
    #[default]
    Eager,
    /// At most so many bytes in each interval.
    Paced {
        /// So many.
        bytes: usize,
        /// The interval.
        every: Duration,
    },
    /// Nothing, ever.
    Never,
}

/// What happens when all is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Ending {
    /// Finishes, reads the rest and lets go.
    #[default]
    Finish,
    /// Finishes and lets go at once, as a program does that closes its socket behind the last write.
    FinishAndLetGo,
    /// Cuts the stream when so many bytes were written.
    ResetAt(u64),
    /// Leaves its direction open.
    KeepOpen,
}

/// A stream under a [`Plan`].
#[derive(Debug)]
pub struct Flow {
    plan: Plan,
    rng: Rng,
    done_writing: bool,
    /// What may still be read before `next_read`.
    left: usize,
    next_read: Moment,
}

impl Flow {
    /// Follows the plan; what it leaves open follows from the seed.
    #[must_use]
    pub fn new(plan: Plan, seed: u64) -> Self {
        Self { plan, rng: Rng::new(seed), done_writing: false, left: 0, next_read: Moment::ZERO }
    }

    fn push(&mut self, turn: &mut Turn<'_>) {
        let started = match self.plan.start {
            Start::AtOnce => true,
            Start::Joined => turn.outcome.joined_at.is_some(),
            Start::PeerEnded => turn.outcome.end == ReadEnd::Clean,
        };
        while started && !self.done_writing {
            let written = turn.outcome.written;
            if let Ending::ResetAt(at) = self.plan.ending
                && written >= at
            {
                turn.reset(ResetCode::Broken);
                self.done_writing = true;
            } else if written == self.plan.send {
                self.done_writing = true;
                if self.plan.ending != Ending::KeepOpen {
                    let finished = turn.connection.finish(turn.stream);
                    turn.outcome.finished = finished.is_ok();
                    turn.outcome.write_error = finished.err();
                }
            } else if !self.write_once(turn) {
                break;
            }
        }
    }

    /// Tells whether it makes sense to go on.
    fn write_once(&mut self, turn: &mut Turn<'_>) -> bool {
        let left = usize::try_from(self.plan.send - turn.outcome.written).unwrap_or(usize::MAX);
        let size = self.rng.size(self.plan.write.0, self.plan.write.1).min(left);
        let content = Content::of(turn.stream, turn.opener);
        let mut bytes = content.slice(turn.outcome.written, size);
        let before = bytes.len();
        if let Err(error) = turn.connection.write(turn.stream, &mut bytes) {
            turn.outcome.write_error = Some(error);
            self.done_writing = true;
            return false;
        }
        let taken = before - bytes.len();
        turn.outcome.written += u64::try_from(taken).unwrap_or(u64::MAX);
        taken > 0
    }

    fn pull(&mut self, turn: &mut Turn<'_>) {
        let (bytes, every) = match self.plan.read {
            Reading::Eager => (usize::MAX, Duration::ZERO),
            Reading::Paced { bytes, every } => (bytes, every),
            Reading::Never => return,
        };
        if turn.now >= self.next_read {
            (self.left, self.next_read) = (bytes, turn.now + every);
        }
        while self.left > 0 && turn.outcome.end == ReadEnd::Open {
            match turn.connection.read(turn.now, turn.stream, self.left) {
                Ok(Read::Bytes(bytes)) => {
                    self.left -= bytes.len().min(self.left);
                    take(turn, &bytes);
                }
                Ok(Read::End) => turn.outcome.end = ReadEnd::Clean,
                Ok(Read::Blocked) => return,
                Err(error) => turn.outcome.end = ReadEnd::Error(error),
            }
        }
        if turn.outcome.end == ReadEnd::Open {
            turn.wake_at(self.next_read);
        }
    }

    fn settle(&self, turn: &mut Turn<'_>) {
        let until = self.plan.hold.map(|hold| turn.outcome.begun_at + hold);
        let expired = until.is_some_and(|until| until <= turn.now);
        let deaf = self.plan.read == Reading::Never && turn.outcome.cut.is_some();
        let failed = matches!(turn.outcome.end, ReadEnd::Error(_));
        let complete = self.done_writing && turn.outcome.end == ReadEnd::Clean;
        let closing = turn.outcome.finished && self.plan.ending == Ending::FinishAndLetGo;
        if expired || deaf || failed || complete || closing || turn.outcome.reset || turn.outcome.refused.is_some() {
            turn.release();
        } else if let Some(until) = until {
            turn.wake_at(until);
        }
    }
}

impl Talk for Flow {
    fn act(&mut self, turn: &mut Turn<'_>) {
        if turn.outcome.refused.is_none() {
            self.push(turn);
            self.pull(turn);
            self.push(turn);
        }
        self.settle(turn);
    }
}

/// Compares what was read with what the other end sends.
fn take(turn: &mut Turn<'_>, bytes: &[u8]) {
    let content = Content::of(turn.stream, !turn.opener);
    if !content.matches(turn.outcome.read, bytes) && turn.outcome.fault.is_none() {
        turn.outcome.fault = Some(format!("wrong bytes at or behind position {}", turn.outcome.read));
    }
    turn.outcome.first_byte_at.get_or_insert(turn.now);
    turn.outcome.read += u64::try_from(bytes.len()).unwrap_or(u64::MAX);
}
