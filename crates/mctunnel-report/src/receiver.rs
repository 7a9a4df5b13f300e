//! The hub's end of a report stream: takes batches, has them stored, and says what it wants next once they are on disk. A cluster has
//! one stream for each kind; a newer one takes over.

mod lanes;

use crate::{
    Batch, Kind, ReportError, SpoolId, Store,
    batch::MOST_PACKED,
    wire::{Hello, MOST_SMALL, Messages, Wanted},
};
use lanes::Lanes;
use mctunnel_core::ClusterName;
use prost::Message as _;
use std::{collections::VecDeque, io, time::Duration};
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt},
    sync::oneshot,
    task::spawn_blocking,
    time::timeout,
};
use tokio_util::sync::CancellationToken;

/// How long an agent may take to say which lane it is.
const GREETING: Duration = Duration::from_secs(10);
/// How long the last word to an agent may take.
const GOODBYE: Duration = Duration::from_secs(10);
/// Batches of one stream that wait for the disk at once, and their bytes when unpacked. Further ones are not read.
const MOST_WAITING: usize = 64;
const MOST_WAITING_BYTES: u32 = 8 << 20;

/// Bytes of a batch, unpacked, that are looked at where they are: those of a usual one.
const SMALL: u32 = 128 << 10;

/// Receives reports into a store. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Receiver {
    store: Store,
    /// The hub is about to stop: streams are ended in order, so that agents go elsewhere.
    stopping: CancellationToken,
    lanes: Lanes,
}

/// What came of a stream.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Received {
    /// Batches that were stored or found to be there.
    pub batches: u64,
    /// Bytes of batches as they came.
    pub bytes: u64,
}

