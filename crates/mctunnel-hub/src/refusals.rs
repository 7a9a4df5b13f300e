//! How often a tunnel's opens may be refused for what they ask: each of these refusals is a line in the audit log, which others need.
//! An agent that asks too often is answered late, and beyond that without a line of its own. Nobody else waits meanwhile.

use parking_lot::Mutex;
use std::{sync::Arc, time::Duration};
use tokio::time::{Instant, sleep_until};
use tokio_util::task::TaskTracker;

/// Refusals that cost an agent nothing, and how many a second it may have then.
const AT_ONCE: u32 = 1_000;
const PER_SECOND: u64 = 50;

/// Refusals of a tunnel that are answered late, at most: each holds the headers of its open until then.
pub(crate) const MOST_LATE: u32 = 64;

const EACH: Duration = Duration::from_millis(1_000 / PER_SECOND);

/// The refusals of one tunnel.
#[derive(Debug)]
pub(crate) struct Refusals {
    tasks: TaskTracker,
    pace: Arc<Mutex<Pace>>,
}

/// Whether a refusal is written down.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line {
    /// It is, and so many before it were not.
    Written { left_out: u64 },
    /// There were too many.
    LeftOut,
}

impl Refusals {
    pub(crate) fn new(tasks: TaskTracker) -> Self {
        Self { tasks, pace: Arc::new(Mutex::new(Pace { due: Instant::now(), left_out: 0 })) }
    }

    /// Calls `answer` when its turn has come: at once, at most `MOST_LATE` turns late, or at once without a line.
    pub(crate) fn in_turn(&self, answer: impl FnOnce(Line) + Send + 'static) {
        let turn = self.pace.lock().turn();
        match turn {
            Turn::Now => answer(self.pace.lock().line()),
            Turn::At(when) => {
                let pace = Arc::clone(&self.pace);
                // It ends soon by itself, and a line that is due is written though the tunnel goes.
                self.tasks.spawn(async move {
                    sleep_until(when).await;
                    let line = pace.lock().line();
                    answer(line);
                });
            }
            Turn::Never => answer(Line::LeftOut),
        }
    }
}

#[derive(Debug)]
struct Pace {
    /// When all that was refused is forgotten.
    due: Instant,
    left_out: u64,
}

#[derive(Debug, PartialEq, Eq)]
enum Turn {
    Now,
    At(Instant),
    Never,
}

impl Pace {
    fn turn(&mut self) -> Turn {
        let now = Instant::now();
        let due = self.due.max(now) + EACH;
        let late = due.duration_since(now).saturating_sub(EACH * AT_ONCE);
        if late > EACH * MOST_LATE {
            self.left_out = self.left_out.saturating_add(1);
            return Turn::Never;
        }
        self.due = due;
        if late.is_zero() { Turn::Now } else { Turn::At(now + late) }
    }

    fn line(&mut self) -> Line {
        Line::Written { left_out: std::mem::take(&mut self.left_out) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::{sync::mpsc, time::advance};

    #[tokio::test(start_paused = true)]
    async fn t22_refusals_beyond_the_pace_come_late_and_beyond_that_leave_no_line() {
        let refusals = Refusals::new(TaskTracker::new());
        let (tell, mut told) = mpsc::channel(2_000);
        let refuse = |count: u32| {
            for _ in 0..count {
                let tell = tell.clone();
                refusals.in_turn(move |line| tell.try_send((Instant::now(), line)).unwrap());
            }
        };
        let begin = Instant::now();
        refuse(AT_ONCE + MOST_LATE + 7);
        let mut at_once = Vec::new();
        while let Ok((_, line)) = told.try_recv() {
            at_once.push(line);
        }
        let left_out = at_once.iter().filter(|line| **line == Line::LeftOut).count();
        assert_eq!((left_out, u32::try_from(at_once.len()).unwrap()), (7, AT_ONCE + 7));

        let (when, first) = told.recv().await.unwrap();
        assert_eq!(
            (when - begin, first),
            (EACH, Line::Written { left_out: 7 }),
            "the next line says how many have none"
        );
        for _ in 1..MOST_LATE {
            assert_eq!(told.recv().await.unwrap().1, Line::Written { left_out: 0 });
        }
        assert_eq!(begin.elapsed(), EACH * MOST_LATE);

        advance(EACH * AT_ONCE).await;
        refuse(1);
        assert!(told.try_recv().is_ok(), "after a while all is forgotten");
    }
}
