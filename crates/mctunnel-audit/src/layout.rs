//! The files of a record: the one that is written, the full ones, the checkpoint, the lock.
//!
//! ```text
//! audit.log                        is written
//! audit-00000000000000000001.log   full, called after its first record
//! audit.head                       the newest record that is durable
//! audit.lock                       held by whoever writes, by several together if they share
//! audit.turn                       held by the one of them that writes now
//! ```

use crate::{AuditError, chain::Head};
use std::{
    ffi::OsString,
    fs::{self, DirBuilder, File, OpenOptions, Permissions},
    io::{self, Write as _},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
};

/// Digits of the number in a full file's name: all of a `u64`, so that names sort as numbers do.
const DIGITS: usize = 20;

/// The files of one record.
#[derive(Debug, Clone)]
pub struct Layout {
    active: PathBuf,
    directory: PathBuf,
    stem: String,
    extension: String,
}

impl Layout {
    /// Of the record that is written to this file.
    #[must_use]
    pub fn of(active: &Path) -> Self {
        let text = |part: Option<&std::ffi::OsStr>| part.map(|part| part.to_string_lossy().into_owned());
        let directory = match active.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        Self {
            active: active.to_owned(),
            directory: directory.to_owned(),
            stem: text(active.file_stem()).unwrap_or_default(),
            extension: text(active.extension()).map(|extension| format!(".{extension}")).unwrap_or_default(),
        }
    }

    /// The file that is written.
    #[must_use]
    pub fn active(&self) -> &Path {
        &self.active
    }

    /// The checkpoint.
    #[must_use]
    pub fn head(&self) -> PathBuf {
        self.directory.join(format!("{}.head", self.stem))
    }

    /// The full files, oldest first.
    pub fn full(&self) -> Result<Vec<PathBuf>, AuditError> {
        let wrong = || AuditError::file("read", &self.directory);
        let entries = match fs::read_dir(&self.directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(wrong())?,
        };
        let mut names: Vec<OsString> = Vec::new();
        for entry in entries {
            let name = entry.map_err(wrong())?.file_name();
            if self.is_full(&name.to_string_lossy()) {
                names.push(name);
            }
        }
        names.sort();
        Ok(names.into_iter().map(|name| self.directory.join(name)).collect())
    }

    /// All files with records that are there, oldest first.
    pub fn files(&self) -> Result<Vec<PathBuf>, AuditError> {
        let mut files = self.full()?;
        if self.active.exists() {
            files.push(self.active.clone());
        }
        Ok(files)
    }

    pub(crate) fn full_name(&self, first: u64) -> PathBuf {
        self.directory.join(format!("{}-{first:0width$}{}", self.stem, self.extension, width = DIGITS))
    }

    fn is_full(&self, name: &str) -> bool {
        let number = name.strip_prefix(&self.stem).and_then(|rest| rest.strip_prefix('-'));
        let number = number.and_then(|rest| rest.strip_suffix(&self.extension));
        number.is_some_and(|number| number.len() == DIGITS && number.bytes().all(|byte| byte.is_ascii_digit()))
    }

    /// Makes the directory, for its owner alone.
    pub(crate) fn make_directory(&self) -> Result<(), AuditError> {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&self.directory);
        made.map_err(AuditError::file("create", &self.directory))
    }

    /// Holds off other writers as long as the file lives; with `shared` only those that do not share.
    pub(crate) fn lock(&self, shared: bool) -> Result<File, AuditError> {
        let path = self.directory.join(format!("{}.lock", self.stem));
        let file = open_lock(&path)?;
        match if shared { file.try_lock_shared() } else { file.try_lock() } {
            Ok(()) => Ok(file),
            Err(fs::TryLockError::WouldBlock) => Err(AuditError::InUse { path: self.active.clone() }),
            Err(fs::TryLockError::Error(source)) => Err(AuditError::file("lock", &path)(source)),
        }
    }

    /// The file that is locked by whoever of several writes.
    pub(crate) fn open_turn(&self) -> Result<File, AuditError> {
        open_lock(&self.directory.join(format!("{}.turn", self.stem)))
    }

    /// Opens the file that is written, for its owner alone.
    pub(crate) fn open_active(&self) -> io::Result<File> {
        OpenOptions::new().append(true).create(true).mode(0o600).open(&self.active)
    }

    /// Makes earlier changes to the names durable.
    pub(crate) fn sync_directory(&self) -> io::Result<()> {
        File::open(&self.directory)?.sync_all()
    }

    /// Reads the checkpoint, if there is one.
    pub fn read_head(&self) -> Result<Option<Head>, AuditError> {
        let path = self.head();
        match fs::read_to_string(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(AuditError::file("read", &path)(error)),
            Ok(text) => Head::parse(&text).map(Some).ok_or(AuditError::BadHead { path }),
        }
    }

    /// Writes the checkpoint: the old one or the new one is there, never half of one.
    pub(crate) fn write_head(&self, head: &Head) -> io::Result<()> {
        let new = self.directory.join(format!("{}.head.new", self.stem));
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
        file.set_permissions(Permissions::from_mode(0o600))?;
        writeln!(file, "{head}")?;
        file.sync_data()?;
        fs::rename(&new, self.head())
    }
}

fn open_lock(path: &Path) -> Result<File, AuditError> {
    let opened = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path);
    opened.map_err(AuditError::file("create", path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_files_are_found_in_order_and_nothing_else_is() {
        let directory = tempfile::tempdir().unwrap();
        let layout = Layout::of(&directory.path().join("audit.log"));
        for name in [
            "audit.log",
            "audit.head",
            "audit.lock",
            "audit-1.log",
            "audit-x0000000000000000001.log",
            "other-00000000000000000001.log",
        ] {
            fs::write(directory.path().join(name), "").unwrap();
        }
        for first in [10, 9, 100] {
            fs::write(layout.full_name(first), "").unwrap();
        }
        let expected = [9, 10, 100].map(|first| layout.full_name(first));
        assert_eq!(layout.full().unwrap(), expected);
        assert_eq!(layout.files().unwrap().last(), Some(&directory.path().join("audit.log")));
    }

    #[test]
    fn a_name_without_extension_or_directory_works_too() {
        let layout = Layout::of(Path::new("record"));
        assert_eq!(layout.full_name(7), Path::new("./record-00000000000000000007"));
        assert_eq!(layout.head(), Path::new("./record.head"));
    }
}
