//! How far the log of a container was taken, so that it can be resumed by a server that knows only whole seconds. Pure: no clock, no I/O.
//!
//! Lines have the time at which the container runtime read them, to the nanosecond, and several may have the same. Standard output and
//! standard error are read apart, so that neighbouring lines may be out of order by a little. So a place is a window: of the last
//! [`WINDOW`] moments it knows how many lines were taken at each, and everything before them counts as taken.
//!
//! ```text
//!    settled        recent: moment -> lines       open: moment, bytes
//!  ..........|  10:00:01.5 -> 1, 10:00:01.7 -> 2 | 10:00:02.1, the first 32 KiB of a line that goes on
//! ```

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How many moments a place knows apart: lines that are further out of order than this are not.
const WINDOW: usize = 16;

/// A line may have a time that is so much before that of the line in front of it, in nanoseconds.
const OUT_OF_ORDER: i64 = NANOS;

const NANOS: i64 = 1_000_000_000;

/// A place in the logs of all instances of a container.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Place {
    /// The instance that the last lines are from.
    #[serde(rename = "r")]
    restart: u32,
    /// Whatever is from before this moment was taken.
    #[serde(rename = "s", default, skip_serializing_if = "Option::is_none")]
    settled: Option<i64>,
    /// The lines taken at each of the last moments.
    #[serde(rename = "w", default)]
    recent: BTreeMap<i64, u32>,
    /// The line of which the beginning was taken.
    #[serde(rename = "o", default, skip_serializing_if = "Option::is_none")]
    open: Option<OpenLine>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct OpenLine {
    #[serde(rename = "t")]
    time: i64,
    #[serde(rename = "b")]
    bytes: usize,
}

/// A line or a part of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Piece {
    /// Nanoseconds since 1970.
    pub(crate) time: i64,
    pub(crate) bytes: Vec<u8>,
    pub(crate) end: PieceEnd,
}

/// What is behind a piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PieceEnd {
    /// The newline.
    Newline,
    /// More of the same line.
    More,
    /// Nothing: the log ended without a newline.
    Nothing,
}

impl Place {
    /// Reads a place as [`Place::text`] wrote it.
    pub(crate) fn read(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    pub(crate) fn text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    pub(crate) fn restart(&self) -> u32 {
        self.restart
    }

    /// The second, since 1970, from which on lines are to be asked for again; `None`: all of them.
    pub(crate) fn since(&self) -> Option<i64> {
        let open = self.open.map(|open| open.time);
        let first = self.recent.keys().next().copied().into_iter().chain(open).min();
        first.map(|nanos| nanos.saturating_sub(OUT_OF_ORDER).div_euclid(NANOS))
    }

    /// Moves behind a piece.
    pub(crate) fn took(&mut self, restart: u32, piece: &Piece) {
        self.restart = restart;
        let Piece { time, bytes, end } = piece;
        if *end == PieceEnd::More {
            let before = self.open.filter(|open| open.time == *time).map_or(0, |open| open.bytes);
            self.open = Some(OpenLine { time: *time, bytes: before.saturating_add(bytes.len()) });
            return;
        }
        self.open = None;
        if self.settled.is_some_and(|settled| *time < settled) {
            return;
        }
        let lines = self.recent.entry(*time).or_default();
        *lines = lines.saturating_add(1);
        while self.recent.len() > WINDOW {
            let Some((oldest, _)) = self.recent.pop_first() else { return };
            self.settled = Some(oldest.saturating_add(1));
        }
    }

    /// What of an answer that begins at [`Place::since`] is known already.
    pub(crate) fn known(&self) -> Known {
        Known { settled: self.settled, recent: self.recent.clone(), open: self.open }
    }
}

/// Lines that were taken before and come again.
#[derive(Debug, Default)]
pub(crate) struct Known {
    settled: Option<i64>,
    recent: BTreeMap<i64, u32>,
    open: Option<OpenLine>,
}

/// How much of a line was taken before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Taken {
    Nothing,
    First(usize),
    All,
}

impl Known {
    /// How much of the line that begins now was taken. To be asked once for each line, in their order.
    pub(crate) fn of_line(&mut self, time: i64) -> Taken {
        if let Some(lines) = self.recent.get_mut(&time).filter(|lines| **lines > 0) {
            *lines -= 1;
            return Taken::All;
        }
        if let Some(open) = self.open.take_if(|open| open.time == time) {
            return Taken::First(open.bytes);
        }
        if self.settled.is_some_and(|settled| time < settled) { Taken::All } else { Taken::Nothing }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(time: i64) -> Piece {
        Piece { time, bytes: b"x".to_vec(), end: PieceEnd::Newline }
    }

    fn behind(times: &[i64]) -> Place {
        let mut place = Place::default();
        times.iter().for_each(|time| place.took(0, &line(*time)));
        place
    }

    fn of_lines(place: &Place, times: &[i64]) -> Vec<Taken> {
        let mut known = place.known();
        times.iter().map(|time| known.of_line(*time)).collect()
    }

    #[test]
    fn lines_of_one_moment_are_counted() {
        use Taken::{All, Nothing};
        let place = behind(&[7, 7]);
        assert_eq!(of_lines(&place, &[7, 7, 7, 8]), [All, All, Nothing, Nothing]);
    }

    #[test]
    fn a_line_that_is_out_of_order_is_neither_lost_nor_taken_twice() {
        use Taken::{All, Nothing};
        // In the file: 5, 9, 8. Taken: 5 and 9.
        assert_eq!(of_lines(&behind(&[5, 9]), &[5, 9, 8]), [All, All, Nothing]);
        assert_eq!(of_lines(&behind(&[5, 9, 8]), &[5, 9, 8, 10]), [All, All, All, Nothing]);
    }

    #[test]
    fn what_is_before_the_window_was_taken() {
        use Taken::{All, Nothing};
        let times: Vec<i64> = (0..100).collect();
        let place = behind(&times);
        assert!(of_lines(&place, &times).iter().all(|taken| *taken == All));
        assert_eq!(place.recent.len(), WINDOW);
        // After a rotation the file begins behind the place.
        assert_eq!(of_lines(&place, &[100, 101]), [Nothing, Nothing]);
        assert!(place.text().len() < 300, "{}", place.text());
    }

    #[test]
    fn it_is_resumed_a_second_before_the_oldest_moment_in_the_window() {
        assert_eq!(Place::default().since(), None);
        assert_eq!(behind(&[3 * NANOS + 999_999_999, 5 * NANOS]).since(), Some(2));
        assert_eq!(behind(&[-1]).since(), Some(-2));
    }

    #[test]
    fn the_beginning_of_a_long_line_is_not_taken_again() {
        let mut place = behind(&[4]);
        for _ in 0..2 {
            place.took(3, &Piece { time: 4, bytes: vec![b'x'; 10], end: PieceEnd::More });
        }
        let again = Place::read(&place.text()).unwrap();
        assert_eq!((again.restart(), &again), (3, &place));
        assert_eq!(of_lines(&again, &[4, 4, 4]), [Taken::All, Taken::First(20), Taken::Nothing]);
        place.took(3, &line(4));
        assert_eq!(of_lines(&place, &[4, 4]), [Taken::All, Taken::All]);
    }
}
