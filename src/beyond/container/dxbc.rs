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
const VERSION: u64 = 20;
const SIZE: u64 = 24;
const PART_COUNT: u64 = 28;

/// The length of the header in bytes, without the offsets of parts that follow it.
const HEADER: u64 = 32;

/// Returns the length of the container at the start of data, or `None` if there is none, or if it is cut short.
pub(crate) fn len(data: &[u8]) -> Option<u64> {
    // Version 1.0: the major number in the lower 2 bytes, and the minor number in the upper ones.
    if !data.starts_with(&MAGIC) || number::<4>(data, VERSION)? != 1 {
        return None;
    }
    let (size, parts) = (number::<4>(data, SIZE)?, number::<4>(data, PART_COUNT)?);
    let table_end = parts.checked_mul(4)?.checked_add(HEADER)?;
    let first = number::<4>(data, HEADER)?;
    // The name and the size of the first part, 8 bytes, come after the offsets and are inside the container.
    let has_first_part = parts > 0 && first >= table_end && span(first, 8).end <= size;
    if !has_first_part {
        return None;
    }
    // Text may have the same four letters: the first part has to have a name, too.
    let name = slice(data, first, 4)?;
    if !name.iter().all(u8::is_ascii_alphanumeric) {
        return None;
    }
    let is_whole = size <= len_u64(data);
    if is_whole { Some(size) } else { None }
}
