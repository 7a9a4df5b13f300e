//! Port: where the records of API keys are. What is asked for at each request comes from memory; keeping the records beyond a
//! restart is the implementer's.

use super::ApiKeyRecord;
use parking_lot::RwLock;
use std::{
    collections::BTreeMap,
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

/// Holds the records of API keys.
///
/// Obligations: 1. [`find`](Self::find) and [`list`](Self::list) answer from memory and wait for nobody; 2. once
/// [`put`](Self::put) has said `Ok`, `find` gives that record, and it survives a crash if the store is one that lasts; 3. a change
/// made elsewhere is seen within a second.
pub trait ApiKeyStore: Send + Sync + 'static {
    /// The record with the id.
    fn find(&self, id: &str) -> Option<Arc<ApiKeyRecord>>;

    /// All records, by id.
    fn list(&self) -> Vec<Arc<ApiKeyRecord>>;

    /// Adds a record, or puts it in the place of the one with the same id; `Err` says why not.
    fn put(&self, record: ApiKeyRecord) -> Result<(), String>;

    /// Another number after each change. It only grows.
    fn generation(&self) -> u64;

    /// Whether what is given here has every change up to a second ago. When it has not, nobody comes in by a key.
    fn is_current(&self) -> bool {
        true
    }
}

impl fmt::Debug for dyn ApiKeyStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ApiKeyStore")
    }
}

/// A store that ends with the process.
#[derive(Debug, Default)]
pub struct MemoryApiKeys {
    records: RwLock<BTreeMap<String, Arc<ApiKeyRecord>>>,
    generation: AtomicU64,
}

impl ApiKeyStore for MemoryApiKeys {
    fn find(&self, id: &str) -> Option<Arc<ApiKeyRecord>> {
        self.records.read().get(id).cloned()
    }

    fn list(&self) -> Vec<Arc<ApiKeyRecord>> {
        self.records.read().values().cloned().collect()
    }

    fn put(&self, record: ApiKeyRecord) -> Result<(), String> {
        self.records.write().insert(record.id.clone(), Arc::new(record));
        self.generation.fetch_add(1, Ordering::Release);
        Ok(())
    }

    fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }
}
