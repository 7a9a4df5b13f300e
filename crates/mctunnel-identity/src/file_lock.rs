//! Locks between processes that change the same files.

use crate::{IdentityError, private_file};
use std::{
    fs::{File, Permissions},
    io,
    os::unix::fs::{OpenOptionsExt, PermissionsExt},
    path::Path,
};

/// Waits until no other process holds the lock, and keeps others out until it is dropped.
///
/// The system gives the lock back when the process ends, however it ends; the empty file stays.
pub(crate) fn lock(path: &Path) -> Result<File, IdentityError> {
    let file = open(path).map_err(IdentityError::file("create", path))?;
    // Nobody else may hold it against us, also when an earlier version or a restored backup left it open to others.
    let _ = file.set_permissions(Permissions::from_mode(0o600));
    file.lock().map_err(IdentityError::file("lock", path))?;
    Ok(file)
}

/// Opens the file. One that is made here belongs to whom its directory does, else a command of root's would lock the hub out.
fn open(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.write(true).mode(0o600);
    match options.open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        opened => return opened,
    }
    match options.clone().create_new(true).open(path) {
        Ok(made) => {
            private_file::give_to_owner_of(private_file::parent(path), &made)?;
            Ok(made)
        }
        // Another process was faster.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => options.open(path),
        Err(error) => Err(error),
    }
}
