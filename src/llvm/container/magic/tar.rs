//! The first header of a tar archive: it begins with a name, which may be the magic of any other format, and has a sum
//! of its bytes.

use crate::base::bytes::{digits, slice};

/// The length of a header, and what the length of content is padded to.
pub(crate) const BLOCK: u64 = 512;

/// Whether data begins with a header whose sum is right.
pub(crate) fn is_header(data: &[u8]) -> bool {
    slice(data, 0, BLOCK)
        .is_some_and(|block| sum_is_right(block) && size_of(block).is_some() && block.first() != Some(&0))
}

pub(crate) fn sum_is_right(block: &[u8]) -> bool {
    // The field itself counts as spaces.
    let Some(recorded) = slice(block, 148, 8).and_then(number).filter(|&sum| sum >= 256) else { return false };
    let sum = |value: fn(u8) -> i64| {
        let all = block.iter().enumerate().map(|(at, &byte)| if (148..156).contains(&at) { 32 } else { value(byte) });
        u64::try_from(all.sum::<i64>()).ok() == Some(recorded)
    };
    sum(|byte| byte.into()) || sum(|byte| byte.cast_signed().into())
}

pub(crate) fn size_of(block: &[u8]) -> Option<u64> {
    slice(block, 124, 12).and_then(number)
}

/// A number in a header: octal digits between spaces and NULs, none for zero, or a big-endian number.
pub(crate) fn number(field: &[u8]) -> Option<u64> {
    if let Some((first, rest)) = field.split_first().filter(|(first, _)| **first & 0x80 != 0) {
        let start = u64::from(first & 0x7f);
        return rest.iter().try_fold(start, |number, &byte| Some(number.checked_mul(256)? | u64::from(byte)));
    }
    digits(until_nul(field).trim_ascii(), 8)
}

pub(crate) fn until_nul(field: &[u8]) -> &[u8] {
    field.split(|&byte| byte == 0).next().unwrap_or_default()
}
