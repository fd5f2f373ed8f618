//! Checks that a code object is intact: everything that its headers and tables refer to is inside it and consistent.
//!
//! | code object | checked |
//! |---|---|
//! | ELF | header, program headers, sections, string and symbol tables, notes: [`elf`] |
//! | ELF for an AMD GPU | also kernel descriptors and the metadata of kernels: [`amdgpu`] |
//! | SPIR-V | header, and the lengths of all instructions: [`spirv`] |
//! | bitcode | wrapper, magic, the blocks at the top level |
//!
//! Instructions are not checked: no table shows that one was changed. Offsets in errors count from the start of the
//! code object. The time is proportional to the size of the code object: tables that share bytes are read up to a
//! limit.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

mod amdgpu;
pub(crate) mod elf;
pub(crate) mod metadata;
mod spirv;

use crate::container::bitcode;
use crate::container::limits::Allowance;
use crate::container::magic::Magic;
use crate::error::Malformed;

/// Leading zeros that no code object has.
const ZEROS: [u8; 4] = [0; 4];

/// The minimum size of a code object that must not begin with zeros.
const HEADER_MIN: u64 = 16;

/// Checks a code object of any kind; one of unknown kind is accepted.
///
/// # Errors
/// The first fault.
pub(crate) fn code_object(data: &[u8]) -> Result<(), Malformed> {
    match Magic::identify(data) {
        magic if magic.is_elf() => elf::check(data),
        Magic::SpirV => spirv::check(data),
        Magic::Bitcode => bitcode::check_blocks(data),
        _ => Ok(()),
    }
}

/// Checks the first bytes of a code object for a device, of `len` bytes: a header of zeros was overwritten, or never
/// written.
///
/// # Errors
/// [`Malformed::Object`].
pub(crate) fn beginning(head: &[u8], len: u64) -> Result<(), Malformed> {
    if head.starts_with(&ZEROS) && len >= HEADER_MIN { wrong("zeros instead of a header", 0) } else { Ok(()) }
}

pub(crate) fn wrong<T>(what: impl Into<String>, offset: u64) -> Result<T, Malformed> {
    Err(Malformed::Object { what: what.into(), offset })
}

/// Charges bytes that a table at `offset` refers to.
pub(crate) fn charge(work: &mut Allowance, bytes: u64, offset: u64) -> Result<(), Malformed> {
    const SHARED: &str = "tables that share their bytes, together many times the size of the file";
    work.take(bytes).map_or_else(|| wrong(SHARED, offset), Ok)
}
