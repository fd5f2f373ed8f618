//! Texts about lists and numbers, and names of files.

use std::cmp::Ordering;
use std::fmt::Display;
use std::path::Path;

use crate::base::display::grouped;

/// A number with its noun in the singular or plural.
pub(crate) fn count(number: usize, one: &str, many: &str) -> String {
    format!("{} {}", grouped(number), if number == 1 { one } else { many })
}

/// Returns the last name in a path, or the whole path if it has none, such as `..`.
pub(crate) fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

/// Joins the first `most` items of a list with `separator`. If there are more, appends `before_rest` and their number:
/// `a, b and 7 more`.
pub(crate) fn listed(
    items: impl IntoIterator<Item = impl Display>,
    most: usize,
    separator: &str,
    before_rest: &str,
) -> String {
    let mut items = items.into_iter();
    let first: Vec<String> = items.by_ref().take(most).map(|item| item.to_string()).collect();
    match items.count() {
        0 => first.join(separator),
        more => format!("{}{before_rest}{more} more", first.join(separator)),
    }
}

/// Compares names as people sort them: numbers in them by value, so that `cuda118` comes before `cuda121` and `rocm64`
/// before `rocm715`.
pub(crate) fn natural_order(one: &str, other: &str) -> Ordering {
    let (mut one_rest, mut other_rest) = (one, other);
    while !one_rest.is_empty() && !other_rest.is_empty() {
        let (part, after) = one_rest.split_at(length_of_part(one_rest));
        let (other_part, other_after) = other_rest.split_at(length_of_part(other_rest));
        let order = compare_parts(part, other_part);
        if order != Ordering::Equal {
            return order;
        }
        (one_rest, other_rest) = (after, other_after);
    }
    // The name that ends first comes first. Names that differ only in zeros before a number are equal so far.
    one_rest.len().cmp(&other_rest.len()).then_with(|| one.cmp(other))
}

/// Returns the length of the number at the start of a text, or of the text before the first number.
fn length_of_part(text: &str) -> usize {
    let is_number = is_number(text);
    text.find(|c: char| c.is_ascii_digit() != is_number).unwrap_or(text.len())
}

/// Compares two parts of names. Numbers may have any number of digits.
fn compare_parts(one: &str, other: &str) -> Ordering {
    if is_number(one) && is_number(other) {
        // Without zeros at the start, the number with more digits is larger.
        let (one, other) = (one.trim_start_matches('0'), other.trim_start_matches('0'));
        one.len().cmp(&other.len()).then_with(|| one.cmp(other))
    } else {
        one.cmp(other)
    }
}

fn is_number(part: &str) -> bool {
    part.starts_with(|c: char| c.is_ascii_digit())
}

/// Returns the length in bytes of the directories that all places have in common, with the last slash.
pub(crate) fn common_directory<'p>(mut places: impl Iterator<Item = &'p str>) -> usize {
    let Some(first) = places.next() else { return 0 };
    let mut common = directory_of(first.as_bytes());
    for place in places {
        let same = common.iter().zip(place.as_bytes()).take_while(|(a, b)| a == b).count();
        common = directory_of(common.get(..same).unwrap_or_default());
    }
    common.len()
}

/// Returns a path up to its last slash, or nothing if it has no slash.
fn directory_of(path: &[u8]) -> &[u8] {
    match path.iter().rposition(|byte| *byte == b'/') {
        Some(slash) => path.get(..=slash).unwrap_or_default(),
        None => &[],
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
        // Uses hundredths, tenths or whole units: the first that gives at most three digits in all.
        for (parts_of_unit, decimals) in [(100, 2), (10, 1), (1, 0_usize)] {
            let rounded = rounded_quotient(u128::from(count) * parts_of_unit, unit);
            if rounded < 1000 {
                let (whole, rest) = (rounded / parts_of_unit, rounded % parts_of_unit);
                let rest = if decimals == 0 { String::new() } else { format!(".{rest:0decimals$}") };
                return format!("{whole}{rest} {name}");
            }
        }
    }
    // Never reached: the largest `u64` is 18.4 EB.
    format!("{count} B")
}

/// Returns `number / divisor`, rounded to the nearest number; 0 if `divisor` is 0.
pub(crate) fn rounded_quotient(number: u128, divisor: u128) -> u128 {
    (number + divisor / 2).checked_div(divisor).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_names_are_sorted_by_value() {
        let mut names = ["rocm715", "cuda121", "rocm64", "cuda118", "b10", "b9", "a", "b009", "", "b"];
        names.sort_by(|one, other| natural_order(one, other));
        assert_eq!(names, ["", "a", "b", "b009", "b9", "b10", "cuda118", "cuda121", "rocm64", "rocm715"]);
    }

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
}
