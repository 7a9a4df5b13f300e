//! The ready file: appears whole once the process serves, so that scripts need not poll ports.

use mctunnel::ErrorCode;
use serde::Serialize;
use std::{
    fs, io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

/// Takes away the file of an earlier run, which would say too soon that this one is ready.
pub(crate) fn clear(path: Option<&Path>) -> Result<(), ReadyFileError> {
    let Some(path) = path else { return Ok(()) };
    match fs::remove_file(path) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => {
            Err(ReadyFileError { path: path.to_owned(), source })
        }
        _ => Ok(()),
    }
}

/// Writes the file beside its place and renames it.
pub(crate) fn write(path: Option<&Path>, content: &impl Serialize) -> Result<(), ReadyFileError> {
    let Some(path) = path else { return Ok(()) };
    persist(path, content).map_err(|source| ReadyFileError { path: path.to_owned(), source })
}

fn persist(path: &Path, content: &impl Serialize) -> io::Result<()> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."));
    let mut file = tempfile::Builder::new()
        .prefix(".mctunnel-ready-")
        .permissions(fs::Permissions::from_mode(0o644))
        .tempfile_in(parent)?;
    serde_json::to_writer(&mut file, content)?;
    io::Write::write_all(&mut file, b"\n")?;
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
}

/// The ready file cannot be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write the ready file {}", path.display())]
pub(crate) struct ReadyFileError {
    path: PathBuf,
    source: io::Error,
}

impl ReadyFileError {
    pub(crate) fn code(&self) -> ErrorCode {
        ErrorCode {
            code: "MCT-READY-FILE",
            remedy: "check that the directory of --ready-file exists and that this user may write there",
        }
    }
}
