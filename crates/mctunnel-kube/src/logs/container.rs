//! Follows the log of one container through cuts, rotations and restarts, and hands each line on once.
//!
//! ```text
//!   restarted since? -> the rest of the instance before, which is over -> this instance, until its log ends -> over, or again
//! ```

use super::{
    ContainerLog, LogCounts, LogLine, TakeLogs,
    lines::Lines,
    place::{Piece, PieceEnd, Place},
    pod::{Instance, Phase},
};
use crate::follow::{
    DENIED_RETRY, HEALTHY, Trouble, backoff, if_there,
    request::{escaped, get},
};
use futures_util::FutureExt as _;
use http::{Request, StatusCode};
use http_body_util::{BodyExt as _, Limited};
use k8s_openapi::jiff::Timestamp;
use kube::{Client, client::Body, core::Status};
use std::{fmt::Write as _, pin::pin, sync::Arc, time::Duration};
use tokio::{
    sync::watch,
    time::{Instant, sleep, timeout},
};

/// Lines that are handed on at once, at most.
const AT_ONCE: usize = 256;
/// Bytes of lines that are handed on at once, at most. As JSON with every letter escaped they must fit into a batch of 1 MiB.
const BYTES_AT_ONCE: usize = 64 << 10;

/// After so long without a byte a log is asked for again: a connection that died silently is noticed only then. A container that writes
/// nothing is as silent, down to the head of the answer, which the kubelet sends with the first line.
const IDLE: Duration = Duration::from_secs(300);
/// How long the log of an instance that is no more may be silent before it is given up.
const LINGER: Duration = Duration::from_secs(10);
/// How long the log of a pod that was chosen no more, but lives, is read at most.
const GONE_AT_MOST: Duration = Duration::from_secs(300);
/// How long the server may take to say why not.
const REASON_TIMEOUT: Duration = Duration::from_secs(10);
const MOST_REASON: usize = 64 << 10;

/// What is known of a container, by whoever watches its pod; `None` once the pod is gone.
pub(crate) type Instances = watch::Receiver<Option<Instance>>;

/// Follows one log.
pub(crate) struct ContainerFollower<T> {
    pub(crate) client: Client,
    pub(crate) taker: Arc<T>,
    pub(crate) container: Arc<ContainerLog>,
    pub(crate) instances: Instances,
    pub(crate) counts: Arc<LogCounts>,
}

/// Why a log is followed no more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    /// Everything up to the end of this instance was taken.
    Over(Instance),
    /// The pod is gone.
    Gone,
}

/// Which log of a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Which {
    /// That of the instance before, which is over.
    Previous,
    /// What there is of the latest.
    Whole,
    /// What there is of the latest, and what comes.
    Followed,
}

enum Opened {
    Log(Body),
    /// There is no such log.
    Nothing(String),
    /// The server has not said anything.
    Silent,
}

impl<T: TakeLogs> ContainerFollower<T> {
    pub(crate) async fn follow(mut self) -> Ended {
        let mut failures: u32 = 0;
        // The instance whose predecessor was read.
        let mut previous_of: Option<u32> = None;
        loop {
            let Some(now) = *self.instances.borrow_and_update() else { return Ended::Gone };
            if now.phase == Phase::NotYet {
                if self.instances.changed().await.is_err() {
                    return Ended::Gone;
                }
                continue;
            }
            let began = Instant::now();
            let outcome = self.read_instance(now, &mut previous_of).await;
            let is_same = *self.instances.borrow() == Some(now);
            let pause = match outcome {
                Ok(_) if is_same && now.phase == Phase::Over => return Ended::Over(now),
                Ok(lines) => {
                    if lines > 0 || began.elapsed() >= HEALTHY {
                        failures = 0;
                    }
                    backoff(failures, rand::random())
                }
                Err(trouble) => self.pause_after(&trouble, failures),
            };
            failures = failures.saturating_add(1);
            if is_same {
                tokio::select! {
                    () = sleep(pause) => {}
                    _ = self.instances.changed() => {}
                }
            }
        }
    }

