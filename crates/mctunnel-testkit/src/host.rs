//! The application above one connection: opens what was planned, answers what is offered, and lets each stream talk when the
//! connection has told it something. It never asks without having been told, so an event that is missing shows as a stuck stream.

use crate::outcome::{Outcome, ReadEnd};
use mctunnel_mux::{
    CloseCode, Connection, Drain, Event, Moment, Offer, Open, RefuseCode, ResetCode, StreamError, StreamId, Welcome,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    time::Duration,
};

/// What one end does with one stream.
pub trait Talk: fmt::Debug {
    /// Called when something happened on the stream, or at the time it asked for.
    fn act(&mut self, turn: &mut Turn<'_>);
}

/// One call of a [`Talk`].
#[derive(Debug)]
pub struct Turn<'a> {
    /// The time.
    pub now: Moment,
    /// The connection.
    pub connection: &'a mut Connection,
    /// The stream.
    pub stream: StreamId,
    /// Whether this end opened it.
    pub opener: bool,
    /// What is known so far.
    pub outcome: &'a mut Outcome,
    wake: &'a mut Option<Moment>,
}

impl Turn<'_> {
    /// Asks to be called at that time, whatever happens.
    pub fn wake_at(&mut self, at: Moment) {
        *self.wake = Some(self.wake.map_or(at, |earlier| earlier.min(at)));
    }

    /// Cuts the stream.
    pub fn reset(&mut self, code: ResetCode) {
        self.outcome.reset = true;
        self.connection.reset(self.stream, code);
    }

    /// Lets go of the stream.
    pub fn release(&mut self) {
        self.outcome.gave_up |= self.outcome.end == ReadEnd::Open;
        self.outcome.released = true;
        self.connection.release(self.stream);
    }
}

/// What an end does with a stream that is offered to it.
#[derive(Debug)]
pub enum Answer {
    /// Joins it.
    Join {
        /// So long after the offer.
        after: Duration,
        /// Whether it already reads and writes in the meantime.
        early: bool,
        /// And then talks like this.
        talk: Box<dyn Talk>,
    },
    /// Refuses it so long after the offer.
    Refuse(Duration, RefuseCode),
}

impl Answer {
    /// Joins at once.
    pub fn join(talk: impl Talk + 'static) -> Self {
        Self::Join { after: Duration::ZERO, early: false, talk: Box::new(talk) }
    }
}

/// The application above one connection.
pub struct Host {
    answer: Box<dyn FnMut(&Offer) -> Answer>,
    openings: Vec<(Duration, Open, Box<dyn Talk>)>,
    drain: Option<(Duration, Drain)>,
    slots: BTreeMap<StreamId, Slot>,
    told: BTreeSet<StreamId>,
    /// Opens that found no tunnel any more.
    pub not_opened: usize,
    /// The peer will soon close.
    pub draining: bool,
    /// The peer closed the tunnel.
    pub closed: Option<(CloseCode, String)>,
}

struct Slot {
    opener: bool,
    talk: Option<Box<dyn Talk>>,
    outcome: Outcome,
    wake: Option<Moment>,
    answer: Option<(Moment, Decision)>,
}

enum Decision {
    Join { early: bool },
    Refuse(RefuseCode),
}

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Host").field("streams", &self.slots.len()).finish_non_exhaustive()
    }
}

impl Default for Host {
    fn default() -> Self {
        Self {
            answer: Box::new(|_| Answer::Refuse(Duration::ZERO, RefuseCode::NotAllowed)),
            openings: Vec::new(),
            drain: None,
            slots: BTreeMap::new(),
            told: BTreeSet::new(),
            not_opened: 0,
            draining: false,
            closed: None,
        }
    }
}

impl Host {
    /// Plans a stream, as soon as the tunnel is open and the time has come.
    pub fn open(&mut self, at: Duration, open: Open, talk: impl Talk + 'static) {
        self.openings.push((at, open, Box::new(talk)));
    }

