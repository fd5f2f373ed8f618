//! Finds out which code objects, and which kernels, of two files belong together.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;

/// Items of two files, those of the old one first, that are paired step by step: which are not paired yet.
#[derive(Clone, Debug)]
pub(super) struct Left {
    is_left: Vec<bool>,
    /// The number of items of the old file.
    old: usize,
}

/// The indices of an item of the old file and one of the new file.
pub(super) type IndexPair = (usize, usize);

impl Left {
    /// `count` items, of which the first `old` ones are of the old file. None is paired yet.
    pub(super) fn of(old: usize, count: usize) -> Self {
        Self { is_left: vec![true; count], old }
    }

    pub(super) fn is_new(&self, index: usize) -> bool {
        index >= self.old
    }

    pub(super) fn all(&self) -> impl Iterator<Item = usize> + Clone {
        self.is_left.iter().enumerate().filter(|(_, is_left)| **is_left).map(|(index, _)| index)
    }

    pub(super) fn of_old(&self) -> impl Iterator<Item = usize> {
        self.all().take_while(|index| !self.is_new(*index))
    }

    pub(super) fn of_new(&self) -> impl Iterator<Item = usize> {
        self.all().skip_while(|index| !self.is_new(*index))
    }

    /// Marks an item as paired.
    pub(super) fn take(&mut self, index: usize) {
        self.is_left.get_mut(index).into_iter().for_each(|is_left| *is_left = false);
    }

    /// Marks two items as paired.
    pub(super) fn pair(&mut self, (old, new): IndexPair) {
        self.take(old);
        self.take(new);
    }

    /// The items that can be paired because they have the same key: in the order of the files.
    pub(super) fn alike<K: Hash + Eq>(&self, key: impl Fn(usize) -> Option<K>) -> Vec<IndexPair> {
        let mut by_key: HashMap<K, VecDeque<usize>> = HashMap::new();
        for index in self.of_new() {
            if let Some(key) = key(index) {
                by_key.entry(key).or_default().push_back(index);
            }
        }
        let pair = |old: usize| Some((old, by_key.get_mut(&key(old)?)?.pop_front()?));
        self.of_old().filter_map(pair).collect()
    }

    /// Pairs the items with the same key.
    pub(super) fn pair_alike<K: Hash + Eq>(&mut self, key: impl Fn(usize) -> Option<K>) -> Vec<IndexPair> {
        let pairs = self.alike(key);
        pairs.iter().for_each(|pair| self.pair(*pair));
        pairs
    }

    /// Pairs each old item with the new one that has most labels in common with it, of those in the same group. Labels
    /// of many items tell nothing. The function gives the group and the labels of an item.
    pub(super) fn pair_nearest<G: Hash + Eq + Copy, L: Hash + Eq, I: IntoIterator<Item = L>>(
        &mut self,
        labels: impl Fn(usize) -> (G, I),
    ) -> Vec<IndexPair> {
        let mut with_label: HashMap<(G, L), Vec<usize>> = HashMap::new();
        for index in self.of_new() {
            let (group, of_item) = labels(index);
            for label in of_item {
                let known = with_label.entry((group, label)).or_default();
                if known.len() <= COMMON {
                    known.push(index);
                }
            }
        }
        let mut pairs = Vec::new();
        for old in self.of_old().collect::<Vec<_>>() {
            let mut counts: HashMap<usize, usize> = HashMap::new();
            let (group, of_item) = labels(old);
            for label in of_item {
                let known = with_label.get(&(group, label)).filter(|known| known.len() <= COMMON);
                for new in known.into_iter().flatten().filter(|new| self.is_left.get(**new) == Some(&true)) {
                    let count = counts.entry(*new).or_default();
                    *count = count.saturating_add(1);
                }
            }
            let nearest = counts.into_iter().max_by_key(|(new, count)| (*count, std::cmp::Reverse(*new)));
            if let Some((new, _)) = nearest {
                self.pair((old, new));
                pairs.push((old, new));
            }
        }
        pairs
    }
}

/// The number of items from which on a label that they share is no longer compared: the time stays in proportion.
const COMMON: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_keys_are_paired_in_order_and_each_item_once() {
        let items = ["a", "b", "a", "c", "a", "d", "b", "a", "a"];
        let mut left = Left::of(4, items.len());
        let pairs = left.pair_alike(|index| Some(items[index]));
        assert_eq!(pairs, [(0, 4), (1, 6), (2, 7)]);
        assert_eq!([left.of_old().collect::<Vec<_>>(), left.of_new().collect()], [vec![3], vec![5, 8]]);
    }

    #[test]
    fn what_shares_most_labels_is_paired_whatever_the_order() {
        let items = [["x", "y", "z"], ["p", "q", "z"], ["p", "q", "r"], ["x", "y", "s"]];
        let two = || Left::of(2, items.len());
        assert_eq!(two().pair_nearest(|index| (0, items[index])), [(0, 3), (1, 2)]);
        // In other groups.
        assert_eq!(two().pair_nearest(|index| (index < 2, items[index])), []);
    }
}
