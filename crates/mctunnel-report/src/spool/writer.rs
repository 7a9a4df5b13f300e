//! A lane with a thread of its own that writes: those who report at the same time share one sync.

#[cfg(test)]
mod tests;

use super::{
    LaneConfig, Progress,
    lane::{Checkpoints, Lane},
};
use crate::{
    Record, ReportError,
    batch::{MOST_RECORDS, USUAL_PLAIN, room_for},
};
use bytes::Bytes;
use parking_lot::{Condvar, Mutex};
use std::{
    collections::{BTreeSet, VecDeque},
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot, watch};

/// The KiB of records that wait to be written, also of callers that gave up; further ones wait before they are handed over. Of one call
/// that has more there may be more. Each lane has a share of its own, so that a full one does not make others wait.
const MOST_WAITING_KIB: u32 = 1 << 10;
/// The bytes of records that are written with one sync, about.
const GROUP: usize = 4 << 20;

/// Hands records to the thread that writes.
#[derive(Debug)]
pub(super) struct LaneWriter {
    shared: Arc<Shared>,
    room: Arc<Semaphore>,
    progress: watch::Receiver<Progress>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    inbox: Mutex<Inbox>,
    changed: Condvar,
    /// As far as they are synced.
    checkpoints: Mutex<Checkpoints>,
    /// Sources to forget with the next records. Never more than have a checkpoint.
    leaving: Mutex<BTreeSet<Arc<str>>>,
}

#[derive(Debug, Default)]
struct Inbox {
    jobs: VecDeque<Job>,
    wanted: u64,
    ended: bool,
}

#[derive(Debug)]
struct Job {
    /// They fit into one batch.
    records: Vec<Record>,
    progress: SourceProgress,
    /// Set when records of the same call could not be taken: those behind them are not taken either.
    broken: Arc<AtomicBool>,
    /// What the whole call takes, until the last of its parts is answered.
    _room: Arc<OwnedSemaphorePermit>,
    done: oneshot::Sender<Result<usize, ReportError>>,
}

impl Job {
    fn fail(self, error: ReportError) {
        self.broken.store(true, Ordering::Relaxed);
        drop(self.done.send(Err(error)));
    }
}

/// What a source says of itself with its records.
#[derive(Debug, Clone)]
pub(super) enum SourceProgress {
    /// Nothing.
    Untold,
    /// How far it is behind them, in words of its own.
    Checkpoint(Arc<str>, Bytes),
    /// The number of the first of them in its own count: what was taken before is not taken again.
    Sequence(Arc<str>, u64),
}

impl LaneWriter {
    pub(super) fn start(dir: &Path, config: &LaneConfig) -> Result<Self, ReportError> {
        let lane = Lane::open(dir, config)?;
        let checkpoints = Mutex::new(lane.checkpoints().clone());
        let shared = Arc::new(Shared {
            inbox: Mutex::default(),
            changed: Condvar::new(),
            checkpoints,
            leaving: Mutex::default(),
        });
        let (tell, progress) = watch::channel(lane.progress());
        let inside = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("mctunnel-spool".to_owned());
        let thread = thread.spawn(move || Writing { lane, shared: inside, tell }.run());
        let thread = thread.map_err(ReportError::file("start a thread for", dir))?;
        let room = Arc::new(Semaphore::new(usize::try_from(MOST_WAITING_KIB).unwrap_or(usize::MAX)));
        Ok(Self { shared, room, progress, thread: Some(thread) })
    }

    /// Takes records, in parts that fit into one batch each. Returns when all are on disk, with how many of them were not there before;
    /// or when a part could not be taken, and then none behind it was.
    pub(super) async fn append(&self, parts: Vec<(Vec<Record>, SourceProgress)>) -> Result<usize, ReportError> {
        let bytes: usize = parts.iter().flat_map(|(records, _)| records).map(room_for).sum();
        let kib = u32::try_from(bytes / 1024 + 1).unwrap_or(u32::MAX).min(MOST_WAITING_KIB);
        let room = Arc::clone(&self.room).acquire_many_owned(kib).await.map_err(|_| ReportError::Ended)?;
        let room = Arc::new(room);
        let broken = Arc::new(AtomicBool::new(false));
        let mut answers = Vec::with_capacity(parts.len());
        {
            // All at once: they share a sync.
            let mut inbox = self.shared.inbox.lock();
            for (records, progress) in parts {
                let (done, answer) = oneshot::channel();
                inbox.jobs.push_back(Job {
                    records,
                    progress,
                    broken: Arc::clone(&broken),
                    _room: Arc::clone(&room),
                    done,
                });
                answers.push(answer);
            }
        }
        drop(room);
        self.shared.changed.notify_one();
        let mut new = 0;
        for answer in answers {
            new += answer.await.unwrap_or(Err(ReportError::Ended))?;
        }
        Ok(new)
    }

