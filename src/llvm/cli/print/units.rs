//! Numbers and lists for people.

use std::collections::BTreeMap;
use std::fmt;

/// A number with commas between groups of three digits.
pub(crate) fn grouped(number: impl ToString) -> String {
    let digits = number.to_string();
    let groups = digits.as_bytes().rchunks(3).rev().map(String::from_utf8_lossy);
    groups.collect::<Vec<_>>().join(",")
}

/// A number with its noun in the singular or plural.
pub(crate) fn count(number: usize, one: &str, many: &str) -> String {
    format!("{} {}", grouped(number), if number == 1 { one } else { many })
}

/// Returns the first items of a list, `most` at most, and the number of the items after them.
pub(crate) fn first<T>(items: &[T], most: usize) -> (&[T], usize) {
    let (first, others) = items.split_at(items.len().min(most));
    (first, others.len())
}

/// Counts by kind. `Display` lists each kind once, with its count.
#[derive(Clone, Debug, Default)]
pub(crate) struct CountsByKind(pub(crate) BTreeMap<&'static str, usize>);

impl CountsByKind {
    /// Adds `more` to the count of a kind.
    pub(crate) fn add(&mut self, name: &'static str, more: usize) {
        let number = self.0.entry(name).or_default();
        *number += more;
    }

    /// The kinds and their counts.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&'static str, usize)> {
        self.0.iter().map(|(name, number)| (*name, *number))
    }

    /// The sum of all counts.
    pub(crate) fn total(&self) -> usize {
        self.0.values().copied().sum()
    }
}

impl fmt::Display for CountsByKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kinds: Vec<String> = self.0.iter().map(|(name, number)| format!("{name} ({number})")).collect();
        f.write_str(&kinds.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_counted_by_name() {
        let mut kinds = CountsByKind::default();
        for name in ["b", "a", "b"] {
            kinds.add(name, 1);
        }
        assert_eq!(kinds.to_string(), "a (1), b (2)");
    }
}
