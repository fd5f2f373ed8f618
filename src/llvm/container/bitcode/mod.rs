//! Reads LLVM bitcode (compiled modules in LLVM's own form): symbols and embedded device code.
//!
//! After its magic, bitcode is a list of blocks ([`bitstream`]). The reader uses these, and some inside modules
//! ([`embedded`]):
//!
//! | block | content |
//! |---|---|
//! | 8 | a module |
//! | 13 | the release of LLVM that wrote the module after it |
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
pub(crate) const MAGIC: [u8; 4] = *b"BC\xc0\xde";

/// The first bytes of a wrapper.
pub(crate) const WRAPPER_MAGIC: [u8; 4] = 0x0B17_C0DE_u32.to_le_bytes();

/// The offsets of the fields of a wrapper for the offset and the size of the bitcode.
const WRAPPED_AT: u64 = 8;
const WRAPPED_LEN_AT: u64 = 12;

const MODULE_BLOCK: u64 = 8;
const IDENTIFICATION_BLOCK: u64 = 13;
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

/// Whether data that begins with the magic continues with the start of a block that writers put first.
pub(crate) fn is_plausible(data: &[u8]) -> bool {
    // The ID of a block takes the lower 2 bits, its number the next 8, of which the highest is 0.
    let first = [IDENTIFICATION_BLOCK, MODULE_BLOCK].map(|number| number << 2 | 1);
    number::<4>(data, bytes::len_u64(&MAGIC)).is_some_and(|word| first.contains(&(word & 0x3ff)))
}

/// Returns the length of the bitcode at the start of `data`, which other data may follow: the end of its last block, or
/// of its wrapper. Returns `None` if the bitcode is not complete, or has no module.
pub(crate) fn len(data: &[u8]) -> Option<u64> {
    // A wrapper in a wrapper is refused: its range may be that of the outer one.
    let stream_len = stream_len(without_wrapper(data).ok()?)?;
    if data.starts_with(&WRAPPER_MAGIC) {
        return number::<4>(data, WRAPPED_AT)?.checked_add(number::<4>(data, WRAPPED_LEN_AT)?);
    }
    Some(stream_len)
}

/// Returns the length of the bitcode without a wrapper at the start of `data`, as [`len`] does.
fn stream_len(data: &[u8]) -> Option<u64> {
    if !data.starts_with(&MAGIC) {
        return None;
    }
    let mut stream = Bits::new(data);
    stream.read(32).ok()?;
    let (mut has_module, mut end) = (false, None);
    // Other data may be read as a block by chance, so blocks of other kinds, which no writer puts here, end the
    // bitcode.
    while let Ok(Some(block)) = stream.next_block() {
        match block.number {
            MODULE_BLOCK => has_module = true,
            IDENTIFICATION_BLOCK | STRTAB_BLOCK | SYMTAB_BLOCK => {}
            _ => break,
        }
        end = Some(stream.bytes_read());
    }
    if has_module { end } else { None }
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
    if let (Some(offset), Some(size)) = (number::<4>(data, WRAPPED_AT), number::<4>(data, WRAPPED_LEN_AT))
        && let Some(content) = bytes::slice(data, offset, size)
    {
        return Ok(content);
    }
    Err(NotBitcode("the range in the wrapper extends past the end of the data"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_bitcode_is_found_whatever_follows() {
        // Zeros follow the bitcode in a wrapper.
        for (bitcode, padding) in [
            (&include_bytes!("../../../../fixtures/bitcode/llvm14-as.bc")[..], 0),
            (include_bytes!("../../../../fixtures/bitcode/llvm22-cat.bc"), 0),
            (include_bytes!("../../../../fixtures/bitcode/llvm22-thin.bc"), 0),
            (include_bytes!("../../../../fixtures/bitcode/llvm22-wrapper.bc"), 4),
        ] {
            let whole = Some(bytes::len_u64(bitcode) - padding);
            for after in [&b""[..], &[0; 100], &[0xff; 100], b"\x05\x04\0\0\0\0\0\0 and more text", b"ELF", bitcode] {
                assert_eq!(len(&[bitcode, after].concat()), whole, "{}", after.escape_ascii());
            }
            assert_eq!(len(&bitcode[..40]), None);
            let start = without_wrapper(bitcode).unwrap();
            assert!(is_plausible(start) && !is_plausible(&start[..4]) && !is_plausible(&start[4..]));
        }
        assert_eq!(len(b"BC\xc0\xde"), None);
        assert_eq!(len(b"text"), None);
        // A wrapper around itself.
        let wrapper = [&WRAPPER_MAGIC[..], &[0; 8], &16_u32.to_le_bytes()].concat();
        assert_eq!(len(&wrapper), None);
    }
}
