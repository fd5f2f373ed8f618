//! Pairs the code objects, and the kernels, of two files that belong together.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;

/// The items of two files that are not paired yet. An item is a code object, a bundle or a kernel, and has an index:
/// the items of the old file come first. Each step of a comparison pairs some of them.
#[derive(Clone, Debug)]
pub(super) struct Unpaired {
    /// Whether the item at each index is unpaired.
    is_unpaired: Vec<bool>,
    /// The number of items of the old file.
    old_count: usize,
}

/// The index of an item of the old file, and that of its counterpart in the new file.
pub(super) type IndexPair = (usize, usize);

impl Unpaired {
    /// Starts with `count` unpaired items. The first `old_count` items are of the old file.
    pub(super) fn new(old_count: usize, count: usize) -> Self {
        Self { is_unpaired: vec![true; count], old_count }
    }

    pub(super) fn is_new(&self, index: usize) -> bool {
        index >= self.old_count
    }

    /// Splits ascending indices into indices of the old file and of the new file.
    pub(super) fn split<'i>(&self, indices: &'i [usize]) -> (&'i [usize], &'i [usize]) {
        indices.split_at(indices.partition_point(|index| !self.is_new(*index)))
    }

    /// Returns the indices of all unpaired items.
    pub(super) fn indices(&self) -> impl Iterator<Item = usize> {
        self.is_unpaired.iter().enumerate().filter(|(_, is_unpaired)| **is_unpaired).map(|(index, _)| index)
    }

    pub(super) fn old_indices(&self) -> impl Iterator<Item = usize> {
        self.indices().take_while(|index| !self.is_new(*index))
    }

    pub(super) fn new_indices(&self) -> impl Iterator<Item = usize> {
        self.indices().skip_while(|index| !self.is_new(*index))
    }

    pub(super) fn mark_paired(&mut self, index: usize) {
        if let Some(is_unpaired) = self.is_unpaired.get_mut(index) {
            *is_unpaired = false;
        }
    }

    pub(super) fn mark_pair(&mut self, (old, new): IndexPair) {
        self.mark_paired(old);
        self.mark_paired(new);
    }

    /// Returns pairs of unpaired items with the same key, in the order of the files, but does not mark them as paired.
    /// An item whose `key` is `None` is in no pair.
    pub(super) fn find_equal_keys<K: Hash + Eq>(&self, key: impl Fn(usize) -> Option<K>) -> Vec<IndexPair> {
        let mut by_key: HashMap<K, VecDeque<usize>> = HashMap::new();
        for index in self.new_indices() {
            if let Some(key) = key(index) {
                by_key.entry(key).or_default().push_back(index);
            }
        }
        let mut pairs = Vec::new();
        for old in self.old_indices() {
            let Some(key) = key(old) else { continue };
            if let Some(new) = by_key.get_mut(&key).and_then(VecDeque::pop_front) {
                pairs.push((old, new));
            }
        }
        pairs
    }

    /// Pairs unpaired items with the same key, in the order of the files, and returns the pairs.
    pub(super) fn pair_equal_keys<K: Hash + Eq>(&mut self, key: impl Fn(usize) -> Option<K>) -> Vec<IndexPair> {
        let pairs = self.find_equal_keys(key);
        for pair in &pairs {
            self.mark_pair(*pair);
        }
        pairs
    }

    /// Pairs each old item with the unpaired new one in the same group that has most labels in common with it, and
    /// returns the pairs. An old item without a common label stays unpaired. Labels of more than [`COMPARED_MAX`] new
    /// items are ignored. `labels` returns the group and the labels of an item: for a code object, the names of its
    /// kernels.
    pub(super) fn pair_nearest<G: Hash + Eq + Copy, L: Hash + Eq, I: IntoIterator<Item = L>>(
        &mut self,
        labels: impl Fn(usize) -> (G, I),
    ) -> Vec<IndexPair> {
        let mut with_label: HashMap<(G, L), Vec<usize>> = HashMap::new();
        for index in self.new_indices() {
            let (group, item_labels) = labels(index);
            for label in item_labels {
                let new_items = with_label.entry((group, label)).or_default();
                // One more item than the maximum shows that the label is to be ignored.
                if new_items.len() <= COMPARED_MAX {
                    new_items.push(index);
                }
            }
        }
        let mut pairs = Vec::new();
        for old in self.old_indices().collect::<Vec<_>>() {
            // The number of common labels, by the index of the new item.
            let mut counts: HashMap<usize, usize> = HashMap::new();
            let (group, item_labels) = labels(old);
            for label in item_labels {
                let Some(new_items) = with_label.get(&(group, label)) else { continue };
                if new_items.len() > COMPARED_MAX {
                    continue;
                }
                for new in new_items {
                    if self.is_unpaired.get(*new) == Some(&true) {
                        let count = counts.entry(*new).or_default();
                        *count = count.saturating_add(1);
                    }
                }
            }
            // Of several nearest items, the first in the file is taken.
            let nearest = counts.into_iter().max_by_key(|(new, count)| (*count, std::cmp::Reverse(*new)));
            if let Some((new, _)) = nearest {
                self.mark_pair((old, new));
                pairs.push((old, new));
            }
        }
        pairs
    }
}

/// The maximum number of new items that a label is compared for, so that the time stays in proportion to the number of
/// items.
const COMPARED_MAX: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_keys_are_paired_in_order_and_each_item_once() {
        let items = ["a", "b", "a", "c", "a", "d", "b", "a", "a"];
        let mut unpaired = Unpaired::new(4, items.len());
        let pairs = unpaired.pair_equal_keys(|index| Some(items[index]));
        assert_eq!(pairs, [(0, 4), (1, 6), (2, 7)]);
        assert_eq!(
            [unpaired.old_indices().collect::<Vec<_>>(), unpaired.new_indices().collect()],
            [vec![3], vec![5, 8]]
        );
    }

    #[test]
    fn items_that_share_most_labels_are_paired_in_any_order() {
        let items = [["x", "y", "z"], ["p", "q", "z"], ["p", "q", "r"], ["x", "y", "s"]];
        let unpaired = Unpaired::new(2, items.len());
        assert_eq!(unpaired.clone().pair_nearest(|index| (0, items[index])), [(0, 3), (1, 2)]);
        // In other groups.
        assert_eq!(unpaired.clone().pair_nearest(|index| (index < 2, items[index])), []);
    }
}
