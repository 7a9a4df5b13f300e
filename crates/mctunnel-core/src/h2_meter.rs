//! Counts the frames of an HTTP/2 connection as they go by, and ends the connection of a peer that floods.
//!
//! The HTTP/2 library bounds the memory each kind of frame can take, and ends some floods by itself. Frames that cost the sender nine
//! bytes and us an answer, it takes for ever. Here every kind has a rate that no honest peer reaches. Heads of frames are read, and the
//! settings; nothing is decoded, changed, held back or copied.

mod rate;
mod scanner;
#[cfg(test)]
mod tests;

pub use rate::Rate;
pub use scanner::{Scanner, Seen};

use rate::Bucket;
use std::{
    io::{self, IoSlice},
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Instant, Sleep},
};

/// What a peer may send. Each says which attack it stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// `RST_STREAM` from the peer: work that is begun and thrown away.
    pub resets: Rate,
    /// `RST_STREAM` from us for what the peer did: the same, by frames that break a rule, or heads that are too long.
    pub provoked_resets: Rate,
    /// `RST_STREAM` from us for any other reason. When an agent is lost, every request on a connection ends so.
    pub other_resets: Rate,
    /// PING: answers for nothing. Some clients measure the path with one for every round trip.
    pub pings: Rate,
    /// SETTINGS: answers for nothing.
    pub settings: Rate,
    /// DATA without bytes and without an end, PRIORITY and frames of unknown kinds: work for nothing.
    pub idle_frames: Rate,
    /// `WINDOW_UPDATE` beyond what our own DATA gives reason for.
    pub window_updates: Rate,
    /// How long a peer that lets us send nothing at all may wait for an answer.
    pub no_window: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            resets: Rate { per_second: 200, at_once: 2_000 },
            provoked_resets: Rate { per_second: 10, at_once: 200 },
            other_resets: Rate { per_second: 200, at_once: 2_000 },
            pings: Rate { per_second: 1_000, at_once: 5_000 },
            settings: Rate { per_second: 5, at_once: 50 },
            idle_frames: Rate { per_second: 100, at_once: 1_000 },
            window_updates: Rate { per_second: 1_000, at_once: 5_000 },
            no_window: Duration::from_millis(1_500),
        }
    }
}

/// For each DATA frame of ours, and for each so many bytes of it, the peer has reason for `WINDOW_UPDATE`s.
const UPDATES_PER_FRAME: u64 = 4;
const BYTES_PER_UPDATE: u64 = 1024;

/// The server's end of an HTTP/2 connection, metered.
#[derive(Debug)]
pub struct Metered<IO> {
    io: IO,
    from_peer: Scanner,
    to_peer: Scanner,
    meter: Meter,
}

impl<IO> Metered<IO> {
    /// Meters a connection of which no byte was read or written.
    pub fn new(io: IO, limits: Limits) -> Self {
        Self { io, from_peer: Scanner::behind_preface(), to_peer: Scanner::default(), meter: Meter::new(limits) }
    }

    /// What is metered.
    pub fn get_ref(&self) -> &IO {
        &self.io
    }
}

impl<IO: AsyncRead + Unpin> AsyncRead for Metered<IO> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buffer.filled().len();
        let read = Pin::new(&mut this.io).poll_read(cx, buffer);
        this.meter.check_window(cx)?;
        ready!(read)?;
        let fresh = buffer.filled().get(before..).unwrap_or_default();
        let now = Instant::now();
        this.from_peer.scan(fresh, |seen| this.meter.hear(seen, now));
        this.meter.verdict()?;
        // Its own timer is to wake this task, also when the peer says nothing more.
        this.meter.check_window(cx)?;
        Poll::Ready(Ok(()))
    }
}

impl<IO: AsyncWrite + Unpin> Metered<IO> {
    fn wrote(&mut self, slices: &[IoSlice<'_>], mut count: usize) {
        let now = Instant::now();
        for slice in slices {
            let part = slice.get(..count.min(slice.len())).unwrap_or_default();
            self.to_peer.scan(part, |seen| self.meter.say(seen, now));
            count -= part.len();
        }
    }
}

impl<IO: AsyncWrite + Unpin> AsyncWrite for Metered<IO> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let count = ready!(Pin::new(&mut this.io).poll_write_vectored(cx, slices))?;
        this.wrote(slices, count);
        Poll::Ready(Ok(count))
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().io).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().io).poll_shutdown(cx)
    }
}

// === Meter ===

