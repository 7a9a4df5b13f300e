//! Random commands on two connections against a model that cannot be wrong: for each direction of each stream a queue of bytes.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, in its helpers too"
)]

use bytes::{Bytes, BytesMut};
use mctunnel_mux::{Config, Connection, Event, Hello, Moment, Open, Read, ResetCode, StreamError, StreamId, Welcome};
use proptest::{collection::vec, prelude::*};
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    time::Duration,
};

/// One thing that happens. Sides and streams are chosen among those there are.
#[derive(Debug, Clone, Copy)]
enum Step {
    Open {
        hub: bool,
    },
    Join {
        hub: bool,
        which: usize,
    },
    Refuse {
        hub: bool,
        which: usize,
    },
    Write {
        hub: bool,
        which: usize,
        len: usize,
    },
    Read {
        hub: bool,
        which: usize,
        max: usize,
    },
    Finish {
        hub: bool,
        which: usize,
    },
    Reset {
        hub: bool,
        which: usize,
    },
    Release {
        hub: bool,
        which: usize,
    },
    /// The carrier takes so many transmits and delivers them in pieces of that size.
    Carry {
        from_hub: bool,
        transmits: usize,
        chunk: usize,
    },
    Wait {
        millis: u64,
    },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let (hub, which) = (any::<bool>, any::<usize>);
    let step = prop_oneof![
        2 => hub().prop_map(|hub| Step::Open { hub }),
        3 => (hub(), which()).prop_map(|(hub, which)| Step::Join { hub, which }),
        1 => (hub(), which()).prop_map(|(hub, which)| Step::Refuse { hub, which }),
        8 => (hub(), which(), 0_usize..3000).prop_map(|(hub, which, len)| Step::Write { hub, which, len }),
        8 => (hub(), which(), 1_usize..3000).prop_map(|(hub, which, max)| Step::Read { hub, which, max }),
        2 => (hub(), which()).prop_map(|(hub, which)| Step::Finish { hub, which }),
        1 => (hub(), which()).prop_map(|(hub, which)| Step::Reset { hub, which }),
        1 => (hub(), which()).prop_map(|(hub, which)| Step::Release { hub, which }),
        12 => (hub(), 1_usize..4, prop_oneof![Just(1_usize), 1..100_usize, Just(usize::MAX)])
            .prop_map(|(from_hub, transmits, chunk)| Step::Carry { from_hub, transmits, chunk }),
        1 => (0_u64..2000).prop_map(|millis| Step::Wait { millis }),
    ];
    vec(step, 1..150)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn two_connections_are_queues_of_bytes(steps in steps(), windows in (1_u64..2000, 0_u64..500, 1_usize..3000)) {
        let mut model = Model::new(windows);
        for step in steps {
            model.step(step);
            model.check_memory();
        }
        model.drain();
    }
}

/// One end and what it knows.
struct Side {
    connection: Connection,
    /// Streams the application has not let go of.
    held: BTreeSet<StreamId>,
    offered: BTreeSet<StreamId>,
    /// Streams of which the application was told that there is something to read, or the end of it.
    readable: BTreeSet<StreamId>,
    /// Bytes that were written on each stream by the other side and not read here.
    queues: BTreeMap<StreamId, VecDeque<u8>>,
    /// What the carrier has taken from this end and not delivered.
    under_way: VecDeque<Bytes>,
}

/// What the model knows of both directions of a stream.
#[derive(Debug, Default)]
struct Story {
    finished_by: [bool; 2],
    /// Somebody cut, refused or let go of it: bytes may be lost, but nobody may be told of a clean end that is none.
    cut: bool,
}

struct Model {
    sides: [Side; 2],
    stories: BTreeMap<StreamId, Story>,
    now: Moment,
    next_byte: u8,
    bound: u64,
}

