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

pub(crate) mod bitstream;
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
pub(crate) const MAGIC: [u8; 4] = *b"BC\xc0\xde";

/// The first bytes of a wrapper.
pub(crate) const WRAPPER_MAGIC: [u8; 4] = 0x0B17_C0DE_u32.to_le_bytes();

/// The offsets of the fields of a wrapper for the offset and the size of the bitcode.
pub(crate) const WRAPPED_AT: u64 = 8;
pub(crate) const WRAPPED_LEN_AT: u64 = 12;

pub(crate) const MODULE_BLOCK: u64 = 8;
pub(crate) const STRTAB_BLOCK: u64 = 23;
pub(crate) const SYMTAB_BLOCK: u64 = 25;

/// The codes of the module records that are read.
pub(crate) const VERSION: u64 = 1;
const VARIABLE: u64 = 7;
const FUNCTION: u64 = 8;
const ALIAS: u64 = 14;
const INDIRECT: u64 = 18;

/// Reads the offload objects that the modules of a file embed. Offsets in errors count from `base`.
pub(crate) fn embedded_objects(data: &[u8], base: u64) -> Result<Embedded, Malformed> {
    embedded::read(data).map_err(|NotBitcode(reason)| Malformed::Bitcode { offset: base, reason })
}

/// Opens a file at its first block.
pub(crate) fn open(data: &[u8]) -> Result<Bits<'_>> {
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
pub(crate) fn without_wrapper(data: &[u8]) -> Result<&[u8]> {
    if !data.starts_with(&WRAPPER_MAGIC) {
        return Ok(data);
    }
    if let (Some(offset), Some(size)) = (number::<4>(data, WRAPPED_AT), number::<4>(data, WRAPPED_LEN_AT))
        && let Some(content) = bytes::slice(data, offset, size)
    {
        return Ok(content);
    }
    Err(NotBitcode("the range in the wrapper extends past the end of the data"))
}
