//! Whether a code object is whole: what its own headers and tables claim lies inside it and agrees.
//!
//! | code object | checked |
//! |---|---|
//! | ELF | header, program headers, sections, string and symbol tables, notes: [`elf`] |
//! | ELF for an AMD GPU | also kernel descriptors and the metadata of kernels: [`amdgpu`] |
//! | SPIR-V | header, and the lengths of all instructions: [`spirv`] |
//! | bitcode | wrapper, magic, the blocks at the top level |
//!
//! What runs is not checked: a changed instruction shows in no table. Offsets in errors count from the start of the code object.
//! The time is in proportion to the size of the code object: tables that share bytes are followed up to a limit.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

mod amdgpu;
pub(crate) mod elf;
mod metadata;
mod spirv;

use crate::bytes::len_u64;
use crate::container::bitcode;
use crate::container::magic::Magic;
use crate::error::Malformed;

/// How many zeros no code object begins with.
const ZEROS: [u8; 4] = [0; 4];

/// The shortest code object that may not begin with zeros.
const HEADER_MIN: u64 = 16;

/// Checks a code object of any kind; of one that is not known, nothing.
///
/// # Errors
/// The first thing that is wrong.
pub(crate) fn code_object(data: &[u8]) -> Result<(), Malformed> {
    match Magic::identify(data) {
        magic if magic.is_elf() => elf::check(data),
        Magic::SpirV => spirv::check(data),
        Magic::Bitcode => bitcode::check_blocks(data),
        _ => Ok(()),
    }
}

/// Checks the first bytes of a code object for a device, of `len` bytes: a header of zeros was overwritten, or never written.
///
/// # Errors
/// [`Malformed::Object`].
pub(crate) fn beginning(head: &[u8], len: u64) -> Result<(), Malformed> {
    if head.starts_with(&ZEROS) && len >= HEADER_MIN { wrong("zeros instead of a header", 0) } else { Ok(()) }
}

fn wrong<T>(what: impl Into<String>, offset: u64) -> Result<T, Malformed> {
    Err(Malformed::Object { what: what.into(), offset })
}

/// How much of a file may be read through its tables.
struct Work {
    left: u64,
}

impl Work {
    /// The tables of a file of compilers share no bytes, apart from notes and strings, which two tables name.
    const TIMES: u64 = 8;

    fn new(data: &[u8]) -> Self {
        Self { left: len_u64(data).saturating_mul(Self::TIMES) }
    }

    fn take(&mut self, bytes: u64, offset: u64) -> Result<(), Malformed> {
        match self.left.checked_sub(bytes) {
            Some(left) => self.left = left,
            None => return wrong("tables that share their bytes, together many times the size of the file", offset),
        }
        Ok(())
    }
}
