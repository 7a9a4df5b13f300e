//! What can go wrong between a command and a hub.

use super::Failure;
use mctunnel::ErrorCode;
use mctunnel_core::StoreError;
use mctunnel_store::OpenStoreError;
use std::{io, path::PathBuf};

/// A command could not be carried out, or a hub could not listen for commands.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ControlError {
    /// The hub did not do it.
    #[error("{}", .0.message)]
    Refused(Failure),
    /// No hub runs in this data directory.
    #[error("no hub runs in {}", data_dir.display())]
    NoHub { data_dir: PathBuf },
    /// The data directory is not there.
    #[error("there is no data directory {}", data_dir.display())]
    NoDataDirectory { data_dir: PathBuf },
    /// The control socket could not be used.
    #[error("cannot {action} {}", path.display())]
    Socket { action: &'static str, path: PathBuf, source: io::Error },
    /// Another hub listens on the control socket.
    #[error("another hub listens on {}", path.display())]
    InUse { path: PathBuf },
    /// The hub's answer could not be understood.
    #[error("the hub's answer cannot be understood: {0}")]
    BadAnswer(String),
    /// The hub's state could not be opened.
    #[error(transparent)]
    Open(#[from] OpenStoreError),
    /// The hub's state could not be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl ControlError {
    pub(crate) fn code(&self) -> ErrorCode {
        let (code, remedy) = match self {
            Self::NoHub { .. } => ("MCT-CONTROL-NO-HUB", "start it with 'mctunnel hub', or check --data-dir"),
            Self::NoDataDirectory { .. } => ("MCT-CONTROL-NO-DATA-DIR", "check --data-dir against that of the hub"),
            Self::Socket { .. } => (
                "MCT-CONTROL-SOCKET",
                "run the command as the hub's user on the hub's machine, and check that the hub answers",
            ),
            Self::InUse { .. } => ("MCT-CONTROL-IN-USE", "one hub at a time uses a data directory: end the other one"),
            Self::BadAnswer(_) => {
                ("MCT-CONTROL-BAD-ANSWER", "use the same version of mctunnel for the hub and the command")
            }
            Self::Refused(_) => ("MCT-CONTROL-REFUSED", "do as the hub's answer says"),
            Self::Open(error) => return error.code(),
            Self::Store(error) => return error.code(),
        };
        ErrorCode { code, remedy }
    }
}
