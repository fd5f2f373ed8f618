//! Recognises a tar archive by its first header. The header has no magic at its start but a name, which may be the
//! magic of any other format. So the archive is recognised by the sum of the header's bytes, which the header records.

use crate::base::bytes::{digits, slice};

/// The length of a header. Content is padded to a multiple of this length.
pub(crate) const BLOCK: u64 = 512;

/// Whether data begins with the header of a member: a name, a size, and the right sum.
pub(crate) fn is_header(data: &[u8]) -> bool {
    let Some(block) = slice(data, 0, BLOCK) else { return false };
    sum_is_right(block) && size_of(block).is_some() && block.first() != Some(&0)
}

/// Whether a header records the sum of its bytes. Old writers added them as signed numbers.
pub(crate) fn sum_is_right(block: &[u8]) -> bool {
    const SUM_AT: usize = 148;
    const SUM_END: usize = 156;
    let Some(field) = block.get(SUM_AT..SUM_END) else { return false };
    // The field of the sum counts as eight spaces. They add up to 256, so no right sum is smaller.
    let Some(recorded @ 256..) = number(field) else { return false };
    let (mut unsigned, mut signed) = (0_i64, 0_i64);
    for (at, &byte) in block.iter().enumerate() {
        let byte = if (SUM_AT..SUM_END).contains(&at) { b' ' } else { byte };
        unsigned = unsigned.saturating_add(byte.into());
        signed = signed.saturating_add(byte.cast_signed().into());
    }
    [unsigned, signed].iter().any(|&sum| u64::try_from(sum) == Ok(recorded))
}

/// Returns the size of the content that a header records, or `None` if the field is not a number.
pub(crate) fn size_of(block: &[u8]) -> Option<u64> {
    number(slice(block, 124, 12)?)
}

/// Parses a number in a header: octal digits with spaces around them, up to the first NUL, where no digits mean 0.
/// Returns `None` for anything else.
pub(crate) fn number(field: &[u8]) -> Option<u64> {
    // GNU tar stores a number that is too large for the digits in binary, and sets the highest bit.
    if let [first @ 0x80..=0xff, rest @ ..] = field {
        let start = u64::from(first & 0x7f);
        return rest.iter().try_fold(start, |number, &byte| Some(number.checked_mul(256)? | u64::from(byte)));
    }
    digits(until_nul(field).trim_ascii(), 8)
}

/// Returns the bytes of a field before its first NUL.
pub(crate) fn until_nul(field: &[u8]) -> &[u8] {
    field.split(|&byte| byte == 0).next().unwrap_or_default()
}
