//! The limit on open files. Each stream is one, and the usual soft limit of 1,024 is for programs that still call `select`.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the soft limit to the hard one, as far as the system lets us.
pub(crate) fn raise_open_files() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    if limit.current == limit.maximum {
        return;
    }
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        tracing::warn!(%error, soft = ?limit.current, hard = ?limit.maximum, "The limit on open files stays as it is.");
    }
}