impl Model {
    fn new((window, early, send_buffer): (u64, u64, usize)) -> Self {
        let mut config = Config::default();
        (config.initial_window, config.max_window, config.min_window) = (window, window * 4, 1 + window / 4);
        (config.early_window, config.send_buffer, config.memory_budget) = (early, send_buffer, window * 8);
        let bound = config.memory_budget;
        let hub = Side::new(Connection::hub(config.clone()));
        let agent = Side::new(Connection::agent(config, Hello::default()));
        let mut model = Self { sides: [hub, agent], stories: BTreeMap::new(), now: Moment::ZERO, next_byte: 0, bound };
        while model.carry(false, 10, usize::MAX) || model.carry(true, 10, usize::MAX) {}
        assert!(model.sides.iter().all(|side| side.connection.is_open()));
        model
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Open { hub } => self.open(index(hub)),
            Step::Join { hub, which } => self.answer(index(hub), which, true),
            Step::Refuse { hub, which } => self.answer(index(hub), which, false),
            Step::Write { hub, which, len } => {
                self.on_held(index(hub), which, |model, at, id| model.write(at, id, len))
            }
            Step::Read { hub, which, max } => self.on_held(index(hub), which, |model, at, id| {
                model.read(at, id, max);
            }),
            Step::Finish { hub, which } => self.on_held(index(hub), which, Self::finish),
            Step::Reset { hub, which } => self.on_held(index(hub), which, |model, at, id| {
                model.sides[at].connection.reset(id, ResetCode::Broken);
                model.story(id).cut = true;
            }),
            Step::Release { hub, which } => self.on_held(index(hub), which, Self::release),
            Step::Carry { from_hub, transmits, chunk } => _ = self.carry(from_hub, transmits, chunk),
            Step::Wait { millis } => self.wait(millis),
        }
        self.take_events();
    }

    fn open(&mut self, at: usize) {
        if self.stories.len() < 12 {
            let id = self.sides[at].connection.open(Open::default()).unwrap();
            self.stories.insert(id, Story::default());
            self.sides[at].held.insert(id);
        }
    }

    fn answer(&mut self, at: usize, which: usize, join: bool) {
        let Some(id) = pick(&self.sides[at].offered, which) else { return };
        self.sides[at].offered.remove(&id);
        if join {
            let joined = self.sides[at].connection.join(id);
            assert!(joined.is_ok() || self.story(id).cut, "{joined:?}");
        } else {
            self.sides[at].connection.refuse(id, mctunnel_mux::RefuseCode::Internal, "no");
            self.sides[at].held.remove(&id);
            self.story(id).cut = true;
        }
    }

    fn on_held(&mut self, at: usize, which: usize, act: impl FnOnce(&mut Self, usize, StreamId)) {
        if let Some(id) = pick(&self.sides[at].held, which) {
            act(self, at, id);
        }
    }

    fn write(&mut self, at: usize, id: StreamId, len: usize) {
        let bytes: Vec<u8> = (0..len).map(|i| self.next_byte.wrapping_add(u8::try_from(i % 251).unwrap())).collect();
        self.next_byte = self.next_byte.wrapping_mul(31).wrapping_add(7);
        let mut rest = Bytes::from(bytes.clone());
        let written = self.sides[at].connection.write(id, &mut rest);
        let finished = self.story(id).finished_by[at];
        match written {
            Ok(()) => {
                assert!(!finished, "a finished direction takes nothing");
                let taken = &bytes[..len - rest.len()];
                self.sides[1 - at].queues.entry(id).or_default().extend(taken);
            }
            Err(StreamError::Finished) => assert!(finished),
            Err(error) => assert!(self.story(id).cut, "{error}"),
        }
    }

    /// Tells whether to go on.
    fn read(&mut self, at: usize, id: StreamId, max: usize) -> bool {
        let told = self.sides[at].readable.contains(&id);
        let read = self.sides[at].connection.read(self.now, id, max);
        let (finished, cut) = (self.story(id).finished_by[1 - at], self.story(id).cut);
        let queue = self.sides[at].queues.entry(id).or_default();
        match read {
            Ok(Read::Bytes(bytes)) => {
                assert!(told, "bytes of which nobody was told");
                assert!(bytes.len() <= max.min(queue.len()), "more bytes than were written or wanted");
                let expected: Vec<u8> = queue.drain(..bytes.len()).collect();
                assert_eq!(bytes, expected, "the bytes in their order");
                true
            }
            Ok(Read::End) => {
                assert!(finished && queue.is_empty(), "a clean end with {} bytes missing", queue.len());
                false
            }
            Ok(Read::Blocked) => {
                self.sides[at].readable.remove(&id);
                false
            }
            Err(error) => {
                assert!(cut, "{error}");
                false
            }
        }
    }

    fn finish(&mut self, at: usize, id: StreamId) {
        let finished = self.sides[at].connection.finish(id);
        assert!(finished.is_ok() || self.story(id).cut, "{finished:?}");
        if finished.is_ok() {
            self.story(id).finished_by[at] = true;
        }
    }

    fn release(&mut self, at: usize, id: StreamId) {
        self.sides[at].connection.release(id);
        self.sides[at].held.remove(&id);
        self.sides[at].offered.remove(&id);
        self.story(id).cut = true;
    }

    fn story(&mut self, id: StreamId) -> &mut Story {
        self.stories.get_mut(&id).expect("every stream was opened by somebody")
    }

    fn wait(&mut self, millis: u64) {
        self.now = self.now + Duration::from_millis(millis);
        for at in [0, 1] {
            // The carrier is the test's to move: it never lets the other side look silent.
            while self.carry(at == 0, 10, usize::MAX) {}
        }
        for side in &mut self.sides {
            if side.connection.poll_timeout().is_some_and(|due| due <= self.now) {
                side.connection.handle_timeout(self.now).unwrap();
            }
        }
        while self.carry(true, 10, usize::MAX) || self.carry(false, 10, usize::MAX) {}
    }

    /// Tells whether anything moved.
    fn carry(&mut self, from_hub: bool, transmits: usize, chunk: usize) -> bool {
        let at = index(from_hub);
        for _ in 0..transmits {
            let wanted = self.sides[at].connection.wants_to_transmit();
            let Some(transmit) = self.sides[at].connection.poll_transmit() else { break };
            assert!(wanted, "it has something to send and said so");
            let mut bytes = BytesMut::from(transmit.head);
            bytes.extend_from_slice(&transmit.body);
            self.sides[at].under_way.push_back(bytes.freeze());
        }
        let mut moved = false;
        while let Some(mut bytes) = self.sides[at].under_way.pop_front() {
            moved = true;
            while !bytes.is_empty() {
                let piece = bytes.split_to(chunk.min(bytes.len()));
                self.sides[1 - at].connection.handle_input(self.now, piece).unwrap();
            }
        }
        self.take_events();
        moved
    }

    fn take_events(&mut self) {
        for at in [0, 1] {
            while let Some(event) = self.sides[at].connection.poll_event() {
                match event {
                    Event::Hello(_) => self.sides[at].connection.welcome(self.now, Welcome::default()),
                    Event::Opened(offer) => {
                        self.sides[at].offered.insert(offer.stream);
                        assert!(self.sides[at].held.insert(offer.stream), "an id is offered once");
                    }
                    Event::Readable(id) => _ = self.sides[at].readable.insert(id),
                    Event::Refused { stream, .. } | Event::Reset { stream, .. } => {
                        assert!(self.story(stream).cut, "nobody cut {stream}");
                    }
                    Event::Welcomed(_) | Event::Joined(_) | Event::Writable(_) => {}
                    Event::Draining(_) | Event::Closed { .. } => panic!("nobody closes: {event:?}"),
                }
            }
        }
    }

    fn check_memory(&self) {
        for side in &self.sides {
            let most = self.bound + 500 * u64::try_from(self.stories.len()).unwrap();
            assert!(side.connection.committed_memory() <= most);
        }
    }

    /// Everybody finishes and reads to the end: whatever was not cut arrives in full, and then nothing is left.
    fn drain(&mut self) {
        for at in [0, 1] {
            for id in self.sides[at].offered.clone() {
                self.sides[at].offered.remove(&id);
                _ = self.sides[at].connection.join(id);
            }
            for id in self.sides[at].held.clone() {
                self.finish(at, id);
            }
        }
        while self.settle() {}
        for at in [0, 1] {
            for id in self.sides[at].held.clone() {
                let end = self.sides[at].connection.read(self.now, id, usize::MAX);
                assert!(
                    end == Ok(Read::End) || self.story(id).cut,
                    "stream {id} is stuck: {end:?}, {:?}",
                    self.story(id)
                );
                self.release(at, id);
            }
        }
        while self.settle() {}
        for side in &self.sides {
            assert_eq!((side.connection.streams(), side.connection.committed_memory()), (0, 0), "nothing is left");
        }
    }

    /// Moves all there is once, reading only where it was told to; tells whether anything moved.
    fn settle(&mut self) -> bool {
        let mut moved = self.carry(true, 100, usize::MAX) | self.carry(false, 100, usize::MAX);
        for at in [0, 1] {
            for id in self.sides[at].offered.clone() {
                self.sides[at].offered.remove(&id);
                _ = self.sides[at].connection.join(id);
                self.finish(at, id);
                moved = true;
            }
            let told = self.sides[at].readable.intersection(&self.sides[at].held).copied().collect::<Vec<_>>();
            for id in told {
                while self.read(at, id, usize::MAX) {
                    moved = true;
                }
                self.sides[at].readable.remove(&id);
            }
        }
        moved
    }
}

impl Side {
    fn new(connection: Connection) -> Self {
        Self {
            connection,
            held: BTreeSet::new(),
            offered: BTreeSet::new(),
            readable: BTreeSet::new(),
            queues: BTreeMap::new(),
            under_way: VecDeque::new(),
        }
    }
}

fn index(hub: bool) -> usize {
    usize::from(!hub)
}

fn pick(set: &BTreeSet<StreamId>, which: usize) -> Option<StreamId> {
    set.iter().nth(which.checked_rem(set.len())?).copied()
}
