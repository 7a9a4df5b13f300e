//! The guard without the connection: told what bytes came, it says how many of them may be passed on. No I/O, no clock.
//!
//! ```text
//! head ──> body of a length ──> head ...
//!      ──> chunks, trailers ──> head ...
//!      ──> upgraded: anything, for ever
//! ```

use super::{
    BadBody, BadHead, SharedGuard,
    chunked::Chunks,
    head::{self, Body},
    scan::HeadScan,
};

#[cfg(test)]
mod tests;

/// Follows one connection from head to body to head.
#[derive(Debug)]
pub(super) struct Guard {
    config: SharedGuard,
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
    pub(super) fn new(config: impl Into<SharedGuard>) -> Self {
        Self { config: config.into(), state: State::Head(HeadScan::default()) }
    }

    /// Whether the next byte belongs to the head of a request.
    pub(super) fn is_at_head(&self) -> bool {
        matches!(self.state, State::Head(_))
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
            State::Head(scan) => {
                // As it is now: it may have changed since the connection's last request.
                let config = self.config.now();
                let head = scan.scan(bytes, config.max_head_bytes);
                let checked = match head {
                    Ok(None) => return (0, Some(Rest::Keep)),
                    Ok(Some(length)) => {
                        head::check(bytes.get(..length).unwrap_or(bytes), &config).map(|body| (length, body))
                    }
                    Err(reason) => Err(reason),
                };
                match checked {
                    Ok((length, body)) => {
                        self.state = State::behind_head(body);
                        (length, None)
                    }
                    Err(reason) => (0, Some(Rest::Refuse(reason))),
                }
            }
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
