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

    /// The copy, renewed if something changed. `None` if that fails: a key that the old one has may be one that was revoked.
    fn current(&self) -> Option<Arc<Copy>> {
        let copy = Arc::clone(&self.copy.read());
        if copy.generation == self.store.generation(API_KEYS) {
            return Some(copy);
        }
        match Copy::of(&*self.store) {
            Ok(renewed) => {
                let renewed = Arc::new(renewed);
                *self.copy.write() = Arc::clone(&renewed);
                Some(renewed)
            }
            Err(error) => {
                tracing::error!(%error, "API keys have changed and cannot be read: nobody comes in by one until they can.");
                None
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
        self.current()?.records.get(id).cloned()
    }

    fn list(&self) -> Vec<Arc<ApiKeyRecord>> {
        self.current().map(|copy| copy.records.values().cloned().collect()).unwrap_or_default()
    }

    fn put(&self, record: ApiKeyRecord) -> Result<(), String> {
        let put = self.store.put(API_KEYS, &record.id, record.to_json().as_bytes());
        put.map_err(|error| format!("{:#}", anyhow::Error::new(error)))
    }

    fn generation(&self) -> u64 {
        self.store.generation(API_KEYS)
    }

    fn is_current(&self) -> bool {
        self.current().is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mctunnel_authn::{Clock, NewApiKey, create_api_key, revoke_api_key};
    use mctunnel_core::store::{Change, MemoryStore};
    use std::sync::atomic::{AtomicBool, Ordering};

    /// A store on a disk that fails now and then.
    #[derive(Default)]
    struct Failing {
        store: MemoryStore,
        fails: AtomicBool,
    }

    impl Store for Failing {
        fn get(&self, namespace: Namespace, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
            self.store.get(namespace, key)
        }

        fn list(&self, namespace: Namespace, prefix: &str) -> Result<Vec<(String, Vec<u8>)>, StoreError> {
            if self.fails.load(Ordering::SeqCst) {
                return Err(StoreError::Failed("the disk is gone".into()));
            }
            self.store.list(namespace, prefix)
        }

        fn update(
            &self,
            namespace: Namespace,
            key: &str,
            decide: &mut dyn FnMut(Option<&[u8]>) -> Change,
        ) -> Result<(), StoreError> {
            self.store.update(namespace, key, decide)
        }

        fn generation(&self, namespace: Namespace) -> u64 {
            self.store.generation(namespace)
        }
    }

    #[test]
    fn t30_a_key_that_was_revoked_while_the_disk_fails_is_found_nowhere() {
        let store = Arc::new(Failing::default());
        let keys = StoredApiKeys::open(store.clone()).unwrap();
        let (clock, new) = (Clock::system(), NewApiKey { user: "ci".to_owned(), ..NewApiKey::default() });
        let id = create_api_key(&keys, new, &clock).unwrap().record.id;
        assert!(keys.find(&id).unwrap().revoked.is_none() && keys.is_current());
        store.fails.store(true, Ordering::SeqCst);
        assert!(keys.is_current(), "nothing has changed since it was read");
        revoke_api_key(&keys, &id, &clock).unwrap();
        assert!(keys.find(&id).is_none() && !keys.is_current());
        store.fails.store(false, Ordering::SeqCst);
        assert!(keys.find(&id).unwrap().revoked.is_some() && keys.is_current());
    }
}
