//! Files that only their owner may read, written so that a crash leaves the old content or the new, never half of it.

use crate::IdentityError;
use std::{
    fs::{self, DirBuilder, File},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, PermissionsExt},
    path::Path,
};

/// What to do when the file is there already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IfExists {
    Replace,
    Refuse,
}

/// Writes the file with mode 0600: a temporary file beside it, fsync, rename, fsync of the directory.
///
/// `Refuse` is decided by the rename itself, so of two processes that write at once exactly one succeeds.
pub(crate) fn write(path: &Path, content: &str, if_exists: IfExists) -> Result<(), IdentityError> {
    let persisted = write_beside(path, content).and_then(|temporary| match if_exists {
        IfExists::Replace => temporary.persist(path).map_err(|e| e.error),
        IfExists::Refuse => temporary.persist_noclobber(path).map_err(|e| e.error),
    });
    match persisted {
        Ok(_) => sync_directory(parent(path)),
        Err(error) if if_exists == IfExists::Refuse && error.kind() == io::ErrorKind::AlreadyExists => {
            Err(IdentityError::FileExists { path: path.to_owned() })
        }
        Err(error) => Err(IdentityError::file("write", path)(error)),
    }
}

/// Makes the directory and what is missing above it, with mode 0700.
pub(crate) fn create_directory(path: &Path) -> Result<(), IdentityError> {
    DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(IdentityError::file("create", path))
}

/// Makes earlier changes to the directory's entries durable.
pub(crate) fn sync_directory(path: &Path) -> Result<(), IdentityError> {
    File::open(path).and_then(|dir| dir.sync_all()).map_err(IdentityError::file("sync", path))
}

/// Reads a text file, and refuses when any of the permission bits in `forbidden` is set.
pub(crate) fn read(path: &Path, forbidden: u32) -> Result<String, IdentityError> {
    let file = File::open(path).map_err(IdentityError::file("read", path))?;
    let mode = file.metadata().map_err(IdentityError::file("read", path))?.permissions().mode() & 0o7777;
    if mode & forbidden != 0 {
        return Err(IdentityError::FileExposed { path: path.to_owned(), mode });
    }
    io::read_to_string(file).map_err(IdentityError::file("read", path))
}

/// Permission bits of everybody but the owner.
pub(crate) const GROUP_AND_OTHERS: u32 = 0o077;
/// Permission bits of everybody but the owner and its group.
pub(crate) const OTHERS: u32 = 0o007;

fn write_beside(path: &Path, content: &str) -> io::Result<tempfile::NamedTempFile> {
    let mut temporary = tempfile::Builder::new()
        .prefix(".mctunnel-")
        .permissions(fs::Permissions::from_mode(0o600))
        .tempfile_in(parent(path))?;
    temporary.write_all(content.as_bytes())?;
    temporary.as_file().sync_all()?;
    Ok(temporary)
}

fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}
