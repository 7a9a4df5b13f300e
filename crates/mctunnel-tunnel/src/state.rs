//! What the driver and the streams of a tunnel share: the multiplexer, and who waits for what.

use crate::{Ending, OpenFailed};
use mctunnel_mux::{Connection, EndedBy, Event, Hello, Moment, Offer, OpenRefused, StreamId, Welcome};
use parking_lot::{Mutex, MutexGuard};
use std::{
    collections::{BTreeMap, VecDeque},
    fmt,
    sync::Arc,
    task::Waker,
};
use tokio::{sync::SetOnce, time::Instant};

/// Shared by the driver, the session and every stream of one tunnel.
pub(crate) struct Shared {
    start: Instant,
    state: Mutex<State>,
    pub(crate) ended: SetOnce<Ending>,
}

impl Shared {
    pub(crate) fn new(mux: Connection) -> Arc<Self> {
        let state = State {
            mux,
            waiting: BTreeMap::new(),
            offers: VecDeque::new(),
            offers_waker: None,
            greeting: None,
            greeting_waker: None,
            driver: None,
            closing: None,
            drain: None,
            drain_wakers: Vec::new(),
            idle_wakers: Vec::new(),
        };
        Arc::new(Self { start: Instant::now(), state: Mutex::new(state), ended: SetOnce::new() })
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    pub(crate) fn now(&self) -> Moment {
        Moment::after_start(self.start.elapsed())
    }

    pub(crate) fn instant_of(&self, moment: Moment) -> Instant {
        self.start + moment.elapsed()
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tunnel").field("ended", &self.ended.get()).finish_non_exhaustive()
    }
}

pub(crate) struct State {
    pub(crate) mux: Connection,
    pub(crate) waiting: BTreeMap<StreamId, Waiting>,
    /// Bounded by the budget of half-open streams.
    pub(crate) offers: VecDeque<Offer>,
    pub(crate) offers_waker: Option<Waker>,
    pub(crate) greeting: Option<PeerGreeting>,
    pub(crate) greeting_waker: Option<Waker>,
    pub(crate) driver: Option<Waker>,
    /// Set when either side closed; the driver then says goodbye.
    pub(crate) closing: Option<Ending>,
    pub(crate) drain: Option<mctunnel_mux::Drain>,
    pub(crate) drain_wakers: Vec<Waker>,
    pub(crate) idle_wakers: Vec<Waker>,
}

/// How the other side introduced itself.
pub(crate) enum PeerGreeting {
    Hello(Hello),
    Welcome(Welcome),
}

/// Who waits on one stream.
#[derive(Default)]
pub(crate) struct Waiting {
    pub(crate) reader: Option<Waker>,
    pub(crate) writer: Option<Waker>,
    pub(crate) answer: Option<Box<Result<(), OpenFailed>>>,
}

/// Wakers to be woken once the lock is released. Most often there is one, which needs no list.
#[derive(Default)]
pub(crate) struct Wakes {
    first: Option<Waker>,
    rest: Vec<Waker>,
}

impl Wakes {
    pub(crate) fn add(&mut self, waker: Option<Waker>) {
        if self.first.is_none() {
            self.first = waker;
        } else {
            self.rest.extend(waker);
        }
    }

    pub(crate) fn wake(self) {
        self.first.into_iter().chain(self.rest).for_each(Waker::wake);
    }
}

impl State {
    /// Takes the waker of the driver if there is something to send; the caller wakes it after releasing the lock.
    pub(crate) fn driver_if_needed(&mut self) -> Option<Waker> {
        if self.mux.wants_to_transmit() { self.driver.take() } else { None }
    }

    /// Passes the multiplexer's events on to those who wait for them.
    pub(crate) fn dispatch(&mut self, wakes: &mut Wakes) {
        while let Some(event) = self.mux.poll_event() {
            match event {
                Event::Readable(id) => wakes.add(self.waiting.get_mut(&id).and_then(|w| w.reader.take())),
                Event::Writable(id) => wakes.add(self.waiting.get_mut(&id).and_then(|w| w.writer.take())),
                Event::Joined(id) => self.answer(id, Ok(()), wakes),
                Event::Refused { stream, code, message } => {
                    self.answer(stream, Err(OpenFailed::Refused { code, message }), wakes);
                }
                Event::Reset { stream, code, by } => {
                    let failed = if self.mux.was_asked(stream) {
                        OpenFailed::Lost(mctunnel_mux::StreamError::Reset { code, by }.to_string())
                    } else {
                        OpenFailed::NotAsked(OpenRefused::Closed)
                    };
                    self.answer(stream, Err(failed), wakes);
                }
                Event::Opened(offer) => {
                    self.offers.push_back(offer);
                    wakes.add(self.offers_waker.take());
                }
                Event::Hello(hello) => self.greeted(PeerGreeting::Hello(hello), wakes),
                Event::Welcomed(welcome) => self.greeted(PeerGreeting::Welcome(welcome), wakes),
                Event::Draining(drain) => {
                    self.drain = Some(drain);
                    self.drain_wakers.drain(..).for_each(|w| wakes.add(Some(w)));
                }
                Event::Closed { code, message } => {
                    let ending = Ending::new(EndedBy::Peer, Some(code), message);
                    self.closing.get_or_insert(ending);
                }
            }
        }
    }

    /// Wakes those who wait for the last stream to end, if it has.
    pub(crate) fn wake_if_idle(&mut self, wakes: &mut Wakes) {
        if !self.idle_wakers.is_empty() && self.mux.streams() == 0 {
            self.idle_wakers.drain(..).for_each(|w| wakes.add(Some(w)));
        }
    }

    /// Wakes everybody: the tunnel is over.
    pub(crate) fn wake_all(&mut self, wakes: &mut Wakes) {
        for waiting in self.waiting.values_mut() {
            wakes.add(waiting.reader.take());
            wakes.add(waiting.writer.take());
        }
        wakes.add(self.offers_waker.take());
        wakes.add(self.greeting_waker.take());
        self.drain_wakers.drain(..).for_each(|w| wakes.add(Some(w)));
        self.idle_wakers.drain(..).for_each(|w| wakes.add(Some(w)));
    }

    fn greeted(&mut self, greeting: PeerGreeting, wakes: &mut Wakes) {
        self.greeting = Some(greeting);
        wakes.add(self.greeting_waker.take());
    }

    fn answer(&mut self, id: StreamId, answer: Result<(), OpenFailed>, wakes: &mut Wakes) {
        if let Some(waiting) = self.waiting.get_mut(&id) {
            waiting.answer.get_or_insert_with(|| Box::new(answer));
            wakes.add(waiting.reader.take());
            wakes.add(waiting.writer.take());
        }
    }
}

/// Why a stream that is asked after its end gives an error.
pub(crate) fn lost(shared: &Shared) -> OpenFailed {
    OpenFailed::Lost(shared.ended.get().map_or_else(|| "the tunnel was lost".into(), Ending::to_string))
}

impl Ending {
    pub(crate) fn new(by: EndedBy, code: Option<mctunnel_mux::CloseCode>, message: impl Into<Arc<str>>) -> Self {
        Self { by, code, message: message.into() }
    }
}
