//! What the peer sent: every frame is held against the state of its stream before anything changes.

use super::{
    Connection, Phase, Side,
    commands::{CONTROL_FULL, LINGERING_FULL},
};
use crate::{
    CloseCode, Event, Frame, Hello, Moment, Offer, Open, ProtocolError, RefuseCode, ResetCode, StreamId, Welcome,
    frame::VERSION,
    queue::SMALL,
    stream::{Fin, Phase as StreamPhase, Stream},
    window::MAX_CREDIT,
    wire::len_u64,
};
use bytes::Bytes;

/// Payloads below this are copied out of the buffer they came in.
const PIN_LIMIT: usize = 16 * 1024;

type Checked = Result<(), ProtocolError>;

impl Connection {
    /// Takes the next bytes from the carrier, in any chunking. An error means the tunnel has ended; the peer is told.
    pub fn handle_input(&mut self, now: Moment, chunk: Bytes) -> Checked {
        if self.phase == Phase::Closed || chunk.is_empty() {
            return Ok(());
        }
        self.liveness.heard(now);
        self.deframer.push(chunk);
        let taken = self.take_frames(now);
        self.assert_invariants();
        taken.map_err(|error| self.fail(error))
    }

    fn take_frames(&mut self, now: Moment) -> Checked {
        while let Some(message) = self.deframer.next_message()? {
            self.handle_frame(now, Frame::decode(message)?)?;
            if self.control.len() > CONTROL_FULL {
                return Err(ProtocolError::budget("the peer does not read the answers it provokes"));
            }
            if self.phase == Phase::Closed {
                break;
            }
        }
        Ok(())
    }

    fn handle_frame(&mut self, now: Moment, frame: Frame) -> Checked {
        if self.phase != Phase::Open {
            return self.handle_greeting(now, frame);
        }
        match frame {
            Frame::Data { stream, fin, payload } => self.handle_data(now, stream, fin, payload),
            Frame::Window { stream, credit } => self.handle_window(now, stream, credit),
            Frame::Open(stream, window, open) => self.handle_open(stream, window, open),
            Frame::Joined { stream, window } => self.handle_joined(stream, window),
            Frame::Refused { stream, code, message } => {
                if self.answers_our_open(stream)? {
                    self.events.push_back(Event::Refused { stream, code, message });
                    self.cut_quietly(stream);
                }
                Ok(())
            }
            Frame::Reset { stream, code } => self.handle_reset(now, stream, code),
            Frame::Ping(nonce) => {
                self.pings.take(now)?;
                self.answer(Frame::Pong(nonce))
            }
            Frame::Pong(nonce) => {
                self.liveness.handle_pong(now, nonce)?;
                self.lingering.clear_up_to(nonce);
                Ok(())
            }
            Frame::Drain(drain) => {
                if !core::mem::replace(&mut self.peer_drains, true) {
                    self.events.push_back(Event::Draining(drain));
                }
                Ok(())
            }
            Frame::Close { code, message } => self.handle_close(code, message),
            Frame::Hello(_) | Frame::Welcome(_) => Err(ProtocolError::rule("a greeting came twice")),
        }
    }

    /// Before the tunnel is open: only the greeting itself, or the end.
    fn handle_greeting(&mut self, now: Moment, frame: Frame) -> Checked {
        match (self.side, self.phase, frame) {
            (Side::Hub, Phase::Greeting, Frame::Hello(hello)) => self.handle_hello(hello),
            (Side::Agent, Phase::Greeting, Frame::Welcome(welcome)) => self.handle_welcome(now, welcome),
            (_, _, Frame::Close { code, message }) => self.handle_close(code, message),
            _ => Err(ProtocolError::rule("a frame came before the greeting was complete")),
        }
    }

    fn handle_hello(&mut self, hello: Hello) -> Checked {
        if !hello.versions.contains(&VERSION) {
            return Err(ProtocolError { code: CloseCode::Version, what: "this hub speaks protocol version 1 only" });
        }
        self.peer_early_window = hello.early_window.min(MAX_CREDIT);
        self.phase = Phase::Greeted;
        self.events.push_back(Event::Hello(hello));
        Ok(())
    }

    fn handle_welcome(&mut self, now: Moment, welcome: Welcome) -> Checked {
        if welcome.version != VERSION {
            return Err(ProtocolError { code: CloseCode::Version, what: "this agent speaks protocol version 1 only" });
        }
        self.peer_early_window = welcome.early_window.min(MAX_CREDIT);
        self.open_for_business(now);
        self.events.push_back(Event::Welcomed(welcome));
        Ok(())
    }

    fn handle_open(&mut self, id: StreamId, window: u64, open: Open) -> Checked {
        if self.is_ours(id) {
            return Err(ProtocolError::rule("the peer opened a stream with an id of ours"));
        }
        if id.0 <= self.highest_peer_id {
            return Err(ProtocolError::rule("the peer used a stream id twice"));
        }
        if window > MAX_CREDIT {
            return Err(ProtocolError::flow_control("a window was granted beyond all bounds"));
        }
        if self.lingering.len() >= LINGERING_FULL {
            return Err(ProtocolError::budget("streams end faster than the peer answers pings"));
        }
        self.highest_peer_id = id.0;
        let budgets = &self.config.budgets;
        if open.header_bytes() > budgets.header_bytes || open.headers.len() > budgets.headers {
            return Err(ProtocolError::budget("an OPEN has too many headers"));
        }
        if self.peer_streams >= budgets.streams {
            let text = Self::limit_text("open streams", budgets.streams);
            return self.refuse_unseen(id, text);
        }
        if self.offered >= budgets.half_open {
            let text = Self::limit_text("unanswered opens", budgets.half_open);
            return self.refuse_unseen(id, text);
        }
        let offer_bytes = open.footprint();
        if self.offered_bytes.saturating_add(offer_bytes) > budgets.half_open_bytes {
            let text = Self::limit_text("bytes of headers of unanswered opens", budgets.half_open_bytes);
            return self.refuse_unseen(id, text);
        }
        let mut stream = Stream::new(StreamPhase::Offered, open.priority, window, self.config.early_window);
        stream.offer_bytes = offer_bytes;
        self.insert(id, stream);
        self.events.push_back(Event::Opened(Offer {
            stream: id,
            priority: open.priority,
            headers: open.headers,
            user: open.user,
        }));
        Ok(())
    }

