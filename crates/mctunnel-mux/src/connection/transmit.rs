//! What to send now: control frames first, then one frame at a time from the stream whose turn it is.

use super::{Connection, Transmit};
use crate::{
    Event, Frame, MAX_PAYLOAD, ResetCode, frame::encode_data_head, schedule::Turn, stream::Fin, wire::len_u64,
};
use bytes::Bytes;

/// Payloads up to this are gathered with other small frames into one buffer; above it they are passed without a copy.
const GATHER: usize = 1024;
/// The gathered buffer is handed over at this size.
const HEAD_FULL: usize = 16 * 1024;

impl Connection {
    /// Gives the next bytes for the carrier. Ask only when the carrier can take them: what was given cannot be re-ordered any more.
    pub fn poll_transmit(&mut self) -> Option<Transmit> {
        self.gather_control();
        let body = self.gather_data();
        if self.head.is_empty() {
            return None;
        }
        self.assert_invariants();
        Some(Transmit { head: self.head.split().freeze(), body })
    }

    fn gather_control(&mut self) {
        while self.head.len() < HEAD_FULL {
            let Some(frame) = self.control.pop_front() else { break };
            if matches!(frame, Frame::Pong(_) | Frame::Refused { .. }) {
                self.unread_answers = self.unread_answers.saturating_sub(1);
            }
            frame.encode(&mut self.head);
        }
    }

    /// Gathers small DATA frames; stops at the first large one and gives its payload.
    fn gather_data(&mut self) -> Bytes {
        while self.head.len() < HEAD_FULL {
            let Some(turn) = self.scheduler.next() else { break };
            if let Some(body) = self.take_data(turn) {
                return body;
            }
        }
        Bytes::new()
    }

    fn take_data(&mut self, turn: Turn) -> Option<Bytes> {
        let id = turn.stream;
        let Some(stream) = self.streams.get_mut(&id) else {
            self.scheduler.gone(turn);
            return None;
        };
        if !stream.can_send() {
            self.scheduler.idle(turn, &mut stream.share);
            return None;
        }
        let payload = stream.outgoing.pop(stream.credit.available().min(MAX_PAYLOAD)).unwrap_or_default();
        stream.credit.spend(len_u64(payload.len()));
        self.total_sent += len_u64(payload.len());
        let ends = stream.fin == Fin::Queued && stream.outgoing.is_empty();
        let cut = stream.cut_behind.filter(|_| ends);
        let fin = ends && cut.is_none();
        if fin {
            stream.fin = Fin::Sent;
        }
        self.scheduler.sent(turn, &mut stream.share, i64::try_from(payload.len()).unwrap_or(i64::MAX));
        if stream.wants_to_write && stream.outgoing.len() <= self.config.send_buffer / 2 {
            stream.wants_to_write = false;
            self.events.push_back(Event::Writable(id));
        } else if stream.outgoing.is_empty() {
            // Those who wait for a flush are told too.
            self.events.push_back(Event::Writable(id));
        }
        let (leaving, released) = (stream.is_leaving(), stream.released);
        encode_data_head(&mut self.head, id, fin, payload.len());
        // The application has let go; the peer's direction is cut now that ours is delivered.
        if let Some(code) = cut.or_else(|| leaving.then_some(ResetCode::Cancelled)) {
            self.reset(id, code);
        }
        self.forget_if_done(id);
        if released {
            self.count_orphan(id);
        }
        if payload.len() <= GATHER {
            self.head.extend_from_slice(&payload);
            None
        } else {
            Some(payload)
        }
    }
}
