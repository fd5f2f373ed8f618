//! Numbers and lists for people.

use std::collections::BTreeMap;
use std::fmt;

/// A number with commas between groups of three digits.
pub(crate) fn grouped(number: impl ToString) -> String {
    let digits = number.to_string();
    let groups = digits.as_bytes().rchunks(3).rev().map(String::from_utf8_lossy);
    groups.collect::<Vec<_>>().join(",")
}

/// Returns the first items of a list, `most` at most, and the number of the items after them.
pub(crate) fn first<T>(items: &[T], most: usize) -> (&[T], usize) {
    let (first, others) = items.split_at(items.len().min(most));
    (first, others.len())
}

/// Counts by kind. `Display` lists each kind once, with its count.
#[derive(Clone, Debug, Default)]
pub(crate) struct CountsByKind(pub(crate) BTreeMap<&'static str, usize>);

impl fmt::Display for CountsByKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kinds: Vec<String> = self.0.iter().map(|(name, number)| format!("{name} ({number})")).collect();
        f.write_str(&kinds.join(", "))
    }
}
