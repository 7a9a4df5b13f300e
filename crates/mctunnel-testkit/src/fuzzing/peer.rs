//! A peer that sends whatever the bytes say, against a real connection whose application also does whatever they say.

use super::{Input, frame};
use bytes::{Bytes, BytesMut};
use mctunnel_mux::{
    Config, Connection, Deframer, Event, Frame, Hello, Moment, Open, ProtocolError, RefuseCode, ResetCode, StreamId,
    Welcome,
};
use std::{collections::BTreeMap, time::Duration};

/// Runs the script in the bytes: frames, raw bytes, the application's commands, time, and a carrier that takes or does not.
pub fn hostile_peer(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let mut scene = Scene::new(input.byte());
    while !input.is_empty() {
        match input.byte() % 8 {
            0..=3 => scene.peer_sends(&mut input),
            4 => {
                let len = usize::from(input.byte() % 32);
                scene.arrives(Bytes::copy_from_slice(input.bytes(len)));
            }
            5 => scene.application_acts(&mut input),
            6 => scene.time_passes(u64::from(input.byte())),
            _ => scene.carrier_takes(input.byte() % 8),
        }
        scene.take_events();
        scene.check_memory();
    }
    scene.end();
}

/// What the events have told about a stream; they must make sense in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Told {
    Nothing,
    Joined,
    Ended,
}

struct Scene {
    connection: Connection,
    now: Moment,
    streams: BTreeMap<StreamId, Told>,
    most_streams: usize,
}

const EARLY: u64 = 256;
const BUDGET: u64 = 8192;
const STREAMS: usize = 8;

impl Scene {
    fn new(choice: u8) -> Self {
        let mut config = Config::default();
        (config.initial_window, config.max_window, config.min_window) = (1024, 4096, 64);
        (config.early_window, config.memory_budget, config.send_buffer) = (EARLY, BUDGET, 512);
        let budgets = &mut config.budgets;
        (budgets.streams, budgets.half_open, budgets.headers, budgets.header_bytes) = (STREAMS, 4, 4, 64);
        (budgets.resets_per_second, budgets.empty_frames_per_second, budgets.pings_per_second) = (2, 1, 1);
        budgets.unread_answers = 6;
        let connection = if choice.is_multiple_of(2) {
            Connection::hub(config)
        } else {
            Connection::agent(config, Hello::default())
        };
        let mut scene = Self { connection, now: Moment::ZERO, streams: BTreeMap::new(), most_streams: 0 };
        if choice % 8 < 6 {
            // Mostly the greeting is not what is of interest.
            let hello = Frame::Hello(Hello { early_window: 100, ..Hello::default() });
            let welcome = Frame::Welcome(Welcome { version: 1, early_window: 100, ..Welcome::default() });
            scene.send(&if choice.is_multiple_of(2) { hello } else { welcome });
            scene.take_events();
        }
        scene
    }

    fn peer_sends(&mut self, input: &mut Input<'_>) {
        let frame = frame(input);
        self.send(&frame);
    }

    fn send(&mut self, frame: &Frame) {
        let mut bytes = BytesMut::new();
        frame.encode(&mut bytes);
        let rest = bytes.split_off(bytes.len() / 2);
        self.arrives(bytes.freeze());
        self.arrives(rest.freeze());
    }

    fn arrives(&mut self, bytes: Bytes) {
        if let Err(error) = self.connection.handle_input(self.now, bytes) {
            self.told_why(error);
        }
    }

    fn time_passes(&mut self, step: u64) {
        self.now = self.now + Duration::from_millis(step * step);
        if self.connection.poll_timeout().is_some_and(|at| at <= self.now)
            && let Err(error) = self.connection.handle_timeout(self.now)
        {
            self.told_why(error);
        }
    }