    pub(super) fn wanted(&self, number: u64) {
        let mut inbox = self.shared.inbox.lock();
        inbox.wanted = inbox.wanted.max(number);
        drop(inbox);
        self.shared.changed.notify_one();
    }

    pub(super) fn progress(&self) -> watch::Receiver<Progress> {
        self.progress.clone()
    }

    /// What a source said last of how far it is, and what is on disk.
    pub(super) fn checkpoint(&self, source: &str) -> Option<Bytes> {
        self.shared.checkpoints.lock().get(source).cloned()
    }

    pub(super) fn sources(&self) -> Vec<Arc<str>> {
        self.shared.checkpoints.lock().keys().cloned().collect()
    }

    pub(super) fn forget(&self, source: &str) {
        let known = self.shared.checkpoints.lock().get_key_value(source).map(|(source, _)| Arc::clone(source));
        self.shared.leaving.lock().extend(known);
    }
}

impl Drop for LaneWriter {
    fn drop(&mut self) {
        self.shared.inbox.lock().ended = true;
        self.shared.changed.notify_one();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The thread.
struct Writing {
    lane: Lane,
    shared: Arc<Shared>,
    tell: watch::Sender<Progress>,
}

impl Writing {
    fn run(mut self) {
        // Jobs that were taken and wait for room.
        let mut waiting: VecDeque<Job> = VecDeque::new();
        let mut wanted = 0;
        loop {
            {
                let mut inbox = self.shared.inbox.lock();
                // Who waits for room waits for the hub; else new records are waited for as well.
                while !inbox.ended && inbox.wanted == wanted && (!waiting.is_empty() || inbox.jobs.is_empty()) {
                    self.shared.changed.wait(&mut inbox);
                }
                if inbox.ended {
                    return;
                }
                wanted = inbox.wanted;
                if waiting.is_empty() {
                    waiting = take_group(&mut inbox.jobs);
                }
            }
            self.turn(&mut waiting, wanted);
        }
    }

    fn turn(&mut self, waiting: &mut VecDeque<Job>, wanted: u64) {
        if let Err(error) = self.lane.forget_below(wanted) {
            tracing::warn!(%error, "What the hub has could not be removed from the spool.");
        }
        let full = self.write(waiting);
        let _ = self.tell.send(self.lane.progress());
        if full && !waiting.is_empty() {
            tracing::debug!("A lane of the spool is full; its sources wait.");
        }
    }

    /// Writes what was handed over and tells whoever waits for it; says whether the lane was full before everything was written.
    fn write(&mut self, waiting: &mut VecDeque<Job>) -> bool {
        let mut written = Vec::new();
        let mut changed = Checkpoints::new();
        let mut full = false;
        refuse_broken(waiting);
        while !waiting.is_empty() {
            let mut composed = Composed::of(waiting, &self.lane);
            let leaving = self.shared.leaving.lock().clone();
            composed.forget(&leaving);
            let appended = match composed.records.is_empty() {
                true => Ok(()),
                false => self.lane.append(&composed.records, &composed.checkpoints),
            };
            let jobs = waiting.drain(..composed.taken.len()).zip(composed.taken);
            match appended {
                Ok(()) => {
                    if !composed.records.is_empty() {
                        self.shared.leaving.lock().retain(|source| !leaving.contains(source));
                    }
                    changed.extend(composed.checkpoints);
                    written.extend(jobs);
                }
                Err(ReportError::Full) => {
                    let again: Vec<Job> = jobs.map(|(job, _)| job).collect();
                    again.into_iter().rev().for_each(|job| waiting.push_front(job));
                    full = true;
                    break;
                }
                Err(error) => {
                    tracing::warn!(%error, cause = error.cause(), "The spool does not take records.");
                    jobs.for_each(|(job, _)| job.fail(error.clone()));
                    refuse_broken(waiting);
                }
            }
        }
        match self.lane.sync() {
            Ok(()) => {
                let mut checkpoints = self.shared.checkpoints.lock();
                checkpoints.extend(changed);
                checkpoints.retain(|_, token| !token.is_empty());
                drop(checkpoints);
                // Before they are told: who was told may ask.
                let _ = self.tell.send(self.lane.progress());
                written.into_iter().for_each(|(job, count)| drop(job.done.send(Ok(count))));
            }
            Err(error) => {
                tracing::warn!(%error, cause = error.cause(), "The spool cannot be written.");
                // Nor will what still waits for room be: nothing that the hub does could wake it.
                let written = written.into_iter().map(|(job, _)| job);
                written.chain(waiting.drain(..)).for_each(|job| job.fail(error.clone()));
            }
        }
        full
    }
}

/// Jobs that go into one batch together: many small ones compress as one large one does.
#[derive(Default)]
struct Composed {
    records: Vec<Record>,
    checkpoints: Checkpoints,
    /// For each job, how many of its records are new.
    taken: Vec<usize>,
}

impl Composed {
    fn of(jobs: &VecDeque<Job>, lane: &Lane) -> Self {
        let mut composed = Self::default();
        let mut bytes = 0;
        for job in jobs {
            bytes += job.records.iter().map(room_for).sum::<usize>();
            let too_many = composed.records.len() + job.records.len() > MOST_RECORDS || bytes > USUAL_PLAIN;
            if too_many && !composed.taken.is_empty() {
                break;
            }
            composed.add(job, lane);
        }
        composed
    }

    /// Forgets sources, but for those that report just now. Without records there is nothing to write it with.
    fn forget(&mut self, leaving: &BTreeSet<Arc<str>>) {
        if self.records.is_empty() {
            return;
        }
        for source in leaving {
            self.checkpoints.entry(Arc::clone(source)).or_default();
        }
    }

    fn add(&mut self, job: &Job, lane: &Lane) {
        let skipped = match &job.progress {
            SourceProgress::Untold => 0,
            SourceProgress::Checkpoint(source, token) => {
                self.checkpoints.insert(Arc::clone(source), token.clone());
                0
            }
            SourceProgress::Sequence(source, first) => {
                let known = self.checkpoints.get(source).or_else(|| lane.checkpoint(source));
                let known = known.and_then(|token| Some(u64::from_be_bytes(token.as_ref().try_into().ok()?)));
                let next = first.saturating_add(u64::try_from(job.records.len()).unwrap_or(u64::MAX));
                let token = next.max(known.unwrap_or(0)).to_be_bytes().to_vec();
                self.checkpoints.insert(Arc::clone(source), token.into());
                usize::try_from(known.unwrap_or(0).saturating_sub(*first)).unwrap_or(usize::MAX)
            }
        };
        let new = job.records.get(skipped.min(job.records.len())..).unwrap_or_default();
        self.records.extend_from_slice(new);
        self.taken.push(new.len());
    }
}

/// Answers those that come behind records of the same call that could not be taken, and leaves out those whose caller gave up.
fn refuse_broken(waiting: &mut VecDeque<Job>) {
    for job in std::mem::take(waiting) {
        match job.broken.load(Ordering::Relaxed) || job.done.is_closed() {
            true => job.fail(ReportError::Interrupted),
            false => waiting.push_back(job),
        }
    }
}

fn take_group(jobs: &mut VecDeque<Job>) -> VecDeque<Job> {
    let mut bytes = 0;
    let fits = |job: &&Job| {
        bytes += job.records.iter().map(room_for).sum::<usize>();
        bytes <= GROUP
    };
    let count = jobs.iter().take_while(fits).count().max(1).min(jobs.len());
    jobs.drain(..count).collect()
}

impl ReportError {
    /// What the system said, for a log line.
    pub(crate) fn cause(&self) -> String {
        match self {
            Self::File { source, .. } => source.to_string(),
            Self::InUse(_)
            | Self::Oversized(_)
            | Self::Full
            | Self::TooMuch
            | Self::TooManyKinds(_)
            | Self::TooManySources(_)
            | Self::Interrupted
            | Self::Ended => String::new(),
        }
    }
}

impl From<ReportError> for std::io::Error {
    fn from(error: ReportError) -> Self {
        Self::other(error)
    }
}
