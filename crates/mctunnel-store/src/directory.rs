//! The directory of the state, which nobody but its owner may enter. Whoever can write in it can be the hub.

use crate::OpenStoreError;
use std::{
    fs::{self, DirBuilder, File},
    os::unix::fs::{DirBuilderExt, PermissionsExt},
    path::Path,
};

/// Permission bits of everybody but the owner.
const GROUP_AND_OTHERS: u32 = 0o077;

/// Makes the directory with mode 0700 if it is missing, and refuses one that others can enter.
pub fn prepare(directory: &Path) -> Result<(), OpenStoreError> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(directory);
    made.map_err(OpenStoreError::file("create", directory))?;
    let metadata = fs::metadata(directory).map_err(OpenStoreError::file("read", directory))?;
    check_mode(directory, &metadata, 0o700)
}

/// Refuses a file or a directory that others can reach.
pub(crate) fn check_mode(path: &Path, metadata: &fs::Metadata, wanted: u32) -> Result<(), OpenStoreError> {
    let mode = metadata.permissions().mode() & 0o7777;
    if mode & GROUP_AND_OTHERS == 0 {
        return Ok(());
    }
    Err(OpenStoreError::Exposed { path: path.to_owned(), mode, wanted })
}

/// Makes earlier changes to the directory's entries durable.
pub(crate) fn sync(directory: &Path) -> Result<(), OpenStoreError> {
    File::open(directory).and_then(|dir| dir.sync_all()).map_err(OpenStoreError::file("sync", directory))
}
