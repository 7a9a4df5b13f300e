//! What the application wants.

use super::{Connection, Phase, Read};
use crate::{
    Drain, EndedBy, Event, Frame, Header, Moment, Open, OpenRefused, RefuseCode, ResetCode, StreamError, StreamId,
    stream::{Fin, Phase as StreamPhase, Stream},
    window::TunnelView,
    wire::len_u64,
};
use alloc::string::String;
use bytes::Bytes;
use core::time::Duration;

/// At this many streams that wait for a fence, one is asked for at once.
const LINGERING_HURRY: usize = 1024;

/// At this many no more streams begin: a peer that answers no PING would have us remember streams without end.
pub(super) const LINGERING_FULL: usize = 64 * 1024;

/// Opens wait when the carrier has not taken this many control frames; two for each stream of both sides fit in. A peer that
/// provokes more than that and reads none of it is cut off.
pub(super) const CONTROL_FULL: usize = 128 * 1024;

impl Connection {
    /// Opens a stream. Bytes may be written at once; the answer is [`Event::Joined`] or [`Event::Refused`].
    pub fn open(&mut self, open: Open) -> Result<StreamId, OpenRefused> {
        match self.phase {
            Phase::Greeting | Phase::Greeted => return Err(OpenRefused::NotReady),
            Phase::Closed => return Err(OpenRefused::Closed),
            Phase::Open if self.peer_drains => return Err(OpenRefused::Draining),
            Phase::Open => {}
        }
        let ours = self.streams.len() - self.peer_streams;
        let full = self.control.len() >= CONTROL_FULL || self.lingering.len() >= LINGERING_FULL;
        if full || ours >= self.config.budgets.streams {
            return Err(OpenRefused::TooManyStreams);
        }
        let budgets = &self.config.budgets;
        if open.header_bytes() > budgets.header_bytes || open.headers.len() > budgets.headers {
            return Err(OpenRefused::HeadersTooLarge);
        }
        if !open.headers.iter().all(Header::has_valid_name) {
            // The peer would end the tunnel over it.
            return Err(OpenRefused::BadHeaderName);
        }
        if !open.user.as_ref().is_none_or(|user| user.is_speakable()) {
            return Err(OpenRefused::BadUser);
        }
        let id = StreamId(self.next_id);
        self.next_id += 2;
        let window = self.affordable_window();
        let stream = Stream::new(StreamPhase::Opening, open.priority, self.peer_early_window, window);
        self.insert(id, stream);
        self.control.push_back(Frame::Open(id, window, open));
        self.assert_invariants();
        Ok(id)
    }

    /// The target of an offered stream accepted.
    pub fn join(&mut self, id: StreamId) -> Result<(), StreamError> {
        let window = self.affordable_window().saturating_sub(self.config.early_window);
        let stream = live(self.streams.get_mut(&id))?;
        if stream.phase != StreamPhase::Offered {
            return Err(StreamError::Unknown);
        }
        stream.phase = StreamPhase::Joined;
        stream.window.extend(window);
        self.offered -= 1;
        self.offered_bytes -= stream.offer_bytes;
        self.committed += window;
        self.control.push_back(Frame::Joined { stream: id, window });
        self.schedule(id);
        self.assert_invariants();
        Ok(())
    }

    /// An offered stream is not opened. The id is spent; the application must not use it again.
    pub fn refuse(&mut self, id: StreamId, code: RefuseCode, message: impl Into<String>) {
        let Some(stream) = self.streams.get_mut(&id).filter(|s| s.phase == StreamPhase::Offered) else {
            return self.release(id);
        };
        if stream.cut.is_none() {
            let ended = stream.peer_finished;
            stream.cut = Some((ResetCode::Cancelled, EndedBy::Local));
            self.control.push_back(Frame::Refused { stream: id, code, message: message.into() });
            self.linger(id, ended);
        }
        self.release(id);
    }

