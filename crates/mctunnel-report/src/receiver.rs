//! The hub's end of a report stream: takes batches, has them stored, and says what it wants next once they are on disk.

use crate::{
    Batch, Kind, ReportError, SpoolId, Store,
    batch::MOST_PACKED,
    wire::{Hello, MOST_SMALL, Messages, Wanted},
};
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
/// Batches of one stream that wait for the disk at once. Further ones are not read.
const MOST_WAITING: usize = 8;

/// Bytes of a batch, unpacked, that are looked at where they are.
const SMALL: u32 = 64 << 10;

/// Receives reports into a store. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Receiver {
    store: Store,
    /// The hub is about to stop: streams are ended in order, so that agents go elsewhere.
    stopping: CancellationToken,
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
}

impl Receiver {
    /// Receives into that store until `stopping`.
    #[must_use]
    pub fn new(store: Store, stopping: CancellationToken) -> Self {
        Self { store, stopping }
    }

    /// Serves one stream of a cluster, from its first byte to its end. The cluster is that of the agent's certificate.
    pub async fn serve<S>(&self, cluster: &ClusterName, stream: S) -> Result<Received, ReceiveError>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send,
    {
        let (read, mut write) = tokio::io::split(stream);
        let mut messages = Messages::new(read);
        let served = self.exchange(cluster, &mut messages, &mut write).await;
        if let Err(error) = &served {
            // It is told why, if it still listens.
            let problem = match error {
                ReceiveError::Stream(_) => return served,
                ReceiveError::Store(error) => format!("{}: {error}", error.code().code),
                ReceiveError::NoHello | ReceiveError::BadBatch(_) => error.to_string(),
            };
            let _ = say(&mut write, Wanted { next: 0, problem }).await;
        }
        let _ = write.shutdown().await;
        served
    }

    async fn exchange<R, W>(
        &self,
        cluster: &ClusterName,
        messages: &mut Messages<R>,
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
        let mut follows = self.store.wanted(cluster, spool, &kind)?;
        say(write, Wanted { next: follows, problem: String::new() }).await?;
        let mut received = Received::default();
        let mut waiting: VecDeque<oneshot::Receiver<Result<u64, ReportError>>> = VecDeque::new();
        let mut more = true;
        while more || !waiting.is_empty() {
            tokio::select! {
                biased;
                stored = front(&mut waiting), if !waiting.is_empty() => {
                    waiting.pop_front();
                    let mut next = stored?;
                    // Those that one sync has stored are acknowledged with one word.
                    while let Some(Ok(also)) = waiting.front_mut().map(oneshot::Receiver::try_recv) {
                        waiting.pop_front();
                        next = also?;
                        received.batches += 1;
                    }
                    received.batches += 1;
                    say(write, Wanted { next, problem: String::new() }).await?;
                }
                () = self.stopping.cancelled(), if more => more = false,
                batch = messages.next::<Batch>(MOST_PACKED), if more && waiting.len() < MOST_WAITING => match batch? {
                    None => more = false,
                    Some(batch) => {
                        received.bytes += u64::try_from(batch.encoded_len()).unwrap_or(u64::MAX);
                        let batch = checked(batch).await?;
                        let next = batch.next();
                        waiting.push_back(self.store.submit(cluster, spool, &kind, batch, follows).await?);
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

/// The answer that comes first.
async fn front(waiting: &mut VecDeque<oneshot::Receiver<Result<u64, ReportError>>>) -> Result<u64, ReportError> {
    match waiting.front_mut() {
        Some(first) => first.await.unwrap_or(Err(ReportError::Ended)),
        None => std::future::pending().await,
    }
}

async fn say(write: &mut (impl AsyncWrite + Unpin), wanted: Wanted) -> io::Result<()> {
    write.write_all(&wanted.encode_length_delimited_to_vec()).await?;
    write.flush().await
}
