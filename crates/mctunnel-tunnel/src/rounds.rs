//! Polls something until it has nothing more to do *now*.
//!
//! HTTP/2 wakes the task that polls it for things this very poll then does, such as flushing what was just queued. Handed to the
//! runtime, such a wake-up sends the task to the back of the queue and rouses another thread for it, which costs more than the
//! work. Here a wake-up that comes during the poll only means one more round.

use parking_lot::Mutex;
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
};

/// After this many rounds others get their turn.
const MOST_ROUNDS: usize = 3;

/// The waker of a driver: remembers wake-ups during a poll, passes on those between polls.
#[derive(Debug)]
pub(crate) struct Rounds {
    shared: Arc<Shared>,
    waker: Waker,
}

#[derive(Debug)]
struct Shared {
    polling: AtomicBool,
    woken: AtomicBool,
    task: Mutex<Option<Waker>>,
}

impl Rounds {
    pub(crate) fn new() -> Self {
        let shared =
            Arc::new(Shared { polling: AtomicBool::new(false), woken: AtomicBool::new(false), task: Mutex::new(None) });
        Self { waker: Waker::from(Arc::clone(&shared)), shared }
    }

    /// Polls until it is ready or a whole poll went by without a wake-up.
    pub(crate) fn poll<T>(&self, cx: &Context<'_>, mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>) -> Poll<T> {
        self.remember(cx.waker());
        let mut inner = Context::from_waker(&self.waker);
        for _ in 0..MOST_ROUNDS {
            self.shared.woken.store(false, Ordering::SeqCst);
            self.shared.polling.store(true, Ordering::SeqCst);
            let result = poll(&mut inner);
            // From here on wake-ups go to the runtime; those that came before are seen in `woken`.
            self.shared.polling.store(false, Ordering::SeqCst);
            if result.is_ready() || !self.shared.woken.load(Ordering::SeqCst) {
                return result;
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Called during a poll by one who is about to do all that the wake-ups so far can have meant.
    pub(crate) fn caught_up(&self) {
        self.shared.woken.store(false, Ordering::SeqCst);
    }

    /// Whether there was a wake-up since the last poll.
    pub(crate) fn is_woken(&self) -> bool {
        self.shared.woken.load(Ordering::SeqCst)
    }

    fn remember(&self, waker: &Waker) {
        let mut task = self.shared.task.lock();
        if !task.as_ref().is_some_and(|known| known.will_wake(waker)) {
            *task = Some(waker.clone());
        }
    }
}

impl Wake for Shared {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.woken.store(true, Ordering::SeqCst);
        if !self.polling.load(Ordering::SeqCst)
            && let Some(task) = &*self.task.lock()
        {
            task.wake_by_ref();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;

    #[derive(Default)]
    struct Counter(AtomicUsize);
    impl Wake for Counter {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn a_wake_up_during_the_poll_is_a_round_and_one_after_it_reaches_the_task() {
        let counter = Arc::new(Counter::default());
        let waker = Waker::from(Arc::clone(&counter));
        let cx = Context::from_waker(&waker);
        let rounds = Rounds::new();
        let (mut polls, mut kept) = (0, None);
        let _ = rounds.poll(&cx, |cx| {
            polls += 1;
            if polls < 3 {
                cx.waker().wake_by_ref();
            }
            kept = Some(cx.waker().clone());
            Poll::<()>::Pending
        });
        assert_eq!((polls, counter.0.load(Ordering::SeqCst)), (3, 0));
        kept.unwrap().wake();
        assert_eq!(counter.0.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn one_that_never_rests_lets_others_go_first() {
        let counter = Arc::new(Counter::default());
        let waker = Waker::from(Arc::clone(&counter));
        let mut polls = 0;
        let _ = Rounds::new().poll(&Context::from_waker(&waker), |cx| {
            polls += 1;
            cx.waker().wake_by_ref();
            Poll::<()>::Pending
        });
        assert_eq!((polls, counter.0.load(Ordering::SeqCst)), (MOST_ROUNDS, 1));
    }
}
