//! One end of a tunnel: all its streams, their windows, and the order in which they send.

use crate::{
    Budgets, CloseCode, EndedBy, Event, Frame, Hello, Moment, ProtocolError, ResetCode, StreamId, Welcome,
    budget::Bucket, framing::Deframer, schedule::Scheduler, stream::Phase as StreamPhase, stream::Stream,
};
use alloc::{
    collections::{BTreeMap, VecDeque},
    string::String,
    vec::Vec,
};
use bytes::{Bytes, BytesMut};
use core::time::Duration;
use lingering::Lingering;
use liveness::Liveness;
use orphans::Orphans;

mod commands;
mod lingering;
mod liveness;
mod orphans;
mod receive;
mod transmit;

/// Which end this is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Accepts tunnels; its stream ids are even.
    Hub,
    /// Dials; its stream ids are odd.
    Agent,
}

/// The knobs of one end.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Config {
    /// What a peer may send on a stream before the first byte was read. Default 256 KiB; on a tunnel with a round trip below 2 ms
    /// less, down to 64 KiB, because there more would only be a queue that others wait behind.
    pub initial_window: u64,
    /// What a peer may send right behind OPEN, before our answer. Default 32 KiB; costs this much for each half-open stream.
    pub early_window: u64,
    /// The most a window grows to. Default 8 MiB.
    pub max_window: u64,
    /// What a stream gets even when the memory budget is spent, so that none can stall another. Default 16 KiB.
    pub min_window: u64,
    /// The sum of all receive windows beyond `min_window` each. Default 64 MiB.
    pub memory_budget: u64,
    /// Bytes an application may have written on a stream that were not sent yet. Default 256 KiB.
    pub send_buffer: usize,
    /// How often a peer that says nothing is asked. Default 5 s.
    pub ping_interval: Duration,
    /// How long a peer may be silent after it was asked. Default 5 s.
    pub ping_timeout: Duration,
    /// Limits the peer is held to.
    pub budgets: Budgets,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            initial_window: 256 * 1024,
            early_window: 32 * 1024,
            max_window: 8 * 1024 * 1024,
            min_window: 16 * 1024,
            memory_budget: 64 * 1024 * 1024,
            send_buffer: 256 * 1024,
            ping_interval: Duration::from_secs(5),
            ping_timeout: Duration::from_secs(5),
            budgets: Budgets::default(),
        }
    }
}

/// What a read found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Read {
    /// Bytes.
    Bytes(Bytes),
    /// The peer finished; nothing more will come.
    End,
    /// Nothing yet; [`Event::Readable`] will tell.
    Blocked,
}

/// Bytes for the carrier: `head` then `body`, as one write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transmit {
    /// Small frames, and the head of the frame whose payload is `body`.
    pub head: Bytes,
    /// The payload of a large DATA frame, or nothing.
    pub body: Bytes,
}

/// One end of a tunnel. The crate's documentation says how to use it.
#[derive(Debug)]
pub struct Connection {
    side: Side,
    config: Config,
    phase: Phase,
    streams: BTreeMap<StreamId, Stream>,
    next_id: u64,
    highest_peer_id: u64,
    /// Sum of all receive windows.
    committed: u64,
    /// Bytes read by the applications from all streams.
    total_read: u64,
    /// Bytes of all streams that were sent.
    total_sent: u64,
    /// Peer's streams that wait for `join` or `refuse`.
    offered: usize,
    /// What their headers take.
    offered_bytes: usize,
    /// Streams the peer opened.
    peer_streams: usize,
    /// What the peer takes before it has answered an OPEN.
    peer_early_window: u64,
    peer_drains: bool,
    /// Frames that go before all DATA, in order. Bounded: two for each stream, plus `unread_answers`.
    control: VecDeque<Frame>,
    unread_answers: usize,
    scheduler: Scheduler,
    events: VecDeque<Event>,
    deframer: Deframer,
    liveness: Liveness,
    lingering: Lingering,
    orphans: Orphans,
    resets: Bucket,
    empty_frames: Bucket,
    pings: Bucket,
    late_windows: Bucket,
    head: BytesMut,
    /// The first stream of ours whose OPEN was still queued when the tunnel ended. Opens go out in the order of their ids.
    unasked_from: Option<StreamId>,
}

/// The least a stream begins with while there is memory.
const NEAR_WINDOW: u64 = 64 * 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// HELLO or WELCOME is still to come.
    Greeting,
    /// Hub: HELLO came, `welcome` is to be called.
    Greeted,
    Open,
    /// CLOSE is queued or sent, or came; nothing else moves.
    Closed,
}

