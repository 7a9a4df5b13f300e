//! One stream of a connection.
//!
//! ```text
//!            open()                    OPEN
//!   we ──────────────▶ Opening    ◀──────────── peer: Offered
//!                         │ JOINED                │ join()
//!                         ▼                       ▼
//!                       Joined ◀──────────────── Joined
//!                         │  DATA both ways; each direction ends by itself:
//!                         │     sending:   Open ─finish()─▶ Queued ─DATA fin─▶ Sent
//!                         │     receiving: Open ─DATA fin─▶ ended
//!                         ▼
//!   Refused (from Opening), Reset (from anywhere), or both directions ended: the stream is gone from the wire.
//!   A cut by the application may wait behind what it had written (`cut_behind`): sending is Queued then, and ends in RESET.
//! ```
//!
//! The entry stays until the application has let go of it too, so that what arrived can still be read.

use crate::{
    EndedBy, Moment, Priority, ResetCode,
    queue::ByteQueue,
    schedule::Share,
    window::{RecvWindow, SendCredit},
};

#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) phase: Phase,
    pub(crate) opened_by_us: bool,
    /// What the headers take while it is offered.
    pub(crate) offer_bytes: usize,
    pub(crate) share: Share,
    // Sending.
    pub(crate) outgoing: ByteQueue,
    pub(crate) credit: SendCredit,
    pub(crate) fin: Fin,
    pub(crate) wants_to_write: bool,
    // Receiving.
    pub(crate) incoming: ByteQueue,
    pub(crate) window: RecvWindow,
    pub(crate) peer_finished: bool,
    // The end.
    /// A cut of ours that waits behind what was written.
    pub(crate) cut_behind: Option<ResetCode>,
    pub(crate) cut: Option<(ResetCode, EndedBy)>,
    pub(crate) released: bool,
    /// Since when the application is gone and the peer keeps what is left of the stream waiting.
    pub(crate) orphaned_at: Option<Moment>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// We sent OPEN and wait for the answer.
    Opening,
    /// The peer sent OPEN; the application has not answered.
    Offered,
    /// Joined to its target.
    Joined,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fin {
    Open,
    Queued,
    Sent,
}

impl Stream {
    pub(crate) fn new(phase: Phase, priority: Priority, credit: u64, window: u64) -> Self {
        Self {
            phase,
            opened_by_us: phase == Phase::Opening,
            offer_bytes: 0,
            share: Share::new(priority),
            outgoing: ByteQueue::default(),
            credit: SendCredit::new(credit),
            fin: Fin::Open,
            wants_to_write: false,
            incoming: ByteQueue::default(),
            window: RecvWindow::new(window),
            peer_finished: false,
            cut_behind: None,
            cut: None,
            released: false,
            orphaned_at: None,
        }
    }

    /// Whether the scheduler has something to take from this stream now.
    pub(crate) fn can_send(&self) -> bool {
        if self.cut.is_some() || self.phase == Phase::Offered {
            return false;
        }
        let bytes = !self.outgoing.is_empty() && self.credit.available() > 0;
        let end = self.outgoing.is_empty() && self.fin == Fin::Queued;
        bytes || end
    }

    /// The application has let go and all it finished is sent, so that only the peer's direction is left: it is cut now. Not before
    /// JOINED: a cut would take the stream away from a peer that is still about to join it.
    pub(crate) fn is_leaving(&self) -> bool {
        self.released && self.fin == Fin::Sent && !self.peer_finished && self.phase == Phase::Joined
    }

    /// Both directions ended, or it was cut: the wire knows it no more.
    pub(crate) fn is_off_the_wire(&self) -> bool {
        self.cut.is_some() || (self.fin == Fin::Sent && self.peer_finished)
    }
}
