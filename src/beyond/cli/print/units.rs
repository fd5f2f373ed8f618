//! Formats numbers for humans.

use std::collections::BTreeMap;
use std::fmt;

pub(crate) use crate::base::display::grouped;
use crate::beyond::base::text::rounded_quotient;
pub(crate) use crate::beyond::base::text::{bytes, count};
use crate::beyond::scan::CodeObject;

/// Counts by kind. `Display` lists each kind once, with its count.
#[derive(Clone, Debug, Default)]
pub(crate) struct CountsByKind(pub(crate) BTreeMap<&'static str, usize>);

impl CountsByKind {
    /// Adds `more` to the count of a kind.
    pub(crate) fn add(&mut self, name: &'static str, more: usize) {
        let number = self.0.entry(name).or_default();
        *number += more;
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

/// Returns the first items of a list, `most` at most, and the number of the items after them.
pub(crate) fn first<T>(items: &[T], most: usize) -> (&[T], usize) {
    let (first, others) = items.split_at(items.len().min(most));
    (first, others.len())
}

/// Returns the ratio of `part` to `whole` in tenths of a percent, rounded.
pub(crate) fn per_mille(part: u64, whole: u64) -> u64 {
    let scaled = rounded_quotient(u128::from(part) * 1000, whole.into());
    u64::try_from(scaled).unwrap_or(u64::MAX)
}

/// Returns the ratio of `part` to `whole` as a percentage with one digit after the point.
pub(crate) fn percent(part: u64, whole: u64) -> String {
    let share = per_mille(part, whole);
    format!("{}.{} %", share / 10, share % 10)
}

/// Returns the URI of a code object, or a dash if it has none.
pub(crate) fn shown_uri(code_object: &CodeObject) -> String {
    match code_object.uri() {
        Ok(Some(uri)) => uri.to_string(),
        _ => "-".to_owned(),
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

    #[test]
    fn parts_and_counts() {
        assert_eq!([1_u64, 999, 1000, 1_234_567].map(grouped), ["1", "999", "1,000", "1,234,567"]);
        assert_eq!(
            [per_mille(1, 3), per_mille(2, 3), per_mille(0, 0), per_mille(u64::MAX, u64::MAX)],
            [333, 667, 0, 1000]
        );
        assert_eq!(
            (count(1, "file", "files"), count(1234567, "file", "files")),
            ("1 file".into(), "1,234,567 files".into())
        );
    }
}
