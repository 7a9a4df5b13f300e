//! Why the record could not be opened, closed or verified. Each situation has a stable code and a remedy.

use mctunnel_core::ErrorCode;
use std::{
    io,
    path::{Path, PathBuf},
};

/// Something is wrong with the record, or in its way.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AuditError {
    /// Another process writes this record.
    #[error("another process writes the audit log {}", path.display())]
    InUse {
        /// The log.
        path: PathBuf,
    },
    /// A file of the record could not be read or written.
    #[error("cannot {action} {}", path.display())]
    File {
        /// The verb: "read", "create".
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The checkpoint beside the log is not one.
    #[error("{} is not the checkpoint of an audit log", path.display())]
    BadHead {
        /// The file.
        path: PathBuf,
    },
    /// The webhook's address or TLS settings cannot be used.
    #[error("the audit webhook cannot be used: {0}")]
    Webhook(String),
    /// Nothing was configured that takes records.
    #[error("the audit log has nowhere to write to")]
    NoSink,
    /// The thread that writes could not be started.
    #[error("cannot start the thread that writes the audit log")]
    Thread(#[source] io::Error),
    /// The record was closed while it could not be written.
    #[error("{records} records could not be written to the audit log before it was closed: {reason}")]
    Unwritten {
        /// How many.
        records: usize,
        /// What was in the way.
        reason: String,
    },
}

impl AuditError {
    /// The stable code and its remedy.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        let (code, remedy) = match self {
            Self::InUse { .. } => ("MCT-AUDIT-IN-USE", "end the other hub, or give each hub an audit log of its own"),
            Self::File { .. } => {
                ("MCT-AUDIT-FILE", "check that the path exists, that there is room, and that this user may use it")
            }
            Self::BadHead { .. } => (
                "MCT-AUDIT-BAD-HEAD",
                "keep the file as evidence under another name; the next start goes on from the log and makes a new one",
            ),
            Self::Webhook(_) => {
                ("MCT-AUDIT-WEBHOOK", "give an http:// or https:// address, as in https://siem.example.com/in")
            }
            Self::NoSink => ("MCT-AUDIT-NO-SINK", "configure a file, standard output or a webhook"),
            Self::Thread(_) => ("MCT-AUDIT-THREAD", "check the limits on threads and memory"),
            Self::Unwritten { .. } => ("MCT-AUDIT-UNWRITTEN", "check the disk, or the receiver of the webhook"),
        };
        ErrorCode { code, remedy }
    }

    pub(crate) fn file(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::File { action, path, source }
    }
}
