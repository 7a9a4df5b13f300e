//! Where the socket is, and how to name it when its path is longer than the system takes.

use super::ControlError;
use std::{
    fs::File,
    io,
    os::fd::AsRawFd,
    path::{Path, PathBuf},
};

/// Its name in the data directory.
const NAME: &str = "control.sock";

/// The longest path that a socket's address has room for.
const MOST_BYTES: usize = 107;

/// The control socket of a data directory.
#[derive(Debug)]
pub(super) struct SocketPath {
    path: PathBuf,
    /// Kept open while the path goes through it.
    _directory: Option<File>,
    usable: PathBuf,
}

impl SocketPath {
    pub(super) fn of(data_dir: &Path) -> Result<Self, ControlError> {
        let path = data_dir.join(NAME);
        if path.as_os_str().len() <= MOST_BYTES {
            return Ok(Self { usable: path.clone(), path, _directory: None });
        }
        let opened = File::open(data_dir);
        let directory =
            opened.map_err(|source| ControlError::Socket { action: "reach", path: path.clone(), source })?;
        let usable = PathBuf::from(format!("/proc/self/fd/{}/{NAME}", directory.as_raw_fd()));
        Ok(Self { path, _directory: Some(directory), usable })
    }

    /// For people.
    pub(super) fn shown(&self) -> &Path {
        &self.path
    }

    /// For the system.
    pub(super) fn usable(&self) -> &Path {
        &self.usable
    }

    pub(super) fn error(&self, action: &'static str) -> impl FnOnce(io::Error) -> ControlError {
        let path = self.path.clone();
        move |source| ControlError::Socket { action, path, source }
    }
}