/// Why a stream of reports ended.
#[derive(Debug, thiserror::Error)]
pub enum ReceiveError {
    /// The stream was cut, or what came on it makes no sense.
    #[error("the stream broke")]
    Stream(#[from] io::Error),
    /// The agent did not say what is to come.
    #[error("the agent did not say which lane it is in time, or wrongly")]
    NoHello,
    /// The batch is not one that an honest agent makes.
    #[error("a batch is broken: {0}")]
    BadBatch(#[from] crate::batch::BadBatch),
    /// It could not be stored.
    #[error("the records could not be stored")]
    Store(#[from] ReportError),
    /// The cluster has opened another stream for the same kind.
    #[error("a newer stream of the same kind took over")]
    Replaced,
}

impl Receiver {
    /// Receives into that store until `stopping`.
    #[must_use]
    pub fn new(store: Store, stopping: CancellationToken) -> Self {
        Self { store, stopping, lanes: Lanes::default() }
    }

    /// Serves one stream of a cluster, from its first byte to its end. The cluster is that of the agent's certificate.
    pub async fn serve<S>(&self, cluster: &ClusterName, stream: S) -> Result<Received, ReceiveError>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send,
    {
        let (read, mut write) = tokio::io::split(stream);
        let served = self.exchange(cluster, Messages::new(read), &mut write).await;
        // It is told why, if it still listens.
        let problem = match &served {
            Ok(_) => None,
            Err(ReceiveError::Stream(_)) => return served,
            Err(ReceiveError::Store(error)) => Some(format!("{}: {error}", error.code().code)),
            Err(error @ (ReceiveError::NoHello | ReceiveError::BadBatch(_) | ReceiveError::Replaced)) => {
                Some(error.to_string())
            }
        };
        let goodbye = async {
            if let Some(problem) = problem {
                let _ = say(&mut write, Wanted { next: 0, problem }).await;
            }
            let _ = write.shutdown().await;
        };
        let _ = timeout(GOODBYE, goodbye).await;
        served
    }

    /// From the first word to the last batch. What has been read of a batch goes with it.
    async fn exchange<R, W>(
        &self,
        cluster: &ClusterName,
        mut messages: Messages<R>,
        write: &mut W,
    ) -> Result<Received, ReceiveError>
    where
        R: AsyncRead + Unpin,
        W: AsyncWrite + Unpin,
    {
        let hello =
            timeout(GREETING, messages.next::<Hello>(MOST_SMALL)).await.map_err(|_| ReceiveError::NoHello)??;
        let hello = hello.ok_or(ReceiveError::NoHello)?;
        let kind = Kind::parse(&hello.kind).map_err(|_| ReceiveError::NoHello)?;
        let spool = SpoolId(hello.spool.as_ref().try_into().map_err(|_| ReceiveError::NoHello)?);
        let place = self.lanes.enter(cluster, &kind)?;
        tokio::select! {
            biased;
            () = place.taken_over() => Err(ReceiveError::Replaced),
            received = self.take(cluster, spool, &kind, messages, write) => received,
        }
    }

    /// Takes batches of one lane until they end.
    async fn take<R, W>(
        &self,
        cluster: &ClusterName,
        spool: SpoolId,
        kind: &Kind,
        mut messages: Messages<R>,
        write: &mut W,
    ) -> Result<Received, ReceiveError>
    where
        R: AsyncRead + Unpin,
        W: AsyncWrite + Unpin,
    {
        let mut follows = self.store.wanted(cluster, spool, kind)?;
        say(write, Wanted { next: follows, problem: String::new() }).await?;
        let mut received = Received::default();
        let mut waiting = Waiting::default();
        let mut more = true;
        while more || !waiting.is_empty() {
            if !waiting.has_room() {
                messages.pause();
            }
            tokio::select! {
                biased;
                stored = waiting.front(), if !waiting.is_empty() => {
                    let mut next = stored?;
                    // Those that one sync has stored are acknowledged with one word.
                    while let Some(also) = waiting.front_now() {
                        next = also?;
                        received.batches += 1;
                    }
                    received.batches += 1;
                    say(write, Wanted { next, problem: String::new() }).await?;
                }
                () = self.stopping.cancelled(), if more => more = false,
                batch = messages.next::<Batch>(MOST_PACKED), if more && waiting.has_room() => match batch? {
                    None => more = false,
                    Some(batch) => {
                        received.bytes += u64::try_from(batch.encoded_len()).unwrap_or(u64::MAX);
                        let batch = checked(batch).await?;
                        let (next, bytes) = (batch.next(), batch.plain_len());
                        waiting.push(self.store.submit(cluster, spool, kind, batch, follows).await?, bytes);
                        follows = follows.max(next);
                    }
                },
            }
        }
        Ok(received)
    }
}

/// The batch, if it is one that can be read again. A large one takes half a millisecond, which others on this thread would wait.
async fn checked(batch: Batch) -> Result<Batch, ReceiveError> {
    if batch.plain_len() <= SMALL {
        batch.unpack()?;
        return Ok(batch);
    }
    let checking = spawn_blocking(move || batch.unpack().map(|_| batch)).await;
    Ok(checking.map_err(io::Error::other)??)
}

type Stored = oneshot::Receiver<Result<u64, ReportError>>;

/// Batches that wait for the disk, in their order, with their bytes when unpacked.
#[derive(Default)]
struct Waiting {
    batches: VecDeque<(Stored, u32)>,
    bytes: u32,
}

impl Waiting {
    fn push(&mut self, stored: Stored, bytes: u32) {
        self.batches.push_back((stored, bytes));
        self.bytes = self.bytes.saturating_add(bytes);
    }

    fn is_empty(&self) -> bool {
        self.batches.is_empty()
    }

    fn has_room(&self) -> bool {
        self.batches.len() < MOST_WAITING && self.bytes < MOST_WAITING_BYTES
    }

    /// What comes of the first of them, when it does.
    async fn front(&mut self) -> Result<u64, ReportError> {
        match self.batches.front_mut() {
            Some((first, _)) => {
                let answer = first.await.unwrap_or(Err(ReportError::Ended));
                self.pop();
                answer
            }
            None => std::future::pending().await,
        }
    }

    /// The same, if it has come already.
    fn front_now(&mut self) -> Option<Result<u64, ReportError>> {
        let answer = self.batches.front_mut()?.0.try_recv().ok()?;
        self.pop();
        Some(answer)
    }

    fn pop(&mut self) {
        if let Some((_, bytes)) = self.batches.pop_front() {
            self.bytes = self.bytes.saturating_sub(bytes);
        }
    }
}

async fn say(write: &mut (impl AsyncWrite + Unpin), wanted: Wanted) -> io::Result<()> {
    write.write_all(&wanted.encode_length_delimited_to_vec()).await?;
    write.flush().await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_waits_for_the_disk_is_bounded_by_number_and_by_bytes_and_room_comes_back() {
        for (each, fit) in [(1, MOST_WAITING), (1 << 20, 8), (128 << 10, 64)] {
            let mut waiting = Waiting::default();
            let mut disk = VecDeque::new();
            while waiting.has_room() {
                let (answer, stored) = oneshot::channel();
                disk.push_back(answer);
                waiting.push(stored, each);
            }
            assert_eq!(disk.len(), fit, "of {each} bytes each");
            assert!(waiting.front_now().is_none(), "nothing is stored yet");
            disk.pop_front().unwrap().send(Ok(7)).unwrap();
            assert_eq!(waiting.front().await.unwrap(), 7);
            assert!(waiting.has_room());
            disk.pop_front().unwrap().send(Ok(8)).unwrap();
            assert_eq!(waiting.front_now().unwrap().unwrap(), 8);
        }
    }
}
