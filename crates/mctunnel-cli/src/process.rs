//! What every long-running role does first: the log, the limit on files, the runtime.

use crate::{limits, logging, settings::ProcessSettings};
use mctunnel::ErrorCode;
use std::{io, num::NonZeroUsize, process::ExitCode, time::Duration};
use tokio::runtime::{Builder, Runtime};
use tokio_util::task::AbortOnDropHandle;

/// How long name look-ups and other blocking work may hold up the end of the process.
const LEFTOVERS: Duration = Duration::from_millis(100);

/// Runs the role to its end.
pub(crate) fn run<F>(settings: ProcessSettings, role: impl FnOnce(ProcessSettings) -> F) -> anyhow::Result<ExitCode>
where
    F: Future<Output = anyhow::Result<ExitCode>>,
{
    logging::start(settings.log_format, settings.log_filter.clone());
    limits::raise_open_files();
    let runtime = runtime(settings.threads.unwrap_or_else(half_of_the_cores)).map_err(ProcessError::Runtime)?;
    let ended = runtime.block_on(role(settings));
    runtime.shutdown_timeout(LEFTOVERS);
    ended
}

/// One thread needs no queue between threads: what wakes a task and who runs it are the same.
fn runtime(threads: NonZeroUsize) -> io::Result<Runtime> {
    match threads.get() {
        1 => Builder::new_current_thread().enable_all().build(),
        threads => Builder::new_multi_thread().worker_threads(threads).enable_all().build(),
    }
}

/// The kernel's share of moving bytes is as large as ours; with a thread on every core they only push each other off them.
fn half_of_the_cores() -> NonZeroUsize {
    let cores = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    NonZeroUsize::new(cores / 2).unwrap_or(NonZeroUsize::MIN)
}

/// Runs a command that is not a role, on this thread.
pub(crate) fn block_on<T>(command: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let runtime = Builder::new_current_thread().enable_all().build().map_err(ProcessError::Runtime)?;
    runtime.block_on(command)
}

/// Runs a part of a role beside the rest; it ends with the handle.
pub(crate) fn owned(task: impl Future<Output = ()> + Send + 'static) -> AbortOnDropHandle<()> {
    #[expect(clippy::disallowed_methods, reason = "the handle aborts the task when it is dropped")]
    AbortOnDropHandle::new(tokio::spawn(task))
}

/// The process cannot be set up.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ProcessError {
    /// The worker threads cannot be started.
    #[error("cannot start the worker threads")]
    Runtime(#[source] io::Error),
    /// Signals cannot be waited for.
    #[error("cannot wait for signals")]
    Signals(#[source] io::Error),
}

impl ProcessError {
    pub(crate) fn code(&self) -> ErrorCode {
        let (code, remedy) = match self {
            Self::Runtime(_) => {
                ("MCT-PROCESS-THREADS", "check the limits on threads and memory, or give fewer --threads")
            }
            Self::Signals(_) => ("MCT-PROCESS-SIGNALS", "check the limit on open files"),
        };
        ErrorCode { code, remedy }
    }
}
