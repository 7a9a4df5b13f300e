//! The one thread that writes the store: batches of all clusters that came meanwhile share one sync.

use super::{
    Retention, Shared,
    index::check_new_kind,
    log::{Change, KindLog, Stored, now},
};
use crate::{Kind, ReportError};
use parking_lot::{Condvar, Mutex};
use prost::Message as _;
use std::{
    collections::{BTreeMap, VecDeque},
    path::{Path, PathBuf},
    sync::Arc,
    thread::JoinHandle,
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

/// The KiB of batches that wait for the disk at once, of all clusters together.
const MOST_WAITING_KIB: usize = 32 << 10;
/// Batches that are written with one sync, at most.
const GROUP: usize = 1024;
/// How often old segments are looked for, in seconds.
const RETAIN_EVERY: u64 = 10;

type Answer = oneshot::Sender<Result<u64, ReportError>>;

/// Hands batches to the thread that writes.
#[derive(Debug)]
pub(super) struct StoreWriter {
    inbox: Arc<Inbox>,
    room: Arc<Semaphore>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Inbox {
    state: Mutex<InboxState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct InboxState {
    jobs: VecDeque<Job>,
    ended: bool,
}

#[derive(Debug)]
struct Job {
    kind: Kind,
    stored: Stored,
    follows: u64,
    answer: Answer,
    _room: OwnedSemaphorePermit,
}

impl StoreWriter {
    pub(super) fn start(
        dir: &Path,
        logs: BTreeMap<Kind, KindLog>,
        retention: Retention,
        shared: Arc<Shared>,
    ) -> Result<Self, ReportError> {
        let inbox = Arc::new(Inbox::default());
        let writing = Writing { dir: dir.to_owned(), logs, retention, shared, inbox: Arc::clone(&inbox), retained: 0 };
        let thread = std::thread::Builder::new().name("mctunnel-reports".to_owned()).spawn(move || writing.run());
        let thread = thread.map_err(ReportError::file("start a thread for", dir))?;
        Ok(Self { inbox, room: Arc::new(Semaphore::new(MOST_WAITING_KIB)), thread: Some(thread) })
    }

    pub(super) async fn submit(
        &self,
        kind: Kind,
        stored: Stored,
        follows: u64,
    ) -> Result<oneshot::Receiver<Result<u64, ReportError>>, ReportError> {
        let kib = u32::try_from(stored.encoded_len() / 1024 + 1).unwrap_or(u32::MAX);
        let room = Arc::clone(&self.room).acquire_many_owned(kib).await.map_err(|_| ReportError::Ended)?;
        let (answer, answered) = oneshot::channel();
        self.inbox.state.lock().jobs.push_back(Job { kind, stored, follows, answer, _room: room });
        self.inbox.changed.notify_one();
        Ok(answered)
    }
}

impl Drop for StoreWriter {
    fn drop(&mut self) {
        self.inbox.state.lock().ended = true;
        self.inbox.changed.notify_one();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The thread.
struct Writing {
    dir: PathBuf,
    logs: BTreeMap<Kind, KindLog>,
    retention: Retention,
    shared: Arc<Shared>,
    inbox: Arc<Inbox>,
    retained: u64,
}

/// What was appended and waits for the sync.
#[derive(Default)]
struct Appended {
    changes: Vec<Change>,
    answers: Vec<(Answer, u64)>,
}

impl Writing {
    fn run(mut self) {
        loop {
            let jobs: Vec<Job> = {
                let mut inbox = self.inbox.state.lock();
                let patience = std::time::Duration::from_secs(RETAIN_EVERY);
                while inbox.jobs.is_empty() && !inbox.ended {
                    if self.inbox.changed.wait_for(&mut inbox, patience).timed_out() {
                        break;
                    }
                }
                if inbox.ended && inbox.jobs.is_empty() {
                    return;
                }
                let count = inbox.jobs.len().min(GROUP);
                inbox.jobs.drain(..count).collect()
            };
            self.store(jobs);
            self.retain();
        }
    }

    fn store(&mut self, jobs: Vec<Job>) {
        let mut by_kind: BTreeMap<Kind, Appended> = BTreeMap::new();
        for Job { kind, stored, follows, answer, .. } in jobs {
            let appended = by_kind.entry(kind.clone()).or_default();
            let admitted = self.check_kind(&kind, &stored);
            match admitted.and_then(|()| self.log(&kind)).and_then(|log| log.append(stored, follows)) {
                Ok((change, next)) => {
                    appended.changes.extend(change);
                    appended.answers.push((answer, next));
                }
                Err(error) => {
                    tracing::warn!(%kind, %error, cause = error.cause(), "Reports cannot be stored.");
                    let _ = answer.send(Err(error));
                }
            }
        }
        for (kind, appended) in by_kind {
            self.finish(&kind, appended);
        }
    }

    /// Syncs, lets those who ask see it, and only then answers.
    fn finish(&mut self, kind: &Kind, Appended { changes, answers }: Appended) {
        // A duplicate is acknowledged as well, and what it repeats may still wait for this sync.
        if let Err(error) = self.log(kind).and_then(KindLog::sync) {
            tracing::warn!(%kind, %error, cause = error.cause(), "Reports cannot be stored.");
            answers.into_iter().for_each(|(answer, _)| drop(answer.send(Err(error.clone()))));
            return;
        }
        if !changes.is_empty() {
            if let Some(index) = self.shared.indexes.write().get_mut(kind) {
                changes.into_iter().for_each(|change| change.apply(index));
            }
            self.shared.changed.send_modify(|count| *count = count.wrapping_add(1));
        }
        answers.into_iter().for_each(|(answer, next)| drop(answer.send(Ok(next))));
    }

    /// Whether the cluster of a batch may have that kind. Asked here too: who asked before may have been many at once.
    fn check_kind(&self, kind: &Kind, stored: &Stored) -> Result<(), ReportError> {
        let key = stored.key().ok_or(ReportError::Ended)?;
        if self.logs.get(kind).is_some_and(|log| log.lanes().contains_key(&key)) {
            return Ok(());
        }
        let since = now().saturating_sub(self.retention.age.as_secs());
        check_new_kind(kind, &key.cluster, since, self.logs.iter().map(|(kind, log)| (kind, log.lanes())))
    }

    /// The log of a kind, which is made if it is not there.
    fn log(&mut self, kind: &Kind) -> Result<&mut KindLog, ReportError> {
        if !self.logs.contains_key(kind) {
            let (log, index) = KindLog::open(&self.dir.join(kind.as_str()), self.retention)?;
            self.shared.indexes.write().insert(kind.clone(), index);
            self.logs.insert(kind.clone(), log);
        }
        self.logs.get_mut(kind).ok_or(ReportError::Ended)
    }

    fn retain(&mut self) {
        let now = now();
        let due = now.saturating_sub(self.retained) >= RETAIN_EVERY;
        for (kind, log) in &mut self.logs {
            // The size is held to at once, the age now and then.
            if !due && !log.is_over_size() {
                continue;
            }
            match log.retain(now) {
                Ok(Some(segment)) => {
                    self.shared.indexes.write().entry(kind.clone()).or_default().forget_segment(segment);
                }
                Ok(None) => {}
                Err(error) => tracing::warn!(%kind, %error, cause = error.cause(), "Old reports cannot be removed."),
            }
        }
        if due {
            self.retained = now;
        }
    }
}
