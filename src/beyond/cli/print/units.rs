//! Formats numbers for humans.

pub(crate) use crate::beyond::base::text::count;
use crate::beyond::scan::CodeObject;
pub(crate) use crate::llvm::cli::print::units::{CountsByKind, first, grouped};

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

/// Returns a number of bytes, rounded to three digits, with a unit that is a power of 1000.
pub(crate) fn bytes(count: u64) -> String {
    const UNITS: [&str; 6] = ["kB", "MB", "GB", "TB", "PB", "EB"];
    if count < 1000 {
        return format!("{count} B");
    }
    let mut unit = 1_u128;
    for name in UNITS {
        unit *= 1000;
        // Uses hundredths, tenths or whole units: the first that gives three digits.
        for (parts, digits) in [(100, 2), (10, 1), (1, 0_usize)] {
            let rounded = rounded_quotient(u128::from(count) * parts, unit);
            if rounded < 1000 {
                let (value, rest) = (rounded / parts, rounded % parts);
                let rest = if digits == 0 { String::new() } else { format!(".{rest:0digits$}") };
                return format!("{value}{rest} {name}");
            }
        }
    }
    // Never reached: the largest `u64` is 18.4 EB.
    format!("{count} B")
}

fn rounded_quotient(number: u128, by: u128) -> u128 {
    (number + by / 2).checked_div(by).unwrap_or(0)
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
    fn bytes_have_three_digits() {
        for (count, text) in [
            (0, "0 B"),
            (999, "999 B"),
            (1000, "1.00 kB"),
            (12_345, "12.3 kB"),
            (9_994, "9.99 kB"),
            (9_995, "10.0 kB"),
            (25_384_336, "25.4 MB"),
            (999_499, "999 kB"),
            (999_999, "1.00 MB"),
            (1_290_000_000, "1.29 GB"),
            (u64::MAX, "18.4 EB"),
        ] {
            assert_eq!(bytes(count), text);
        }
    }

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