    fn refuse_unseen(&mut self, id: StreamId, message: alloc::string::String) -> Checked {
        self.linger(id, false);
        self.answer(Frame::Refused { stream: id, code: RefuseCode::TooManyStreams, message })
    }

    fn handle_joined(&mut self, id: StreamId, window: u64) -> Checked {
        if !self.answers_our_open(id)? {
            return Ok(());
        }
        if let Some(stream) = self.streams.get_mut(&id) {
            stream.phase = StreamPhase::Joined;
            stream.credit.grant(window)?;
            let leaving = stream.is_leaving();
            let orphaned_at = stream.orphaned_at;
            self.events.push_back(Event::Joined(id));
            self.discount_orphan(id, orphaned_at);
            self.schedule(id);
            if leaving {
                self.reset(id, ResetCode::Cancelled);
                self.forget_if_done(id);
            }
            self.count_orphan(id);
        }
        Ok(())
    }

    /// Whether the stream is one of ours that waits for its answer; false when we have given it up meanwhile.
    fn answers_our_open(&self, id: StreamId) -> Result<bool, ProtocolError> {
        if self.lingering.contains(id) {
            return Ok(false);
        }
        match self.streams.get(&id) {
            Some(stream) if stream.phase == StreamPhase::Opening && stream.cut.is_none() => Ok(true),
            _ => Err(ProtocolError::rule("an answer came to a stream that waits for none")),
        }
    }

    fn handle_data(&mut self, now: Moment, id: StreamId, fin: bool, payload: Bytes) -> Checked {
        if payload.is_empty() && !fin {
            self.empty_frames.take(now)?;
        }
        if self.lingering.contains(id) {
            return Ok(());
        }
        let Some(stream) = self.streams.get_mut(&id) else {
            return Err(ProtocolError::rule("bytes came for a stream that is not open"));
        };
        if stream.phase == StreamPhase::Opening {
            return Err(ProtocolError::rule("bytes came for a stream that was not joined"));
        }
        if stream.peer_finished || stream.cut.is_some() {
            return Err(ProtocolError::rule("bytes came behind the end of a stream"));
        }
        stream.window.receive(len_u64(payload.len()))?;
        // A slice keeps the buffer alive it was cut from, whatever the window says: a small one is worth a copy.
        // The queue copies the smallest by itself.
        let pins_much = (SMALL..PIN_LIMIT).contains(&payload.len());
        stream.incoming.push(if pins_much { Bytes::copy_from_slice(&payload) } else { payload });
        stream.peer_finished = fin;
        if stream.released {
            self.discard(id);
            self.forget_if_done(id);
        } else {
            self.events.push_back(Event::Readable(id));
        }
        Ok(())
    }

    /// Credit for a stream that is already gone is no error: it may have crossed our end.
    fn handle_window(&mut self, now: Moment, id: StreamId, credit: u64) -> Checked {
        if credit == 0 {
            return Err(ProtocolError::flow_control("a window grants nothing"));
        }
        self.was_opened(id)?;
        match self.streams.get_mut(&id).filter(|s| s.cut.is_none()) {
            Some(stream) => {
                stream.credit.grant(credit)?;
                let orphaned_at = stream.orphaned_at;
                self.discount_orphan(id, orphaned_at);
                self.schedule(id);
                Ok(())
            }
            None => self.late_windows.take(now),
        }
    }

    /// A reset of a stream that is already gone is no error either.
    fn handle_reset(&mut self, now: Moment, id: StreamId, code: ResetCode) -> Checked {
        self.resets.take(now)?;
        self.was_opened(id)?;
        match self.streams.get(&id) {
            Some(stream) if stream.cut.is_none() && !(stream.fin == Fin::Sent && stream.peer_finished) => {
                self.cut_by_peer(id, code);
            }
            _ => {}
        }
        Ok(())
    }

    fn handle_close(&mut self, code: CloseCode, message: alloc::string::String) -> Checked {
        self.end();
        self.events.push_back(Event::Closed { code, message });
        Ok(())
    }

    fn was_opened(&self, id: StreamId) -> Checked {
        let opened = if self.is_ours(id) { id.0 < self.next_id } else { id.0 <= self.highest_peer_id };
        if opened { Ok(()) } else { Err(ProtocolError::rule("a frame names a stream that was never opened")) }
    }

    fn is_ours(&self, id: StreamId) -> bool {
        id.0.is_multiple_of(2) == (self.side == Side::Hub)
    }

    /// A refused stream is gone from the wire; what the application still asks of it fails.
    fn cut_quietly(&mut self, id: StreamId) {
        if let Some(stream) = self.streams.get_mut(&id) {
            stream.cut = Some((ResetCode::Cancelled, crate::EndedBy::Peer));
            stream.outgoing.clear();
            self.forget_if_done(id);
        }
    }

    /// Queues an answer the peer can provoke at will.
    fn answer(&mut self, frame: Frame) -> Checked {
        self.unread_answers += 1;
        if self.unread_answers > self.config.budgets.unread_answers {
            return Err(ProtocolError::budget("the peer does not read the answers it provokes"));
        }
        self.control.push_back(frame);
        Ok(())
    }
}