impl Connection {
    /// The agent's end; introduces itself.
    #[must_use]
    pub fn agent(config: Config, mut hello: Hello) -> Self {
        hello.early_window = config.early_window;
        let mut connection = Self::new(Side::Agent, config);
        connection.control.push_back(Frame::Hello(hello));
        connection
    }

    /// The hub's end; waits for HELLO.
    #[must_use]
    pub fn hub(config: Config) -> Self {
        Self::new(Side::Hub, config)
    }

    fn new(side: Side, config: Config) -> Self {
        let budgets = &config.budgets;
        Self {
            side,
            phase: Phase::Greeting,
            streams: BTreeMap::new(),
            next_id: if side == Side::Hub { 2 } else { 1 },
            highest_peer_id: 0,
            committed: 0,
            total_read: 0,
            total_sent: 0,
            offered: 0,
            offered_bytes: 0,
            peer_streams: 0,
            peer_early_window: 0,
            peer_drains: false,
            control: VecDeque::new(),
            unread_answers: 0,
            scheduler: Scheduler::default(),
            events: VecDeque::new(),
            deframer: Deframer::default(),
            liveness: Liveness::default(),
            lingering: Lingering::default(),
            orphans: Orphans::default(),
            resets: Bucket::new(budgets.resets_per_second, "the peer cut streams too often"),
            empty_frames: Bucket::new(budgets.empty_frames_per_second, "the peer sent too many empty frames"),
            pings: Bucket::new(budgets.pings_per_second, "the peer sent too many pings"),
            late_windows: Bucket::new(
                budgets.late_windows_per_second,
                "the peer granted too much to streams that are gone",
            ),
            head: BytesMut::new(),
            unasked_from: None,
            config,
        }
    }

