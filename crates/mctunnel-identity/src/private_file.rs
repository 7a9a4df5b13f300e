//! Files that only their owner may read, written so that a crash leaves the old content or the new, never half of it. What is made in a
//! data directory belongs to whom the directory does: a command that root gives takes nothing from a hub with a user of its own.

use crate::IdentityError;
use std::{
    fs::{self, DirBuilder, File},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt, fchown},
    path::Path,
};
use tempfile::NamedTempFile;

/// What to do when the file is there already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IfExists {
    Replace,
    Refuse,
}

/// Writes the file with mode 0600: a temporary file beside it, fsync, rename, fsync of the directory. It is of whoever runs us.
///
/// `Refuse` is decided by the rename itself, so of two processes that write at once exactly one succeeds.
pub(crate) fn write(path: &Path, content: &str, if_exists: IfExists) -> Result<(), IdentityError> {
    let temporary = write_beside(path, content).map_err(IdentityError::file("write", path))?;
    put_in_place(temporary, path, if_exists)
}

/// As [`write`], for a file in a data directory.
pub(crate) fn write_kept(path: &Path, content: &str, if_exists: IfExists) -> Result<(), IdentityError> {
    let unwritable = || IdentityError::file("write", path);
    let temporary = write_beside(path, content).map_err(unwritable())?;
    let ours = temporary.as_file().metadata().map_err(unwritable())?.uid();
    if fs::symlink_metadata(path).is_ok_and(|replaced| is_of_another(ours, replaced.uid(), replaced.mode())) {
        return Err(IdentityError::FileOfAnother { path: path.to_owned() });
    }
    give_to_owner_of(parent(path), temporary.as_file()).map_err(unwritable())?;
    put_in_place(temporary, path, if_exists)
}

fn put_in_place(temporary: NamedTempFile, path: &Path, if_exists: IfExists) -> Result<(), IdentityError> {
    let persisted = match if_exists {
        IfExists::Replace => temporary.persist(path).map_err(|e| e.error),
        IfExists::Refuse => temporary.persist_noclobber(path).map_err(|e| e.error),
    };
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

/// As [`create_directory`], for a directory in a data directory.
pub(crate) fn create_directory_kept(path: &Path) -> Result<(), IdentityError> {
    if path.is_dir() {
        return Ok(());
    }
    create_directory(parent(path))?;
    let unmade = || IdentityError::file("create", path);
    match DirBuilder::new().mode(0o700).create(path) {
        Ok(()) => give_directory(path).map_err(unmade()),
        // Another process was faster.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
        Err(error) => Err(unmade()(error)),
    }
}

fn give_directory(path: &Path) -> io::Result<()> {
    let made = File::open(path)?;
    let (opened, there) = (made.metadata()?, fs::symlink_metadata(path)?);
    // Who owns the directory above could have put a link in its place, to be given what it leads to.
    if !there.is_dir() || (opened.dev(), opened.ino()) != (there.dev(), there.ino()) {
        return Err(io::Error::other("something else was put in its place"));
    }
    give_to_owner_of(parent(path), &made)
}

/// Gives a file that we have just made to whom the directory belongs. Only root can, and only root has to: nobody else can write into a
/// directory that another keeps to itself. Root that may not, as in a container without the right, keeps its own, as it will be root again.
pub(crate) fn give_to_owner_of(directory: &Path, made: &File) -> io::Result<()> {
    let (made_by, owner) = (made.metadata()?.uid(), fs::metadata(directory)?);
    if made_by == ROOT && owner.uid() != ROOT {
        return match fchown(made, Some(owner.uid()), Some(owner.gid())) {
            Err(error) if matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::InvalidInput) => {
                Ok(())
            }
            given => given,
        };
    }
    Ok(())
}

/// Whether a file is for another user alone, who could not read what we put in its place.
const fn is_of_another(ours: u32, owner: u32, mode: u32) -> bool {
    ours != ROOT && owner != ours && mode & GROUP_AND_OTHERS == 0
}

const ROOT: u32 = 0;

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

fn write_beside(path: &Path, content: &str) -> io::Result<NamedTempFile> {
    let mut temporary = tempfile::Builder::new()
        .prefix(".mctunnel-")
        .permissions(fs::Permissions::from_mode(0o600))
        .tempfile_in(parent(path))?;
    temporary.write_all(content.as_bytes())?;
    temporary.as_file().sync_all()?;
    Ok(temporary)
}

pub(crate) fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_for_another_alone_is_not_replaced_by_one_for_us_alone() {
        for (ours, owner, mode, refused) in [
            (1000, 65534, 0o100_600, true),
            (1000, 0, 0o100_600, true),
            (1000, 1000, 0o100_600, false),
            // The group of a volume, as Kubernetes sets it: the process was given another user, and reads by its group.
            (65532, 1000, 0o100_660, false),
            // Root gives it back.
            (0, 65534, 0o100_600, false),
        ] {
            assert_eq!(is_of_another(ours, owner, mode), refused, "{ours} {owner} {mode:o}");
        }
    }
}
