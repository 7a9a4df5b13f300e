//! Polls a future only when the future itself was woken.
//!
//! What waits beside a driver in the same task, a timer or the end of the process, would otherwise be polled for every frame.

use parking_lot::Mutex;
use std::{
    fmt,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
};

/// A future that does nothing when something else of its task was woken.
pub struct Aside<F> {
    future: Pin<Box<F>>,
    bell: Arc<Bell>,
    waker: Waker,
}

impl<F: Future> Aside<F> {
    /// Sets the future aside.
    pub fn new(future: F) -> Self {
        let bell = Arc::new(Bell { rung: AtomicBool::new(true), task: Mutex::new(None) });
        Self { future: Box::pin(future), waker: Waker::from(Arc::clone(&bell)), bell }
    }
}

impl<F: Future> Future for Aside<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.get_mut();
        // First the task, then the bell: one that rings in between is heard by one of them.
        this.bell.remember(cx.waker());
        if !this.bell.rung.swap(false, Ordering::SeqCst) {
            return Poll::Pending;
        }
        this.future.as_mut().poll(&mut Context::from_waker(&this.waker))
    }
}

impl<F> fmt::Debug for Aside<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Aside").finish_non_exhaustive()
    }
}

struct Bell {
    rung: AtomicBool,
    task: Mutex<Option<Waker>>,
}

impl Bell {
    fn remember(&self, waker: &Waker) {
        let mut task = self.task.lock();
        if !task.as_ref().is_some_and(|known| known.will_wake(waker)) {
            *task = Some(waker.clone());
        }
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.rung.store(true, Ordering::SeqCst);
        if let Some(task) = &*self.task.lock() {
            task.wake_by_ref();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{future::poll_fn, sync::atomic::AtomicUsize};

    #[derive(Default)]
    struct Counter(AtomicUsize);
    impl Wake for Counter {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn it_is_polled_at_first_and_then_only_when_it_was_woken() {
        let counter = Arc::new(Counter::default());
        let waker = Waker::from(Arc::clone(&counter));
        let mut cx = Context::from_waker(&waker);
        let (polls, kept) = (AtomicUsize::new(0), Mutex::new(None));
        let mut aside = Aside::new(poll_fn(|cx| {
            *kept.lock() = Some(cx.waker().clone());
            if polls.fetch_add(1, Ordering::SeqCst) == 0 { Poll::Pending } else { Poll::Ready(()) }
        }));
        for _ in 0..3 {
            assert!(Pin::new(&mut aside).poll(&mut cx).is_pending());
        }
        assert_eq!((polls.load(Ordering::SeqCst), counter.0.load(Ordering::SeqCst)), (1, 0));
        kept.lock().take().unwrap().wake();
        assert_eq!(counter.0.load(Ordering::SeqCst), 1, "its own waker reaches the task");
        assert!(Pin::new(&mut aside).poll(&mut cx).is_ready());
    }
}