    /// Decides about what is offered. Without this everything is refused.
    pub fn answer(&mut self, answer: impl FnMut(&Offer) -> Answer + 'static) {
        self.answer = Box::new(answer);
    }

    /// Plans to ask the peer to open no more streams.
    pub fn drain(&mut self, at: Duration, drain: Drain) {
        self.drain = Some((at, drain));
    }

    /// What became of each stream.
    pub fn outcomes(&self) -> impl Iterator<Item = (StreamId, bool, &Outcome)> {
        self.slots.iter().map(|(id, slot)| (*id, slot.opener, &slot.outcome))
    }

    /// What became of one stream.
    #[must_use]
    pub fn outcome(&self, stream: StreamId) -> Option<&Outcome> {
        self.slots.get(&stream).map(|slot| &slot.outcome)
    }

    /// Whether everything planned has been opened and has ended.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.openings.is_empty() && self.slots.values().all(|slot| slot.outcome.released)
    }

    /// When it wants to act without being told anything.
    #[must_use]
    pub fn next_wake(&self, connection: &Connection) -> Option<Moment> {
        let ready = connection.is_open() || connection.is_closed();
        let openings = self.openings.iter().filter(|_| ready).map(|(at, ..)| Moment::ZERO + *at);
        let drain = self.drain.iter().map(|(at, _)| Moment::ZERO + *at);
        let live = self.slots.values().filter(|slot| !slot.outcome.released);
        let slots = live.flat_map(|slot| slot.wake.into_iter().chain(slot.answer.as_ref().map(|(at, _)| *at)));
        openings.chain(drain).chain(slots).min()
    }

    /// Takes all events and lets those streams talk that were told something or whose time has come. Tells whether any was.
    pub fn act(&mut self, now: Moment, connection: &mut Connection) -> bool {
        let mut acted = false;
        while let Some(event) = connection.poll_event() {
            acted = true;
            self.handle(now, connection, event);
        }
        acted |= self.open_due(now, connection);
        if let Some((_, drain)) = self.drain.take_if(|(at, _)| Moment::ZERO + *at <= now) {
            connection.drain(drain);
            acted = true;
        }
        let told = std::mem::take(&mut self.told);
        for (id, slot) in self.slots.iter_mut().filter(|(_, slot)| !slot.outcome.released) {
            if told.contains(id) || slot.is_due(now) {
                slot.act(now, *id, connection);
                acted = true;
            }
        }
        acted
    }

    /// Lets go of every stream and opens no more.
    pub fn release_all(&mut self, connection: &mut Connection) {
        self.openings.clear();
        for (id, slot) in self.slots.iter_mut().filter(|(_, slot)| !slot.outcome.released) {
            slot.outcome.gave_up |= slot.outcome.end == ReadEnd::Open;
            slot.outcome.released = true;
            connection.release(*id);
        }
    }

    /// What can be read although nobody was told: a lost event. Asks every stream that waits.
    #[must_use]
    pub fn missed(&self, now: Moment, connection: &mut Connection) -> Option<StreamId> {
        let waiting = self
            .slots
            .iter()
            .filter(|(_, s)| !s.outcome.released && s.outcome.end == ReadEnd::Open && s.wake.is_none());
        waiting.map(|(id, _)| *id).find(|id| !matches!(connection.read(now, *id, 1), Ok(mctunnel_mux::Read::Blocked)))
    }

    fn handle(&mut self, now: Moment, connection: &mut Connection, event: Event) {
        match event {
            Event::Hello(_) => connection.welcome(now, Welcome::default()),
            Event::Welcomed(_) => {}
            Event::Opened(offer) => self.offered(now, &offer),
            Event::Joined(stream) => self.tell(stream, |outcome| outcome.joined_at = Some(now)),
            Event::Refused { stream, code, .. } => self.tell(stream, |outcome| outcome.refused = Some(code)),
            Event::Readable(stream) | Event::Writable(stream) => self.tell(stream, |_| {}),
            Event::Reset { stream, code, by } => self.tell(stream, |outcome| {
                if outcome.cut.replace((code, by)).is_some() {
                    outcome.fault = Some("the stream was cut twice".to_owned());
                }
            }),
            Event::Draining(_) => self.draining = true,
            Event::Closed { code, message } => self.closed = Some((code, message)),
        }
    }

    fn tell(&mut self, stream: StreamId, note: impl FnOnce(&mut Outcome)) {
        if let Some(slot) = self.slots.get_mut(&stream).filter(|slot| !slot.outcome.released) {
            note(&mut slot.outcome);
            self.told.insert(stream);
        }
    }

    fn offered(&mut self, now: Moment, offer: &Offer) {
        let (after, decision, talk) = match (self.answer)(offer) {
            Answer::Join { after, early, talk } => (after, Decision::Join { early }, Some(talk)),
            Answer::Refuse(after, code) => (after, Decision::Refuse(code), None),
        };
        let slot = Slot::new(now, talk, Some((now + after, decision)));
        self.told.insert(offer.stream);
        if let Some(slot) = self.slots.insert(offer.stream, slot) {
            let fault = format!("stream {} was offered twice; before: {:?}", offer.stream, slot.outcome);
            self.tell(offer.stream, |outcome| outcome.fault = Some(fault));
        }
    }

    fn open_due(&mut self, now: Moment, connection: &mut Connection) -> bool {
        if !connection.is_open() && !connection.is_closed() {
            return false;
        }
        let (due, later) =
            std::mem::take(&mut self.openings).into_iter().partition(|(at, ..)| Moment::ZERO + *at <= now);
        self.openings = later;
        let due: Vec<_> = due;
        let any = !due.is_empty();
        for (_, open, talk) in due {
            match connection.open(open) {
                Ok(id) => {
                    self.slots.insert(id, Slot::new(now, Some(talk), None));
                    self.told.insert(id);
                }
                Err(_) => self.not_opened += 1,
            }
        }
        any
    }
}