    /// Queues bytes from the front of `bytes` as far as there is room; what was taken is cut off. Nothing taken means no room:
    /// [`Event::Writable`] will tell.
    pub fn write(&mut self, id: StreamId, bytes: &mut Bytes) -> Result<(), StreamError> {
        let room = self.capacity(id)?;
        let stream = live(self.streams.get_mut(&id))?;
        if room > 0 && !bytes.is_empty() {
            let taken = bytes.split_to(room.min(bytes.len()));
            stream.outgoing.push(taken);
            self.schedule(id);
        }
        Ok(())
    }

    /// How many bytes a write would take now. None means that [`Event::Writable`] will tell.
    pub fn capacity(&mut self, id: StreamId) -> Result<usize, StreamError> {
        let limit = self.config.send_buffer;
        let stream = live(self.streams.get_mut(&id))?;
        if stream.fin != Fin::Open {
            return Err(StreamError::Finished);
        }
        let room = limit.saturating_sub(stream.outgoing.len());
        stream.wants_to_write = room == 0;
        Ok(room)
    }

    /// Our direction ends behind what was written. The other one goes on.
    pub fn finish(&mut self, id: StreamId) -> Result<(), StreamError> {
        let stream = live(self.streams.get_mut(&id))?;
        if stream.fin == Fin::Open {
            stream.fin = Fin::Queued;
            self.schedule(id);
        }
        Ok(())
    }

    /// Whether everything written, and the end if it was asked for, has been handed to the carrier.
    pub fn is_flushed(&self, id: StreamId) -> Result<bool, StreamError> {
        let Some(stream) = self.streams.get(&id) else { return Err(StreamError::Unknown) };
        match stream.cut {
            Some((code, by)) => Err(StreamError::Reset { code, by }),
            None => Ok(stream.outgoing.is_empty() && stream.fin != Fin::Queued),
        }
    }

    /// Takes up to `max` bytes that arrived, and gives their credit back to the peer.
    pub fn read(&mut self, now: Moment, id: StreamId, max: usize) -> Result<Read, StreamError> {
        let stream = self.streams.get_mut(&id).ok_or(StreamError::Unknown)?;
        let Some(bytes) = stream.incoming.pop(max) else {
            return match stream.cut {
                // What had arrived was thrown away with it: never a clean end.
                Some((code, by @ EndedBy::Local)) => Err(StreamError::Reset { code, by }),
                _ if stream.peer_finished && stream.incoming.is_empty() => Ok(Read::End),
                Some((code, by)) => Err(StreamError::Reset { code, by }),
                None => Ok(Read::Blocked),
            };
        };
        self.give_back(id, bytes.len(), now, self.liveness.base_rtt());
        self.assert_invariants();
        Ok(Read::Bytes(bytes))
    }

    /// Ends both directions at once, as an error at the other end.
    pub fn reset(&mut self, id: StreamId, code: ResetCode) {
        let Some(stream) = self.streams.get_mut(&id).filter(|s| !s.is_off_the_wire()) else { return };
        let ended = stream.peer_finished;
        stream.cut = Some((code, EndedBy::Local));
        stream.outgoing.clear();
        stream.incoming.clear();
        if self.phase == Phase::Open {
            self.control.push_back(Frame::Reset { stream: id, code });
            self.linger(id, ended);
        }
    }

    /// Ends both directions as an error at the other end, behind what was written: that was true, and is delivered before.
    pub fn cut(&mut self, id: StreamId, code: ResetCode) {
        let Some(stream) = self.streams.get_mut(&id).filter(|s| !s.is_off_the_wire()) else { return };
        let waits = !stream.outgoing.is_empty() && stream.fin == Fin::Open && stream.phase != StreamPhase::Offered;
        if waits {
            stream.fin = Fin::Queued;
            stream.cut_behind = Some(code);
        } else {
            self.reset(id, code);
        }
    }

