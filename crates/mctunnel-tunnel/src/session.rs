//! One end of a tunnel, as the application holds it: opens streams, takes those the other side opens, drains and closes.

use crate::{
    Driver, Ending, Link, OpenFailed, Stream,
    state::{PeerGreeting, Shared, Waiting, Wakes, lost},
};
use bytes::Bytes;
use mctunnel_mux::{
    CloseCode, Config, Connection, Drain, EndedBy, Header, Hello, Offer, Open, Priority, RefuseCode, StreamId, User,
    Welcome,
};
use std::{
    future::poll_fn,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

/// One end of a tunnel. Cheap to clone; all clones are the same tunnel.
#[derive(Debug, Clone)]
pub struct Session {
    shared: Arc<Shared>,
}

impl Session {
    /// The agent's end: introduces itself and waits for the hub's WELCOME.
    pub fn agent<L: Link>(link: L, config: Config, hello: Hello) -> (Greeting, Driver<L>) {
        Self::start(link, Connection::agent(config, hello))
    }

    /// The hub's end: waits for the agent's HELLO.
    pub fn hub<L: Link>(link: L, config: Config) -> (Greeting, Driver<L>) {
        Self::start(link, Connection::hub(config))
    }

    fn start<L: Link>(link: L, mux: Connection) -> (Greeting, Driver<L>) {
        let shared = Shared::new(mux);
        let greeting = Greeting { session: Self { shared: Arc::clone(&shared) } };
        (greeting, Driver::new(shared, link))
    }

    /// Opens a stream; the future resolves when the other side joined it or refused. `first` is sent along with the opening.
    ///
    /// Dropping the future takes the open back.
    pub fn open(&self, open: Open, first: Bytes) -> Opening {
        let mut first = first;
        let mut state = self.shared.lock();
        let asked = state.mux.open(open).map_err(OpenFailed::NotAsked).map(|id| {
            state.waiting.insert(id, Waiting::default());
            // What does not fit into the early window is written after the answer.
            let _ = state.mux.write(id, &mut first);
            Stream::new(Arc::clone(&self.shared), id)
        });
        let driver = state.driver_if_needed();
        drop(state);
        driver.into_iter().for_each(std::task::Waker::wake);
        Opening { stream: Some(asked), rest: first }
    }

    /// Asks the other side to open no more streams here.
    pub fn drain(&self, drain: Drain) {
        self.with_mux(|mux| mux.drain(drain));
    }

    /// Resolves when the other side asks us to open no more streams; never if it does not.
    pub async fn drained_by_peer(&self) -> Drain {
        poll_fn(|cx| {
            let mut state = self.shared.lock();
            if let Some(drain) = &state.drain {
                return Poll::Ready(drain.clone());
            }
            state.drain_wakers.retain(|w| !w.will_wake(cx.waker()));
            state.drain_wakers.push(cx.waker().clone());
            Poll::Pending
        })
        .await
    }

    /// Ends the tunnel now; streams that are open end with an error.
    pub fn close(&self, code: CloseCode, message: &str) {
        let mut state = self.shared.lock();
        state.mux.close(code, message);
        state.closing.get_or_insert_with(|| Ending::new(EndedBy::Local, Some(code), message));
        let driver = state.driver.take();
        drop(state);
        driver.into_iter().for_each(std::task::Waker::wake);
    }

    /// Resolves when the tunnel is over.
    pub async fn ended(&self) -> Ending {
        self.shared.ended.wait().await.clone()
    }

    /// Resolves when no stream is open, or the tunnel is over.
    pub async fn idle(&self) {
        poll_fn(|cx| {
            let mut state = self.shared.lock();
            if state.mux.streams() == 0 || self.shared.ended.get().is_some() {
                return Poll::Ready(());
            }
            state.idle_wakers.retain(|w| !w.will_wake(cx.waker()));
            state.idle_wakers.push(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }

    /// How the tunnel ended, if it has.
    #[must_use]
    pub fn ending(&self) -> Option<Ending> {
        self.shared.ended.get().cloned()
    }

    /// Whether streams can be opened.
    #[must_use]
    pub fn is_usable(&self) -> bool {
        let state = self.shared.lock();
        state.mux.is_open() && !state.mux.peer_drains()
    }

    /// Streams that are open.
    #[must_use]
    pub fn streams(&self) -> usize {
        self.shared.lock().mux.streams()
    }

    /// Bytes of streams, in both directions, since it is up.
    #[must_use]
    pub fn moved(&self) -> u64 {
        self.shared.lock().mux.moved()
    }

    /// The round-trip time, once measured.
    #[must_use]
    pub fn rtt(&self) -> Option<Duration> {
        self.shared.lock().mux.rtt()
    }

    fn with_mux(&self, change: impl FnOnce(&mut Connection)) {
        let mut state = self.shared.lock();
        change(&mut state.mux);
        let driver = state.driver_if_needed();
        drop(state);
        driver.into_iter().for_each(std::task::Waker::wake);
    }
}

// === Greeting ===

/// A tunnel whose two ends have not introduced themselves yet. The driver must be polled meanwhile.
#[derive(Debug)]
pub struct Greeting {
    session: Session,
}

impl Greeting {
    /// Agent: waits for the hub's WELCOME.
    pub async fn welcomed(self) -> Result<(Session, Offers, Welcome), Ending> {
        match self.wait().await? {
            PeerGreeting::Welcome(welcome) => {
                let offers = Offers { shared: Arc::clone(&self.session.shared) };
                Ok((self.session, offers, welcome))
            }
            PeerGreeting::Hello(_) => Err(Ending::new(EndedBy::Peer, None, "the hub greeted like an agent")),
        }
    }

    /// Hub: waits for the agent's HELLO; answer it with [`Greeting::welcome`] or [`Greeting::turn_away`].
    pub async fn hello(&self) -> Result<Hello, Ending> {
        match self.wait().await? {
            PeerGreeting::Hello(hello) => Ok(hello),
            PeerGreeting::Welcome(_) => Err(Ending::new(EndedBy::Peer, None, "the agent greeted like a hub")),
        }
    }

    /// Hub: takes the agent in.
    #[must_use]
    pub fn welcome(self, welcome: Welcome) -> (Session, Offers) {
        let now = self.session.shared.now();
        self.session.with_mux(|mux| mux.welcome(now, welcome));
        let offers = Offers { shared: Arc::clone(&self.session.shared) };
        (self.session, offers)
    }

    /// Hub: does not take the agent in, and says why.
    pub fn turn_away(self, code: CloseCode, message: &str) {
        self.session.close(code, message);
    }

    async fn wait(&self) -> Result<PeerGreeting, Ending> {
        poll_fn(|cx| {
            let mut state = self.session.shared.lock();
            if let Some(greeting) = state.greeting.take() {
                return Poll::Ready(Ok(greeting));
            }
            if let Some(ending) = self.session.shared.ended.get() {
                return Poll::Ready(Err(ending.clone()));
            }
            state.greeting_waker = Some(cx.waker().clone());
            Poll::Pending
        })
        .await
    }
}

// === Opening ===

/// A stream being opened.
#[derive(Debug)]
#[must_use = "dropping it takes the open back"]
pub struct Opening {
    stream: Option<Result<Stream, OpenFailed>>,
    rest: Bytes,
}

impl Future for Opening {
    type Output = Result<Stream, OpenFailed>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        if let Some(Ok(stream)) = &mut this.stream {
            match stream.poll_answer(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(())) => stream.keep_unsent(std::mem::take(&mut this.rest)),
                Poll::Ready(Err(failed)) => {
                    this.stream = None;
                    return Poll::Ready(Err(failed));
                }
            }
        }
        Poll::Ready(this.stream.take().unwrap_or_else(|| Err(OpenFailed::Lost("polled after its end".into()))))
    }
}

// === Offers and Incoming ===

/// The streams the other side opens.
#[derive(Debug)]
pub struct Offers {
    shared: Arc<Shared>,
}

impl Offers {
    /// Waits for the next one; `None` when the tunnel is over.
    pub async fn next(&mut self) -> Option<Incoming> {
        poll_fn(|cx| self.poll_next(cx)).await
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Incoming>> {
        let mut state = self.shared.lock();
        while let Some(offer) = state.offers.pop_front() {
            if state.mux.is_flushed(offer.stream).is_err() {
                // Taken back before we came to it.
                state.mux.release(offer.stream);
                continue;
            }
            state.waiting.insert(offer.stream, Waiting::default());
            drop(state);
            return Poll::Ready(Some(Incoming::new(Arc::clone(&self.shared), offer)));
        }
        if self.shared.ended.get().is_some() {
            return Poll::Ready(None);
        }
        state.offers_waker = Some(cx.waker().clone());
        Poll::Pending
    }
}

/// A stream the other side wants: join it to its target, or refuse it. Dropping it refuses it.
#[derive(Debug)]
pub struct Incoming {
    shared: Arc<Shared>,
    offer: Offer,
    answered: bool,
}

impl Incoming {
    pub(crate) fn new(shared: Arc<Shared>, offer: Offer) -> Self {
        Self { shared, offer, answered: false }
    }

    /// The stream's id, for logs.
    #[must_use]
    pub fn id(&self) -> StreamId {
        self.offer.stream
    }

    /// Its scheduling class.
    #[must_use]
    pub fn priority(&self) -> Priority {
        self.offer.priority
    }

    /// Its routing metadata.
    #[must_use]
    pub fn headers(&self) -> &[Header] {
        &self.offer.headers
    }

    /// Whom it is for, if the opener asked.
    #[must_use]
    pub fn user(&self) -> Option<&User> {
        self.offer.user.as_deref().map(|user| &**user)
    }

    /// The value of a header that is text and stands there exactly once.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut found = self.offer.headers.iter().filter(|h| h.name == name);
        match (found.next(), found.next()) {
            (Some(header), None) => std::str::from_utf8(&header.value).ok(),
            _ => None,
        }
    }

    /// The target accepted: the stream carries bytes from now on.
    pub fn join(mut self) -> Result<Stream, OpenFailed> {
        let mut state = self.shared.lock();
        let joined = state.mux.join(self.offer.stream);
        let driver = state.driver_if_needed();
        drop(state);
        driver.into_iter().for_each(std::task::Waker::wake);
        match joined {
            Ok(()) => {
                self.answered = true;
                Ok(Stream::new(Arc::clone(&self.shared), self.offer.stream))
            }
            Err(_) => Err(lost(&self.shared)),
        }
    }

    /// The stream is not opened.
    pub fn refuse(mut self, code: RefuseCode, message: &str) {
        self.send_refusal(code, message);
    }

    /// Resolves when the other side takes the open back, so that a dial under way can be stopped.
    pub async fn taken_back(&self) {
        poll_fn(|cx| {
            let mut state = self.shared.lock();
            match state.waiting.get_mut(&self.offer.stream) {
                Some(waiting) if waiting.answer.is_none() => {
                    waiting.writer = Some(cx.waker().clone());
                    Poll::Pending
                }
                _ => Poll::Ready(()),
            }
        })
        .await;
    }

    fn send_refusal(&mut self, code: RefuseCode, message: &str) {
        if std::mem::replace(&mut self.answered, true) {
            return;
        }
        let mut state = self.shared.lock();
        state.waiting.remove(&self.offer.stream);
        state.mux.refuse(self.offer.stream, code, message);
        let mut wakes = Wakes::default();
        state.wake_if_idle(&mut wakes);
        wakes.add(state.driver_if_needed());
        drop(state);
        wakes.wake();
    }
}

impl Drop for Incoming {
    fn drop(&mut self) {
        self.send_refusal(RefuseCode::Internal, "the stream was not answered");
    }
}
