//! Reads LLVM bitcode (compiled modules in LLVM's own form): symbols and embedded device code.
//!
//! After its magic, bitcode is a list of blocks ([`bitstream`]). The reader uses these, and some inside modules
//! ([`embedded`]):
//!
//! | block | content |
//! |---|---|
//! | 8 | a module |
//! | 23 | the string table, one blob |
//! | 25 | the symbol table, one blob ([`mod@symbols`]); its strings are in the string table that follows it |
//!
//! The bitcode may be inside a wrapper:
//!
//! | offset | width | meaning |
//! |---|---|---|
//! | 0 | 4 | magic 0x0B17C0DE |
//! | 4 | 4 | version |
//! | 8 | 8 | the bitcode: offset, size |
//! | 16 | 4 | CPU |
//!
//! Integers are little-endian. Layout: LLVM 22.1.8.
//!
//! Rejected: a size that is not a multiple of four, data beyond the end.

mod bitstream;
mod embedded;
mod not_bitcode;
mod symbols;
#[cfg(test)]
mod testing;

pub(crate) use embedded::Embedded;
pub(crate) use not_bitcode::NotBitcode;
use not_bitcode::Result;
pub(crate) use symbols::symbols;

use crate::base::bytes::{self, number};
use crate::base::error::Malformed;
use bitstream::Bits;

/// The first bytes of bitcode.
pub(super) const MAGIC: [u8; 4] = *b"BC\xc0\xde";

/// The first bytes of a wrapper.
pub(super) const WRAPPER_MAGIC: [u8; 4] = 0x0B17_C0DE_u32.to_le_bytes();

const MODULE_BLOCK: u64 = 8;
const STRTAB_BLOCK: u64 = 23;
const SYMTAB_BLOCK: u64 = 25;

/// The codes of the module records that are read.
const VERSION: u64 = 1;
const TRIPLE: u64 = 2;
const VARIABLE: u64 = 7;
const FUNCTION: u64 = 8;
const ALIAS: u64 = 14;
const INDIRECT: u64 = 18;

/// Reads the offload objects that the modules of a file embed. Offsets in errors count from `base`.
pub(crate) fn embedded_objects(data: &[u8], base: u64) -> Result<Embedded, Malformed> {
    embedded::read(data).map_err(|NotBitcode(reason)| Malformed::Bitcode { offset: base, reason })
}

/// Checks the structure of a file: the top-level blocks and the items of each module are inside the file, and a string
/// table follows each module that has its names there.
pub(crate) fn check_blocks(data: &[u8]) -> Result<(), Malformed> {
    walk_blocks(data).map_err(|NotBitcode(reason)| Malformed::Bitcode { offset: 0, reason })
}

/// The longest triple that is read, in bytes.
const TRIPLE_MAX: usize = 200;

/// Reads the target triple of the first module that has one. Returns `None` for broken bitcode, for a file without a
/// triple, and for a triple that is not text or too long.
pub(crate) fn triple(data: &[u8]) -> Option<String> {
    let mut stream = open(data).ok()?;
    while let Some(mut block) = stream.next_block().ok()? {
        if block.number != MODULE_BLOCK {
            continue;
        }
        while let Ok(Some(record)) = block.next_record() {
            if record.code == TRIPLE {
                let triple = bytes::text(&record.bytes(0).ok()?)?;
                return if triple.len() <= TRIPLE_MAX { Some(triple) } else { None };
            }
        }
    }
    None
}

/// The first module version with names in a string table.
const VERSION_WITH_NAME_TABLE: u64 = 2;

/// Reads all blocks of a file, for [`check_blocks`].
fn walk_blocks(data: &[u8]) -> Result<()> {
    let mut stream = open(data)?;
    let (mut has_module, mut misses_names) = (false, false);
    while let Some(mut block) = stream.next_block()? {
        match block.number {
            MODULE_BLOCK => {
                has_module = true;
                while let Some(record) = block.next_record()? {
                    misses_names |= record.code == VERSION && record.value(0) >= VERSION_WITH_NAME_TABLE;
                }
            }
            STRTAB_BLOCK => misses_names = false,
            _ => {}
        }
    }
    if !has_module {
        return Err(NotBitcode("no module found"));
    }
    if misses_names {
        return Err(NotBitcode("the string table with the names of its module is missing"));
    }
    Ok(())
}

/// Opens a file at its first block.
fn open(data: &[u8]) -> Result<Bits<'_>> {
    if !data.len().is_multiple_of(4) {
        return Err(NotBitcode("Invalid bitcode signature"));
    }
    let mut stream = Bits::new(without_wrapper(data)?);
    if stream.read(32)? != u64::from(u32::from_le_bytes(MAGIC)) {
        return Err(NotBitcode("the bitcode has no magic"));
    }
    Ok(stream)
}

/// Returns the bitcode without its wrapper, if it has one.
fn without_wrapper(data: &[u8]) -> Result<&[u8]> {
    if !data.starts_with(&WRAPPER_MAGIC) {
        return Ok(data);
    }
    if let (Some(offset), Some(size)) = (number::<4>(data, 8), number::<4>(data, 12))
        && let Some(content) = bytes::slice(data, offset, size)
    {
        return Ok(content);
    }
    Err(NotBitcode("the range in the wrapper extends past the end of the data"))
}