    /// The application lets go. What it finished is still delivered, and then the peer's direction is cut if it goes on; what the
    /// application left unfinished is cut at once.
    pub fn release(&mut self, id: StreamId) {
        let Some(stream) = self.streams.get_mut(&id) else { return };
        stream.released = true;
        let unfinished = stream.fin == Fin::Open || stream.phase == StreamPhase::Offered;
        if unfinished || stream.is_leaving() {
            self.reset(id, ResetCode::Cancelled);
        }
        self.discard(id);
        self.forget_if_done(id);
        self.count_orphan(id);
        self.assert_invariants();
    }

    /// Asks the peer to open no more streams here.
    pub fn drain(&mut self, drain: Drain) {
        if self.phase == Phase::Open {
            self.control.push_back(Frame::Drain(drain));
        }
    }

    pub(super) fn schedule(&mut self, id: StreamId) {
        if let Some(stream) = self.streams.get_mut(&id).filter(|s| s.can_send()) {
            self.scheduler.ready(id, &mut stream.share);
        }
    }

    /// Nobody will read what came on a released stream. It is taken all the same: a peer that is kept from writing may be kept from
    /// reading what we finished, and two ends that both wait so would wait for ever. Not so behind a cut: [`Self::give_back`].
    pub(super) fn discard(&mut self, id: StreamId) {
        if let Some(stream) = self.streams.get_mut(&id) {
            let len = stream.incoming.len();
            stream.incoming.clear();
            self.give_back(id, len, Moment::ZERO, None);
        }
    }

    /// Gives the peer credit for what was taken from a stream, if it can still use it. Without a round-trip time no window grows.
    ///
    /// A stream whose cut waits behind what was written gets none: whom the bytes were for is gone, and so is the one who paid for them.
    fn give_back(&mut self, id: StreamId, len: usize, now: Moment, rtt: Option<Duration>) {
        self.total_read += len_u64(len);
        let mut tunnel = TunnelView {
            now,
            base_rtt: rtt,
            cap: self.config.max_window,
            start: self.affordable_window(),
            spare: self.spare_memory(),
            total_read: self.total_read,
        };
        let Some(stream) = self.streams.get_mut(&id).filter(|s| s.cut_behind.is_none()) else { return };
        if stream.peer_finished || stream.cut.is_some() {
            tunnel.base_rtt = None;
        }
        let before = stream.window.size();
        let credit = stream.window.consume(len_u64(len), &tunnel);
        self.committed = self.committed - before + stream.window.size();
        let useful = !stream.peer_finished && stream.cut.is_none() && self.phase == Phase::Open;
        if let Some(credit) = credit.filter(|credit| useful && *credit > 0) {
            self.control.push_back(Frame::Window { stream: id, credit });
        }
    }

    /// We ended the stream; unless the peer had ended its direction, its frames may still be under way.
    pub(super) fn linger(&mut self, id: StreamId, peer_finished: bool) {
        if !peer_finished {
            self.lingering.remember(id, self.liveness.next_nonce());
            if self.lingering.len() >= LINGERING_HURRY {
                self.liveness.hurry(Moment::ZERO);
            }
        }
    }

    pub(super) fn cut_by_peer(&mut self, id: StreamId, code: ResetCode) {
        if let Some(stream) = self.streams.get_mut(&id) {
            stream.cut = Some((code, EndedBy::Peer));
            stream.outgoing.clear();
            // What the peer sent before it may still be read. Behind it is the cut, unless the peer had finished.
            self.events.push_back(Event::Reset { stream: id, code, by: EndedBy::Peer });
            self.forget_if_done(id);
        }
    }
}

fn live(stream: Option<&mut Stream>) -> Result<&mut Stream, StreamError> {
    match stream {
        None => Err(StreamError::Unknown),
        Some(Stream { cut: Some((code, by)), .. }) => Err(StreamError::Reset { code: *code, by: *by }),
        Some(stream) => Ok(stream),
    }
}
