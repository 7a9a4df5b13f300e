//! A map that forgets what was not asked for lately, so that no client can make it grow.

use std::collections::BTreeMap;

/// Holds at most `room` entries, in two halves: when the young one is full, it becomes the old one, and what was in the old one is
/// forgotten. What is asked for becomes young again.
#[derive(Debug)]
pub(crate) struct Recent<K, V> {
    young: BTreeMap<K, V>,
    old: BTreeMap<K, V>,
    half: usize,
}

impl<K: Ord, V> Recent<K, V> {
    pub(crate) fn with_room(room: usize) -> Self {
        Self { young: BTreeMap::new(), old: BTreeMap::new(), half: (room / 2).max(1) }
    }

    pub(crate) fn get(&mut self, key: &K) -> Option<&mut V> {
        if let Some((key, value)) = self.old.remove_entry(key) {
            self.insert(key, value);
        }
        self.young.get_mut(key)
    }

    pub(crate) fn insert(&mut self, key: K, value: V) {
        if self.young.len() >= self.half && !self.young.contains_key(&key) {
            self.old = std::mem::take(&mut self.young);
        }
        self.old.remove(&key);
        self.young.insert(key, value);
    }

    pub(crate) fn remove(&mut self, key: &K) {
        self.young.remove(key);
        self.old.remove(key);
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.young.len() + self.old.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_keeps_what_is_asked_for_and_never_more_than_its_room() {
        let mut recent = Recent::with_room(100);
        recent.insert(0, "kept");
        for key in 1..10_000 {
            recent.insert(key, "new");
            assert!(recent.len() <= 100, "{}", recent.len());
            assert_eq!(recent.get(&0), Some(&mut "kept"), "after {key}");
        }
        assert_eq!(recent.get(&1), None, "what nobody asked for is forgotten");
        assert_eq!(recent.get(&9_999), Some(&mut "new"));
    }

    #[test]
    fn an_entry_has_one_value() {
        let mut recent = Recent::with_room(4);
        for key in [1, 2, 3] {
            recent.insert(key, "old");
        }
        recent.insert(1, "new");
        assert_eq!(recent.get(&1), Some(&mut "new"));
        recent.remove(&1);
        assert_eq!(recent.get(&1), None);
    }
}
