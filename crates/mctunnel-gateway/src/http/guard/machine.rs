//! The guard without the connection: told what bytes came, it says how many of them may be passed on. No I/O, no clock.
//!
//! ```text
//! head ──> body of a length ──> head ...
//!      ──> chunks, trailers ──> head ...
//!      ──> upgraded: anything, for ever
//! ```

use super::{
    BadBody, BadHead, GuardConfig,
    chunked::Chunks,
    head::{self, Body},
    scan::HeadScan,
};
use std::sync::Arc;

#[cfg(test)]
mod tests;

/// Follows one connection from head to body to head.
#[derive(Debug)]
pub(super) struct Guard {
    config: Arc<GuardConfig>,
    state: State,
}

#[derive(Debug)]
enum State {
    Head(HeadScan),
    Length(u64),
    Chunked(Chunks),
    Upgraded,
}

/// What to do with bytes that came.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Handled {
    /// So many of them may be passed on.
    pub(super) pass: usize,
    /// What to do with the rest.
    pub(super) rest: Rest,
}

/// What to do with the bytes behind those that may be passed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rest {
    /// Keep them, and hand them in again with more behind them.
    Keep,
    /// Throw them away and answer this.
    Refuse(BadHead),
    /// Throw them away and break the connection.
    Break(BadBody),
}

impl Guard {
    pub(super) fn new(config: Arc<GuardConfig>) -> Self {
        Self { config, state: State::Head(HeadScan::default()) }
    }

    /// Judges bytes: those that were kept the last time, and new ones behind them.
    pub(super) fn handle(&mut self, bytes: &[u8]) -> Handled {
        let mut pass = 0;
        loop {
            let rest = bytes.get(pass..).unwrap_or_default();
            if rest.is_empty() {
                return Handled { pass, rest: Rest::Keep };
            }
            let (passed, rest) = self.step(rest);
            pass += passed;
            match rest {
                None => {}
                Some(rest) => return Handled { pass, rest },
            }
        }
    }

    /// Goes up to the end of what is being read; `None` means that there may be more to judge.
    fn step(&mut self, bytes: &[u8]) -> (usize, Option<Rest>) {
        match &mut self.state {
            State::Head(scan) => match scan.scan(bytes, self.config.max_head_bytes) {
                Ok(None) => (0, Some(Rest::Keep)),
                Ok(Some(length)) => match head::check(bytes.get(..length).unwrap_or(bytes), &self.config) {
                    Ok(body) => {
                        self.state = State::behind_head(body);
                        (length, None)
                    }
                    Err(reason) => (0, Some(Rest::Refuse(reason))),
                },
                Err(reason) => (0, Some(Rest::Refuse(reason))),
            },
            State::Length(left) => {
                let here = bytes.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
                *left -= u64::try_from(here).unwrap_or(*left);
                if *left == 0 {
                    self.state = State::Head(HeadScan::default());
                }
                (here, None)
            }
            State::Chunked(chunks) => {
                let (passed, outcome) = chunks.handle(bytes);
                match outcome {
                    Ok(false) => (passed, None),
                    Ok(true) => {
                        self.state = State::Head(HeadScan::default());
                        (passed, None)
                    }
                    Err(error) => (passed, Some(Rest::Break(error))),
                }
            }
            State::Upgraded => (bytes.len(), None),
        }
    }
}

impl State {
    fn behind_head(body: Body) -> Self {
        match body {
            Body::Length(0) => Self::Head(HeadScan::default()),
            Body::Length(length) => Self::Length(length),
            Body::Chunked => Self::Chunked(Chunks::new()),
            Body::Upgraded => Self::Upgraded,
        }
    }
}
