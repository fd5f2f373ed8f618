//! Reads little-endian numbers from bytes: one cursor for every format, with bounds checks and the offset in each
//! error.
//!
//! Offsets are absolute: they count from the start of the file (or of the inflated bundle), so an error shows where the
//! fault is.

use std::fmt::Display;
use std::ops::Range;

use crate::base::malformed::Malformed;

/// A reading position in bytes that start at a known offset. Errors name the field. Its name is only formatted for an
/// error, so `format_args!` costs nothing.
#[derive(Clone, Debug)]
pub(crate) struct Cursor<'a> {
    rest: &'a [u8],
    /// The absolute offset of the next byte.
    offset: u64,
    /// The absolute offset of the field that was read last.
    last: u64,
}

impl<'a> Cursor<'a> {
    /// A cursor at the start of `data`, whose first byte has the absolute offset `base`.
    pub(crate) fn new(data: &'a [u8], base: u64) -> Self {
        Self { rest: data, offset: base, last: base }
    }

    /// Returns a cursor after the magic bytes at the start of `data`, or `None` if it does not begin with them.
    pub(crate) fn after(magic: &[u8], data: &'a [u8], base: u64) -> Option<Self> {
        let (rest, offset) = (data.strip_prefix(magic)?, base.saturating_add(len_u64(magic)));
        Some(Self { rest, offset, last: base })
    }

    /// The absolute offset of the next byte.
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    /// The absolute offset of the field that was read last.
    pub(crate) fn last(&self) -> u64 {
        self.last
    }

    /// The number of bytes left.
    pub(crate) fn remaining(&self) -> u64 {
        len_u64(self.rest)
    }

    /// Reads the next `count` bytes. `what` is the name of the field in errors.
    pub(crate) fn take(&mut self, count: u64, what: impl Display) -> Result<&'a [u8], Malformed> {
        let Some((head, tail)) = self.split_at(count) else {
            let end = self.offset.saturating_add(self.remaining());
            return Err(Malformed::truncated(what, self.offset, count, end));
        };
        (self.rest, self.last) = (tail, self.offset);
        add(&mut self.offset, count);
        Ok(head)
    }

    /// Returns the next `count` bytes and the bytes after them, or `None` if fewer are left.
    fn split_at(&self, count: u64) -> Option<(&'a [u8], &'a [u8])> {
        self.rest.split_at_checked(usize::try_from(count).ok()?)
    }

    /// Reads the next two bytes as a number.
    pub(crate) fn u16(&mut self, what: impl Display) -> Result<u16, Malformed> {
        self.array(what).map(u16::from_le_bytes)
    }

    /// Reads the next four bytes as a number.
    pub(crate) fn u32(&mut self, what: impl Display) -> Result<u32, Malformed> {
        self.array(what).map(u32::from_le_bytes)
    }

    /// Reads the next eight bytes as a number.
    pub(crate) fn u64(&mut self, what: impl Display) -> Result<u64, Malformed> {
        self.array(what).map(u64::from_le_bytes)
    }

    /// Reads the next `N` bytes. `what` is the name of the field in errors.
    fn array<const N: usize>(&mut self, what: impl Display) -> Result<[u8; N], Malformed> {
        let mut array = [0; N];
        let bytes = self.take(len_u64(&array), what)?;
        array.copy_from_slice(bytes);
        Ok(array)
    }

    /// Returns the fault of an invalid value in the field that was read last.
    pub(crate) fn invalid(&self, what: &str, found: impl Into<u64>, expected: &str) -> Malformed {
        Malformed::value(what, found, self.last, expected)
    }
}

/// The start and the length of some bytes, for checking the ranges that headers record in them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// The absolute offset of the start.
    pub(crate) base: u64,
    pub(crate) len: u64,
}

impl Bounds {
    /// The bounds of `data`, whose first byte has the absolute offset `base`.
    pub(crate) fn of(data: &[u8], base: u64) -> Self {
        Self { base, len: len_u64(data) }
    }

    /// The absolute offset of a byte.
    pub(crate) fn absolute(self, offset: u64) -> u64 {
        self.base.saturating_add(offset)
    }

    /// The absolute offset of the end.
    pub(crate) fn end(self) -> u64 {
        self.absolute(self.len)
    }

    /// Returns the range of `len` bytes from `start`, which counts from the start of the bounds. Fails if the range
    /// ends after the bounds. `what` is the name of the range in errors.
    pub(crate) fn claim(self, start: u64, len: u64, what: impl Display) -> Result<Range<u64>, Malformed> {
        match start.checked_add(len) {
            Some(end) if end <= self.len => Ok(start..end),
            _ => Err(self.truncated(start, len, what)),
        }
    }

    /// Returns the fault of a range that [`Self::claim`] rejects.
    pub(crate) fn truncated(self, start: u64, len: u64, what: impl Display) -> Malformed {
        Malformed::truncated(what, self.absolute(start), len, self.end())
    }
}

/// The length of a slice as a 64-bit file length.
pub(crate) fn len_u64(data: &[u8]) -> u64 {
    to_u64(data.len())
}

