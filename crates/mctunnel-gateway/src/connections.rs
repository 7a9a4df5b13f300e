//! The tasks of a gateway's connections: counted, waited for, cut. It does not know what they do.

use crate::shares::{Share, Shares};
use parking_lot::Mutex;
use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};
use tokio::task::AbortHandle;
use tokio_util::task::TaskTracker;

/// The connections of one gateway.
#[derive(Debug, Default)]
pub(crate) struct Connections {
    tracker: TaskTracker,
    next: AtomicU64,
    handles: Arc<Handles>,
    shares: Shares,
}

/// By number; `None` while the task is being spawned.
type Handles = Mutex<BTreeMap<u64, Option<AbortHandle>>>;

impl Connections {
    /// By where they come from.
    pub(crate) fn shares(&self) -> &Shares {
        &self.shares
    }

    /// Runs a connection in its own task. What it has of the gateway's places is given back when that is over.
    pub(crate) fn spawn(&self, connection: impl Future<Output = ()> + Send + 'static, share: Option<Share>) {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.handles.lock().insert(number, None);
        let entry = Entry { handles: Arc::clone(&self.handles), number, _share: share };
        // Boxed: the runtime moves a task several times while it starts and once more when it ends.
        let connection = Box::pin(connection);
        let task = self.tracker.spawn(async move {
            let _entry = entry;
            connection.await;
        });
        // The task may be over by now (or dropped at once, when the runtime is stopping); then its entry is gone and stays gone.
        if let Some(handle) = self.handles.lock().get_mut(&number) {
            *handle = Some(task.abort_handle());
        }
    }

    pub(crate) fn count(&self) -> usize {
        self.tracker.len()
    }

    /// Ends every task at its next await.
    pub(crate) fn cut(&self) {
        let handles: Vec<_> = self.handles.lock().values_mut().filter_map(Option::take).collect();
        for handle in handles {
            handle.abort();
        }
    }

    /// Resolves when there is no task.
    pub(crate) async fn ended(&self) {
        self.tracker.close();
        self.tracker.wait().await;
    }
}

/// Takes a connection off the list when its task is over, however it ended.
struct Entry {
    handles: Arc<Handles>,
    number: u64,
    _share: Option<Share>,
}

impl Drop for Entry {
    fn drop(&mut self) {
        let _handle = self.handles.lock().remove(&self.number);
    }
}
