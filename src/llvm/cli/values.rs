//! Parses the values of boolean and numeric options.
//!
//! The accepted spellings follow LLVM 22.1.8: a few for booleans, and numbers whose prefix gives the base.

use crate::llvm::container::Limits;
use crate::llvm::container::stream::WINDOW_LOGS;
use anyhow::{Result, ensure};

/// Parses a boolean. An empty value is true, like the option without a value.
pub(crate) fn boolean(text: &[u8]) -> Option<bool> {
    match text {
        b"" | b"true" | b"TRUE" | b"True" | b"1" => Some(true),
        b"false" | b"FALSE" | b"False" | b"0" => Some(false),
        _ => None,
    }
}

/// Parses an unsigned 32-bit number, without a sign.
pub(crate) fn unsigned(text: &[u8]) -> Option<u32> {
    u32::try_from(magnitude(text)?).ok()
}

/// Parses a signed 32-bit number. A minus sign is allowed before the prefix, a plus sign is not.
pub(crate) fn signed(text: &[u8]) -> Option<i32> {
    match text.strip_prefix(b"-") {
        Some(rest) => i32::try_from(-i128::from(magnitude(rest)?)).ok(),
        None => i32::try_from(magnitude(text)?).ok(),
    }
}

/// Parses a number of bytes, or with the suffix K, M or G of 2^10, 2^20 or 2^30 bytes.
pub(crate) fn size(text: &[u8]) -> Option<u64> {
    let (number, unit) = match text {
        [number @ .., b'K' | b'k'] => (number, 1 << 10),
        [number @ .., b'M' | b'm'] => (number, 1 << 20),
        [number @ .., b'G' | b'g'] => (number, 1 << 30),
        number => (number, 1),
    };
    magnitude(number)?.checked_mul(unit)
}

/// Parses digits in the base that their prefix gives, as LLVM's `getAutoSenseRadix`: `0x`, `0b` and `0o`, or a leading
/// zero alone for octal. LLVM knows no `0O`. Returns `None` for other text, and for a number over 64 bits.
fn magnitude(text: &[u8]) -> Option<u64> {
    let (digits, base) = match text {
        [b'0', b'x' | b'X', digits @ ..] => (digits, 16),
        [b'0', b'b' | b'B', digits @ ..] => (digits, 2),
        [b'0', b'o', digits @ ..] => (digits, 8),
        [b'0', b'0'..=b'9', ..] => (text, 8),
        digits => (digits, 10),
    };
    // The standard library would accept a plus sign here.
    if !digits.iter().all(u8::is_ascii_alphanumeric) {
        return None;
    }
    u64::from_str_radix(str::from_utf8(digits).ok()?, base).ok()
}

/// Checks the exponent of a zstd window, the value of `--compression-window`.
pub(crate) fn window(log: u32) -> Result<u32> {
    let (least, most) = WINDOW_LOGS.into_inner();
    ensure!(
        WINDOW_LOGS.contains(&log),
        "--compression-window must be an exponent from {least} to {most} (the window is 2^N bytes), not {log}"
    );
    Ok(log)
}

/// Returns the limits for the option `--max-size`, or the default limits without it. Each compressed container may
/// inflate to that size, and a pipe is read up to that size. All containers inside others together may inflate to 16
/// times that size: a file may hold that many of full size.
pub(crate) fn limits(max_size: Option<u64>) -> Limits {
    const NESTED_FACTOR: u64 = 16;
    let Some(size) = max_size else { return Limits::default() };
    let mut limits = Limits::up_to(size);
    limits.nested = size.saturating_mul(NESTED_FACTOR);
    limits.streamed = Some(size);
    limits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_one_for_what_lies_inside_too() {
        assert_eq!(limits(None), Limits::default());
        for (size, nested) in [(u64::MAX, u64::MAX), (1000, 16_000)] {
            let limits = limits(Some(size));
            assert_eq!((limits.inflated, limits.nested, limits.streamed), (size, nested, Some(size)));
        }
    }

    #[test]
    fn sizes_may_have_a_unit() {
        let cases = [("0", 0), ("1", 1), ("0x10", 16), ("2K", 2 << 10), ("3m", 3 << 20), ("4G", 4 << 30)];
        for (text, number) in cases {
            assert_eq!(size(text.as_bytes()), Some(number), "{text}");
        }
        assert_eq!(size(b"18446744073709551615"), Some(u64::MAX));
        for text in ["", "K", "1T", "1KB", "-1", "1.5G", "18446744073709551616", "17179869184G", " 1", "1 K"] {
            assert_eq!(size(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn booleans_have_four_spellings_each_way() {
        for yes in ["", "1", "true", "TRUE", "True"] {
            assert_eq!(boolean(yes.as_bytes()), Some(true), "{yes}");
        }
        for no in ["0", "false", "FALSE", "False"] {
            assert_eq!(boolean(no.as_bytes()), Some(false), "{no}");
        }
        for other in ["yes", "2", "01", "tRUE", "fALSE", " 1"] {
            assert_eq!(boolean(other.as_bytes()), None, "{other}");
        }
    }

    #[test]
    fn the_prefix_tells_the_base() {
        let cases = [
            ("0", 0),
            ("00", 0),
            ("10", 10),
            ("0x10", 16),
            ("0XfF", 255),
            ("0b101", 5),
            ("0B11", 3),
            ("017", 15),
            ("0o17", 15),
            ("4294967295", u32::MAX),
            ("00000000000000000000000000000000000001", 1),
        ];
        for (text, number) in cases {
            assert_eq!(unsigned(text.as_bytes()), Some(number), "{text}");
        }
    }

    #[test]
    fn malformed_numbers_are_refused() {
        for text in ["", "0x", "0b", "0o", "0O17", "08", "0b2", "+5", "5k", " 5", "1_0", "é", "18446744073709551616"] {
            assert_eq!(unsigned(text.as_bytes()), None, "{text}");
            assert_eq!(signed(text.as_bytes()), None, "{text}");
        }
        assert_eq!(unsigned(b"\xff"), None);
        assert_eq!(unsigned(b"-0"), None);
        assert_eq!(unsigned(b"4294967296"), None);
    }

    #[test]
    fn signed_numbers_keep_to_their_range() {
        assert_eq!(signed(b"-0"), Some(0));
        assert_eq!(signed(b"-0x10"), Some(-16));
        assert_eq!(signed(b"2147483647"), Some(i32::MAX));
        assert_eq!(signed(b"-2147483648"), Some(i32::MIN));
        for text in ["2147483648", "-2147483649", "-", "--5", "-+5", "-08"] {
            assert_eq!(signed(text.as_bytes()), None, "{text}");
        }
    }
}