/// A count or a length in memory as a 64-bit number.
pub(crate) fn to_u64(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

/// The length of a range.
pub(crate) fn len_of(range: &Range<u64>) -> u64 {
    range.end.saturating_sub(range.start)
}

/// The range of `len` bytes from `start`.
pub(crate) fn span(start: u64, len: u64) -> Range<u64> {
    start..start.saturating_add(len)
}

/// The sum of some lengths.
pub(crate) fn total(lens: impl IntoIterator<Item = u64>) -> u64 {
    lens.into_iter().fold(0, u64::saturating_add)
}

/// Adds to a sum or a position, up to the maximum: numbers of untrusted inputs must not make it wrap around.
pub(crate) fn add(sum: &mut u64, more: u64) {
    *sum = sum.saturating_add(more);
}

/// Returns the bytes of `data` in a range, or `None` if it does not have all of them.
pub(crate) fn bytes_in(data: &[u8], range: Range<u64>) -> Option<&[u8]> {
    slice(data, range.start, len_of(&range))
}

/// Whether all bytes are zeros; also true without any.
pub(crate) fn is_zero(data: &[u8]) -> bool {
    data.iter().all(|&byte| byte == 0)
}

/// Returns `len` bytes of `data` from `start`, or `None` if it does not have that many.
pub(crate) fn slice(data: &[u8], start: u64, len: u64) -> Option<&[u8]> {
    tail(data, start)?.get(..usize::try_from(len).ok()?)
}

/// Returns the bytes of `data` from `start`, or `None` if `start` is after its end.
pub(crate) fn tail(data: &[u8], start: u64) -> Option<&[u8]> {
    data.get(usize::try_from(start).ok()?..)
}

/// Returns the `N` bytes of `data` from `start`, or `None` if it does not have that many. For functions such as
/// `from_le_bytes`.
pub(crate) fn array<const N: usize>(data: &[u8], start: u64) -> Option<[u8; N]> {
    tail(data, start)?.first_chunk().copied()
}

/// Returns the little-endian number of `N` bytes at an offset, or `None` if `data` does not have that many.
pub(crate) fn number<const N: usize>(data: &[u8], start: u64) -> Option<u64> {
    let bytes: [u8; N] = array(data, start)?;
    Some(bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
}

/// Reads digits of a base up to 16. Returns the number, which is zero without digits, or `None` if a byte is not a
/// digit or the number does not fit.
pub(crate) fn digits(digits: &[u8], base: u8) -> Option<u64> {
    let mut number = 0_u64;
    for digit in digits {
        let digit = char::from(*digit).to_digit(base.into())?;
        number = number.checked_mul(base.into())?.checked_add(digit.into())?;
    }
    Some(number)
}

/// Returns a copy of some bytes as text, or `None` if they are not UTF-8.
///
/// Bytes of a mapped file can change after the check, while a `str` that borrows them must always be UTF-8. This and
/// the next two functions therefore copy first, as does `is_text` of the search; no other code of the library makes a
/// `str` of borrowed bytes.
pub(crate) fn text(bytes: &[u8]) -> Option<String> {
    String::from_utf8(bytes.to_vec()).ok()
}

/// A copy of some bytes as text, with U+FFFD for invalid UTF-8.
#[allow(clippy::disallowed_methods, reason = "of a copy")]
pub(crate) fn text_lossy(bytes: &[u8]) -> String {
    let copy = bytes.to_vec();
    String::from_utf8_lossy(&copy).into_owned()
}

/// A copy of some bytes as ASCII, with escapes for all other bytes.
#[allow(clippy::disallowed_methods, reason = "of a copy")]
pub(crate) fn escaped(bytes: &[u8]) -> String {
    bytes.to_vec().escape_ascii().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_numbers_and_keeps_the_absolute_offset() {
        let mut cursor = Cursor::new(&[1, 0, 2, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 9], 100);
        assert_eq!(cursor.u16(""), Ok(1));
        assert_eq!(cursor.u32(""), Ok(2));
        assert_eq!(cursor.u64(""), Ok(3));
        assert_eq!((cursor.offset(), cursor.remaining()), (114, 1));
    }

    #[test]
    fn a_short_read_says_what_where_and_how_much() {
        let mut cursor = Cursor::new(&[1, 2, 3], 10);
        let error = cursor.u64("the count").unwrap_err();
        assert_eq!(error, Malformed::Truncated { what: "the count".into(), offset: 10, needed: 8, end: 13 });
        assert!(cursor.take(u64::MAX, "").is_err());
        assert_eq!(cursor.take(3, ""), Ok(&[1, 2, 3][..]));
    }

    #[test]
    fn slices_cannot_wrap() {
        assert_eq!(slice(b"abc", 1, 2), Some(&b"bc"[..]));
        assert_eq!(slice(b"abc", 3, 0), Some(&b""[..]));
        assert_eq!(slice(b"abc", u64::MAX, 1), None);
        assert_eq!(slice(b"abc", 1, u64::MAX), None);
    }
}
