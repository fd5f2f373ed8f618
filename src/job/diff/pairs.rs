//! Finds out which code objects, and which kernels, of two files belong together.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;

/// One of the two files.
#[derive(Clone, Copy, Debug)]
pub(super) enum Of {
    Old,
    New,
}

impl Of {
    pub(super) fn other(self) -> Self {
        match self {
            Self::Old => Self::New,
            Self::New => Self::Old,
        }
    }
}

/// What the two files have of something.
#[derive(Clone, Debug, Default)]
pub(super) struct Both<T> {
    pub(super) old: T,
    pub(super) new: T,
}

impl<T> Both<T> {
    pub(super) fn of(&self, of: Of) -> &T {
        match of {
            Of::Old => &self.old,
            Of::New => &self.new,
        }
    }

    pub(super) fn map<'b, U>(&'b self, make: impl Fn(&'b T) -> U) -> Both<U> {
        Both { old: make(&self.old), new: make(&self.new) }
    }
}

/// Items of two files that are paired step by step: those that are not paired yet.
#[derive(Clone, Debug)]
pub(super) struct Left(Both<Vec<bool>>);

/// The indices of an item of the old file and one of the new file.
pub(super) type IndexPair = (usize, usize);

impl Left {
    /// None of so many items is paired yet.
    pub(super) fn of(counts: Both<usize>) -> Self {
        Self(counts.map(|count| vec![true; *count]))
    }

    pub(super) fn in_file(&self, of: Of) -> impl Iterator<Item = usize> {
        self.0.of(of).iter().enumerate().filter(|(_, is_left)| **is_left).map(|(index, _)| index)
    }

    /// Marks two items as paired.
    pub(super) fn pair(&mut self, (old, new): IndexPair) {
        let marks = [self.0.old.get_mut(old), self.0.new.get_mut(new)];
        marks.into_iter().flatten().for_each(|mark| *mark = false);
    }

    /// The items that can be paired because they have the same key: in the order of the files.
    pub(super) fn alike<K: Hash + Eq>(&self, key: impl Fn(Of, usize) -> Option<K>) -> Vec<IndexPair> {
        let mut by_key: HashMap<K, VecDeque<usize>> = HashMap::new();
        for index in self.in_file(Of::New) {
            if let Some(key) = key(Of::New, index) {
                by_key.entry(key).or_default().push_back(index);
            }
        }
        let pair = |old: usize| Some((old, by_key.get_mut(&key(Of::Old, old)?)?.pop_front()?));
        self.in_file(Of::Old).filter_map(pair).collect()
    }

    /// Pairs the items with the same key.
    pub(super) fn pair_alike<K: Hash + Eq>(&mut self, key: impl Fn(Of, usize) -> Option<K>) -> Vec<IndexPair> {
        let pairs = self.alike(key);
        pairs.iter().for_each(|pair| self.pair(*pair));
        pairs
    }

    /// Pairs each old item with the new one that has most labels in common with it, of those in the same group. Labels
    /// of many items tell nothing. The function gives the group and the labels of an item.
    pub(super) fn pair_nearest<G: Hash + Eq + Copy, L: Hash + Eq, I: IntoIterator<Item = L>>(
        &mut self,
        labels: impl Fn(Of, usize) -> (G, I),
    ) -> Vec<IndexPair> {
        let mut with_label: HashMap<(G, L), Vec<usize>> = HashMap::new();
        for index in self.in_file(Of::New) {
            let (group, of_item) = labels(Of::New, index);
            for label in of_item {
                let known = with_label.entry((group, label)).or_default();
                if known.len() <= COMMON {
                    known.push(index);
                }
            }
        }
        let mut pairs = Vec::new();
        for old in self.in_file(Of::Old).collect::<Vec<_>>() {
            let mut counts: HashMap<usize, usize> = HashMap::new();
            let (group, of_item) = labels(Of::Old, old);
            for label in of_item {
                let known = with_label.get(&(group, label)).filter(|known| known.len() <= COMMON);
                for new in known.into_iter().flatten().filter(|new| self.0.new.get(**new) == Some(&true)) {
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
        let items = Both { old: vec!["a", "b", "a", "c"], new: vec!["a", "d", "b", "a", "a"] };
        let mut left = Left::of(items.map(Vec::len));
        let pairs = left.pair_alike(|of, index| Some(items.of(of)[index]));
        assert_eq!(pairs, [(0, 0), (1, 2), (2, 3)]);
        let left = [Of::Old, Of::New].map(|of| left.in_file(of).collect::<Vec<_>>());
        assert_eq!(left, [vec![3], vec![1, 4]]);
    }

    #[test]
    fn what_shares_most_labels_is_paired_whatever_the_order() {
        let old = [["x", "y", "z"], ["p", "q", "z"]];
        let items = Both { old, new: [["p", "q", "r"], ["x", "y", "s"]] };
        let two = || Left::of(Both { old: 2, new: 2 });
        assert_eq!(two().pair_nearest(|of, index| (0, items.of(of)[index])), [(0, 1), (1, 0)]);
        // In other groups.
        let group = |of| matches!(of, Of::Old);
        assert_eq!(two().pair_nearest(|of, index| (group(of), items.of(of)[index])), []);
    }
}
