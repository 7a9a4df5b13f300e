//! Where the authority's files lie, and how they come there whole. It does not look into them.

use crate::{
    IdentityError, file_lock,
    private_file::{self, IfExists, OTHERS},
};
use mctunnel_core::Secret;
use std::{
    fs::{self, File},
    io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

/// The contents of the files: four, and two more while CAs change.
pub(super) struct PkiFiles {
    /// The CA of the hub's own certificate; behind it the next one, while CAs change, for clients that are given the file.
    pub(super) ca_pem: String,
    pub(super) ca_key: Secret,
    pub(super) server_pem: String,
    pub(super) server_key: Secret,
    /// The certificate and the key of the next CA.
    pub(super) next: Option<(String, Secret)>,
}

pub(super) const CA_PEM: &str = "ca.pem";
pub(super) const CA_KEY: &str = "ca.key";
pub(super) const SERVER_PEM: &str = "server.pem";
pub(super) const SERVER_KEY: &str = "server.key";

/// The certificate of the next CA, while CAs change.
pub(super) const NEXT_PEM: &str = "next-ca.pem";
/// Its key.
pub(super) const NEXT_KEY: &str = "next-ca.key";

const ALL: [&str; 6] = [CA_PEM, CA_KEY, SERVER_PEM, SERVER_KEY, NEXT_PEM, NEXT_KEY];

/// The directory of the files.
pub(super) fn dir(data_dir: &Path) -> PathBuf {
    data_dir.join("pki")
}

/// Waits until no other process makes or renews files in `data_dir`, and keeps others out until it is dropped.
pub(super) fn lock(data_dir: &Path) -> Result<File, IdentityError> {
    file_lock::lock(&data_dir.join("pki.lock"))
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
    let mandatory = missing.len();
    let next @ (has_pem, has_key) = (dir.join(NEXT_PEM).exists(), dir.join(NEXT_KEY).exists());
    if has_pem != has_key {
        missing.push(if has_pem { NEXT_KEY } else { NEXT_PEM });
    }
    match missing.len() {
        0 => Ok(Some(PkiFiles {
            ca_pem: private_file::read(&dir.join(CA_PEM), 0)?,
            ca_key: Secret::new(private_file::read(&dir.join(CA_KEY), OTHERS)?),
            server_pem: private_file::read(&dir.join(SERVER_PEM), 0)?,
            server_key: Secret::new(private_file::read(&dir.join(SERVER_KEY), OTHERS)?),
            next: match next {
                (true, true) => Some((
                    private_file::read(&dir.join(NEXT_PEM), 0)?,
                    Secret::new(private_file::read(&dir.join(NEXT_KEY), OTHERS)?),
                )),
                _ => None,
            },
        })),
        _ if mandatory == 4 && next == (false, false) => Ok(None),
        _ => Err(IdentityError::PkiIncomplete { dir: dir.to_owned(), missing: missing.join(", ") }),
    }
}

/// Puts all four files in place at once: they are written to another directory, which is then renamed.
///
/// A crash before the rename leaves nothing in `dir`, and the rename refuses a directory that has anything in it.
pub(super) fn create(dir: &Path, files: PkiFiles) -> Result<PkiFiles, IdentityError> {
    let staging = dir.with_extension("new");
    clear(&staging)?;
    private_file::create_directory_kept(&staging)?;
    for (name, content) in [
        (CA_PEM, files.ca_pem.as_str()),
        (CA_KEY, files.ca_key.expose()),
        (SERVER_PEM, files.server_pem.as_str()),
        (SERVER_KEY, files.server_key.expose()),
    ] {
        private_file::write_kept(&staging.join(name), content, IfExists::Refuse)?;
    }
    fs::rename(&staging, dir).map_err(IdentityError::file("create", dir))?;
    sync_parent(dir)?;
    Ok(files)
}

/// Replaces the one file that changes by itself in the authority's life.
pub(super) fn replace_server_certificate(dir: &Path, pem: &str) -> Result<(), IdentityError> {
    private_file::write_kept(&dir.join(SERVER_PEM), pem, IfExists::Replace)
}

// === changes of several files ===

/// What becomes of the set of files.
pub(super) struct PkiChange {
    pub(super) write: Vec<(&'static str, Secret)>,
    pub(super) remove: Vec<&'static str>,
}

/// The list of files to remove, in the directory of a change.
const REMOVE: &str = "remove";

/// Makes a change, whole or not at all. It is written to a directory beside, which is renamed: from then on the change has happened,
/// and whoever opens the authority next brings it to its end.
pub(super) fn commit(dir: &Path, change: &PkiChange) -> Result<(), IdentityError> {
    let staging = dir.with_extension("change.new");
    clear(&staging)?;
    private_file::create_directory_kept(&staging)?;
    for (name, content) in &change.write {
        private_file::write_kept(&staging.join(name), content.expose(), IfExists::Refuse)?;
    }
    private_file::write_kept(&staging.join(REMOVE), &change.remove.join("\n"), IfExists::Refuse)?;
    let decided = dir.with_extension("change");
    fs::rename(&staging, &decided).map_err(IdentityError::file("create", &decided))?;
    sync_parent(dir)?;
    roll_forward(dir)
}

/// Brings a change that was decided to its end. Each step may have happened before.
pub(super) fn roll_forward(dir: &Path) -> Result<(), IdentityError> {
    let decided = dir.with_extension("change");
    if !decided.is_dir() {
        return Ok(());
    }
    for name in ALL {
        let (from, to) = (decided.join(name), dir.join(name));
        if from.exists() {
            fs::rename(&from, &to).map_err(IdentityError::file("write", &to))?;
        }
    }
    let list = private_file::read(&decided.join(REMOVE), 0)?;
    for name in ALL.into_iter().filter(|name| list.lines().any(|line| line == *name)) {
        remove_if_there(&dir.join(name))?;
    }
    private_file::sync_directory(dir)?;
    clear(&decided)?;
    sync_parent(dir)
}

fn clear(directory: &Path) -> Result<(), IdentityError> {
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(IdentityError::file("remove", directory)(error)),
        _ => Ok(()),
    }
}

fn remove_if_there(file: &Path) -> Result<(), IdentityError> {
    match fs::remove_file(file) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(IdentityError::file("remove", file)(error)),
        _ => Ok(()),
    }
}

fn sync_parent(dir: &Path) -> Result<(), IdentityError> {
    dir.parent().map_or(Ok(()), private_file::sync_directory)
}

// === Stamp ===

/// How the files look from outside: another look means that somebody changed them.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Stamp(Vec<Option<(u64, u64, i64, i64)>>);

impl Stamp {
    pub(super) fn read(data_dir: &Path, agent_ca: Option<&Path>) -> Self {
        let dir = dir(data_dir);
        let files = ALL.iter().map(|name| dir.join(name));
        let files = files.chain([dir.with_extension("change")]).chain(agent_ca.map(Path::to_owned));
        let look = |path: PathBuf| {
            let metadata = fs::metadata(path).ok()?;
            Some((metadata.ino(), metadata.len(), metadata.mtime(), metadata.mtime_nsec()))
        };
        Self(files.map(look).collect())
    }
}
