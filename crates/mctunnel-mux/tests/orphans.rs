//! Streams whose application is gone and of which the peer does not take the rest: few, not for long, and without credit behind a cut.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use bytes::{Bytes, BytesMut};
use mctunnel_mux::{Config, Connection, Deframer, Frame, Hello, Moment, Open, Priority, ResetCode, StreamId, Welcome};
use std::time::Duration;

/// More than the peer's window takes.
const MUCH: usize = 5000;
const WINDOW: u64 = 1000;

#[test]
fn streams_that_are_cut_again_and_again_do_not_pile_up_at_a_peer_that_takes_nothing() {
    let mut hub = Hub::new();
    let budget = Config::default().budgets.orphans;
    let streams: Vec<_> = (0..1000).map(|_| hub.stream()).collect();
    let mut frames = Vec::new();
    for (left, stream) in streams.iter().enumerate() {
        hub.write(*stream, MUCH);
        hub.connection.cut(*stream, ResetCode::Broken);
        hub.connection.release(*stream);
        frames.extend(hub.transmitted());
        let most = streams.len() - 1 - left + budget;
        assert!(hub.connection.streams() <= most, "{} of {most} streams are left", hub.connection.streams());
        frames.extend(hub.receives(&Frame::Data { stream: *stream, fin: false, payload: vec![0; 16 * 1024].into() }));
    }
    assert_eq!(hub.connection.streams(), budget, "so many may still be taken");
    frames.extend(hub.pass(Duration::from_secs(60)));
    assert_eq!(hub.connection.streams(), 0);
    assert_eq!(hub.connection.committed_memory(), 0);
    for stream in streams {
        assert_eq!(resets(&frames, stream), [ResetCode::Broken], "stream {stream:?}");
    }
    let credit = frames.iter().find(|frame| matches!(frame, Frame::Window { .. }));
    assert_eq!(credit, None, "nobody is there to pay for what would come");
}

#[test]
fn what_was_finished_is_delivered_to_a_slow_reader_and_given_up_for_one_that_stopped() {
    let mut hub = Hub::new();
    let [slow, stopped] = [hub.stream(), hub.stream()];
    for stream in [slow, stopped] {
        hub.write(stream, MUCH);
        hub.connection.finish(stream).unwrap();
        hub.connection.release(stream);
    }
    let mut frames = hub.pass(Duration::from_secs(20));
    for _ in 0..4 {
        frames.extend(hub.receives(&Frame::Window { stream: slow, credit: WINDOW }));
        frames.extend(hub.pass(Duration::from_secs(1)));
    }
    let ended = |frames: &[Frame], stream| {
        let of = |frame: &&Frame| matches!(frame, Frame::Data { stream: s, fin: true, .. } if *s == stream);
        frames.iter().any(|frame| of(&frame))
    };
    assert!(ended(&frames, slow), "all of it, and its end");
    assert_eq!(resets(&frames, stopped), [], "it may still go on");
    frames.extend(hub.pass(Duration::from_secs(30)));
    assert_eq!(resets(&frames, stopped), [ResetCode::Cancelled]);
    assert!(!ended(&frames, stopped), "a cut is never a clean end");
    assert_eq!(hub.connection.streams(), 0);
}

#[test]
fn credit_in_crumbs_does_not_make_a_stream_younger() {
    let mut hub = Hub::new();
    let stream = hub.stream();
    hub.write(stream, MUCH);
    hub.connection.cut(stream, ResetCode::Broken);
    hub.connection.release(stream);
    let mut frames = Vec::new();
    for _ in 0..60 {
        frames.extend(hub.receives(&Frame::Window { stream, credit: 1 }));
        frames.extend(hub.pass(Duration::from_secs(1)));
    }
    assert_eq!(resets(&frames, stream), [ResetCode::Broken]);
    assert_eq!(hub.connection.streams(), 0);
}

