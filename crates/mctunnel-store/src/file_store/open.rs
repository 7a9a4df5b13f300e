//! Opening the file: who may read it, who else has it, which format it has. A file that is made comes into being whole.

use super::{FileStore, META, failed};
use crate::{OpenStoreError, directory};
use mctunnel_core::StoreError;
use parking_lot::RwLock;
use redb::{Database, DatabaseError, ReadableTable as _};
use std::{
    collections::BTreeMap,
    fs::{self, File, OpenOptions},
    io,
    os::unix::fs::PermissionsExt,
    path::Path,
};

/// Memory for pages that were read. The state is small; it need not be more.
const CACHE_BYTES: usize = 16 << 20;

/// Under which the format is written down.
const SCHEMA_KEY: &str = "schema";

impl FileStore {
    /// Opens the store in a directory, and makes both if they are missing. As long as it lives nobody else can open it.
    pub fn open(directory: &Path) -> Result<Self, OpenStoreError> {
        directory::prepare(directory)?;
        let path = directory.join(Self::FILE);
        if !path.try_exists().map_err(OpenStoreError::file("read", &path))? {
            create(directory, &path)?;
        }
        let opened = OpenOptions::new().read(true).write(true).open(&path);
        let file = opened.map_err(OpenStoreError::file("open", &path))?;
        let metadata = file.metadata().map_err(OpenStoreError::file("read", &path))?;
        directory::check_mode(&path, &metadata, 0o600)?;
        let database = builder().create_file(file).map_err(|error| of_database(&path, error))?;
        check_schema(&path, &database)?;
        Ok(Self { database, generations: RwLock::new(BTreeMap::new()) })
    }

    /// On a disk of a test's own.
    #[cfg(test)]
    pub(super) fn on(disk: impl redb::StorageBackend) -> Result<Self, OpenStoreError> {
        let path = Path::new("test");
        let database = builder().create_with_backend(disk).map_err(|error| of_database(path, error))?;
        check_schema(path, &database)?;
        Ok(Self { database, generations: RwLock::new(BTreeMap::new()) })
    }
}

fn builder() -> redb::Builder {
    let mut builder = Database::builder();
    builder.set_cache_size(CACHE_BYTES);
    builder
}

/// Makes an empty store beside its place and then puts it there: a crash in between leaves no half of one. Of two processes that
/// do so at once, one puts its file there and both use that.
fn create(directory: &Path, path: &Path) -> Result<(), OpenStoreError> {
    let wrong = || OpenStoreError::file("create", path);
    let temporary = tempfile::Builder::new()
        .prefix(".state-")
        .permissions(fs::Permissions::from_mode(0o600))
        .tempfile_in(directory)
        .map_err(wrong())?;
    let file: File = temporary.reopen().map_err(wrong())?;
    let database = builder().create_file(file).map_err(|error| of_database(path, error))?;
    check_schema(path, &database)?;
    drop(database);
    temporary.as_file().sync_all().map_err(wrong())?;
    match temporary.persist_noclobber(path) {
        Ok(_) => directory::sync(directory),
        Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(wrong()(error.error)),
    }
}

/// Refuses a format that is newer than ours, brings an older one up to date, and writes ours into a new file.
fn check_schema(path: &Path, database: &Database) -> Result<(), OpenStoreError> {
    let damaged = |source| OpenStoreError::Damaged { path: path.to_owned(), source };
    let found = schema(database).map_err(damaged)?;
    match found {
        Some(FileStore::SCHEMA) => Ok(()),
        Some(found) if found > FileStore::SCHEMA => {
            Err(OpenStoreError::Newer { path: path.to_owned(), found, known: FileStore::SCHEMA })
        }
        // There is no older format yet; each will have its step here.
        Some(_) | None => set_schema(database, FileStore::SCHEMA).map_err(damaged),
    }
}

fn schema(database: &Database) -> Result<Option<u64>, StoreError> {
    let transaction = database.begin_write().map_err(failed)?;
    let found = {
        let table = transaction.open_table(META).map_err(failed)?;
        let value = table.get(SCHEMA_KEY).map_err(failed)?;
        value.map(|found| found.value())
    };
    transaction.abort().map_err(failed)?;
    Ok(found)
}

pub(super) fn set_schema(database: &Database, schema: u64) -> Result<(), StoreError> {
    let transaction = database.begin_write().map_err(failed)?;
    {
        let mut table = transaction.open_table(META).map_err(failed)?;
        table.insert(SCHEMA_KEY, schema).map_err(failed)?;
    }
    transaction.commit().map_err(failed)
}

fn of_database(path: &Path, error: DatabaseError) -> OpenStoreError {
    let path = path.to_owned();
    if matches!(error, DatabaseError::DatabaseAlreadyOpen) {
        return OpenStoreError::InUse { path };
    }
    if let DatabaseError::Storage(redb::StorageError::Io(source)) = error {
        if source.kind() == io::ErrorKind::InvalidData {
            return OpenStoreError::Damaged { path, source: StoreError::Failed(source.into()) };
        }
        return OpenStoreError::File { action: "open", path, source };
    }
    OpenStoreError::Damaged { path, source: failed(error) }
}
