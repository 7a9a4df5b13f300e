//! The one task of a tunnel: bytes in, events out, bytes out, timer. It owns the link and is the only one who touches it.

use crate::{
    Ending, Link, LinkEnd,
    rounds::Rounds,
    state::{Shared, Wakes},
};
use mctunnel_mux::{EndedBy, Moment, ProtocolError};
use std::{
    fmt,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};
use tokio::time::Sleep;

/// Chunks taken from the link before the writing side gets its turn.
const RECEIVE_BATCH: usize = 16;
/// Transmits given to the link before the reading side gets its turn: a fast carrier would otherwise take megabytes while a PING,
/// or somebody's small request, waits to be read.
const TRANSMIT_BATCH: usize = 4;

/// Drives one tunnel until it ends; poll it in a task of its own. Dropping it ends the tunnel.
pub struct Driver<L: Link> {
    shared: Arc<Shared>,
    link: L,
    timer: Option<(Moment, Pin<Box<Sleep>>)>,
    closing: Option<Ending>,
    rounds: Arc<Rounds>,
}

impl<L: Link> fmt::Debug for Driver<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Driver").field("closing", &self.closing).finish_non_exhaustive()
    }
}

impl<L: Link> Driver<L> {
    pub(crate) fn new(shared: Arc<Shared>, link: L) -> Self {
        Self { shared, link, timer: None, closing: None, rounds: Arc::new(Rounds::new()) }
    }
}

impl<L: Link + Unpin> Future for Driver<L> {
    type Output = Ending;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Ending> {
        let this = self.get_mut();
        let rounds = Arc::clone(&this.rounds);
        rounds.poll(cx, |cx| this.poll_round(cx))
    }
}

impl<L: Link + Unpin> Driver<L> {
    fn poll_round(&mut self, cx: &mut Context<'_>) -> Poll<Ending> {
        self.register(cx);
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

    /// Streams find the driver's waker in the shared state and take it out; it is put back before each round. The driver may
    /// have moved to another task since the last one.
    fn register(&self, cx: &Context<'_>) {
        let mut state = self.shared.lock();
        if !state.driver.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
            state.driver = Some(cx.waker().clone());
        }
    }

    fn poll_open(&mut self, cx: &mut Context<'_>) -> Result<(), Ending> {
        let received = self.receive(cx);
        // A CLOSE frame says more than the end of the link behind it.
        if let Some(ending) = self.shared.lock().closing.clone() {
            return Err(ending);
        }
        received?;
        self.watch_the_clock(cx)?;
        self.transmit(cx)
    }

    fn receive(&mut self, cx: &mut Context<'_>) -> Result<(), Ending> {
        for _ in 0..RECEIVE_BATCH {
            let Poll::Ready(chunk) = self.link.poll_receive(cx) else { return Ok(()) };
            let chunk = chunk.map_err(link_ended)?;
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
                Some((armed, _)) if *armed == deadline => {}
                Some((armed, timer)) => {
                    *armed = deadline;
                    timer.as_mut().reset(at);
                }
                None => self.timer = Some((deadline, Box::pin(tokio::time::sleep_until(at)))),
            }
            let Some((_, timer)) = &mut self.timer else { return Ok(()) };
            if timer.as_mut().poll(cx).is_pending() {
                return Ok(());
            }
            // The clock of the timer is coarser than ours: it rang, so the deadline has come.
            let now = self.shared.now().max(deadline);
            self.shared.lock().mux.handle_timeout(now).map_err(rule_broken)?;
        }
    }

    fn transmit(&mut self, cx: &mut Context<'_>) -> Result<(), Ending> {
        let mut wakes = Wakes::default();
        let result = self.transmit_while_ready(cx, &mut wakes);
        wakes.wake();
        result
    }

    fn transmit_while_ready(&mut self, cx: &mut Context<'_>, wakes: &mut Wakes) -> Result<(), Ending> {
        for _ in 0..TRANSMIT_BATCH {
            let mut sent = false;
            if let Poll::Ready(ready) = self.link.poll_ready(cx) {
                ready.map_err(link_ended)?;
                let mut state = self.shared.lock();
                let transmit = state.mux.poll_transmit();
                state.dispatch(wakes);
                state.wake_if_idle(wakes);
                drop(state);
                if let Some(transmit) = transmit {
                    self.link.send(transmit).map_err(link_ended)?;
                    sent = true;
                }
            }
            match self.link.poll_flush(cx) {
                Poll::Ready(Err(end)) => return Err(link_ended(end)),
                // All written: there may be room again.
                Poll::Ready(Ok(())) if sent => {}
                Poll::Ready(Ok(())) | Poll::Pending => return Ok(()),
            }
        }
        cx.waker().wake_by_ref();
        Ok(())
    }

    /// Says goodbye: the CLOSE frame if we have one to send, then the link itself.
    fn poll_closing(&mut self, cx: &mut Context<'_>, ending: Ending) -> Poll<Ending> {
        self.publish(&ending);
        if ending.by == EndedBy::Local && self.transmit(cx).is_ok() && self.link.poll_flush(cx).is_pending() {
            return Poll::Pending;
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

fn rule_broken(error: ProtocolError) -> Ending {
    Ending::new(EndedBy::Local, Some(error.code), error.what)
}

fn link_ended(end: LinkEnd) -> Ending {
    match end {
        LinkEnd::Closed(message) => Ending::new(EndedBy::Peer, None, message),
        LinkEnd::Broken(message) => Ending::new(EndedBy::Tunnel, None, message),
    }
}
