//! A receiver that is sent every record by POST, in order and at least once. It works beside the thread that writes: a slow
//! receiver costs nothing until its queue is full.

mod deliver;
#[cfg(test)]
mod tests;

use super::{Batch, Sink};
use crate::{AuditError, OnFull, WebhookConfig};
use bytes::Bytes;
use deliver::Delivery;
use parking_lot::Mutex;
use std::{
    collections::VecDeque,
    io,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// The sender's side of a receiver.
#[derive(Debug)]
pub(crate) struct Webhook {
    waiting: Arc<Waiting>,
    most: usize,
    on_full: OnFull,
    left_out: Arc<AtomicU64>,
    sender: Option<JoinHandle<()>>,
}

/// What waits for the receiver.
#[derive(Debug, Default)]
struct Waiting {
    queue: Mutex<Queue>,
    arrived: Notify,
    closed: CancellationToken,
}

#[derive(Debug, Default)]
struct Queue {
    batches: VecDeque<Bytes>,
    /// Records in the batches and on their way.
    records: usize,
}

impl Webhook {
    /// Starts sending. `left_out` counts what the receiver will not get; the end waits for it no longer than `close_within`.
    pub(crate) fn start(
        config: WebhookConfig,
        close_within: Duration,
        left_out: Arc<AtomicU64>,
    ) -> Result<Self, AuditError> {
        let waiting = Arc::new(Waiting::default());
        let (most, on_full) = (config.queue, config.on_full);
        let delivery = Delivery::new(config)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(AuditError::Thread)?;
        let sender = thread::Builder::new().name("audit-webhook".to_owned()).spawn({
            let waiting = Arc::clone(&waiting);
            move || runtime.block_on(waiting.send_all(&delivery, close_within))
        });
        Ok(Self { waiting, most, on_full, left_out, sender: Some(sender.map_err(AuditError::Thread)?) })
    }
}

impl Sink for Webhook {
    fn name(&self) -> &'static str {
        "webhook"
    }

    fn write(&mut self, batch: &Batch) -> io::Result<()> {
        let mut queue = self.waiting.queue.lock();
        // A batch that is larger than the whole queue must get through as well.
        if queue.records > 0 && queue.records + batch.records > self.most {
            return match self.on_full {
                OnFull::Refuse => Err(io::Error::new(io::ErrorKind::WouldBlock, "the receiver does not keep up")),
                OnFull::DropAndCount => {
                    self.left_out.fetch_add(batch.records as u64, Ordering::Relaxed);
                    Ok(())
                }
            };
        }
        queue.records += batch.records;
        queue.batches.push_back(batch.lines.clone());
        drop(queue);
        self.waiting.arrived.notify_one();
        Ok(())
    }

    fn close(&mut self) -> io::Result<()> {
        self.waiting.closed.cancel();
        if let Some(sender) = self.sender.take() {
            sender.join().map_err(|_| io::Error::other("the sender panicked"))?;
        }
        match self.waiting.queue.lock().records {
            0 => Ok(()),
            left => Err(io::Error::other(format!("{left} records were not delivered"))),
        }
    }
}

impl Drop for Webhook {
    fn drop(&mut self) {
        // Nobody is left to be told of an error.
        let _ = self.close();
    }
}

impl Waiting {
    /// Sends what comes, until it is closed and empty or has been closed for too long.
    async fn send_all(&self, delivery: &Delivery, close_within: Duration) {
        let mut too_late = pin!(async {
            self.closed.cancelled().await;
            tokio::time::sleep(close_within).await;
        });
        while let Some(body) = self.next(delivery.batch_bytes).await {
            let records = count(&body);
            tokio::select! {
                () = delivery.deliver(body) => self.queue.lock().records -= records,
                () = &mut too_late => return,
            }
        }
    }

    /// The next body, once there is one; `None` when it is closed and nothing is left.
    async fn next(&self, most: usize) -> Option<Bytes> {
        loop {
            if let Some(body) = self.queue.lock().take(most) {
                return Some(body);
            }
            if self.closed.is_cancelled() {
                return None;
            }
            tokio::select! {
                () = self.arrived.notified() => {}
                () = self.closed.cancelled() => {}
            }
        }
    }
}

impl Queue {
    /// Whole lines from the front: as many as have room in `most` bytes, and one at least.
    fn take(&mut self, most: usize) -> Option<Bytes> {
        let mut first = self.batches.pop_front()?;
        if first.len() > most {
            let rest = first.split_off(lines_within(&first, most));
            if !rest.is_empty() {
                self.batches.push_front(rest);
            }
            return Some(first);
        }
        if self.batches.front().is_none_or(|next| first.len() + next.len() > most) {
            return Some(first);
        }
        let mut body = first.to_vec();
        while let Some(next) = self.batches.pop_front_if(|next| body.len() + next.len() <= most) {
            body.extend_from_slice(&next);
        }
        Some(body.into())
    }
}

/// The length of the whole lines within so many bytes, or of the first line if it is longer.
fn lines_within(lines: &[u8], most: usize) -> usize {
    let is_end = |byte: &u8| *byte == b'\n';
    let within = lines.get(..most).and_then(|part| part.iter().rposition(is_end));
    within.or_else(|| lines.iter().position(is_end)).map_or(lines.len(), |end| end + 1)
}

fn count(lines: &[u8]) -> usize {
    lines.iter().filter(|byte| **byte == b'\n').count()
}
