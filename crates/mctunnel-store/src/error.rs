//! Why the store could not be opened. Each situation has a stable code and a remedy.

use mctunnel_core::{ErrorCode, StoreError};
use std::{
    io,
    path::{Path, PathBuf},
};

/// The store could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenStoreError {
    /// Another process has the store open.
    #[error("another process has {} open", path.display())]
    InUse {
        /// The file.
        path: PathBuf,
    },
    /// The store or its directory can be read or written by others.
    #[error("{} has mode {mode:04o}, so others can reach the hub's state: chmod {wanted:o} {}", path.display(), path.display())]
    Exposed {
        /// The file or the directory.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
        /// What they may be at most.
        wanted: u32,
    },
    /// A file or a directory could not be read or written.
    #[error("cannot {action} {}", path.display())]
    File {
        /// The verb: "read", "create".
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The store was written by a newer version of mctunnel.
    #[error("{} has the format {found}; this version knows formats up to {known}", path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its format.
        found: u64,
        /// The newest format that is known.
        known: u64,
    },
    /// The store's file is damaged.
    #[error("{} cannot be used", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: StoreError,
    },
}

impl OpenStoreError {
    /// The stable code and its remedy.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        let (code, remedy) = match self {
            Self::InUse { .. } => (
                "MCT-STORE-IN-USE",
                "one hub at a time uses a data directory: end the other one, or wait until the other command is done",
            ),
            Self::Exposed { .. } => ("MCT-STORE-EXPOSED", "chmod 700 DIRECTORY; chmod 600 FILE"),
            Self::File { .. } => {
                ("MCT-STORE-FILE", "check that the path exists, that there is room, and that this user may use it")
            }
            Self::Newer { .. } => {
                ("MCT-STORE-NEWER", "use the newer version of mctunnel, or restore the data directory from a backup")
            }
            Self::Damaged { .. } => ("MCT-STORE-DAMAGED", "restore the file from a backup, and check the disk"),
        };
        ErrorCode { code, remedy }
    }

    pub(crate) fn file(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::File { action, path, source }
    }
}