    fn pause_after(&self, trouble: &Trouble, failures: u32) -> Duration {
        let container = &*self.container;
        match trouble {
            Trouble::Denied(reason) => {
                if self.counts.is_first_denial() {
                    tracing::warn!(%container, reason, "The agent may not read the logs of pods.");
                }
                return DENIED_RETRY;
            }
            Trouble::Failed(reason) if failures == 0 => {
                tracing::warn!(%container, reason, "A log cannot be followed; trying again.");
            }
            Trouble::Failed(reason) => tracing::debug!(%container, reason, failures, "A log cannot be followed yet."),
            Trouble::Ended | Trouble::Gone => {}
        }
        backoff(failures, rand::random())
    }

    /// Reads what was not taken of an instance and of the one before; gives how many lines were.
    async fn read_instance(&mut self, now: Instance, previous_of: &mut Option<u32>) -> Result<u64, Trouble> {
        let taken = self.place().map(|place| place.restart());
        let is_behind = taken.map_or(now.restart > 0, |taken| taken < now.restart);
        let mut lines = 0;
        if is_behind && now.has_previous && *previous_of != Some(now.restart) {
            let previous = now.restart - 1;
            if let Some(taken) = taken.filter(|taken| *taken < previous) {
                let missed = previous - taken;
                tracing::warn!(container = %self.container, missed, "Instances came and went with their logs.");
            }
            lines += self.read(Which::Previous, previous).await?;
            *previous_of = Some(now.restart);
        }
        let which = if now.phase == Phase::Running { Which::Followed } else { Which::Whole };
        Ok(lines + self.read(which, now.restart).await?)
    }

    /// How far the log was taken: what is on disk counts, whatever became of the last attempt.
    fn place(&self) -> Option<Place> {
        Place::read(&self.taker.taken_up_to(&self.container)?)
    }

    /// Reads a log to its end, and hands on what is new.
    async fn read(&mut self, which: Which, restart: u32) -> Result<u64, Trouble> {
        let mut place = self.place().unwrap_or_default();
        let mut body = match self.open(which, restart, place.since()).await? {
            Opened::Log(body) => body,
            // An instance that has ended does not get a log it has not: its place is for others.
            Opened::Nothing(_) if which != Which::Followed => return Ok(0),
            Opened::Nothing(reason) => return Err(Trouble::Failed(reason)),
            Opened::Silent if which == Which::Followed => return Ok(0),
            Opened::Silent => return Err(silent()),
        };
        let mut lines = Lines::new(place.known());
        let (mut count, mut untimed, mut gone) = (0, 0, None);
        loop {
            let mut arrived = patiently(&mut self.instances, restart, body.frame()).await;
            let (mut pieces, mut bytes, mut end) = (Vec::new(), 0, None);
            // What has arrived meanwhile goes with it.
            loop {
                match arrived {
                    Some(Some(Ok(frame))) => {
                        let frame = frame.into_data().unwrap_or_default();
                        bytes += frame.len();
                        lines.feed(&frame, |piece| pieces.push(piece));
                    }
                    Some(Some(Err(error))) => end = Some(Err(Trouble::Failed(format!("the log broke off: {error}")))),
                    Some(None) => end = Some(Ok(())),
                    None if which == Which::Followed => end = Some(Ok(())),
                    None => end = Some(Err(silent())),
                }
                if end.is_some() || bytes >= BYTES_AT_ONCE {
                    break;
                }
                match if_there(|| body.frame().now_or_never()).await {
                    Some(frame) => arrived = Some(frame),
                    None => break,
                }
            }
            let is_over = which != Which::Followed || self.instances.borrow().is_none();
            if matches!(end, Some(Ok(()))) && is_over {
                pieces.extend(lines.finish());
            }
            count += self.hand_on(restart, &mut place, pieces).await?;
            if lines.untimed() > untimed {
                untimed = lines.untimed();
                tracing::debug!(container = %self.container, untimed, "Text without a time is not the container's.");
            }
            if self.instances.borrow().is_none() && gone.get_or_insert_with(Instant::now).elapsed() > GONE_AT_MOST {
                return Ok(count);
            }
            match end {
                None => {}
                Some(Ok(())) => return Ok(count),
                Some(Err(trouble)) => return Err(trouble),
            }
        }
    }

