//! Numbers for people.

/// A number of bytes in three digits and a unit, in powers of 1000.
pub(crate) fn bytes(count: u64) -> String {
    const UNITS: [&str; 6] = ["kB", "MB", "GB", "TB", "PB", "EB"];
    if count < 1000 {
        return format!("{count} B");
    }
    let mut value = count;
    let mut rest = 0;
    let mut unit = "";
    for name in UNITS {
        if value < 1000 {
            break;
        }
        (value, rest, unit) = (value / 1000, value % 1000, name);
    }
    match value {
        ..10 => format!("{value}.{:02} {unit}", rest / 10),
        10..100 => format!("{value}.{} {unit}", rest / 100),
        _ => format!("{value} {unit}"),
    }
}

/// What part of `whole` a number is, in tenths of a percent.
pub(crate) fn per_mille(part: u64, whole: u64) -> u64 {
    let scaled = u128::from(part).saturating_mul(1000).checked_div(whole.into()).unwrap_or(0);
    u64::try_from(scaled).unwrap_or(u64::MAX)
}

/// A number of things.
pub(crate) fn count(number: usize, one: &str, many: &str) -> String {
    let digits = number.to_string();
    let grouped: Vec<&str> =
        digits.as_bytes().rchunks(3).rev().filter_map(|group| std::str::from_utf8(group).ok()).collect();
    format!("{} {}", grouped.join(","), if number == 1 { one } else { many })
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
            (999_999, "999 kB"),
            (1_290_000_000, "1.29 GB"),
            (u64::MAX, "18.4 EB"),
        ] {
            assert_eq!(bytes(count), text);
        }
    }

    #[test]
    fn parts_and_counts() {
        assert_eq!((per_mille(1, 3), per_mille(0, 0), per_mille(u64::MAX, u64::MAX)), (333, 0, 1000));
        assert_eq!(
            (count(1, "file", "files"), count(1234567, "file", "files")),
            ("1 file".into(), "1,234,567 files".into())
        );
    }
}