#[test]
fn a_thousand_that_only_wait_for_the_carrier_all_end_cleanly() {
    let mut hub = Hub::new();
    let streams: Vec<_> = (0..1000).map(|_| hub.stream()).collect();
    for stream in &streams {
        hub.write(*stream, 100);
        hub.connection.finish(*stream).unwrap();
        hub.receives_quietly(&Frame::Data { stream: *stream, fin: true, payload: Bytes::new() });
        hub.connection.release(*stream);
    }
    let frames = hub.transmitted();
    assert!(!frames.iter().any(|frame| matches!(frame, Frame::Reset { .. })), "none is cut");
    let ends = frames.iter().filter(|frame| matches!(frame, Frame::Data { fin: true, .. })).count();
    assert_eq!((ends, hub.connection.streams()), (streams.len(), 0));
}

#[test]
fn an_answer_waits_for_a_slow_client_of_the_peer_as_long_as_it_takes() {
    let mut hub = Hub::new();
    for (number, stream) in (0..1000).map(|n| (n, StreamId::from(1 + 2 * n))) {
        hub.receives_quietly(&Frame::Open(stream, WINDOW, Open { priority: Priority::Normal, ..Open::default() }));
        hub.connection.join(stream).unwrap();
        hub.write(stream, MUCH);
        if number % 2 == 0 {
            hub.connection.finish(stream).unwrap();
        } else {
            hub.connection.cut(stream, ResetCode::Broken);
        }
        hub.connection.release(stream);
    }
    let frames = hub.pass(Duration::from_secs(3600));
    assert!(!frames.iter().any(|frame| matches!(frame, Frame::Reset { .. })), "the peer's client holds them");
    assert_eq!(hub.connection.streams(), 1000);
}

/// A hub whose agent joins what it is asked for and answers PINGs, and does nothing by itself.
struct Hub {
    connection: Connection,
    now: Moment,
}

impl Hub {
    fn new() -> Self {
        let mut hub = Self { connection: Connection::hub(Config::default()), now: Moment::ZERO };
        hub.receives_quietly(&Frame::Hello(Hello { early_window: 0, ..Hello::default() }));
        hub.connection.welcome(hub.now, Welcome::default());
        hub.transmitted();
        hub
    }

    /// One that was joined.
    fn stream(&mut self) -> StreamId {
        let stream = self.connection.open(Open::default()).unwrap();
        self.transmitted();
        self.receives(&Frame::Joined { stream, window: WINDOW });
        stream
    }

    fn write(&mut self, stream: StreamId, len: usize) {
        let mut bytes = Bytes::from(vec![1; len]);
        self.connection.write(stream, &mut bytes).unwrap();
        assert!(bytes.is_empty());
    }

    fn receives_quietly(&mut self, frame: &Frame) {
        let mut bytes = BytesMut::new();
        frame.encode(&mut bytes);
        self.connection.handle_input(self.now, bytes.freeze()).unwrap();
        while self.connection.poll_event().is_some() {}
    }

    fn receives(&mut self, frame: &Frame) -> Vec<Frame> {
        self.receives_quietly(frame);
        self.transmitted()
    }

    /// Lets time pass; the agent answers PINGs, and that is all.
    fn pass(&mut self, time: Duration) -> Vec<Frame> {
        let until = self.now + time;
        let mut frames = Vec::new();
        while self.now < until {
            let due = self.connection.poll_timeout().unwrap();
            self.now = until.min(due.max(self.now));
            self.connection.handle_timeout(self.now).unwrap();
            let sent = self.transmitted();
            for frame in &sent {
                if let Frame::Ping(nonce) = frame {
                    self.now = self.now + Duration::from_millis(20);
                    self.receives_quietly(&Frame::Pong(*nonce));
                }
            }
            frames.extend(sent);
        }
        frames
    }

    fn transmitted(&mut self) -> Vec<Frame> {
        let mut deframer = Deframer::default();
        let mut frames = Vec::new();
        while let Some(transmit) = self.connection.poll_transmit() {
            for part in [transmit.head, transmit.body] {
                deframer.push(part);
                while let Some(message) = deframer.next_message().unwrap() {
                    frames.push(Frame::decode(message).unwrap());
                }
            }
        }
        frames
    }
}

fn resets(frames: &[Frame], stream: StreamId) -> Vec<ResetCode> {
    let code = |frame: &Frame| {
        let Frame::Reset { stream: of, code } = frame else { return None };
        (*of == stream).then_some(*code)
    };
    frames.iter().filter_map(code).collect()
}