    /// The next thing the application must know.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// When [`Connection::handle_timeout`] wants to be called.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Moment> {
        if self.phase != Phase::Open {
            return None;
        }
        let alive = self.liveness.deadline(&self.config);
        Some(self.orphans_deadline().map_or(alive, |orphans| orphans.min(alive)))
    }

    /// Time passed: asks a silent peer, or gives it up; ends what the peer kept waiting for too long.
    pub fn handle_timeout(&mut self, now: Moment) -> Result<(), ProtocolError> {
        if self.phase != Phase::Open {
            return Ok(());
        }
        self.cut_old_orphans(now);
        match self.liveness.handle_timeout(now, &self.config) {
            Ok(Some(nonce)) => {
                self.control.push_back(Frame::Ping(nonce));
                Ok(())
            }
            Ok(None) => Ok(()),
            Err(error) => Err(self.fail(error)),
        }
    }

    /// Hub: takes the agent in, after [`Event::Hello`]. Does nothing if the tunnel has ended meanwhile.
    pub fn welcome(&mut self, now: Moment, mut welcome: Welcome) {
        if self.phase != Phase::Greeted {
            return;
        }
        welcome.version = crate::frame::VERSION;
        welcome.early_window = self.config.early_window;
        self.control.push_back(Frame::Welcome(welcome));
        self.open_for_business(now);
    }

    /// Ends the tunnel: everything queued is dropped, the peer is told why.
    pub fn close(&mut self, code: CloseCode, message: &str) {
        if self.phase == Phase::Closed {
            return;
        }
        self.end();
        self.control.push_back(Frame::Close { code, message: message.into() });
    }

    /// The carrier is gone: every stream ends with an error, except for what had already arrived in full.
    pub fn handle_carrier_lost(&mut self) {
        self.end();
    }

    /// Whether [`Connection::poll_transmit`] may have something to give.
    #[must_use]
    pub fn wants_to_transmit(&self) -> bool {
        !self.control.is_empty() || self.scheduler.is_busy()
    }

    /// Whether the tunnel has ended.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.phase == Phase::Closed
    }

    /// Whether HELLO and WELCOME were exchanged and the tunnel has not ended.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.phase == Phase::Open
    }

    /// Whether the peer can know of a stream of ours: not if the tunnel ended before its OPEN was given to the carrier.
    #[must_use]
    pub fn was_asked(&self, id: StreamId) -> bool {
        !self.unasked_from.is_some_and(|first| id >= first && id.0.is_multiple_of(2) == first.0.is_multiple_of(2))
    }

    /// Whether the peer asked us to open no more streams.
    #[must_use]
    pub fn peer_drains(&self) -> bool {
        self.peer_drains
    }

    /// The smoothed round-trip time, once a PING was answered.
    #[must_use]
    pub fn rtt(&self) -> Option<Duration> {
        self.liveness.rtt()
    }

    /// Streams that are not gone yet.
    #[must_use]
    pub fn streams(&self) -> usize {
        self.streams.len()
    }

    /// Bytes of streams, in both directions, since the tunnel is up.
    #[must_use]
    pub fn moved(&self) -> u64 {
        self.total_read + self.total_sent
    }

    /// The sum of all receive windows: the most this end may have to hold.
    #[must_use]
    pub fn committed_memory(&self) -> u64 {
        self.committed
    }

    fn open_for_business(&mut self, now: Moment) {
        self.phase = Phase::Open;
        self.liveness.start(now);
    }

    /// The peer broke a rule: ends the tunnel and tells it.
    fn fail(&mut self, error: ProtocolError) -> ProtocolError {
        self.close(error.code, error.what);
        error
    }

    fn end(&mut self) {
        self.phase = Phase::Closed;
        let unasked =
            self.control.drain(..).find_map(|frame| if let Frame::Open(id, ..) = frame { Some(id) } else { None });
        self.unasked_from = self.unasked_from.or(unasked);
        self.control.clear();
        self.scheduler = Scheduler::default();
        for (id, stream) in &mut self.streams {
            stream.outgoing.clear();
            if !stream.is_off_the_wire() {
                stream.cut = Some((ResetCode::Broken, EndedBy::Tunnel));
                self.events.push_back(Event::Reset { stream: *id, code: ResetCode::Broken, by: EndedBy::Tunnel });
            }
        }
        let released = self.streams.iter().filter(|(_, stream)| stream.released).map(|(id, _)| *id);
        for id in released.collect::<Vec<_>>() {
            self.forget_if_done(id);
        }
    }

    /// What is left of the memory budget.
    fn spare_memory(&self) -> u64 {
        self.config.memory_budget.saturating_sub(self.committed)
    }

    /// The window a new stream gets: the usual one while there is memory, less when it runs short, never less than the minimum.
    fn affordable_window(&self) -> u64 {
        let spare = self.spare_memory();
        let wanted = self.config.initial_window.min(self.near_window());
        if spare >= wanted * 4 { wanted } else { (spare / 4).clamp(self.config.min_window.min(wanted), wanted) }
    }

    /// What a stream needs for a fast start over this distance: 128 MiB/s times the round trip, and 64 KiB at least.
    fn near_window(&self) -> u64 {
        let bytes = |rtt: Duration| rtt.as_micros().saturating_mul(134);
        let needed = self.liveness.base_rtt().map_or(u128::MAX, bytes);
        u64::try_from(needed).unwrap_or(u64::MAX).max(NEAR_WINDOW)
    }

    fn insert(&mut self, id: StreamId, stream: Stream) {
        self.committed += stream.window.size();
        if !stream.opened_by_us {
            self.peer_streams += 1;
        }
        if stream.phase == StreamPhase::Offered {
            self.offered += 1;
            self.offered_bytes += stream.offer_bytes;
        }
        self.streams.insert(id, stream);
    }

    /// Forgets the stream if neither the wire nor the application needs it any more.
    fn forget_if_done(&mut self, id: StreamId) {
        let done = self.streams.get(&id).is_some_and(|s| s.released && s.is_off_the_wire());
        if !done {
            return;
        }
        if let Some(stream) = self.streams.remove(&id) {
            self.discount_orphan(id, stream.orphaned_at);
            self.committed -= stream.window.size();
            self.peer_streams -= usize::from(!stream.opened_by_us);
            if stream.phase == StreamPhase::Offered {
                self.offered -= 1;
                self.offered_bytes -= stream.offer_bytes;
            }
        }
    }

    /// In debug builds: credit is conserved and the counters agree with the map.
    fn assert_invariants(&self) {
        if !cfg!(debug_assertions) || self.streams.len() > 64 || self.phase == Phase::Closed {
            return;
        }
        self.streams.values().for_each(|s| s.window.assert_invariants());
        let committed: u64 = self.streams.values().map(|s| s.window.size()).sum();
        debug_assert_eq!(committed, self.committed, "the memory of all windows is counted");
        let offered = self.streams.values().filter(|s| s.phase == StreamPhase::Offered).count();
        debug_assert_eq!(offered, self.offered, "offers are counted");
        let theirs = self.streams.values().filter(|s| !s.opened_by_us).count();
        debug_assert_eq!(theirs, self.peer_streams, "the peer's streams are counted");
        self.assert_orphans();
    }

    /// Text for a refusal over a limit.
    fn limit_text(name: &str, limit: usize) -> String {
        alloc::format!("the limit of {limit} {name} on this tunnel is reached")
    }
}
