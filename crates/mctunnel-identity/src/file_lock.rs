//! Locks between processes that change the same files.

use crate::IdentityError;
use std::{
    fs::{File, Permissions},
    os::unix::fs::{OpenOptionsExt, PermissionsExt},
    path::Path,
};

/// Waits until no other process holds the lock, and keeps others out until it is dropped.
///
/// The system gives the lock back when the process ends, however it ends; the empty file stays.
pub(crate) fn lock(path: &Path) -> Result<File, IdentityError> {
    let file = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .mode(0o600)
        .open(path)
        .map_err(IdentityError::file("create", path))?;
    // Nobody else may hold it against us, also when an earlier version or a restored backup left it open to others.
    let _ = file.set_permissions(Permissions::from_mode(0o600));
    file.lock().map_err(IdentityError::file("lock", path))?;
    Ok(file)
}
