//! Sends the lanes of a spool to the hub: one stream for each, taken up again wherever the hub says it was left.

mod pace;

use crate::{
    Kind, ReportError, Spool,
    batch::Batch,
    spool::{Cursor, Progress},
    wire::{Hello, MOST_SMALL, Messages, Wanted},
};
use pace::Pace;
use prost::Message as _;
use std::{collections::BTreeSet, io, sync::Arc, time::Duration};
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt},
    sync::watch,
    task::JoinSet,
    time::{Instant, timeout},
};
use tokio_util::sync::CancellationToken;

/// How long the hub may take to answer a HELLO.
const ANSWER: Duration = Duration::from_secs(10);
const SHORTEST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// A stream that went on for so long was a good one: the next pause is short again.
const GOOD: Duration = Duration::from_secs(30);
/// The bytes that are sent in one go: what others on the tunnel may have to wait for.
const PIECE: usize = 32 << 10;

/// A way to the hub.
///
/// Obligations: 1. each call gives a new stream to the receiver of the hub, of the lowest class; 2. it may wait for a tunnel.
pub trait Connect: Send + Sync + 'static {
    /// A stream to the hub.
    type Stream: AsyncRead + AsyncWrite + Send + Unpin;

    /// Opens one; an error is a text for the log.
    fn connect(&self) -> impl Future<Output = Result<Self::Stream, String>> + Send;
}

/// Sends every lane of the spool, those that are yet to come as well, until `stop`.
pub async fn send<C: Connect>(spool: Spool, connect: Arc<C>, stop: CancellationToken) {
    let mut kinds = spool.kinds();
    let mut known = BTreeSet::new();
    let mut lanes = JoinSet::new();
    let pace = Arc::new(Pace::new());
    loop {
        let new: Vec<Kind> = kinds.borrow_and_update().iter().filter(|kind| !known.contains(*kind)).cloned().collect();
        for kind in new {
            let lane = Lane {
                spool: spool.clone(),
                kind: kind.clone(),
                connect: Arc::clone(&connect),
                pace: Arc::clone(&pace),
            };
            lanes.spawn(lane.send(stop.clone()));
            known.insert(kind);
        }
        tokio::select! {
            // The spool holds the other end, and we hold the spool.
            _ = kinds.changed() => {}
            () = stop.cancelled() => break,
        }
    }
    while lanes.join_next().await.is_some() {}
}

struct Lane<C> {
    spool: Spool,
    kind: Kind,
    connect: Arc<C>,
    pace: Arc<Pace>,
}

impl<C: Connect> Lane<C> {
    async fn send(self, stop: CancellationToken) {
        let mut pause = SHORTEST_PAUSE;
        let mut said = String::new();
        loop {
            let began = Instant::now();
            let ended = tokio::select! {
                ended = self.attempt() => ended,
                () = stop.cancelled() => return,
            };
            if began.elapsed() >= GOOD {
                pause = SHORTEST_PAUSE;
            }
            match ended {
                // The hub ended it in order: it is about to stop, and another may be there already.
                Ok(()) => pause = SHORTEST_PAUSE,
                Err(reason) => {
                    if reason != said {
                        tracing::warn!(kind = %self.kind, reason, "Reports cannot be sent; trying again.");
                        said = reason;
                    }
                }
            }
            let spread = pause.mul_f64(0.5 + rand::random::<f64>());
            tokio::select! {
                () = tokio::time::sleep(spread) => {}
                () = stop.cancelled() => return,
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// One stream, from its opening to its end.
    async fn attempt(&self) -> Result<(), String> {
        let mut progress = self.spool.progress(&self.kind).map_err(|error| error.to_string())?;
        // A lane that has nothing to send needs no stream.
        let something = |now: &Progress| now.wanted < now.synced;
        progress.wait_for(something).await.map_err(|_| ReportError::Ended.to_string())?;
        let stream = self.connect.connect().await?;
        let (read, mut write) = tokio::io::split(stream);
        let mut answers = Messages::new(read);
        let id = self.spool.id();
        let hello = Hello { spool: id.0.to_vec().into(), kind: self.kind.to_string() };
        let greeting = async {
            write.write_all(&hello.encode_length_delimited_to_vec()).await?;
            write.flush().await?;
            answers.next::<Wanted>(MOST_SMALL).await
        };
        let answer = timeout(ANSWER, greeting).await.map_err(|_| "the hub does not answer".to_owned())?;
        let wanted = next_of(answer)?.ok_or_else(|| "the hub ended the stream".to_owned())?;
        // Before it is taken to heart: what the hub has under these numbers is something else.
        if wanted > progress.borrow().synced {
            self.spool.rename(id).map_err(|error| error.to_string())?;
            return Err("the hub has more of this lane than the spool ever had: the spool takes a new name".to_owned());
        }
        self.spool.wanted(&self.kind, wanted);
        let cursor = Cursor::new(&self.spool.dir_of(&self.kind), wanted);
        let hearing = async {
            loop {
                match next_of(answers.next::<Wanted>(MOST_SMALL).await)? {
                    Some(next) => self.spool.wanted(&self.kind, next),
                    None => return Ok::<(), String>(()),
                }
            }
        };
        tokio::select! {
            heard = hearing => heard,
            told = tell(cursor, progress, &self.pace, &mut write) => told.map_err(|error| error.to_string()),
        }
    }
}

/// What the hub wants next; `None` when it ended the stream in order.
fn next_of(answer: io::Result<Option<Wanted>>) -> Result<Option<u64>, String> {
    match answer {
        Ok(None) => Ok(None),
        Ok(Some(Wanted { problem, .. })) if !problem.is_empty() => Err(problem),
        Ok(Some(Wanted { next, .. })) => Ok(Some(next.max(1))),
        Err(error) => Err(error.to_string()),
    }
}

/// Sends what is synced, as it comes. Ends only with an error; its pace and the stream's window are what holds it back.
async fn tell(
    mut cursor: Cursor,
    mut progress: watch::Receiver<Progress>,
    pace: &Pace,
    write: &mut (impl AsyncWrite + Unpin),
) -> io::Result<()> {
    loop {
        let now = progress.borrow_and_update().clone();
        // The disk may make us wait, and the runtime has others to serve.
        let read = tokio::task::spawn_blocking(move || (cursor.read(&now), cursor));
        let (batch, back) = read.await.map_err(io::Error::other)?;
        cursor = back;
        match batch? {
            Some(batch) => {
                let framed = framed(&batch);
                let pieces = framed.chunks(PIECE);
                let each = batch.plain_len() / u32::try_from(pieces.len()).unwrap_or(1).max(1);
                for piece in pieces {
                    pace.turn(each).await;
                    write.write_all(piece).await?;
                }
            }
            None => {
                let next = cursor.next_number();
                progress.wait_for(|now| now.synced > next).await.map_err(io::Error::other)?;
            }
        }
    }
}

fn framed(batch: &Batch) -> Vec<u8> {
    batch.encode_length_delimited_to_vec()
}
