//! Containers of shaders for DirectX, in machine code of Direct3D 11 (DXBC) or LLVM's bitcode (DXIL). They are named,
//! not read.
//!
//! | offset | width | meaning |
//! |---|---|---|
//! | 0 | 4 | magic `DXBC` |
//! | 4 | 16 | hash |
//! | 20 | 2, 2 | version 1.0 |
//! | 24 | 4 | size of the container |
//! | 28 | 4 | number of its parts, whose offsets follow, 4 bytes each |
//!
//! A part begins with its name in four letters, and its size in 4 bytes. Source: DirectXShaderCompiler 1.8.

use crate::base::bytes::{len_u64, number, slice, span};

/// The first bytes of a container.
pub(crate) const MAGIC: [u8; 4] = *b"DXBC";

/// The offsets of fields in the header.
const VERSION_AT: u64 = 20;
const SIZE_AT: u64 = 24;
const PART_COUNT_AT: u64 = 28;

/// The length of the header in bytes, without the offsets of parts that follow it.
const HEADER_LEN: u64 = 32;

/// Returns the length of the container at the start of data, or `None` if there is none, or if it is cut short.
pub(crate) fn len(data: &[u8]) -> Option<u64> {
    // Version 1.0: the major number in the lower 2 bytes, and the minor number in the upper ones.
    if !data.starts_with(&MAGIC) || number::<4>(data, VERSION_AT)? != 1 {
        return None;
    }
    let (size, part_count) = (number::<4>(data, SIZE_AT)?, number::<4>(data, PART_COUNT_AT)?);
    let table_end = part_count.checked_mul(4)?.checked_add(HEADER_LEN)?;
    let first_part_at = number::<4>(data, HEADER_LEN)?;
    // The name and the size of the first part, 8 bytes, come after the offsets and are inside the container.
    let has_first_part = part_count > 0 && first_part_at >= table_end && span(first_part_at, 8).end <= size;
    if !has_first_part {
        return None;
    }
    // Text may have the same four letters: the first part has to have a name, too.
    let name = slice(data, first_part_at, 4)?;
    if !name.iter().all(u8::is_ascii_alphanumeric) {
        return None;
    }
    let is_whole = size <= len_u64(data);
    if is_whole { Some(size) } else { None }
}
