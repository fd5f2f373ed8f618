//! Texts about lists and numbers.

use std::fmt::Display;

use crate::base::display::grouped;

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

/// A number with its noun in the singular or plural.
pub(crate) fn count(number: usize, one: &str, many: &str) -> String {
    format!("{} {}", grouped(number), if number == 1 { one } else { many })
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

/// Returns a quotient, rounded to the nearest number; 0 if `by` is 0.
pub(crate) fn rounded_quotient(number: u128, by: u128) -> u128 {
    (number + by / 2).checked_div(by).unwrap_or(0)
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
}
