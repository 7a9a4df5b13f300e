//! Stays awake for a moment when the next message is likely to come at once.
//!
//! A thread that sleeps has to be woken, which costs more than a small message itself, most of all on a virtual machine whose idle
//! processor has to be started again. So a tunnel in a conversation of short turns looks for the next one before it sleeps, and lets
//! every other thread and task go first. Where messages do not follow each other that closely it learns so, and costs nothing.

use std::time::Duration;

#[expect(clippy::disallowed_types, reason = "time of the processor: on a paused clock the moment would never be over")]
pub(crate) type Instant = std::time::Instant;

/// The longest to stay awake for one message.
const LONGEST: Duration = Duration::from_micros(150);
/// A message that came within this after the last one may have come within [`LONGEST`], had nobody slept.
const CLOSE: Duration = Duration::from_micros(500);
/// So many in a row are worth a try; twice as many after each try that was in vain.
const FEWEST: u32 = 8;
const MOST: u32 = 4096;
/// How much a try is believed in at first, and at most. A message that comes in time adds one, one that does not takes one.
const BELIEF: u32 = 8;
const FIRM_BELIEF: u32 = 16;

/// Decides whether to stay awake.
#[derive(Debug)]
pub(crate) struct Linger {
    last: Option<Instant>,
    mode: Mode,
    needed: u32,
    lingering: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// Sleeps, and counts messages that come closely behind each other.
    Sleeps { close: u32 },
    /// Stays awake for the next message.
    Lingers { belief: u32 },
}

impl Linger {
    pub(crate) fn new() -> Self {
        Self { last: None, mode: Mode::Sleeps { close: 0 }, needed: FEWEST, lingering: false }
    }

    /// A message was sent or received: whether to stay awake for the next one.
    pub(crate) fn begins(&mut self, now: Instant) -> bool {
        let gap = self.last.replace(now).map_or(Duration::MAX, |last| now.duration_since(last));
        self.learn(gap);
        self.lingering = matches!(self.mode, Mode::Lingers { .. });
        self.lingering
    }

    /// Whether it is awake for nothing but the next message.
    pub(crate) fn is_lingering(&self) -> bool {
        self.lingering
    }

    /// Nothing has come yet: whether to stay awake for longer.
    pub(crate) fn goes_on(&mut self, now: Instant) -> bool {
        self.lingering &= self.last.is_some_and(|last| now.duration_since(last) < LONGEST);
        self.lingering
    }

    /// Learns from how long a message took to come.
    fn learn(&mut self, gap: Duration) {
        self.mode = match self.mode {
            Mode::Sleeps { close } if gap < CLOSE && close + 1 >= self.needed => Mode::Lingers { belief: BELIEF },
            Mode::Sleeps { close } if gap < CLOSE => Mode::Sleeps { close: close + 1 },
            Mode::Sleeps { .. } => Mode::Sleeps { close: 0 },
            Mode::Lingers { belief: FIRM_BELIEF } if gap < LONGEST => {
                self.needed = FEWEST;
                self.mode
            }
            Mode::Lingers { belief } if gap < LONGEST => Mode::Lingers { belief: belief + 1 },
            Mode::Lingers { belief: belief @ 2.. } => Mode::Lingers { belief: belief - 1 },
            Mode::Lingers { .. } => {
                self.needed = (self.needed * 2).min(MOST);
                Mode::Sleeps { close: 0 }
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds it messages that come this long after each other; gives how long it stayed awake in vain, and how often it did at all.
    fn feed(linger: &mut Linger, start: Instant, gaps: impl IntoIterator<Item = Duration>) -> (Duration, u32) {
        let (mut now, mut vain, mut awake) = (start, Duration::ZERO, 0);
        for gap in gaps {
            if linger.begins(now) {
                awake += 1;
                assert!(linger.goes_on(now));
                vain += if gap < LONGEST { Duration::ZERO } else { LONGEST };
                assert_eq!(linger.goes_on(now + gap), gap < LONGEST);
            }
            now += gap;
        }
        (vain, awake)
    }

    #[test]
    fn it_stays_awake_in_a_conversation_and_is_not_put_off_by_a_hiccup() {
        let mut linger = Linger::new();
        let turns = (0..1000).map(|turn| Duration::from_micros(if turn % 20 == 19 { 3000 } else { 50 }));
        let (_, awake) = feed(&mut linger, Instant::now(), turns);
        assert!(awake > 950, "{awake}");
    }

    #[test]
    fn messages_that_come_now_and_then_find_it_asleep() {
        let seldom = std::iter::repeat_n(Duration::from_millis(5), 10_000);
        assert_eq!(feed(&mut Linger::new(), Instant::now(), seldom), (Duration::ZERO, 0));
    }

    #[test]
    fn what_comes_just_too_late_costs_next_to_nothing() {
        let gap = Duration::from_micros(300);
        let (vain, _) = feed(&mut Linger::new(), Instant::now(), std::iter::repeat_n(gap, 100_000));
        let share = vain.as_secs_f64() / (gap.as_secs_f64() * 100_000.0);
        assert!(share < 0.005, "{share}");
    }
}