impl Slot {
    fn new(now: Moment, talk: Option<Box<dyn Talk>>, answer: Option<(Moment, Decision)>) -> Self {
        let outcome = Outcome { begun_at: now, ..Outcome::default() };
        Self { opener: answer.is_none(), talk, outcome, wake: None, answer }
    }

    fn is_due(&self, now: Moment) -> bool {
        self.wake.is_some_and(|at| at <= now) || self.answer.as_ref().is_some_and(|(at, _)| *at <= now)
    }

    fn act(&mut self, now: Moment, id: StreamId, connection: &mut Connection) {
        match self.answer.take_if(|(at, _)| *at <= now) {
            Some((_, Decision::Refuse(code))) => {
                connection.refuse(id, code, "not here");
                self.outcome.refused = Some(code);
                self.outcome.released = true;
                return;
            }
            Some((_, Decision::Join { .. })) => match connection.join(id) {
                Ok(()) => self.outcome.joined_at = Some(now),
                Err(error) => return self.too_late(id, connection, error),
            },
            None => {}
        }
        let waits = matches!(self.answer, Some((_, Decision::Join { early: false } | Decision::Refuse(_))));
        if let Some(talk) = self.talk.as_mut().filter(|_| !waits) {
            self.wake.take_if(|at| *at <= now);
            let (opener, outcome, wake) = (self.opener, &mut self.outcome, &mut self.wake);
            talk.act(&mut Turn { now, connection, stream: id, opener, outcome, wake });
        }
    }

    /// The stream was cut before it was joined.
    fn too_late(&mut self, id: StreamId, connection: &mut Connection, error: StreamError) {
        if self.outcome.end == ReadEnd::Open {
            self.outcome.end = ReadEnd::Error(error);
        }
        self.outcome.released = true;
        connection.release(id);
    }
}
