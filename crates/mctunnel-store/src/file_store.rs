//! The store itself: a thin layer on `redb`, which keeps a copy-on-write tree in one file and syncs each change.

mod open;
#[cfg(test)]
mod tests;

use mctunnel_core::store::{Change, Namespace, Store, StoreError};
use parking_lot::RwLock;
use redb::{Database, ReadableDatabase as _, ReadableTable as _, TableDefinition, TableError};
use std::{
    collections::BTreeMap,
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

/// The hub's state in the file `state.redb` of its data directory.
///
/// Reading takes one state of the file and waits for nobody. A change waits for the one before it, and for the disk.
pub struct FileStore {
    database: Database,
    generations: RwLock<BTreeMap<Namespace, Arc<AtomicU64>>>,
}

impl FileStore {
    /// Its file in the data directory.
    pub const FILE: &'static str = "state.redb";
    /// The newest format of what is in it.
    pub const SCHEMA: u64 = 1;

    fn raise_generation(&self, namespace: Namespace) {
        if let Some(generation) = self.generations.read().get(&namespace) {
            generation.fetch_add(1, Ordering::Release);
            return;
        }
        let mut generations = self.generations.write();
        generations.entry(namespace).or_default().fetch_add(1, Ordering::Release);
    }

    /// The value of a key, taken out of the database by `read`, which gets the namespace's table if there is one.
    fn read<T: Default>(
        &self,
        namespace: Namespace,
        read: impl FnOnce(redb::ReadOnlyTable<&str, &[u8]>) -> Result<T, redb::StorageError>,
    ) -> Result<T, StoreError> {
        let transaction = self.database.begin_read().map_err(failed)?;
        let table = match transaction.open_table(table(namespace)) {
            Err(TableError::TableDoesNotExist(_)) => return Ok(T::default()),
            opened => opened.map_err(failed)?,
        };
        read(table).map_err(failed)
    }
}

impl Store for FileStore {
    fn get(&self, namespace: Namespace, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
        StoreError::check_key(key)?;
        self.read(namespace, |table| Ok(table.get(key)?.map(|found| found.value().to_vec())))
    }

    fn list(&self, namespace: Namespace, prefix: &str) -> Result<Vec<(String, Vec<u8>)>, StoreError> {
        self.read(namespace, |table| {
            let mut found = Vec::new();
            for entry in table.range(prefix..)? {
                let (key, value) = entry?;
                if !key.value().starts_with(prefix) {
                    break;
                }
                found.push((key.value().to_owned(), value.value().to_vec()));
            }
            Ok(found)
        })
    }

    fn update(
        &self,
        namespace: Namespace,
        key: &str,
        decide: &mut dyn FnMut(Option<&[u8]>) -> Change,
    ) -> Result<(), StoreError> {
        StoreError::check_key(key)?;
        // Durable when committed: it is redb's default, and nothing here weakens it.
        let transaction = self.database.begin_write().map_err(failed)?;
        let changed = {
            let mut table = transaction.open_table(table(namespace)).map_err(failed)?;
            let before = table.get(key).map_err(failed)?.map(|found| found.value().to_vec());
            match decide(before.as_deref()) {
                Change::Keep => false,
                Change::Put(value) => {
                    StoreError::check_value(&value)?;
                    table.insert(key, value.as_slice()).map_err(failed)?;
                    true
                }
                Change::Delete => table.remove(key).map_err(failed)?.is_some(),
            }
        };
        if !changed {
            return transaction.abort().map_err(failed);
        }
        let committed = transaction.commit().map_err(failed);
        // Raised after a failure as well: nobody knows whether the change is there.
        self.raise_generation(namespace);
        committed
    }

    fn generation(&self, namespace: Namespace) -> u64 {
        self.generations.read().get(&namespace).map_or(0, |generation| generation.load(Ordering::Acquire))
    }
}

impl fmt::Debug for FileStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileStore").finish_non_exhaustive()
    }
}

/// Where the format of the file is written down. No namespace can be called so.
const META: TableDefinition<'static, &str, u64> = TableDefinition::new("mctunnel:meta");

/// The table of a namespace.
fn table(namespace: Namespace) -> TableDefinition<'static, &'static str, &'static [u8]> {
    TableDefinition::new(namespace.as_str())
}

fn failed(error: impl Into<redb::Error>) -> StoreError {
    StoreError::Failed(Box::new(error.into()))
}
