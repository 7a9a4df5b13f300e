//! The one task of a tunnel: bytes in, events out, bytes out, timer. It owns the link and is the only one who touches it.

use crate::{
    Ending, Link, LinkEnd,
    linger::{Instant, Linger},
    rounds::Rounds,
    state::{Shared, State, Wakes},
};
use mctunnel_mux::{EndedBy, Moment, ProtocolError};
use std::{
    fmt,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll},
};
use tokio::{
    runtime::{Handle, RuntimeFlavor},
    time::Sleep,
};

/// Chunks taken from the link before the writing side gets its turn.
const RECEIVE_BATCH: usize = 16;
/// Transmits given to the link, each with a look at what arrived, before other tasks get their turn.
const TURNS: usize = 4;

/// Drives one tunnel until it ends; poll it in a task of its own. Dropping it ends the tunnel.
pub struct Driver<L: Link> {
    shared: Arc<Shared>,
    link: L,
    timer: Option<(Moment, Pin<Box<Sleep>>)>,
    closing: Option<Ending>,
    rounds: Arc<Rounds>,
    /// Whether it lets streams that are ready go first, right now.
    gathering: bool,
    /// Whether it sent a large payload the last time.
    busy_with_bulk: bool,
    /// Whether it sent or received anything since it last looked.
    moved: bool,
    linger: Linger,
}

impl<L: Link> fmt::Debug for Driver<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Driver").field("closing", &self.closing).finish_non_exhaustive()
    }
}

impl<L: Link> Driver<L> {
    pub(crate) fn new(shared: Arc<Shared>, link: L) -> Self {
        let rounds = Arc::new(Rounds::new());
        let (gathering, busy_with_bulk, moved) = (false, false, false);
        Self {
            shared,
            link,
            timer: None,
            closing: None,
            rounds,
            gathering,
            busy_with_bulk,
            moved,
            linger: Linger::new(),
        }
    }
}

impl<L: Link + Unpin> Future for Driver<L> {
    type Output = Ending;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Ending> {
        let this = self.get_mut();
        if this.linger.is_lingering() && !this.rounds.is_woken() && this.linger.goes_on(Instant::now()) {
            return stay_awake(cx);
        }
        if this.gather(cx) {
            return Poll::Pending;
        }
        let rounds = Arc::clone(&this.rounds);
        let polled = rounds.poll(cx, |cx| this.poll_round(cx));
        let lingers = std::mem::take(&mut this.moved) && sleeps_alone() && this.linger.begins(Instant::now());
        if lingers && polled.is_pending() { stay_awake(cx) } else { polled }
    }
}

impl<L: Link + Unpin> Driver<L> {
    /// Lets the tasks that are ready run before a small frame is sent, once: what other streams have to say goes out with it, in
    /// one write. With one stream there is nothing to gather, and with bulk the writes are large already.
    fn gather(&mut self, cx: &mut Context<'_>) -> bool {
        if std::mem::take(&mut self.gathering) || self.busy_with_bulk {
            return false;
        }
        let state = self.shared.lock();
        self.gathering = state.mux.wants_to_transmit() && state.mux.streams() > 1;
        drop(state);
        self.gathering && pin!(tokio::task::yield_now()).poll(cx).is_pending()
    }

    fn poll_round(&mut self, cx: &mut Context<'_>) -> Poll<Ending> {
        if self.closing.is_none()
            && let Err(ending) = self.poll_open(cx)
        {
            self.closing = Some(ending);
        }
        match self.closing.clone() {
            None => Poll::Pending,
            Some(ending) => self.poll_closing(cx, ending),
        }
    }

    /// Sends, moves bytes and receives in turns, until a turn finds nothing to send. Moving bytes is the dear part: one turn does
    /// it once, for both directions.
    fn poll_open(&mut self, cx: &mut Context<'_>) -> Result<(), Ending> {
        self.busy_with_bulk = false;
        for turn in 0..TURNS {
            let sent = self.send_next(cx);
            if turn > 0 && sent == Ok(false) {
                return self.closed_meanwhile();
            }
            // Whoever woke us up to here is served by what follows: the socket by the flush, the clock by a look at it, and
            // streams by the next turn.
            self.rounds.caught_up();
            let flushed = self.link.poll_flush(cx);
            let received = self.receive(cx);
            // A CLOSE frame says more than the end of the link behind it, and a status more than a call that cannot be sent on.
            self.closed_meanwhile()?;
            received?;
            sent?;
            if let Poll::Ready(Err(end)) = flushed {
                return Err(link_ended(end));
            }
            self.watch_the_clock(cx)?;
        }
        cx.waker().wake_by_ref();
        Ok(())
    }

    /// Whether either side has closed the tunnel.
    fn closed_meanwhile(&self) -> Result<(), Ending> {
        self.shared.lock().closing.clone().map_or(Ok(()), Err)
    }

