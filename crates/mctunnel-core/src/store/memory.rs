//! A store that forgets when it is dropped: for tests and for programs that bring no directory.

use super::{Change, Namespace, Store, StoreError};
use parking_lot::RwLock;
use std::collections::BTreeMap;

/// Keeps everything in memory. Nothing survives it, whatever was acknowledged.
#[derive(Debug, Default)]
pub struct MemoryStore {
    spaces: RwLock<BTreeMap<Namespace, Space>>,
}

#[derive(Debug, Default)]
struct Space {
    values: BTreeMap<String, Vec<u8>>,
    generation: u64,
}

impl MemoryStore {
    /// An empty one.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

impl Store for MemoryStore {
    fn get(&self, namespace: Namespace, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
        StoreError::check_key(key)?;
        Ok(self.spaces.read().get(&namespace).and_then(|space| space.values.get(key).cloned()))
    }

    fn list(&self, namespace: Namespace, prefix: &str) -> Result<Vec<(String, Vec<u8>)>, StoreError> {
        let spaces = self.spaces.read();
        let Some(space) = spaces.get(&namespace) else { return Ok(Vec::new()) };
        let from = space.values.range(prefix.to_owned()..);
        let with_prefix = from.take_while(|(key, _)| key.starts_with(prefix));
        Ok(with_prefix.map(|(key, value)| (key.clone(), value.clone())).collect())
    }

    fn update(
        &self,
        namespace: Namespace,
        key: &str,
        decide: &mut dyn FnMut(Option<&[u8]>) -> Change,
    ) -> Result<(), StoreError> {
        StoreError::check_key(key)?;
        let mut spaces = self.spaces.write();
        let space = spaces.entry(namespace).or_default();
        match decide(space.values.get(key).map(Vec::as_slice)) {
            Change::Keep => return Ok(()),
            Change::Put(value) => {
                StoreError::check_value(&value)?;
                space.values.insert(key.to_owned(), value);
            }
            Change::Delete => {
                space.values.remove(key);
            }
        }
        space.generation += 1;
        Ok(())
    }

    fn generation(&self, namespace: Namespace) -> u64 {
        self.spaces.read().get(&namespace).map_or(0, |space| space.generation)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::contract;
    use std::sync::Arc;

    #[test]
    fn it_keeps_the_contract() {
        contract::check(&|| Arc::new(MemoryStore::new()));
    }
}
