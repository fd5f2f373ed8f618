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

use crate::base::bytes::{number, slice, span};
pub(crate) use crate::llvm::container::magic::DXBC as MAGIC;

/// The length of the header, without the offsets.
const HEADER: u64 = 32;

/// Returns the length of the container with which data begins, or `None` if it is not one, or if it is cut.
pub(crate) fn len(data: &[u8]) -> Option<u64> {
    let word = |offset| number::<4>(data, offset);
    let (size, parts) = (word(24)?, word(28)?);
    let table = parts.checked_mul(4)?.checked_add(HEADER)?;
    let first = word(HEADER)?;
    let is_inside = span(first, 8).end <= size && table <= first;
    let is_named = || slice(data, first, 4).is_some_and(|name| name.iter().all(u8::is_ascii_alphanumeric));
    let is_sound = data.starts_with(&MAGIC) && word(20)? == 1 && parts > 0 && is_inside && is_named();
    slice(data, 0, size).filter(|_| is_sound).map(|_| size)
}
