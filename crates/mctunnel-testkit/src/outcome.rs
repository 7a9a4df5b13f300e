//! What became of a stream at one end, and whether both ends tell the same story.

use mctunnel_mux::{EndedBy, Moment, RefuseCode, ResetCode, StreamError};
use std::{fmt, time::Duration};

/// What became of a stream, as one end saw it.
#[derive(Debug, Clone, Default)]
pub struct Outcome {
    /// When this end first knew of the stream.
    pub begun_at: Moment,
    /// When the stream was joined.
    pub joined_at: Option<Moment>,
    /// Bytes the connection took from this end.
    pub written: u64,
    /// This end finished its direction behind `written` bytes.
    pub finished: bool,
    /// Bytes read, each compared with what the other end sends.
    pub read: u64,
    /// When the first byte was read.
    pub first_byte_at: Option<Moment>,
    /// How reading ended.
    pub end: ReadEnd,
    /// Why writing stopped early.
    pub write_error: Option<StreamError>,
    /// The stream was not opened.
    pub refused: Option<RefuseCode>,
    /// The connection told that the stream was cut.
    pub cut: Option<(ResetCode, EndedBy)>,
    /// This end cut the stream.
    pub reset: bool,
    /// This end let go before it had seen the end of the other direction.
    pub gave_up: bool,
    /// This end has let go.
    pub released: bool,
    /// Round trips a pinger measured.
    pub round_trips: Vec<Duration>,
    /// What no run may show, at the moment it happened.
    pub fault: Option<String>,
}

/// How reading ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ReadEnd {
    /// It has not.
    #[default]
    Open,
    /// The other end finished and every byte was read.
    Clean,
    /// The stream was cut.
    Error(StreamError),
}

/// A promise of the multiplexer that a run has seen broken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation(pub String);

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Violation {}

impl Outcome {
    fn check(&self, writer: Option<&Self>, intact: bool) -> Result<(), String> {
        if let Some(fault) = &self.fault {
            return Err(fault.clone());
        }
        if !self.released {
            return Err("it never came to an end".to_owned());
        }
        let (written, finished) = writer.map_or((0, false), |w| (w.written, w.finished));
        if self.read > written {
            return Err(format!("{} bytes were read of {written} written", self.read));
        }
        if self.end == ReadEnd::Clean && !(finished && self.read == written) {
            return Err(format!("a clean end behind {} of {written} bytes, finished: {finished}", self.read));
        }
        let told = matches!(self.end, ReadEnd::Clean | ReadEnd::Error(_)) || self.refused.is_some();
        if !told && !self.gave_up && !self.reset {
            return Err("it ended without an end and without an error".to_owned());
        }
        let complete = finished && writer.is_some_and(|w| !w.reset);
        if complete && intact && !self.gave_up && !self.reset && self.end != ReadEnd::Clean {
            return Err(format!("all {written} bytes were sent and finished, but reading ended with {:?}", self.end));
        }
        Ok(())
    }
}

/// Holds the two ends of one stream against each other. `intact` says that the tunnel lived to the end of the run. The other end may
/// know nothing of a stream that it refused unseen, or that the tunnel was lost under.
pub fn agree(opener: &Outcome, other: Option<&Outcome>, intact: bool) -> Result<(), String> {
    let tell = |who: &str, text: String| format!("{who}: {text}\n  opener {opener:?}\n  other {other:?}");
    // What an end wrote before it joined is only promised once it has.
    let joined = other.is_some_and(|other| other.joined_at.is_some());
    opener.check(other, intact && joined).map_err(|text| tell("at the opener", text))?;
    let Some(other) = other else { return Ok(()) };
    if opener.refused.is_some() && other.refused.is_none() {
        return Err(tell("at the opener", "refused, though nobody refused it".to_owned()));
    }
    other.check(Some(opener), intact && other.refused.is_none()).map_err(|text| tell("at the other end", text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(read: u64, written: u64, end: ReadEnd) -> Outcome {
        Outcome {
            joined_at: Some(Moment::ZERO),
            read,
            written,
            end,
            finished: true,
            released: true,
            ..Outcome::default()
        }
    }

    #[test]
    fn a_truncated_clean_end_is_seen() {
        let whole = ended(5, 7, ReadEnd::Clean);
        assert_eq!(agree(&whole, Some(&ended(7, 5, ReadEnd::Clean)), true), Ok(()));
        for wrong in [
            ended(6, 5, ReadEnd::Clean),
            ended(8, 5, ReadEnd::Clean),
            ended(7, 4, ReadEnd::Clean),
            ended(7, 5, ReadEnd::Open),
            ended(7, 5, ReadEnd::Error(StreamError::Unknown)),
            Outcome { released: false, ..ended(7, 5, ReadEnd::Clean) },
            Outcome { finished: false, ..ended(7, 5, ReadEnd::Clean) },
        ] {
            assert!(agree(&whole, Some(&wrong), true).is_err(), "{wrong:?}");
        }
        assert!(agree(&whole, None, false).is_err(), "a clean end needs somebody who finished");
    }
}
