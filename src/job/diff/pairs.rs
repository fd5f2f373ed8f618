//! Finds out which code objects, and which kernels, of two files belong together.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;

/// Items of two files that are paired step by step: those that are not paired yet.
#[derive(Clone, Debug)]
pub(super) struct Left {
    old: Vec<bool>,
    new: Vec<bool>,
}

/// The indices of an item of the old file and one of the new file.
pub(super) type IndexPair = (usize, usize);

impl Left {
    /// None of so many items is paired yet.
    pub(super) fn of(old: usize, new: usize) -> Self {
        Self { old: vec![true; old], new: vec![true; new] }
    }

    pub(super) fn in_old(&self) -> impl Iterator<Item = usize> {
        indices(&self.old)
    }

    pub(super) fn in_new(&self) -> impl Iterator<Item = usize> {
        indices(&self.new)
    }

    /// Marks two items as paired.
    pub(super) fn pair(&mut self, (old, new): IndexPair) {
        let marks = [self.old.get_mut(old), self.new.get_mut(new)];
        marks.into_iter().flatten().for_each(|mark| *mark = false);
    }

    /// The items that can be paired because they have the same key: in the order of the files.
    pub(super) fn alike<K: Hash + Eq>(
        &self,
        old_key: impl Fn(usize) -> Option<K>,
        new_key: impl Fn(usize) -> Option<K>,
    ) -> Vec<IndexPair> {
        let mut by_key: HashMap<K, VecDeque<usize>> = HashMap::new();
        for index in self.in_new() {
            if let Some(key) = new_key(index) {
                by_key.entry(key).or_default().push_back(index);
            }
        }
        let pair = |old: usize| Some((old, by_key.get_mut(&old_key(old)?)?.pop_front()?));
        self.in_old().filter_map(pair).collect()
    }

    /// Pairs the items with the same key.
    pub(super) fn pair_alike<K: Hash + Eq>(
        &mut self,
        old_key: impl Fn(usize) -> Option<K>,
        new_key: impl Fn(usize) -> Option<K>,
    ) -> Vec<IndexPair> {
        let pairs = self.alike(old_key, new_key);
        pairs.iter().for_each(|pair| self.pair(*pair));
        pairs
    }

    /// Pairs each old item with the new one that has most labels in common with it, of those in the same group. Labels
    /// of many items tell nothing. The functions give the group and the labels of an item.
    pub(super) fn pair_nearest<G: Hash + Eq + Copy, L: Hash + Eq, I: IntoIterator<Item = L>>(
        &mut self,
        of_old: impl Fn(usize) -> (G, I),
        of_new: impl Fn(usize) -> (G, I),
    ) -> Vec<IndexPair> {
        let mut with_label: HashMap<(G, L), Vec<usize>> = HashMap::new();
        for index in self.in_new() {
            let (group, labels) = of_new(index);
            for label in labels {
                let known = with_label.entry((group, label)).or_default();
                if known.len() <= COMMON {
                    known.push(index);
                }
            }
        }
        let mut pairs = Vec::new();
        for old in self.in_old().collect::<Vec<_>>() {
            let mut counts: HashMap<usize, usize> = HashMap::new();
            let (group, labels) = of_old(old);
            for label in labels {
                let known = with_label.get(&(group, label)).filter(|known| known.len() <= COMMON);
                for new in known.into_iter().flatten().filter(|new| self.new.get(**new) == Some(&true)) {
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

fn indices(marks: &[bool]) -> impl Iterator<Item = usize> {
    marks.iter().enumerate().filter(|(_, is_left)| **is_left).map(|(index, _)| index)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_keys_are_paired_in_order_and_each_item_once() {
        let (old, new) = (["a", "b", "a", "c"], ["a", "d", "b", "a", "a"]);
        let mut left = Left::of(old.len(), new.len());
        let pairs = left.pair_alike(|index| Some(old[index]), |index| Some(new[index]));
        assert_eq!(pairs, [(0, 0), (1, 2), (2, 3)]);
        assert_eq!((left.in_old().collect::<Vec<_>>(), left.in_new().collect::<Vec<_>>()), (vec![3], vec![1, 4]));
    }

    #[test]
    fn what_shares_most_labels_is_paired_whatever_the_order() {
        let (old, new) = ([["x", "y", "z"], ["p", "q", "z"]], [["p", "q", "r"], ["x", "y", "s"]]);
        assert_eq!(Left::of(2, 2).pair_nearest(|index| (0, old[index]), |index| (0, new[index])), [(0, 1), (1, 0)]);
        // In other groups.
        assert_eq!(Left::of(2, 2).pair_nearest(|index| (1, old[index]), |index| (2, new[index])), []);
    }
}
