//! Where the authority's four files lie, and how they come there whole. It does not look into them.

use crate::{
    IdentityError,
    private_file::{self, IfExists, OTHERS},
};
use mctunnel_core::Secret;
use std::{
    fs::{self, File},
    io,
    path::Path,
};

/// The contents of the four files.
pub(super) struct PkiFiles {
    pub(super) ca_pem: String,
    pub(super) ca_key: Secret,
    pub(super) server_pem: String,
    pub(super) server_key: Secret,
}

pub(super) const CA_PEM: &str = "ca.pem";
pub(super) const CA_KEY: &str = "ca.key";
pub(super) const SERVER_PEM: &str = "server.pem";
pub(super) const SERVER_KEY: &str = "server.key";

/// Waits until no other process makes or renews files in `data_dir`, and keeps others out until it is dropped.
///
/// The system gives the lock back when the process ends, however it ends; the empty file stays.
pub(super) fn lock(data_dir: &Path) -> Result<File, IdentityError> {
    let path = data_dir.join("pki.lock");
    let file = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&path)
        .map_err(IdentityError::file("create", &path))?;
    // Nobody else may hold it against us.
    let _ = file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o600));
    file.lock().map_err(IdentityError::file("lock", &path))?;
    Ok(file)
}

/// Reads the files; `None` when there is none of them, an error when there are only some.
pub(super) fn load(dir: &Path) -> Result<Option<PkiFiles>, IdentityError> {
    let mut missing = Vec::new();
    for name in [CA_PEM, CA_KEY, SERVER_PEM, SERVER_KEY] {
        let path = dir.join(name);
        if !path.try_exists().map_err(IdentityError::file("read", &path))? {
            missing.push(name);
        }
    }
    match missing.len() {
        0 => Ok(Some(PkiFiles {
            ca_pem: private_file::read(&dir.join(CA_PEM), 0)?,
            ca_key: Secret::new(private_file::read(&dir.join(CA_KEY), OTHERS)?),
            server_pem: private_file::read(&dir.join(SERVER_PEM), 0)?,
            server_key: Secret::new(private_file::read(&dir.join(SERVER_KEY), OTHERS)?),
        })),
        4 => Ok(None),
        _ => Err(IdentityError::PkiIncomplete { dir: dir.to_owned(), missing: missing.join(", ") }),
    }
}

/// Puts all four files in place at once: they are written to another directory, which is then renamed.
///
/// A crash before the rename leaves nothing in `dir`, and the rename refuses a directory that has anything in it.
pub(super) fn create(dir: &Path, files: PkiFiles) -> Result<PkiFiles, IdentityError> {
    let staging = dir.with_extension("new");
    match fs::remove_dir_all(&staging) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(IdentityError::file("remove", &staging)(error));
        }
        _ => private_file::create_directory(&staging)?,
    }
    for (name, content) in [
        (CA_PEM, files.ca_pem.as_str()),
        (CA_KEY, files.ca_key.expose()),
        (SERVER_PEM, files.server_pem.as_str()),
        (SERVER_KEY, files.server_key.expose()),
    ] {
        private_file::write(&staging.join(name), content, IfExists::Refuse)?;
    }
    fs::rename(&staging, dir).map_err(IdentityError::file("create", dir))?;
    if let Some(parent) = dir.parent() {
        private_file::sync_directory(parent)?;
    }
    Ok(files)
}

/// Replaces the one file that changes in the authority's life.
pub(super) fn replace_server_certificate(dir: &Path, pem: &str) -> Result<(), IdentityError> {
    private_file::write(&dir.join(SERVER_PEM), pem, IfExists::Replace)
}
