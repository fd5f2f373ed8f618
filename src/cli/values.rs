//! Reading the values of boolean and numeric options.
//!
//! The spellings accepted are those of LLVM 22.1.8: a few for booleans, and numbers whose prefix
//! tells the base.

use anyhow::{Result, ensure};
use offload_bundle::container::stream::{Compression, WINDOW_LOGS};

/// A boolean; an empty value means yes, as the option's bare name does.
pub(super) fn boolean(text: &[u8]) -> Option<bool> {
    match text {
        b"" | b"true" | b"TRUE" | b"True" | b"1" => Some(true),
        b"false" | b"FALSE" | b"False" | b"0" => Some(false),
        _ => None,
    }
}

/// An unsigned 32-bit number, without any sign.
pub(super) fn unsigned(text: &[u8]) -> Option<u32> {
    u32::try_from(magnitude(text)?).ok()
}

/// A signed 32-bit number; a minus may stand before the prefix, a plus may not.
pub(super) fn signed(text: &[u8]) -> Option<i32> {
    match text.strip_prefix(b"-") {
        Some(rest) => i32::try_from(-i128::from(magnitude(rest)?)).ok(),
        None => i32::try_from(magnitude(text)?).ok(),
    }
}

/// The digits and their base: `0x`, `0b` and `0o` are prefixes, and a leading zero alone means
/// octal.
fn magnitude(text: &[u8]) -> Option<u64> {
    let (digits, base) = match text {
        [b'0', b'x' | b'X', digits @ ..] => (digits, 16),
        [b'0', b'b' | b'B', digits @ ..] => (digits, 2),
        [b'0', b'o', digits @ ..] => (digits, 8),
        [b'0', b'0'..=b'9', ..] => (text, 8),
        digits => (digits, 10),
    };
    // The standard library would take a plus sign here.
    if !digits.iter().all(u8::is_ascii_alphanumeric) {
        return None;
    }
    u64::from_str_radix(str::from_utf8(digits).ok()?, base).ok()
}

/// Puts the limit of the zstd window that was typed, as its exponent, where it belongs.
pub(super) fn limit_window(compression: &mut Compression, typed: Option<u32>) -> Result<()> {
    if let Some(log) = typed {
        let (least, most) = WINDOW_LOGS.into_inner();
        ensure!(
            WINDOW_LOGS.contains(&log),
            "--compression-window must be an exponent from {least} to {most} (the window is 2^N bytes), not {log}"
        );
        compression.window_log_max = log;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

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