    /// Streams find the driver's waker in the shared state and take it out; it is put back before each look at what they have
    /// to send. The driver may have moved to another task since the last one.
    fn register(state: &mut State, cx: &Context<'_>) {
        if !state.driver.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
            state.driver = Some(cx.waker().clone());
        }
    }

    fn receive(&mut self, cx: &mut Context<'_>) -> Result<(), Ending> {
        for _ in 0..RECEIVE_BATCH {
            let Poll::Ready(chunk) = self.link.poll_receive(cx) else { return Ok(()) };
            let chunk = chunk.map_err(link_ended)?;
            self.moved = true;
            let now = self.shared.now();
            let mut wakes = Wakes::default();
            let mut state = self.shared.lock();
            let result = state.mux.handle_input(now, chunk);
            state.dispatch(&mut wakes);
            drop(state);
            wakes.wake();
            result.map_err(rule_broken)?;
        }
        cx.waker().wake_by_ref();
        Ok(())
    }

    fn watch_the_clock(&mut self, cx: &mut Context<'_>) -> Result<(), Ending> {
        loop {
            let deadline = self.shared.lock().mux.poll_timeout();
            let Some(deadline) = deadline else { return Ok(()) };
            let at = self.shared.instant_of(deadline);
            match &mut self.timer {
                // Every frame that comes puts the deadline off. A timer that rings too early costs less than setting it each time.
                Some((armed, _)) if *armed <= deadline => {}
                Some((armed, timer)) => {
                    *armed = deadline;
                    timer.as_mut().reset(at);
                }
                None => self.timer = Some((deadline, Box::pin(tokio::time::sleep_until(at)))),
            }
            let Some((armed, timer)) = &mut self.timer else { return Ok(()) };
            if timer.as_mut().poll(cx).is_pending() {
                return Ok(());
            }
            if *armed < deadline {
                *armed = deadline;
                timer.as_mut().reset(at);
                continue;
            }
            // The clock of the timer is coarser than ours: it rang, so the deadline has come.
            let now = self.shared.now().max(deadline);
            self.shared.lock().mux.handle_timeout(now).map_err(rule_broken)?;
        }
    }

    /// Hands the next transmit to the link, if there is one and the link has room.
    fn send_next(&mut self, cx: &mut Context<'_>) -> Result<bool, Ending> {
        let mut wakes = Wakes::default();
        let mut state = self.shared.lock();
        Self::register(&mut state, cx);
        state.wake_if_idle(&mut wakes);
        let wanted = state.mux.wants_to_transmit();
        drop(state);
        wakes.wake();
        if !wanted {
            return Ok(false);
        }
        let Poll::Ready(ready) = self.link.poll_ready(cx) else { return Ok(false) };
        ready.map_err(link_ended)?;
        let mut wakes = Wakes::default();
        let mut state = self.shared.lock();
        let transmit = state.mux.poll_transmit();
        state.dispatch(&mut wakes);
        state.wake_if_idle(&mut wakes);
        drop(state);
        self.busy_with_bulk |= transmit.as_ref().is_some_and(|transmit| !transmit.body.is_empty());
        let sent = transmit.map(|transmit| self.link.send(transmit).map_err(link_ended)).transpose();
        wakes.wake();
        self.moved |= matches!(sent, Ok(Some(())));
        Ok(sent?.is_some())
    }

    /// Says goodbye: the CLOSE frame if we have one to send, then the link itself.
    fn poll_closing(&mut self, cx: &mut Context<'_>, ending: Ending) -> Poll<Ending> {
        self.publish(&ending);
        if ending.by == EndedBy::Local {
            while let Ok(true) = self.send_next(cx) {}
            if self.link.poll_flush(cx).is_pending() {
                return Poll::Pending;
            }
        }
        if ending.by != EndedBy::Tunnel && self.link.poll_close(cx, &ending.message).is_pending() {
            return Poll::Pending;
        }
        Poll::Ready(ending)
    }

    /// Tells every stream and everybody who waits for the end.
    fn publish(&self, ending: &Ending) {
        if self.shared.ended.set(ending.clone()).is_err() {
            return;
        }
        let mut wakes = Wakes::default();
        let mut state = self.shared.lock();
        if !state.mux.is_closed() {
            state.mux.handle_carrier_lost();
        }
        state.dispatch(&mut wakes);
        state.wake_all(&mut wakes);
        drop(state);
        wakes.wake();
    }
}

impl<L: Link> Drop for Driver<L> {
    fn drop(&mut self) {
        let ending = Ending::new(EndedBy::Local, None, "the tunnel was dropped");
        if self.shared.ended.set(ending).is_err() {
            return;
        }
        let mut wakes = Wakes::default();
        let mut state = self.shared.lock();
        state.mux.handle_carrier_lost();
        state.dispatch(&mut wakes);
        state.wake_all(&mut wakes);
        drop(state);
        wakes.wake();
    }
}

/// Whether this thread is the one that sleeps until something comes. Of several threads another one does, and has to be woken anyway.
fn sleeps_alone() -> bool {
    Handle::try_current().is_ok_and(|runtime| runtime.runtime_flavor() == RuntimeFlavor::CurrentThread)
}

/// Comes back once every other thread and task that is ready had its turn.
fn stay_awake<T>(cx: &mut Context<'_>) -> Poll<T> {
    std::thread::yield_now();
    let _ = pin!(tokio::task::yield_now()).poll(cx);
    Poll::Pending
}

fn rule_broken(error: ProtocolError) -> Ending {
    Ending::new(EndedBy::Local, Some(error.code), error.what)
}

fn link_ended(end: LinkEnd) -> Ending {
    match end {
        LinkEnd::Closed(message) => Ending::new(EndedBy::Peer, None, message),
        LinkEnd::Broken(message) => Ending::new(EndedBy::Tunnel, None, message),
    }
}
