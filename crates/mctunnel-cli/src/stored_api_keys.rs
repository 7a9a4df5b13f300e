//! API keys in the hub's store, with a copy in memory for every request to look at.

use mctunnel_authn::{ApiKeyRecord, ApiKeyStore};
use mctunnel_core::{Store, StoreError, store::Namespace};
use parking_lot::RwLock;
use std::{collections::BTreeMap, sync::Arc};

const API_KEYS: Namespace = Namespace::new("api-keys");

/// The API keys of a store. Several may be open on one store: each sees at once what another changed.
#[derive(Debug)]
pub(crate) struct StoredApiKeys {
    store: Arc<dyn Store>,
    copy: RwLock<Arc<Copy>>,
}

/// All keys, as they were at a generation of the store.
#[derive(Debug)]
struct Copy {
    generation: u64,
    records: BTreeMap<String, Arc<ApiKeyRecord>>,
}

impl StoredApiKeys {
    pub(crate) fn open(store: Arc<dyn Store>) -> Result<Self, StoreError> {
        let copy = RwLock::new(Arc::new(Copy::of(&*store)?));
        Ok(Self { store, copy })
    }

    /// The copy, renewed if something changed. When that fails the old one stays, and is renewed the next time.
    fn current(&self) -> Arc<Copy> {
        let copy = Arc::clone(&self.copy.read());
        if copy.generation == self.store.generation(API_KEYS) {
            return copy;
        }
        match Copy::of(&*self.store) {
            Ok(renewed) => {
                let renewed = Arc::new(renewed);
                *self.copy.write() = Arc::clone(&renewed);
                renewed
            }
            Err(error) => {
                tracing::error!(%error, "API keys cannot be read; changes to them do not count yet.");
                copy
            }
        }
    }
}

impl Copy {
    fn of(store: &dyn Store) -> Result<Self, StoreError> {
        // The number first: what changes in between is read again the next time.
        let generation = store.generation(API_KEYS);
        let mut records = BTreeMap::new();
        for (id, json) in store.list(API_KEYS, "")? {
            let text = String::from_utf8_lossy(&json);
            match ApiKeyRecord::from_json(&text) {
                Ok(record) if record.id == id => {
                    records.insert(id, Arc::new(record));
                }
                Ok(_) => tracing::error!(id, "The record of an API key has another id; the key does not count."),
                Err(error) => {
                    tracing::error!(id, %error, "The record of an API key is damaged; the key does not count.")
                }
            }
        }
        Ok(Self { generation, records })
    }
}

impl ApiKeyStore for StoredApiKeys {
    fn find(&self, id: &str) -> Option<Arc<ApiKeyRecord>> {
        self.current().records.get(id).cloned()
    }

    fn list(&self) -> Vec<Arc<ApiKeyRecord>> {
        self.current().records.values().cloned().collect()
    }

    fn put(&self, record: ApiKeyRecord) -> Result<(), String> {
        let put = self.store.put(API_KEYS, &record.id, record.to_json().as_bytes());
        put.map_err(|error| format!("{:#}", anyhow::Error::new(error)))
    }

    fn generation(&self) -> u64 {
        self.store.generation(API_KEYS)
    }
}
