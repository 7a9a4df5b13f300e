//! A question and its answer, again and again: what a person at a terminal feels.

use crate::host::{Talk, Turn};
use bytes::Bytes;
use mctunnel_mux::{Moment, Read};
use std::{collections::VecDeque, time::Duration};

/// Sends a few bytes, waits until as many came back, notes how long that took, and rests.
#[derive(Debug)]
pub struct Pinger {
    every: Duration,
    size: usize,
    asked: Option<Moment>,
    missing: usize,
    next: Moment,
}

impl Pinger {
    /// Asks with so many bytes, so long after each answer.
    #[must_use]
    pub fn new(size: usize, every: Duration) -> Self {
        Self { every, size, asked: None, missing: 0, next: Moment::ZERO }
    }

    fn hear(&mut self, turn: &mut Turn<'_>) {
        while let Ok(Read::Bytes(bytes)) = turn.connection.read(turn.now, turn.stream, usize::MAX) {
            turn.outcome.read += u64::try_from(bytes.len()).unwrap_or(u64::MAX);
            self.missing = self.missing.saturating_sub(bytes.len());
        }
        if self.missing == 0
            && let Some(asked) = self.asked.take()
        {
            turn.outcome.round_trips.push(turn.now.since(asked));
            self.next = turn.now + self.every;
        }
    }
}

impl Talk for Pinger {
    fn act(&mut self, turn: &mut Turn<'_>) {
        self.hear(turn);
        if turn.outcome.cut.is_some() || turn.outcome.refused.is_some() {
            return turn.release();
        }
        if self.asked.is_none() && self.next <= turn.now {
            let question = vec![b'?'; self.size];
            if turn.connection.write(turn.stream, &mut question.into()).is_ok() {
                (self.asked, self.missing) = (Some(turn.now), self.size);
            }
        }
        if self.asked.is_none() {
            turn.wake_at(self.next);
        }
    }
}

/// Sends back what it reads, and ends when the other end does.
#[derive(Debug, Default)]
pub struct Echo {
    held: VecDeque<Bytes>,
    ended: bool,
}

impl Echo {
    fn give_back(&mut self, turn: &mut Turn<'_>) {
        while let Some(front) = self.held.front_mut() {
            let before = front.len();
            if turn.connection.write(turn.stream, front).is_err() || front.len() == before {
                return;
            }
            if front.is_empty() {
                self.held.pop_front();
            }
        }
    }
}

impl Talk for Echo {
    fn act(&mut self, turn: &mut Turn<'_>) {
        self.give_back(turn);
        while self.held.is_empty() && !self.ended {
            match turn.connection.read(turn.now, turn.stream, usize::MAX) {
                Ok(Read::Bytes(bytes)) => {
                    turn.outcome.read += u64::try_from(bytes.len()).unwrap_or(u64::MAX);
                    self.held.push_back(bytes);
                    self.give_back(turn);
                }
                Ok(Read::Blocked) => return,
                Ok(Read::End) => self.ended = turn.connection.finish(turn.stream).is_ok(),
                Err(_) => return turn.release(),
            }
        }
        if self.ended && self.held.is_empty() {
            turn.release();
        }
    }
}