    /// The peer broke a rule: CLOSE with the reason is all that is sent from now on.
    fn told_why(&mut self, error: ProtocolError) {
        assert!(self.connection.is_closed());
        let transmit = self.connection.poll_transmit().map(|t| [t.head, t.body].concat());
        let mut expected = BytesMut::new();
        Frame::Close { code: error.code, message: error.what.to_owned() }.encode(&mut expected);
        assert_eq!(transmit.as_deref(), Some(expected.as_ref()), "the peer is told why");
        assert_eq!(self.connection.poll_transmit(), None, "and nothing else");
    }

    fn carrier_takes(&mut self, times: u8) {
        let mut deframer = Deframer::default();
        for _ in 0..times {
            let wanted = self.connection.wants_to_transmit();
            let Some(transmit) = self.connection.poll_transmit() else { return };
            assert!(wanted, "it has something to send and said so");
            deframer.push([transmit.head, transmit.body].concat().into());
            while let Ok(Some(message)) = deframer.next_message() {
                assert!(Frame::decode(message).is_ok(), "what we send can be read");
            }
        }
    }

    fn application_acts(&mut self, input: &mut Input<'_>) {
        let action = input.byte();
        let index = usize::from(input.byte()) % self.streams.len().max(1);
        let Some(stream) = self.streams.keys().nth(index).copied().filter(|_| !action.is_multiple_of(10)) else {
            return self.open();
        };
        let connection = &mut self.connection;
        match action % 10 {
            1 | 2 => _ = connection.join(stream),
            3 => connection.refuse(stream, RefuseCode::NotAllowed, "no"),
            4 | 5 => _ = connection.read(self.now, stream, usize::from(input.byte()) * 8),
            6 => _ = connection.write(stream, &mut vec![b'w'; usize::from(input.byte()) * 4].into()),
            7 => _ = connection.finish(stream),
            8 => connection.reset(stream, ResetCode::Broken),
            _ => connection.release(stream),
        }
        if matches!(action % 10, 3 | 9) {
            self.streams.remove(&stream);
        }
    }

    fn open(&mut self) {
        if let Ok(stream) = self.connection.open(Open::default()) {
            assert_eq!(self.streams.insert(stream, Told::Nothing), None, "an id is used once");
        }
    }

    fn take_events(&mut self) {
        while let Some(event) = self.connection.poll_event() {
            match event {
                Event::Hello(_) => self.connection.welcome(self.now, Welcome::default()),
                Event::Opened(offer) => {
                    assert_eq!(self.streams.insert(offer.stream, Told::Nothing), None, "an id is offered once");
                }
                Event::Joined(stream) => self.tell(stream, Told::Joined, &[Told::Nothing]),
                Event::Refused { stream, .. } => self.tell(stream, Told::Ended, &[Told::Nothing]),
                Event::Reset { stream, .. } => self.tell(stream, Told::Ended, &[Told::Nothing, Told::Joined]),
                Event::Closed { .. } => assert!(self.connection.is_closed()),
                Event::Welcomed(_) | Event::Readable(_) | Event::Writable(_) | Event::Draining(_) => {}
            }
        }
        self.most_streams = self.most_streams.max(self.connection.streams());
    }

    fn tell(&mut self, stream: StreamId, told: Told, before: &[Told]) {
        if let Some(state) = self.streams.get_mut(&stream) {
            assert!(before.contains(state), "stream {stream} is {state:?} and now {told:?}");
            *state = told;
        }
    }

    fn check_memory(&self) {
        let streams = u64::try_from(self.most_streams).unwrap_or(u64::MAX);
        assert!(self.connection.committed_memory() <= BUDGET + streams * EARLY, "windows stay within the budget");
    }

    /// Everything can be let go of, and then nothing is left.
    fn end(mut self) {
        self.connection.handle_carrier_lost();
        self.take_events();
        for stream in self.streams.keys() {
            self.connection.release(*stream);
        }
        assert_eq!(self.connection.streams(), 0, "every stream is forgotten");
        assert_eq!(self.connection.committed_memory(), 0, "and its memory given back");
    }
}