    /// Hands pieces on, in groups that can be taken whole.
    async fn hand_on(&self, restart: u32, place: &mut Place, pieces: Vec<Piece>) -> Result<u64, Trouble> {
        let (mut group, mut bytes, mut count) = (Vec::new(), 0, 0);
        let mut next = place.clone();
        for piece in pieces {
            if group.len() >= AT_ONCE || bytes + piece.bytes.len() > BYTES_AT_ONCE {
                self.take(restart, std::mem::take(&mut group), &next).await?;
                bytes = 0;
            }
            next.took(restart, &piece);
            bytes += piece.bytes.len();
            count += 1;
            let Piece { time, bytes, end } = piece;
            group.push(LogLine { time_micros: time.div_euclid(1_000), bytes, is_partial: end != PieceEnd::Newline });
        }
        if !group.is_empty() {
            self.take(restart, group, &next).await?;
        }
        *place = next;
        Ok(count)
    }

    async fn take(&self, restart: u32, lines: Vec<LogLine>, place: &Place) -> Result<(), Trouble> {
        self.taker.take(&self.container, restart, lines, place.text()).await.map_err(Trouble::Failed)
    }

    async fn open(&mut self, which: Which, restart: u32, since: Option<i64>) -> Result<Opened, Trouble> {
        let request = log_request(&self.container, which, since)?;
        let sent = self.client.send(request.map(Body::from));
        let Some(answer) = patiently(&mut self.instances, restart, sent).await else { return Ok(Opened::Silent) };
        let (head, body) = answer?.into_parts();
        if head.status.is_success() {
            return Ok(Opened::Log(body));
        }
        let reason = timeout(REASON_TIMEOUT, Limited::new(body, MOST_REASON).collect()).await;
        let reason = reason.ok().and_then(Result::ok).map(|reason| reason.to_bytes()).unwrap_or_default();
        let told: Option<Status> = serde_json::from_slice(&reason).ok();
        let failed = told.filter(|told| told.is_failure() && !told.message.is_empty());
        let reason = failed.map_or_else(|| format!("status {}", head.status), |told| told.message);
        match head.status {
            StatusCode::BAD_REQUEST | StatusCode::NOT_FOUND => Ok(Opened::Nothing(reason)),
            StatusCode::FORBIDDEN => Err(Trouble::Denied(reason)),
            _ => Err(Trouble::Failed(reason)),
        }
    }
}

fn silent() -> Trouble {
    Trouble::Failed("the log went silent before its end".to_owned())
}

/// Waits as long as there may be something to wait for: less once the instance is no more.
async fn patiently<F: Future>(instances: &mut Instances, restart: u32, future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    loop {
        let is_past = instances.borrow().is_none_or(|now| now.restart > restart);
        tokio::select! {
            biased;
            output = &mut future => return Some(output),
            () = sleep(if is_past { LINGER } else { IDLE }) => return None,
            changed = instances.changed(), if !is_past => {
                if changed.is_err() {
                    return None;
                }
            }
        }
    }
}

fn log_request(container: &ContainerLog, which: Which, since: Option<i64>) -> Result<Request<Vec<u8>>, Trouble> {
    let ContainerLog { namespace, pod, container, .. } = container;
    let [namespace, pod, container] = [namespace, pod, container].map(|part| escaped(part));
    let mut uri = format!("/api/v1/namespaces/{namespace}/pods/{pod}/log?container={container}&timestamps=true");
    uri.push_str(match which {
        Which::Previous => "&previous=true",
        Which::Whole => "",
        Which::Followed => "&follow=true",
    });
    if let Some(since) = since.and_then(|second| Timestamp::from_second(second).ok()) {
        let _ = write!(uri, "&sinceTime={}", escaped(&since.to_string()));
    }
    get(&uri)
}