#[derive(Debug)]
struct Meter {
    limits: Limits,
    resets: Bucket,
    provoked_resets: Bucket,
    other_resets: Bucket,
    pings: Bucket,
    settings: Bucket,
    idle_frames: Bucket,
    window_updates: Bucket,
    /// The peer's initial window is 0: answers have nowhere to go.
    no_window: bool,
    /// Until when an answer may have nowhere to go.
    patience: Option<Pin<Box<Sleep>>>,
    broken: Option<&'static str>,
}

// The kinds of frames, as RFC 9113 numbers them.
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PUSH_PROMISE: u8 = 5;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;

/// The flag that ends a stream, on DATA and HEADERS; on SETTINGS and PING it marks an answer.
const END_STREAM_OR_ACK: u8 = 1;
const PADDED: u8 = 8;
const LONGEST_PADDING: u32 = 256;
const INITIAL_WINDOW_SIZE: u16 = 4;

// Reasons that are not about what the peer did.
const NO_ERROR: u32 = 0;
const INTERNAL_ERROR: u32 = 2;
const CANCEL: u32 = 8;

/// Whether a DATA frame has bytes or an end. What is padded and that short may be padding alone.
fn carries_something(length: u32, flags: u8) -> bool {
    let least = if flags & PADDED == 0 { 0 } else { LONGEST_PADDING };
    length > least || flags & END_STREAM_OR_ACK != 0
}

impl Meter {
    fn new(limits: Limits) -> Self {
        Self {
            resets: Bucket::new(limits.resets),
            provoked_resets: Bucket::new(limits.provoked_resets),
            other_resets: Bucket::new(limits.other_resets),
            pings: Bucket::new(limits.pings),
            settings: Bucket::new(limits.settings),
            idle_frames: Bucket::new(limits.idle_frames),
            window_updates: Bucket::new(limits.window_updates),
            no_window: false,
            patience: None,
            broken: None,
            limits,
        }
    }

    /// The peer sent this.
    fn hear(&mut self, seen: Seen, now: Instant) {
        let (bucket, what) = match seen {
            Seen::Setting { id: INITIAL_WINDOW_SIZE, value } => {
                self.no_window = value == 0;
                self.patience = self.patience.take().filter(|_| self.no_window);
                return;
            }
            Seen::Setting { .. } | Seen::Reason(_) => return,
            Seen::Frame { kind: HEADERS, .. } => {
                if self.no_window && self.patience.is_none() {
                    self.patience = Some(Box::pin(tokio::time::sleep_until(now + self.limits.no_window)));
                }
                return;
            }
            Seen::Frame { kind: DATA, length, flags, .. } if carries_something(length, flags) => return,
            // Bounded by the library, together with the head they belong to; or an error at once.
            Seen::Frame { kind: CONTINUATION | PUSH_PROMISE | GOAWAY, .. } => return,
            Seen::Frame { kind: RST_STREAM, .. } => (&mut self.resets, "the peer cut requests too often"),
            Seen::Frame { kind: PING, .. } => (&mut self.pings, "the peer sent too many PING frames"),
            Seen::Frame { kind: SETTINGS, .. } => (&mut self.settings, "the peer sent too many SETTINGS frames"),
            Seen::Frame { kind: WINDOW_UPDATE, stream, .. } => {
                if stream != 0 {
                    self.patience = None;
                }
                (&mut self.window_updates, "the peer sent too many WINDOW_UPDATE frames")
            }
            Seen::Frame { .. } => (&mut self.idle_frames, "the peer sent too many frames that carry nothing"),
        };
        if !bucket.take(now) {
            self.broken.get_or_insert(what);
        }
    }

    /// We sent this.
    fn say(&mut self, seen: Seen, now: Instant) {
        match seen {
            Seen::Frame { kind: DATA, length, .. } => {
                self.window_updates.add(UPDATES_PER_FRAME + u64::from(length) / BYTES_PER_UPDATE);
            }
            Seen::Reason(NO_ERROR | INTERNAL_ERROR | CANCEL) => {
                if !self.other_resets.take(now) {
                    self.broken.get_or_insert("requests of the peer end early too often");
                }
            }
            Seen::Reason(_) => {
                if !self.provoked_resets.take(now) {
                    self.broken.get_or_insert("the peer made us refuse requests too often");
                }
            }
            Seen::Frame { .. } | Seen::Setting { .. } => {}
        }
    }

    fn verdict(&self) -> io::Result<()> {
        match self.broken {
            Some(what) => Err(io::Error::other(what)),
            None => Ok(()),
        }
    }

    fn check_window(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        self.verdict()?;
        if let Some(patience) = &mut self.patience
            && patience.as_mut().poll(cx).is_ready()
        {
            self.broken = Some("the peer asked and let nothing be answered");
        }
        self.verdict()
    }
}
