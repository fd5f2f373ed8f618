//! Values by keys that keep the order of the keys.

use std::collections::HashMap;
use std::hash::Hash;

/// A value for each key, in the order in which the keys were first asked for.
#[derive(Debug)]
pub(super) struct Groups<K, V> {
    by_key: HashMap<K, (usize, V)>,
}

impl<K, V> Default for Groups<K, V> {
    fn default() -> Self {
        Self { by_key: HashMap::new() }
    }
}

impl<K: Eq + Hash, V: Default> Groups<K, V> {
    /// Returns the value of a key, which is a new one at first.
    pub(super) fn at(&mut self, key: K) -> &mut V {
        let next = self.by_key.len();
        let (_, value) = self.by_key.entry(key).or_insert_with(|| (next, V::default()));
        value
    }

    pub(super) fn into_vec(self) -> Vec<(K, V)> {
        let mut all: Vec<_> = self.by_key.into_iter().collect();
        all.sort_unstable_by_key(|(_, (index, _))| *index);
        all.into_iter().map(|(key, (_, value))| (key, value)).collect()
    }
}
