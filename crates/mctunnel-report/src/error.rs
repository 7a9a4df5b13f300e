//! What can go wrong, with stable codes.

use crate::record::OversizedRecord;
use mctunnel_core::ErrorCode;
use std::{io, path::Path, path::PathBuf, sync::Arc};

/// Something about reports did not work. Cheap to clone: many may wait for the same write.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ReportError {
    /// A file of the spool or of the report store could not be read or written.
    #[error("cannot {action} {}", path.display())]
    File {
        /// The verb: "read", "create".
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: Arc<io::Error>,
    },
    /// Another process uses the directory of the spool or of the report store.
    #[error("another process uses {}", .0.display())]
    InUse(PathBuf),
    /// A record is too large.
    #[error(transparent)]
    Oversized(#[from] OversizedRecord),
    /// The spool holds as many records of a kind as it may, and the hub has not taken them yet.
    #[error("the spool holds as much of this kind as it may, and the hub has not taken it yet")]
    Full,
    /// Records that belong together do not fit into one batch.
    #[error("records that belong together do not fit into one batch")]
    TooMuch,
    /// There are as many kinds of records as there may be.
    #[error("there are {0} kinds of records already")]
    TooManyKinds(usize),
    /// There are as many sources with a checkpoint as there may be.
    #[error("{0} sources of this kind say how far they are already")]
    TooManySources(usize),
    /// Records could not be stored because those before them were not.
    #[error("records before these could not be stored")]
    Interrupted,
    /// The spool or the report store has ended.
    #[error("it has ended")]
    Ended,
}

impl ReportError {
    /// The stable code and its remedy.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        let (code, remedy) = match self {
            Self::File { .. } => (
                "MCT-REPORT-FILE",
                "check that the directory exists, that there is room, and that this user may use it; then restart",
            ),
            Self::InUse(_) => ("MCT-REPORT-IN-USE", "give each agent a directory of its own, or end the other process"),
            Self::Oversized(_) | Self::TooMuch => ("MCT-REPORT-TOO-LARGE", "send smaller records, with a source"),
            Self::Full => (
                "MCT-REPORT-FULL",
                "try again once the agent reaches its hub; raise the limit of the kind, or let it drop the oldest",
            ),
            Self::TooManyKinds(_) => ("MCT-REPORT-KINDS", "use fewer kinds; a source tells records of one kind apart"),
            Self::TooManySources(_) => {
                ("MCT-REPORT-SOURCES", "use fewer names of sources with a sequence, or report without one")
            }
            Self::Interrupted => (
                "MCT-REPORT-INTERRUPTED",
                "none needed: the agent sends again; look for the failure before it in the hub's log",
            ),
            Self::Ended => ("MCT-REPORT-ENDED", "none needed if the process was ended; else look at its log"),
        };
        ErrorCode { code, remedy }
    }

    pub(crate) fn file(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::File { action, path, source: Arc::new(source) }
    }
}
